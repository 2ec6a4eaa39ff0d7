"""Statistics of a program's connections, from the lines that the preloaded library has written.

The library describes a connection as often as a process closes or shuts it down, or ends; here that becomes
one record per connection. Shapes of the lines: `crates/mptune-preload/src/report.rs`. It prints nothing.
"""

import errno
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

#: The kernel's numbers of TCP states (include/net/tcp_states.h).
_STATES = (
    *("unknown", "established", "syn-sent", "syn-received", "fin-wait-1", "fin-wait-2", "time-wait"),
    *("closed", "close-wait", "last-ack", "listen", "closing", "syn-received"),
)

#: Protocol of a socket at its end: MPTCP, MPTCP that became TCP, TCP from the beginning; None if unseen.
Kind = Literal["mptcp", "fallback", "tcp"]

#: Bytes of a connection as the kernel counts them (Linux 6.5).
_TOTALS = ("sent_bytes", "acked_bytes", "received_bytes")


class Subflow(msgspec.Struct, kw_only=True):
    """A subflow of a connection, or the one of plain TCP; values that the kernel does not report are None."""

    id: int | None = None
    local: str | None = None
    remote: str | None = None
    state: str = "unknown"
    rtt_ns: int | None = None
    min_rtt_ns: int | None = None
    cwnd: int | None = None
    sent_bytes: int | None = None
    acked_bytes: int | None = None
    received_bytes: int | None = None
    retransmitted_bytes: int | None = None
    retransmitted_segments: int | None = None
    timeouts: int | None = None
    busy_ns: int | None = None
    rwnd_limited_ns: int | None = None
    sndbuf_limited_ns: int | None = None

    def update(self, row: dict[str, Any]) -> None:
        """Take newer figures; what a closing socket no longer knows stays."""
        for name, value in row.items():
            if name != "state" and name in self.__struct_fields__ and value is not None:
                setattr(self, name, value)
        if self.acked_bytes is not None and self.sent_bytes is not None:
            self.acked_bytes = min(self.acked_bytes, self.sent_bytes)  # FIN counts as a byte
        state = row.get("state")
        if isinstance(state, int):
            self.state = _STATES[state] if state < len(_STATES) else "unknown"


class Connection(msgspec.Struct, kw_only=True):
    """A connection of the program or its children.

    Attributes
    ----------
    role : who began it; None if that was not seen.
    kind : as `Kind`; None if no process lived to describe it.
    fallback : whether it was to be MPTCP, and became TCP.
    opened_ns, last_ns : CLOCK_MONOTONIC, first and last time that it was seen.
    """

    local: str | None = None
    remote: str | None = None
    role: str | None = None
    pid: int | None = None
    command: str | None = None
    kind: Kind | None = None
    fallback: bool | None = None
    cc: str | None = None
    opened_ns: int = 0
    last_ns: int = 0
    sent_bytes: int | None = None
    acked_bytes: int | None = None
    received_bytes: int | None = None
    reinjected_bytes: int | None = None
    subflows: list[Subflow] = []

    @property
    def was_established(self) -> bool:
        """True if the peer ever answered: a handshake gives an RTT, and what is gone has its counters."""
        known = any(subflow.rtt_ns is not None for subflow in self.subflows)
        return known or bool(self.acked_bytes) or bool(self.received_bytes)


class Refusals(msgspec.Struct, kw_only=True):
    """Number of refusals of one kind, and their reason."""

    what: str
    error: str
    reason: str
    count: int


class Statistics(msgspec.Struct, kw_only=True):
    """Statistics of a program and its children.

    Attributes
    ----------
    connections : those that were established, and those whose end nobody saw (`kind` is None).
    failed : connections that nobody answered.
    refused : what the program did not get.
    """

    connections: list[Connection] = []
    failed: int = 0
    refused: list[Refusals] = []


@contextmanager
def collected() -> Iterator[Path]:
    """Give a file that processes of any user may add to if they know its name, inside the block."""
    folder = Path(tempfile.mkdtemp(prefix="mptune-exec-"))
    try:
        file = folder / secrets.token_hex(16)
        file.touch()
        file.chmod(0o622)  # a server's children may run as other users
        folder.chmod(0o711)
        yield file
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def read(file: Path) -> Statistics:
    """Read the lines of a file."""
    with file.open("rb") as lines:
        return gathered(lines)


def gathered(lines: Iterable[bytes]) -> Statistics:
    """Aggregate lines; damaged ones (a full disk) are left out."""
    connections: dict[int, Connection] = {}
    refused: dict[tuple[str, int], int] = {}
    for line in lines:
        try:
            entry = json.loads(line)
            if entry["event"] == "refused":
                key = str(entry["what"]), int(entry["errno"])
                refused[key] = refused.get(key, 0) + 1
            else:
                _add(connections.setdefault(int(entry["cookie"]), Connection()), entry)
        except (ValueError, KeyError, TypeError):
            continue
    seen = [
        connection
        for connection in connections.values()
        if connection.was_established or (connection.kind is None and connection.role)
    ]
    return Statistics(
        connections=sorted(seen, key=lambda connection: connection.opened_ns),
        failed=sum(1 for connection in connections.values() if connection.role and connection not in seen),
        refused=[_refusals(what, number, count) for (what, number), count in refused.items()],
    )


def _refusals(what: str, number: int, count: int) -> Refusals:
    name = errno.errorcode.get(number, str(number))
    return Refusals(what=what, error=name, reason=os.strerror(number), count=count)


def _add(connection: Connection, line: dict[str, Any]) -> None:
    """Add a line to what is known of its connection."""
    at = line["at_ns"]
    if connection.pid is None or line["event"] == "open":
        connection.pid, connection.command = line["pid"], line["command"]
        connection.opened_ns = connection.opened_ns or at
    connection.last_ns = max(connection.last_ns, at)
    for name in ("role", "local", "remote", "cc", *_TOTALS):
        if line.get(name) is not None:
            setattr(connection, name, line[name])
    if line["event"] != "state":
        return
    connection.kind = line["kind"]
    connection.fallback = line["kind"] == "fallback"
    connection.reinjected_bytes = line.get("reinjected_bytes", connection.reinjected_bytes)
    if "tcp" in line:
        _add_tcp(connection, line["tcp"])
        return
    for row in line.get("subflows", ()):
        named = {name: row.get(name) for name in ("id", "local", "remote")}
        _subflow(connection, named).update({**named, **row["tcp"]})
    if any(name in line for name in _TOTALS):
        _limit_acked(connection)
    elif connection.subflows:
        _add_up(connection, connection.subflows)


def _add_tcp(connection: Connection, row: dict[str, Any]) -> None:
    """Plain TCP is a connection of one subflow with the same addresses."""
    flow = next((flow for flow in connection.subflows if flow.id is None), None)
    if flow is None:
        flow = Subflow()
        connection.subflows = [*connection.subflows, flow]
    flow.update({**row, "local": connection.local, "remote": connection.remote})
    _add_up(connection, [flow])


def _add_up(connection: Connection, flows: list[Subflow]) -> None:
    """The bytes of a connection by those of its subflows, where the kernel counts no others.

    What was sent again on another subflow counts twice.
    """
    sent = [flow.sent_bytes for flow in flows if flow.sent_bytes is not None]
    again = sum(flow.retransmitted_bytes or 0 for flow in flows)
    connection.sent_bytes = sum(sent) - again if sent else None
    for name in ("acked_bytes", "received_bytes"):
        known = [size for flow in flows if (size := getattr(flow, name)) is not None]
        setattr(connection, name, sum(known) if known else None)


def _limit_acked(connection: Connection) -> None:
    """The end of the data counts as a byte."""
    if connection.acked_bytes is not None and connection.sent_bytes is not None:
        connection.acked_bytes = min(connection.acked_bytes, connection.sent_bytes)


def _subflow(connection: Connection, named: dict[str, Any]) -> Subflow:
    """By its number, or else, on Linux before 6.5, by its ends."""
    keys = ("id",) if named["id"] is not None else ("local", "remote")
    for subflow in connection.subflows:
        if all(getattr(subflow, key) == named[key] for key in keys):
            return subflow
    connection.subflows = [*connection.subflows, Subflow(**named)]
    return connection.subflows[-1]
