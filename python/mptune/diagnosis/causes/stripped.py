"""Paths on which MPTCP's options are removed, or no subflow may join."""

from collections.abc import Iterator

from mptune.diagnosis.causes.finding import Finding, Gaps, mbps
from mptune.diagnosis.evidence import Evidence


def find(evidence: Evidence, gaps: Gaps) -> Iterator[Finding]:
    """Paths with that fate, by a probe or the topology file."""
    for path in evidence.paths:
        if path.stripped and path.label in gaps.absent:
            missing = gaps.absent[path.label]
            yield Finding(
                kind="stripped",
                part=f"absent {path.label}",
                mbps=missing,
                paths=(path.label,),
                because=f"{path.stripped}; plain TCP gets {mbps(missing)} there",
                remedy="begin connections on another path; a tunnel over this one, or another port, passes",
                always=True,
            )
