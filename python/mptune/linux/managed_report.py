"""What is told of a managed connection when it is over, or so far: plain records, fit for JSON.

Times are CLOCK_MONOTONIC (`time.monotonic_ns`), nanoseconds.
"""

import msgspec

from mptune.linux.managed import ManagedConnection
from mptune.linux.managed_subflow import Outage, PriorityChange
from mptune.linux.mptcp_messages import Pair


class SubflowReport(msgspec.Struct, frozen=True, kw_only=True):
    """A subflow at the end; `state` is "joining", "established", "refused" or "closed".

    `pair` is None if it was never established. `backup` is its priority in the kernel.
    """

    path: str
    pair: Pair | None
    state: str
    backup: bool
    established_ns: int


class ConnectionReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one connection.

    Attributes
    ----------
    created_ns, closed_ns : when the kernel told of it; None while it lives.
    subflows : in the order of creation, the initial one first.
    changes : priorities that were changed after the subflows were opened.
    outages : subflows lost in use, with their successors and take-over times.
    problems : one line each: joins that failed, orders that the kernel refused.
    """

    created_ns: int
    closed_ns: int | None
    subflows: tuple[SubflowReport, ...]
    changes: tuple[PriorityChange, ...]
    outages: tuple[Outage, ...]
    problems: tuple[str, ...]


def report(connection: ManagedConnection) -> ConnectionReport:
    """What became of a connection, so far."""
    subflows = (
        SubflowReport(
            path=connection.label(subflow),
            pair=subflow.pair,
            state=subflow.state,
            backup=subflow.kernel_backup,
            established_ns=subflow.established_ns,
        )
        for subflow in connection.subflows
    )
    return ConnectionReport(
        created_ns=connection.created_ns,
        closed_ns=connection.closed_ns,
        subflows=tuple(subflows),
        changes=tuple(connection.changes),
        outages=tuple(connection.outages),
        problems=tuple(connection.problems),
    )
