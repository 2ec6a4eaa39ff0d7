"""Reports of the agent's role `watch`, and events of the daemon: connections and their subflows.

Fields are those of the agent's lines (crates/mptune-agent/src/watch/protocol.rs); None is what the kernel
does not report.
"""

from typing import Any

import msgspec

from mptune.errors import MptuneError


class Subflow(msgspec.Struct, frozen=True, kw_only=True):
    """A subflow. Bytes, times and timeouts are totals since it began."""

    local: str
    remote: str
    device: str | None = None
    local_id: int | None = None
    remote_id: int | None = None
    backup: bool | None = None
    state: str | None = None
    cc: str | None = None
    held: bool | None = None
    rtt_ns: int | None = None
    min_rtt_ns: int | None = None
    cwnd: int | None = None
    acked_bytes: int | None = None
    received_bytes: int | None = None
    retransmitted_bytes: int | None = None
    lost: int | None = None
    unacked: int | None = None
    delivery_rate_bps: int | None = None
    busy_ns: int | None = None
    rwnd_limited_ns: int | None = None
    sndbuf_limited_ns: int | None = None
    timeouts: int | None = None
    timeouts_in_a_row: int | None = None
    silent_ns: int | None = None

    @property
    def ends(self) -> tuple[str, str]:
        """Addresses that identify it within its connection."""
        return (self.local, self.remote)


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """A connection; its bytes are those of the application, each once."""

    token: int
    local: str
    remote: str
    family: str
    state: str | None = None
    pid: int | None = None
    command: str | None = None
    fallback: bool | None = None
    path_manager: str | None = None
    sent_bytes: int | None = None
    received_bytes: int | None = None
    acked_bytes: int | None = None
    reinjected_bytes: int | None = None
    subflows: tuple[Subflow, ...] = ()


class Happening(msgspec.Struct, frozen=True, kw_only=True):
    """An event of the daemon and its reason.

    Attributes
    ----------
    what : in a word or two; to the subflow between `local` and `remote`, if they are given.
    """

    at_ns: int
    what: str
    why: str = ""
    token: int | None = None
    policy: str | None = None
    device: str | None = None
    local: str | None = None
    remote: str | None = None

    @property
    def line(self) -> str:
        """All of it: "alice 10.0.1.2:40000->10.9.0.1:443 eth2 standby: buffers full"."""
        ends = None if self.local is None or self.remote is None else f"{self.local}->{self.remote}"
        begin = " ".join(part for part in (self.policy, ends, self.device, self.what) if part)
        return f"{begin}: {self.why}" if self.why else begin


class Census(msgspec.Struct, frozen=True, kw_only=True):
    """Everything at a moment.

    Attributes
    ----------
    at_ns : CLOCK_MONOTONIC of that machine.
    may_change : the agent may change roles of subflows.
    limits : what is missing and why.
    events : what happened since the last report; only the daemon has any.
    """

    at_ns: int
    connections: tuple[Connection, ...] = ()
    may_change: bool = False
    limits: tuple[str, ...] = ()
    events: tuple[Happening, ...] = ()


def census(message: dict[str, Any]) -> Census:
    """The report in a message; fields that are not known here are left out.

    Raises
    ------
    MptuneError : it is none.
    """
    try:
        return msgspec.convert(message, Census)
    except msgspec.ValidationError as error:
        raise MptuneError(f"report of connections: {error}") from None
