"""A bottleneck that paths share: what they give alone cannot be added up."""

import itertools
from collections.abc import Iterator

from mptune.diagnosis.causes.finding import Finding, Gaps, mbps
from mptune.diagnosis.causes.loss import is_lossy
from mptune.diagnosis.causes.policing import is_policed
from mptune.diagnosis.evidence import Evidence, Experiment, Figures

#: Two paths share a link if together they miss this share of the smaller one; half of it is chance.
_OVERLAP = 0.25
#: The same, where every link that both are known to cross passes what both can carry.
_OVERLAP_UNSEEN = 0.5
#: And have at least this share of what the larger one has alone.
_WHOLE = 0.93


def find(evidence: Evidence, gaps: Gaps) -> Iterator[Finding]:
    """Pairs of paths, with large buffers, that give clearly less than their sum; the clearest pair first."""
    pairs = sorted(_overlaps(evidence), key=lambda found: -found[0])
    for overlap, pair, figures in pairs:
        one, other = map(evidence.alone_mbps, pair)
        common = ", ".join(sorted(_narrow(evidence, pair)))
        # The link gives one path no less than both, unless they hold each other up.
        fewer = (
            f", or fewer subflows (--pm pcdc --active {pair[0]})" if figures.mbps < max(one, other) else ""
        )
        yield Finding(
            kind="shared bottleneck",
            part="together",
            mbps=overlap,
            paths=pair,
            because=f"{' and '.join(pair)} give {mbps(one)} and {mbps(other)} alone, {mbps(figures.mbps)} "
            f"together, also with large buffers{f'; both cross {common}' if common else ''}",
            remedy=f"nothing on the hosts: another access or provider{fewer}",
        )


def _overlaps(evidence: Evidence) -> Iterator[tuple[float, tuple[str, str], Figures]]:
    """Pairs with what they miss, Mbit/s."""
    for pair in itertools.combinations(evidence.labels, 2):
        every = set(pair) == set(evidence.carrying)
        pair_alone = Experiment(paths=pair, buffers="large", subflows="all")
        figures = evidence.large if every else evidence.found(pair_alone)
        if figures is None or not figures.carrying.issuperset(pair):
            continue
        if any(is_lossy(evidence, label) for label in pair):
            continue  # what limits it is no link
        if sum(is_policed(evidence, label) for label in pair) == 1:
            continue  # what limits it alone is no link that the other one crosses
        one, other = map(evidence.alone_mbps, pair)
        missing = one + other - figures.mbps
        # A link that both cross passes at least what the larger one has.
        least = _OVERLAP if _narrow(evidence, pair) or not _common(evidence, pair) else _OVERLAP_UNSEEN
        if missing >= least * min(one, other) and figures.mbps >= _WHOLE * max(one, other):
            yield min(missing, one, other), pair, figures


def _common(evidence: Evidence, pair: tuple[str, str]) -> set[str]:
    """Links that are known to be under both."""
    one, other = (set(path.over) for path in evidence.paths if path.label in pair)
    return one & other


def _narrow(evidence: Evidence, pair: tuple[str, str]) -> set[str]:
    """Those of them that may be the bottleneck."""
    wide = {name for path in evidence.paths if path.label in pair for name in path.wide}
    return _common(evidence, pair) - wide
