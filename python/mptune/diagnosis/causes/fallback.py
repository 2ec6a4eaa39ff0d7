"""The connection became plain TCP: it has one path, whatever else there is."""

from collections.abc import Iterator

from mptune.diagnosis.causes.finding import Finding, Gaps, mbps
from mptune.diagnosis.evidence import Evidence


def find(evidence: Evidence, gaps: Gaps) -> Iterator[Finding]:
    """The kernel reports that it fell back; the other paths carry nothing."""
    together = evidence.together()
    if together is None or not together.fallback:
        return
    for label, missing in gaps.absent.items():
        yield Finding(
            kind="fallback",
            part=f"absent {label}",
            mbps=missing,
            paths=(label,),
            because=f"the connection is plain TCP ({together.fallback}); {label} alone gives {mbps(missing)}",
            remedy="find the middlebox or the setting: mptune doctor at both ends, mptune probe between them",
        )
