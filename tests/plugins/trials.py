"""Trials as tests on a real kernel ask for them."""

from typing import Any

from mptune.topology import Topology
from mptune.trial import Bulk, ScriptedAction, Transfer, Trial

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
    return Trial(topology=topology, **with_workload(settings))


def with_workload(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields of a trial; those of its workload may be among them: itself or those of a transfer win."""
    transfer = {
        name: fields[key]
        for name, key in (("bytes", "transfer_bytes"), ("deadline_ns", "deadline_ns"))
        if key in fields
    }
    bulk = {key: fields[key] for key in ("duration_ns", "ends_early") if key in fields}
    workload = fields.get("workload") or (
        Transfer(**transfer) if "transfer_bytes" in fields else Bulk(**bulk)
    )
    others = {*bulk, "transfer_bytes", "deadline_ns"}
    return {name: value for name, value in fields.items() if name not in others} | {"workload": workload}


def cut(path: str, at_ns: int) -> tuple[ScriptedAction, ...]:
    """A script that cuts a path for good."""
    return (ScriptedAction(at_ns=at_ns, path=path, action="down"),)


def in_guests(cc: str) -> str:
    """Name in guests of a window algorithm of ours.

    Their kernel has some itself. Ours are there with a path policy, which leaves a path without a cap alone.
    """
    return f"{cc}+cap" if cc in ("hybla", "scalable", "vegas") else cc
