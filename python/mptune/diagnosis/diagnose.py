"""The account of what is missing: what the paths give, less what each cause takes, is what arrives.

Every cause is a function of the evidence (`causes`), and takes at most what is left of its *part*:

- on a path: what plain TCP does not reach of what the path can give;
- absent: what the paths give that carry no subflow;
- buffers: what larger buffers would bring to the subflows that there are;
- together: what even then is missing of the sum.

What no cause takes is left as unexplained, by its part.
"""

from collections.abc import Sequence

import msgspec

from mptune.diagnosis.causes import CAUSES
from mptune.diagnosis.causes.finding import Finding, Gaps
from mptune.diagnosis.evidence import Evidence, Figures
from mptune.diagnosis.plan import MARGIN, is_short
from mptune.errors import MptuneError

#: A cause is named if it takes this share of what the paths give.
NAMED = 0.05


class PathRow(msgspec.Struct, frozen=True, kw_only=True):
    """A path for the table.

    Attributes
    ----------
    rate_mbps : nominal; None if it is not known.
    potential_mbps : what a connection can have of it.
    alone : plain TCP there.
    together_mbps : its subflow in the connection over all paths; None if it has none.
    """

    label: str
    rate_mbps: float | None
    potential_mbps: float
    alone: Figures
    together_mbps: float | None


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """One direction.

    Attributes
    ----------
    potential_mbps : what the paths can give, added up; `together_mbps` of it arrive.
    findings : the causes, the largest share first; those with no share of their own last.
    unexplained_mbps : what no cause takes.
    """

    paths: tuple[PathRow, ...]
    potential_mbps: float
    alone_mbps: float
    together_mbps: float
    together: Figures
    findings: tuple[Finding, ...]
    unexplained_mbps: float

    @property
    def missing_mbps(self) -> float:
        """The missing throughput; 0 if they give more together."""
        return max(0.0, self.potential_mbps - self.together_mbps)

    @property
    def is_healthy(self) -> bool:
        """Nothing is missing that would be worth a cause."""
        return self.missing_mbps < MARGIN * self.potential_mbps and not self.findings


def diagnose(evidence: Evidence) -> Diagnosis:
    """Make the account.

    Raises
    ------
    MptuneError : a trial failed that everything is compared with.
    """
    together = evidence.together()
    if together is None:
        raise MptuneError(f"no diagnosis: {_why(evidence)}")
    gaps = account(evidence, together)
    findings = _named(evidence, gaps)
    potential = sum(map(evidence.potential_mbps, evidence.labels))
    missing = max(0.0, potential - together.mbps)
    return Diagnosis(
        paths=tuple(_row(evidence, label, together) for label in evidence.labels),
        potential_mbps=potential,
        alone_mbps=sum(map(evidence.alone_mbps, evidence.labels)),
        together_mbps=together.mbps,
        together=together,
        findings=findings,
        unexplained_mbps=max(0.0, missing - sum(finding.mbps for finding in findings)),
    )


def account(evidence: Evidence, together: Figures) -> Gaps:
    """The parts of what is missing, Mbit/s."""
    best = {label: evidence.alone_mbps(label) for label in evidence.labels}
    now, large = evidence.basis or together, evidence.large
    before = max(now.mbps, together.mbps)
    most = sum(map(evidence.potential_mbps, evidence.labels))
    level = max(before, 0.0 if large is None else min(large.mbps, most))
    # What opening subflows brings is shared by those that come up; others miss all that their paths give.
    up = [label for label in evidence.absent if label in now.carrying]
    brought = max(0.0, now.mbps - together.mbps) / max(sum(best[label] for label in up), 1e-9)
    return Gaps(
        path={label: evidence.potential_mbps(label) - alone for label, alone in best.items()},
        absent={
            label: best[label] * min(1.0, brought if label in up else 1.0)
            for label in evidence.labels
            if label not in together.carrying
        },
        buffers=level - before,
        together=max(0.0, sum(best[label] for label in now.carrying) - level),
    )


def _named(evidence: Evidence, gaps: Gaps) -> tuple[Finding, ...]:
    """The causes whose share counts, as far as there is anything missing."""
    potential = sum(map(evidence.potential_mbps, evidence.labels))
    short = is_short(evidence)
    found: list[Finding] = []
    for cause in CAUSES:
        for finding in cause(evidence, gaps):
            left = max(0.0, gaps.left(finding.part, found))
            share = min(finding.mbps, left)
            found.append(msgspec.structs.replace(finding, mbps=share))
    named = [
        finding
        for finding in _joined(found)
        if (short and finding.mbps >= NAMED * potential) or finding.always
    ]
    return tuple(sorted(named, key=lambda finding: -finding.mbps))


def _joined(found: Sequence[Finding]) -> list[Finding]:
    """One finding for each cause and place, whatever the parts it takes from."""
    joined: dict[tuple[str, tuple[str, ...]], Finding] = {}
    for finding in found:
        key = finding.kind, finding.paths
        before = joined.get(key)
        share = finding.mbps + (0.0 if before is None else before.mbps)
        joined[key] = msgspec.structs.replace(before or finding, mbps=share)
    return list(joined.values())


def _row(evidence: Evidence, label: str, together: Figures) -> PathRow:
    (facts,) = (path for path in evidence.paths if path.label == label)
    alone = evidence.alone(label) or evidence.alone(label, "large")
    flow = together.flows.get(label)
    return PathRow(
        label=label,
        rate_mbps=facts.rate_mbps,
        potential_mbps=evidence.potential_mbps(label),
        alone=alone or Figures(mbps=0.0, seconds=0.0, bytes=0, failed=_why(evidence, label)),
        together_mbps=None if flow is None else flow.mbps,
    )


def _why(evidence: Evidence, label: str | None = None) -> str:
    """The first reason of a trial that failed; of plain TCP on a path, or of MPTCP."""
    reasons: Sequence[str] = [
        f"{experiment.words}: {figures.failed}"
        for experiment, figures in evidence.trials.items()
        if figures.failed
        and (label is None) != experiment.tcp
        and (label is None or label in experiment.paths)
    ]
    return next(iter(reasons), "it was not measured")
