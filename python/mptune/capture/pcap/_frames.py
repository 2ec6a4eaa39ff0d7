"""From frames to TCP segments, whole pieces at a time: link layers, IPv4 and IPv6. It reads no option.

Formats: RFC 791, RFC 8200, IEEE 802.1Q, and https://www.tcpdump.org/linktypes.html for what is below them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mptune.capture.pcap._blocks import Frames, Interface

Array = Any

#: Link types: where the type of the network's packet is (None: the packet begins at once), and its length.
_LINKS: dict[int, tuple[int | None, int]] = {
    1: (12, 14),  # Ethernet
    113: (14, 16),  # Linux cooked v1
    276: (0, 20),  # Linux cooked v2
    0: (None, 4),  # BSD loopback
    108: (None, 4),  # OpenBSD loopback
    **dict.fromkeys((12, 14, 101, 228, 229), (None, 0)),  # raw IP
}
_COOKED_V2, _COOKED_V2_DEVICE = 276, 4
_IPV4, _IPV6, _TAGS = 0x0800, 0x86DD, (0x8100, 0x88A8, 0x9100)
#: Tags in a row that are read.
_MOST_TAGS = 3
_TCP = 6
#: IPv6: extension headers that may stand before TCP, and how many are read.
_EXTENSIONS, _FRAGMENT, _MOST_EXTENSIONS = (0, 43, 60), 44, 8
#: Bytes after the content, so that a header that is cut can be looked at before it is refused.
_SPARE = 64
#: Addresses of IPv4 in 16 bytes (RFC 4291 section 2.5.5.2).
_MAPPED = 0xFFFF << 32


class Segments(NamedTuple):
    """TCP segments of a piece.

    Attributes
    ----------
    content : bytes, with some to spare at the end.
    at : place of each TCP header in it.
    end : where what was caught of the packet ends.
    length : bytes of payload on the wire.
    ends : (segments, 5) words of source and destination address, and both ports.
    device : Linux's number of the device in cooked frames v2, otherwise 0.
    time_ns, interface : of the frame.
    """

    content: Array
    at: Array
    end: Array
    length: Array
    ends: Array
    device: Array
    time_ns: Array
    interface: Array

    def up_to(self, most: int) -> Segments:
        """The first ones."""
        content, *columns = self
        return Segments(content, *(column[:most] for column in columns))


class Passed(NamedTuple):
    """Frames that gave no segment: an unknown link, not TCP over IP, a fragment, a header that is cut."""

    unknown: int = 0
    other: int = 0
    fragments: int = 0
    cut: int = 0

    def plus(self, more: Passed) -> Passed:
        """Of two pieces together."""
        return Passed(*(mine + theirs for mine, theirs in zip(self, more, strict=True)))


def words(content: Array, at: Array, width: int) -> Array:
    """Unsigned big-endian numbers of 1, 2, 4 or 8 bytes at these places."""
    import numpy as np

    if width == 1:
        return content[at]
    return content[at[:, None] + np.arange(width)].view(f">u{width}")[:, 0].astype(f"u{width}")


class Table(NamedTuple):
    """Frames of a piece in columns, as of `mptune.capture.pcap._blocks.Frame`."""

    start: Array
    caught: Array
    length: Array
    time_ns: Array
    interface: Array


def columns(frames: Frames) -> Table:
    """Columns of the rows."""
    import numpy as np

    rows = np.array(frames.rows, "i8").reshape(-1, len(Table._fields))
    return Table(*rows.T)


def segments(frames: Frames, interfaces: Sequence[Interface]) -> tuple[Segments, Passed]:
    """Find the TCP segments of a piece."""
    import numpy as np

    content = np.frombuffer(frames.content + bytes(_SPARE), "u1")
    table = columns(frames)
    start = table.start
    end = start + table.caught
    links = np.array([interface.link for interface in interfaces], "i4")[table.interface]
    at, device = _network(content, start, end, links)
    unknown = int(np.count_nonzero(at < 0))
    frame = np.flatnonzero((at >= 0) & (at + 20 <= end))
    first = content[at[frame]]
    packets = [
        _ipv4(content, frame[first >> 4 == 4], at, end, table),
        _ipv6(content, frame[(first >> 4 == 6) & (at[frame] + 40 <= end[frame])], at, end, table),
    ]
    fragments = sum(part.fragments for part in packets)
    frame = np.concatenate([part.frame for part in packets])
    order = np.argsort(frame, kind="stable")
    frame = frame[order]
    tcp = np.concatenate([part.tcp for part in packets])[order]
    payload = np.concatenate([part.payload for part in packets])[order]
    whole = tcp + 20 <= end[frame]
    header = (content[np.where(whole, tcp + 12, 0)] >> 4).astype("i8") * 4
    whole &= header >= 20
    addresses = np.concatenate([part.addresses for part in packets])[order][whole]
    cut = int(np.count_nonzero(~whole))
    frame, tcp = frame[whole], tcp[whole]
    found = Segments(
        content=content,
        at=tcp,
        end=end[frame],
        length=np.maximum(payload[whole] - header[whole], 0),
        ends=np.column_stack([addresses, words(content, tcp, 4).astype("u8")]),
        device=device[frame],
        time_ns=table.time_ns[frame],
        interface=table.interface[frame],
    )
    other = len(start) - unknown - fragments - cut - len(frame)
    return found, Passed(unknown, other, fragments, cut)


def _network(content: Array, start: Array, end: Array, links: Array) -> tuple[Array, Array]:
    """Offset of the network's packet in each frame, -1 if nothing is known there; and devices."""
    import numpy as np

    at, device = np.full(len(start), -1, "i8"), np.zeros(len(start), "u4")
    for link in np.unique(links).tolist():
        if link not in _LINKS:
            continue
        place, size = _LINKS[link]
        mine = np.flatnonzero((links == link) & (start + size <= end))
        if link == _COOKED_V2:
            device[mine] = words(content, start[mine] + _COOKED_V2_DEVICE, 4)
        if place is None:
            at[mine] = start[mine] + size
            continue
        kind, begin = words(content, start[mine] + place, 2), start[mine] + size
        for _ in range(_MOST_TAGS):
            tagged = np.flatnonzero(np.isin(kind, _TAGS) & (begin + 4 <= end[mine]))
            if not len(tagged):
                break
            kind[tagged] = words(content, begin[tagged] + 2, 2)
            begin[tagged] += 4
        # What is not IP is known as well: it is at the frame's end, where nothing can follow.
        at[mine] = np.where((kind == _IPV4) | (kind == _IPV6), begin, end[mine])
    return at, device


class _Packets(NamedTuple):
    """Packets with TCP: their frames, where it begins, bytes from there, and 4 words of addresses."""

    frame: Array
    tcp: Array
    payload: Array
    addresses: Array
    fragments: int


def _ipv4(content: Array, frame: Array, at: Array, end: Array, table: Table) -> _Packets:
    import numpy as np

    begin = at[frame]
    header = (content[begin] & 15).astype("i8") * 4
    tcp = (content[begin + 9] == _TCP) & (header >= 20)
    # All but the first fragment are without a header of TCP, and the first tells no length.
    fragment = tcp & (words(content, begin + 6, 2) & 0x3FFF > 0)
    mine = np.flatnonzero(tcp & ~fragment)
    begin, header, frame = begin[mine], header[mine], frame[mine]
    total = words(content, begin + 2, 2).astype("i8")
    payload = _bytes_of(total, frame, begin, table) - header
    source, target = (
        words(content, begin + place, 4).astype("u8") | np.uint64(_MAPPED) for place in (12, 16)
    )
    none = np.zeros(len(mine), "u8")
    addresses = np.column_stack([none, source, none, target])
    return _Packets(frame, begin + header, payload, addresses, int(np.count_nonzero(fragment)))


def _ipv6(content: Array, frame: Array, at: Array, end: Array, table: Table) -> _Packets:
    import numpy as np

    begin = at[frame]
    following, tcp = content[begin + 6].copy(), begin + 40
    fragment = following == _FRAGMENT
    for _ in range(_MOST_EXTENSIONS):
        more = np.flatnonzero(np.isin(following, _EXTENSIONS) & (tcp + 8 <= end[frame]))
        if not len(more):
            break
        place = tcp[more]
        following[more] = content[place]
        tcp[more] += 8 + content[place + 1].astype("i8") * 8
        fragment |= following == _FRAGMENT
    mine = np.flatnonzero((following == _TCP) & ~fragment)
    begin, tcp, frame = begin[mine], tcp[mine], frame[mine]
    total = words(content, begin + 4, 2).astype("i8")
    payload = _bytes_of(np.where(total > 0, total + 40, 0), frame, begin, table) - (tcp - begin)
    addresses = np.column_stack([words(content, begin + place, 8) for place in (8, 16, 24, 32)])
    return _Packets(frame, tcp, payload, addresses, int(np.count_nonzero(fragment)))


def _bytes_of(total: Array, frame: Array, begin: Array, table: Table) -> Array:
    """Bytes of packets: without a length, as large ones have that are cut later (TSO), those of the frame."""
    import numpy as np

    return np.where(total > 0, total, table.length[frame] - (begin - table.start[frame]))
