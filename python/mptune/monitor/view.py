"""Rows and their order: sorting, filtering, pinning, opening connections.

Pure: the same reports and the same wishes give the same rows.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from mptune.monitor.figures import ConnectionSeen, Machine, SubflowSeen, all_connections
from mptune.monitor.liveness import is_lost

#: Of a connection: its machine's name and token; of a subflow also its ends.
Key = tuple[object, ...]


class Row(NamedTuple):
    """A line: a connection, or one of its subflows."""

    machine: Machine
    connection: ConnectionSeen
    subflow: SubflowSeen | None = None
    opened: bool = False
    pinned: bool = False

    @property
    def key(self) -> Key:
        """Identity of a row, from report to report."""
        ends = () if self.subflow is None else self.subflow.now.ends
        return (self.machine.name, self.connection.now.token, *ends)


def _number(value: float | None) -> float:
    return -1.0 if value is None else value


#: Orders of connections; the first is the default. All but names show the largest first.
SORTS: dict[str, Callable[[ConnectionSeen], tuple[float | str, ...]]] = {
    "rate": lambda seen_connection: (_number(seen_connection.figures.rate_bps),),
    "RTT": lambda seen_connection: (_number(seen_connection.rtt_ns),),
    "losses": lambda seen_connection: (_number(seen_connection.figures.loss),),
    "subflows": lambda seen_connection: (float(len(seen_connection.subflows)),),
    "bytes": lambda seen_connection: (
        float((seen_connection.now.acked_bytes or 0) + (seen_connection.now.received_bytes or 0)),
    ),
    "name": lambda seen_connection: (seen_connection.now.command or "\uffff", seen_connection.now.remote),
}
_UPWARDS = {"name"}


class View:
    """State of the view: sorting, filter, pins and opened connections.

    Attributes
    ----------
    sort : one of `SORTS`.
    turned : the other way round.
    text : only connections that contain it, in any letter case; all words of it, in any order.
    """

    def __init__(self) -> None:
        self.sort, self.turned, self.text = next(iter(SORTS)), False, ""
        self._opened: set[Key] = set()
        self._closed: set[Key] = set()
        self._pinned: set[Key] = set()
        self._all_opened = False

    def next_sort(self) -> str:
        """Sort by the next of `SORTS`."""
        names = list(SORTS)
        self.sort = names[(names.index(self.sort) + 1) % len(names)]
        return self.sort

    def open(self, row: Row, state: bool | None = None) -> None:
        """Show the subflows of a row's connection, or do not; the other way if nothing is wanted."""
        key = _of_connection(row)
        state = not self._is_opened(key) if state is None else state
        here, there = (self._opened, self._closed) if state else (self._closed, self._opened)
        here.add(key)
        there.discard(key)

    def open_all(self) -> bool:
        """Show the subflows of all connections, or of none; whether they are shown now."""
        self._all_opened = not self._all_opened
        self._opened.clear()
        self._closed.clear()
        return self._all_opened

    def pin(self, row: Row) -> None:
        """Keep a row's connection at the top, or no longer."""
        self._pinned ^= {_of_connection(row)}

    def rows(self, machines: Iterable[Machine]) -> list[Row]:
        """The rows, pinned ones first."""
        connections = [
            (machine, all_connection)
            for machine, all_connection in all_connections(machines)
            if self._matches(machine, all_connection)
        ]
        # By the token where all else is equal, so that idle ones stay where they are.
        connections.sort(key=lambda pair: pair[1].now.token)
        downwards = (self.sort not in _UPWARDS) != self.turned
        connections.sort(key=lambda pair: SORTS[self.sort](pair[1]), reverse=downwards)
        connections.sort(key=lambda pair: (pair[0].name, pair[1].now.token) not in self._pinned)
        rows: list[Row] = []
        for machine, connection in connections:
            key = (machine.name, connection.now.token)
            opened = self._is_opened(key)
            rows.append(Row(machine, connection, None, opened, key in self._pinned))
            if opened:
                rows += [Row(machine, connection, subflow) for subflow in connection.subflows]
        return rows

    def _is_opened(self, key: Key) -> bool:
        return key in self._opened or (self._all_opened and key not in self._closed)

    def _matches(self, machine: Machine, connection: ConnectionSeen) -> bool:
        if not self.text or (machine.name, connection.now.token) in self._pinned:
            return True
        text = _searchable(machine, connection)
        return all(word in text for word in self.text.lower().split())


def _of_connection(row: Row) -> Key:
    return row.key[:2]


def _searchable(machine: Machine, connection: ConnectionSeen) -> str:
    now = connection.now
    parts = [
        machine.name,
        now.command,
        now.pid,
        f"{now.token:08x}",
        now.local,
        now.remote,
        now.family,
        now.state,
    ]
    parts.append("fallback" if now.fallback else None)
    for subflow in connection.subflows:
        role = {True: "standby", False: "active", None: None}[subflow.now.backup]
        role = "lost" if is_lost(subflow.now) else role
        parts += [subflow.now.local, subflow.now.remote, subflow.now.device, subflow.now.cc, role]
        parts.append(subflow.figures.limit)
    return " ".join(str(part) for part in parts if part is not None).lower()
