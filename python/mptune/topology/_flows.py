"""The traffic of others: records with the names of the core's description, and words for people.

How a topology file expresses it is in `_background`; what it does to the network is the core's.
"""

import msgspec

from mptune.topology._words import rate_in_words, time_in_words


class OnOff(msgspec.Struct, frozen=True, kw_only=True):
    """Periods of sending and silence; `lengths` is "fixed", or "exponential" with these as means."""

    on_ns: int
    off_ns: int
    lengths: str


class UdpBackground(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="udp", tag_field="kind"
):
    """Datagrams that use one link and leave the network after it.

    Attributes
    ----------
    link : name of the link, as in `Topology.links`.
    rate_bps : while it sends, headers included.
    packet_bytes : size of its packets, headers included.
    on_off : None to send all the time.
    stop_ns : None for never.
    """

    link: str
    rate_bps: int
    packet_bytes: int
    on_off: OnOff | None = None
    start_ns: int = 0
    stop_ns: int | None = None


class TcpBackground(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="tcp", tag_field="kind"
):
    """A saturated TCP connection on one path (its label), in the direction of the data."""

    path: str
    cc: str
    start_ns: int = 0
    stop_ns: int | None = None


#: Background traffic.
Background = UdpBackground | TcpBackground


def in_words(flow: Background) -> str:
    """A background flow."""
    if isinstance(flow, UdpBackground):
        what = f"UDP on {flow.link}, {rate_in_words(flow.rate_bps)} in packets of {flow.packet_bytes} bytes"
        if flow.on_off is not None:
            periods = f"{time_in_words(flow.on_off.on_ns)} on, {time_in_words(flow.on_off.off_ns)} off"
            mean = " on average" if flow.on_off.lengths == "exponential" else ""
            what += f", {periods}{mean}"
    else:
        what = f"TCP on {flow.path}, {flow.cc}"
    start = f", from {time_in_words(flow.start_ns)}" if flow.start_ns else ""
    return what + start + (f", until {time_in_words(flow.stop_ns)}" if flow.stop_ns is not None else "")
