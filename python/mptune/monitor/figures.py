"""Figures that follow from one report after the other: rates, their course, losses, limits.

Totals are differences of the kernel's counters over the time between two reports, by the clock of the machine
that made them. A figure that needs two reports is None after the first.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Self

import msgspec

from mptune.monitor.limits import Limit, limit
from mptune.monitor.liveness import is_lost
from mptune.monitor.shape import Census, Connection, Subflow

#: Reports whose rates are kept for the course.
KEPT = 60
#: Reports over which losses are counted: in one interval there may be none by chance.
LOSSES_OVER = 10


class Figures:
    """Rates of one connection or subflow over time.

    Attributes
    ----------
    sent_bps, received_bps : payload acknowledged, and received in order, between the last two reports.
    course : sum of both, at each report, the oldest first.
    loss : retransmitted part of the payload that was sent over the last reports; None if nothing was.
    limit : what holds it back.
    """

    def __init__(self) -> None:
        self.sent_bps: float | None = None
        self.received_bps: float | None = None
        self.course: deque[float] = deque(maxlen=KEPT)
        self.limit: Limit | None = None
        self._moved: deque[tuple[int, int]] = deque(maxlen=LOSSES_OVER)

    @property
    def rate_bps(self) -> float | None:
        """Both directions together."""
        if self.sent_bps is None and self.received_bps is None:
            return None
        return (self.sent_bps or 0.0) + (self.received_bps or 0.0)

    @property
    def loss(self) -> float | None:
        """Retransmitted part of the payload that was sent."""
        acked, retransmitted = (
            (sum(column) for column in zip(*self._moved, strict=True)) if self._moved else (0, 0)
        )
        return retransmitted / (acked + retransmitted) if acked + retransmitted else None

    def add(self, sent: int | None, received: int | None, retransmitted: int | None, elapsed_ns: int) -> None:
        """Add what was moved since the last report."""
        self.sent_bps = _rate(sent, elapsed_ns)
        self.received_bps = _rate(received, elapsed_ns)
        self.course.append(self.rate_bps or 0.0)
        if sent is not None and retransmitted is not None:
            self._moved.append((sent, retransmitted))


class SubflowSeen(msgspec.Struct):
    """A subflow as it is, and its figures."""

    now: Subflow
    figures: Figures


class ConnectionSeen(msgspec.Struct):
    """A connection as it is, its figures and its subflows."""

    now: Connection
    figures: Figures
    subflows: tuple[SubflowSeen, ...]

    @property
    def active(self) -> int:
        """Subflows that may carry data, and are answered."""
        return sum(subflow.now.backup is False and not is_lost(subflow.now) for subflow in self.subflows)

    @property
    def standby(self) -> int:
        """Subflows that wait, and are answered."""
        return sum(subflow.now.backup is True and not is_lost(subflow.now) for subflow in self.subflows)

    @property
    def lost(self) -> int:
        """Subflows that nobody answers."""
        return sum(is_lost(subflow.now) for subflow in self.subflows)

    @property
    def busiest(self) -> SubflowSeen | None:
        """The subflow with the highest rate; the first if all have none."""
        return max(self.subflows, key=lambda subflow: subflow.figures.rate_bps or 0.0, default=None)

    @property
    def rtt_ns(self) -> int | None:
        """The smoothed RTT of the busiest of its subflows."""
        return None if self.busiest is None else self.busiest.now.rtt_ns

    @property
    def limit(self) -> Limit | None:
        """Limit of its busiest subflow."""
        return None if self.busiest is None else self.busiest.figures.limit


class Machine:
    """The connections of one machine from report to report.

    Attributes
    ----------
    name : for people; empty if it is this one.
    census : the last report; None before the first.
    connections : those of the last report.
    trouble : why there are no more reports; empty while there are.
    """

    def __init__(self, name: str = "") -> None:
        self.name, self.trouble = name, ""
        self.census: Census | None = None
        self.connections: tuple[ConnectionSeen, ...] = ()

    def update(self, census: Census) -> Self:
        """Take in a report."""
        before = {connection.now.token: connection for connection in self.connections}
        elapsed = 0 if self.census is None else census.at_ns - self.census.at_ns
        seen = (
            _connection(before.get(connection.token), connection, elapsed)
            for connection in census.connections
        )
        self.connections, self.census = tuple(seen), census
        return self

    def totals(self) -> tuple[float, float]:
        """Rates sent and received of all connections together."""
        sent = sum(connection.figures.sent_bps or 0.0 for connection in self.connections)
        return sent, sum(connection.figures.received_bps or 0.0 for connection in self.connections)


def _connection(before: ConnectionSeen | None, now: Connection, elapsed_ns: int) -> ConnectionSeen:
    if before is not None and (before.now.local, before.now.remote) != (now.local, now.remote):
        before = None  # another one, which has the token of one that has ended
    known = {} if before is None else {subflow.now.ends: subflow for subflow in before.subflows}
    # In an order that does not depend on the kernel's tables.
    ordered = sorted(
        now.subflows, key=lambda subflow: (subflow.local_id or 0, subflow.remote_id or 0, subflow.ends)
    )
    subflows = tuple(_subflow(known.get(subflow.ends), subflow, elapsed_ns) for subflow in ordered)
    if before is None:
        return ConnectionSeen(now, Figures(), subflows)
    pairs = [(known[subflow.ends].now, subflow) for subflow in now.subflows if subflow.ends in known]
    sent, received = _moved(before.now, now)
    # Without counters of its own it is what its subflows moved.
    sent = _sum(_grown(a.acked_bytes, b.acked_bytes) for a, b in pairs) if sent is None else sent
    if received is None:
        received = _sum(_grown(a.received_bytes, b.received_bytes) for a, b in pairs)
    retransmitted = _sum(_grown(a.retransmitted_bytes, b.retransmitted_bytes) for a, b in pairs)
    before.figures.add(sent, received, retransmitted, elapsed_ns)
    return ConnectionSeen(now, before.figures, subflows)


def _moved(before: Connection, now: Connection) -> tuple[int | None, int | None]:
    acked = _grown(before.acked_bytes, now.acked_bytes)
    return acked, _grown(before.received_bytes, now.received_bytes)


def _subflow(before: SubflowSeen | None, now: Subflow, elapsed_ns: int) -> SubflowSeen:
    if before is None or (_grown(before.now.busy_ns, now.busy_ns) is None and now.busy_ns is not None):
        return SubflowSeen(now, Figures())  # new, or another one between the same ends
    figures, then = before.figures, before.now
    figures.add(
        _grown(then.acked_bytes, now.acked_bytes),
        _grown(then.received_bytes, now.received_bytes),
        _grown(then.retransmitted_bytes, now.retransmitted_bytes),
        elapsed_ns,
    )
    figures.limit = limit(then, now, elapsed_ns)
    return SubflowSeen(now, figures)


def _grown(before: int | None, now: int | None) -> int | None:
    return None if before is None or now is None or now < before else now - before


def _sum(parts: Iterable[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _rate(moved: int | None, elapsed_ns: int) -> float | None:
    return None if moved is None or elapsed_ns <= 0 else moved * 8e9 / elapsed_ns


def all_connections(machines: Iterable[Machine]) -> Iterator[tuple[Machine, ConnectionSeen]]:
    """The connections of several machines, each with its machine."""
    for machine in machines:
        for connection in machine.connections:
            yield machine, connection
