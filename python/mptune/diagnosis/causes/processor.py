"""A processor that is used up: then the numbers are the host's, and not the paths'."""

from collections.abc import Iterator

from mptune.diagnosis.causes.finding import Finding, Gaps
from mptune.diagnosis.evidence import Evidence

#: Share of a host's processors from which on they are the limit.
_BUSY = 0.9


def find(evidence: Evidence, gaps: Gaps) -> Iterator[Finding]:
    """A host whose processors were busy all the time."""
    together = evidence.together()
    if together is None:
        return
    for end, share in together.busy.items():
        if share >= _BUSY:
            yield Finding(
                kind="processor",
                part="together",
                mbps=gaps.together,
                because=f"the processors of the {end} were busy for {share:.0%} of the time",
                remedy="end other work there; net.mptcp.checksum_enabled=0; ethtool -K DEVICE gro on tso on",
            )
