"""A policer or a shaper on a path: its long-run rate is below that of the line, however many connections."""

from collections.abc import Iterator

from mptune.diagnosis.causes.finding import Finding, Gaps, mbps
from mptune.diagnosis.causes.loss import losing_path
from mptune.diagnosis.evidence import Evidence

#: A limit below this share of the line's rate is none of the line itself.
_BELOW = 0.85


def find(evidence: Evidence, gaps: Gaps) -> Iterator[Finding]:
    """Paths that drop packets at a rate below their own, and give four subflows no more than one."""
    for label, missing in gaps.path.items():
        losing = losing_path(evidence, label)
        if losing is None or not is_policed(evidence, label):
            continue
        flow, got = losing.trial.flows[label], losing.trial.mbps
        yield Finding(
            kind="policing",
            part=f"path {label}",
            mbps=missing,
            paths=(label,),
            because=f"{label} passes {mbps(got)} of {mbps(losing.potential_mbps)}, and no more with four "
            f"subflows ({mbps(losing.four_mbps or 0.0)}); {flow.lost:.2%} of the segments are dropped",
            remedy="ask the provider for its rate limit, and shape to it: tc qdisc replace dev DEVICE root "
            f"tbf rate {got:.0f}mbit burst 32kbit latency 50ms",
        )


def is_policed(evidence: Evidence, label: str) -> bool:
    """It drops what exceeds a rate below the line's, whoever sends it."""
    losing = losing_path(evidence, label)
    if losing is None or losing.four_mbps is None or losing.at_random or losing.is_brief or losing.closes:
        return False
    return losing.trial.mbps < _BELOW * losing.potential_mbps
