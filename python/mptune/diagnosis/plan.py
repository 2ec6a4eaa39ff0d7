"""Choice of experiments: a pure function of the evidence, so that the same numbers lead the same way.

First every path alone and all together, as things are; if something is missing, the experiments that decide
between causes: larger buffers, without the slowest path, a subflow on every path, four subflows on a path
that loses packets, two paths at a time.
"""

import itertools
from collections.abc import Iterator

from mptune.diagnosis.evidence import Buffers, Evidence, Experiment

#: Less than this share of what the paths give is not missed: trials of a few seconds differ by as much.
MARGIN = 0.06
#: Buffers that are enlarged alone.
ENDS: tuple[Buffers, ...] = ("receive", "send")
#: Pairs of paths that are tried, at most.
_PAIRS = 6
#: Share of segments sent again from which losses are looked into.
LOSSES = 5e-4
#: Queues are taken for empty at RTTs up to so many times the smallest.
EMPTY = 1.5


def expected(evidence: Evidence) -> list[Experiment]:
    """The experiments that are still needed; none if the diagnosis can be made."""
    for stage in (_first, _opened, _decisive, _which_end, _shared):
        missing = [
            experiment for experiment in dict.fromkeys(stage(evidence)) if experiment not in evidence.trials
        ]
        if missing:
            return missing
    return []


def _first(evidence: Evidence) -> Iterator[Experiment]:
    for label in evidence.labels:
        yield Experiment(tcp=True, paths=(label,))
    yield Experiment(paths=evidence.labels)


def is_short(evidence: Evidence) -> bool:
    """Something is missing that is worth looking for."""
    together = evidence.together()
    potential = sum(map(evidence.potential_mbps, evidence.labels))
    return together is not None and together.mbps < (1 - MARGIN) * potential


def _opened(evidence: Evidence) -> Iterator[Experiment]:
    if evidence.absent:
        yield Experiment(paths=evidence.labels, subflows="all")


def _decisive(evidence: Evidence) -> Iterator[Experiment]:
    if not is_short(evidence):
        return
    yield Experiment(paths=evidence.labels, buffers="large", subflows=evidence.base)
    if evidence.slow:
        yield evidence.without
    for label in evidence.labels:
        yield Experiment(tcp=True, paths=(label,), buffers="large")


def _which_end(evidence: Evidence) -> Iterator[Experiment]:
    """Whose buffer it is, and what the losses of a path mean."""
    now, large = evidence.basis, evidence.large
    if now is not None and large is not None and large.mbps > (1 + MARGIN) * now.mbps:
        for end in ENDS:
            yield Experiment(paths=evidence.labels, buffers=end, subflows=evidence.base)
    for label in evidence.labels:
        alone = evidence.alone(label, "large") or evidence.alone(label)
        if alone is None or label not in alone.flows or not is_short(evidence):
            continue
        flow = alone.flows[label]
        is_below = alone.mbps < (1 - MARGIN) * evidence.potential_mbps(label)
        if (
            evidence.passes(label)
            and flow.lost > LOSSES
            and (is_below or flow.rtt_ms < EMPTY * flow.min_rtt_ms)
        ):
            yield Experiment(paths=(label,), buffers="large", subflows="four")


def _shared(evidence: Evidence) -> Iterator[Experiment]:
    """Pairs of three paths or more whose sum is not reached although nothing else limits them."""
    every = evidence.large
    if every is None or len(evidence.labels) < 3:
        return
    carrying = [label for label in evidence.labels if label in every.carrying]
    if every.mbps < (1 - MARGIN) * sum(map(evidence.alone_mbps, carrying)):
        pairs = sorted(itertools.combinations(carrying, 2), key=lambda pair: not _have_common(evidence, pair))
        for pair in pairs[:_PAIRS]:
            yield Experiment(paths=pair, buffers="large", subflows="all")


def _have_common(evidence: Evidence, pair: tuple[str, str]) -> bool:
    """A link is known to be under both."""
    one, other = (set(path.over) for path in evidence.paths if path.label in pair)
    return bool(one & other)
