"""Model of what a capture tells: connections, their subflows, and what of it is remarkable."""

from __future__ import annotations

import msgspec


class Traffic(msgspec.Struct, kw_only=True):
    """One direction of a subflow. What only a second capture tells is None.

    Attributes
    ----------
    packets, bytes : with payload, everything that was sent counted.
    mbps : those bytes from the first packet with payload to the last one, Mbit/s.
    retransmitted, retransmitted_bytes : packets below what the subflow had sent before, and their bytes.
    reinjected, reinjected_bytes : packets with data sent before, but not retransmitted by this TCP.
    first_bytes : data that arrived on this subflow before it did on another one, in the subflow's order.
    unmapped : packets with payload without a place in the data.
    zero_windows : packets that advertised no window.
    duplicate_acks : D-SACK, what the other end reports to have received twice (RFC 2883).
    rtt_ms, median_rtt_ms : from data to its acknowledgement, least and median, seen from the capture.
    lost, lost_bytes : that the other capture does not have.
    delay_ms, jitter_ms : least delay one way, if both have one clock, and how much longer 99 % take at most.
    """

    packets: int
    bytes: int
    mbps: float | None
    retransmitted: int
    retransmitted_bytes: int
    reinjected: int = 0
    reinjected_bytes: int = 0
    first_bytes: int = 0
    unmapped: int = 0
    zero_windows: int = 0
    duplicate_acks: int = 0
    rtt_ms: float | None = None
    median_rtt_ms: float | None = None
    lost: int | None = None
    lost_bytes: int | None = None
    delay_ms: float | None = None
    jitter_ms: float | None = None


class Subflow(msgspec.Struct, kw_only=True):
    """A subflow; ends are the client's and the server's, as the connection's.

    Attributes
    ----------
    client, server : address and port.
    opened_by : "client" or "server"; None if the capture does not show it.
    opened_s : its first packet, from the connection's first one.
    state : "initial", "joined", "refused", "unanswered", "not MPTCP" or "unknown".
    backup : its opener asked for standby, or an MP_PRIO did later; None if the capture shows neither.
    address_id : of its opener.
    handshake_ms : round trip of the handshake, wherever it was captured.
    taken_near : end near which it was captured; None between them, or if the capture does not show it.
    close : how it ended.
    there, back : traffic from the client, and to it.
    """

    client: str
    server: str
    opened_by: str | None
    opened_s: float
    state: str
    backup: bool | None
    address_id: int | None
    handshake_ms: float | None
    taken_near: str | None
    close: str
    there: Traffic
    back: Traffic


class Data(msgspec.Struct, kw_only=True):
    """One direction of a connection, in its data sequence space.

    Attributes
    ----------
    sent_bytes : each counted once.
    acked_bytes : by DATA_ACK; without one on a fallback, by TCP.
    in_order_bytes : that arrived without a hole from the first one on; None if the capture begins later, or
        was taken at the sender.
    duplicate_bytes : that a subflow passed on after another one had.
    reinjected_bytes : that were sent again beside TCP's retransmissions.
    goodput_mbps : acknowledged data from the first packet to the last acknowledgement, Mbit/s.
    closed : there was a DATA_FIN.
    """

    sent_bytes: int
    acked_bytes: int
    in_order_bytes: int | None
    duplicate_bytes: int
    reinjected_bytes: int
    goodput_mbps: float | None
    closed: bool


class Finding(msgspec.Struct, kw_only=True):
    """Something remarkable.

    Attributes
    ----------
    kind : for programs.
    at_s : from the connection's first packet.
    subflow : its number; None for the whole connection.
    sentence : for people.
    """

    kind: str
    at_s: float
    subflow: int | None
    sentence: str


class Connection(msgspec.Struct, kw_only=True):
    """A connection.

    Attributes
    ----------
    client_token, server_token : RFC 8684 section 3.2; None where the key is not in the capture.
    version : of MPTCP; None without a handshake.
    checksums : both ends asked for DSS with checksums.
    start_ns : its first packet, by the capture's clock.
    duration_s : to its last packet.
    fallback : it went on as plain TCP.
    whole : the capture has its handshake.
    """

    client_token: str | None
    server_token: str | None
    version: int | None
    checksums: bool
    start_ns: int
    duration_s: float
    fallback: bool
    whole: bool
    subflows: list[Subflow]
    there: Data
    back: Data
    findings: list[Finding]


class Analysis(msgspec.Struct, kw_only=True):
    """Everything that captures tell.

    Attributes
    ----------
    files : their names.
    packets : of TCP.
    plain : TCP flows without MPTCP.
    limits : sentences about what these captures cannot tell.
    warnings : sentences about what is not looked at.
    """

    files: list[str]
    packets: int
    plain: int
    connections: list[Connection]
    limits: list[str]
    warnings: list[str]
