"""Trials as tests on a real kernel ask for them."""

from typing import Any

from mptune.topology import Topology
from mptune.trial import Trial

SECOND = 1_000_000_000
#: A standby subflow carries less than this share of what active ones do: nothing without losses, but while
#: another subflow waits for a retransmission the kernel may send on it.
SILENT = 0.1


def trial(topology: Topology, **changes: Any) -> Trial:
    """A saturated sender for a second, unless something else is asked for."""
    settings: dict[str, Any] = {
        "pm": "fullmesh",
        "cc": "cubic",
        "buffer_bytes": 2**20,
        "seed": 1,
        "duration_ns": SECOND,
    }
    settings |= changes
    if "transfer_bytes" in changes:
        del settings["duration_ns"]
    return Trial(topology=topology, **settings)
