"""A connection's data sequence space: what was sent where, sent again, arrived, and was acknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from mptune.capture.connections._coverage import Coverage, coverage, in_order, unwrapped
from mptune.capture.connections._flows import SYN, Way
from mptune.capture.connections._model import Data
from mptune.capture.pcap import ACKED, CAPABLE, DATA_FIN, MAPPED

if TYPE_CHECKING:
    from mptune.capture.connections._grouping import Group

Array = Any

#: Stands for a number that is not known.
_NONE = -(2**62)


class Sent(msgspec.Struct, kw_only=True):
    """Packets with payload of one direction of a connection, on all subflows, in order of time.

    Attributes
    ----------
    at : ns.
    member : number of the subflow.
    start, end : positions in the data; only of packets that have one.
    place : number among the packets with payload of its subflow.
    unmapped : of each subflow, packets without a position.
    """

    at: Array
    member: Array
    start: Array
    end: Array
    place: Array
    unmapped: list[int]


class Direction(msgspec.Struct, kw_only=True):
    """One direction of a connection.

    Attributes
    ----------
    sent, arrived : packets with payload where they are sent, and where they arrive.
    reinjected : which of the sent ones had data that was sent before, not as a retransmission of TCP.
    reinjected_bytes : of each sent one.
    first : bytes of data of each arrived one that no earlier one had.
    data : the figures.
    """

    sent: Sent
    arrived: Sent
    reinjected: Array
    reinjected_bytes: Array
    first: Array
    data: Data


def direction(group: Group, end: int, *, fallback: bool) -> Direction:
    """Data that an end sent.

    Parameters
    ----------
    end : 0 is the client.
    fallback : without mappings; positions are those of TCP.
    """
    import numpy as np

    base = _base(group, end)
    sent = _collected(group, end, base, arrived=False, fallback=fallback)
    arrived = _collected(group, end, base, arrived=True, fallback=fallback)
    fresh = _fresh_in_tcp(group, end, sent)
    seen = coverage(sent.start, sent.end)
    again = np.where(fresh, sent.end - sent.start - seen.fresh, 0)
    heard: Coverage = coverage(arrived.start, arrived.end)
    whole = group.first_data(end) is not None or fallback
    at_receiver = all(
        member.flow.both or member.flow.near.nearer() != member.way(end) for member in group.members
    )
    acked, acked_ns = _acknowledged(group, end, base, fallback=fallback)
    first_ns = int(sent.at[0]) if len(sent.at) else None
    closed = any(
        (member.flow.sent(member.way(end)).packets["dss"] & DATA_FIN > 0).any() for member in group.members
    )
    if closed and len(sent.end):
        acked = min(acked, int(sent.end.max()))  # DATA_FIN takes a number (RFC 8684 section 3.3.3)
    data = Data(
        sent_bytes=seen.total,
        acked_bytes=acked,
        in_order_bytes=in_order(arrived.start, arrived.end) if whole and at_receiver else None,
        duplicate_bytes=int((arrived.end - arrived.start).sum()) - heard.total,
        reinjected_bytes=int(again.sum()),
        goodput_mbps=_mbps(acked, first_ns, acked_ns),
        closed=closed,
    )
    return Direction(
        sent=sent,
        arrived=arrived,
        reinjected=again > 0,
        reinjected_bytes=again,
        first=heard.fresh,
        data=data,
    )


def _mbps(size: int, first_ns: int | None, last_ns: int | None) -> float | None:
    if not size or first_ns is None or last_ns is None or last_ns <= first_ns:
        return None
    return size * 8e3 / (last_ns - first_ns)


def _base(group: Group, end: int) -> int:
    """Lower half of the number of an end's first byte; without its key, of the first number there is."""
    first = group.first_data(end)
    if first is not None:
        return first + 1 & 0xFFFFFFFF
    known: list[tuple[int, int]] = []
    for member in group.members:
        there, back = (member.flow.sent(member.way(way)).packets for way in (end, 1 - end))
        for packets, flag, name in ((there, MAPPED, "data"), (back, ACKED, "data_ack")):
            with_it = packets[packets["dss"] & flag > 0][:1]
            known += [(int(row["at"]), int(row[name]) & 0xFFFFFFFF) for row in with_it]
    return min(known)[1] if known else 0


def _collected(group: Group, end: int, base: int, *, arrived: bool, fallback: bool) -> Sent:
    """Packets with payload of all subflows."""
    import numpy as np

    parts: list[tuple[Array, ...]] = []
    unmapped: list[int] = []
    for number, member in enumerate(group.members):
        flow, way = member.flow, member.way(end)
        mine = flow.arrived(way) if arrived else flow.sent(way)
        loaded = mine.loaded
        at = mine.packets["at"][loaded]
        numbers = mine.start[loaded] if fallback else _numbers(mine, loaded, base)
        known = np.flatnonzero(numbers != _NONE)
        unmapped.append(len(loaded) - len(known))
        if arrived:
            order, passed_on = _passed_on(mine, loaded, (flow.far, flow.near)[way].ways[1 - way])
            at[order] = passed_on
            known = order[np.isin(order, known)]
        lengths = mine.packets["length"][loaded[known]].astype("i8")
        parts.append((at[known], np.full(len(known), number), numbers[known], lengths, known))
    at, member_of, numbers, lengths, place = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(at, kind="stable")
    start = numbers[order] if fallback else unwrapped(numbers[order] + base & 0xFFFFFFFF, base)
    return Sent(
        at=at[order],
        member=member_of[order],
        start=start,
        end=start + lengths[order],
        place=place[order],
        unmapped=unmapped,
    )


def _passed_on(way: Way, loaded: Array, back: Way) -> tuple[Array, Array]:
    """Packets whose payload the subflow's TCP passes on, in its order, and when: nothing beyond a hole.

    MPTCP gets data in the order of the subflow (RFC 8684 section 3.3.1, Linux net/mptcp/subflow.c). A hole
    that is acknowledged is one of the capture.
    """
    import numpy as np

    start, end = way.start[loaded], way.end[loaded]
    new = np.flatnonzero(coverage(start, end).fresh > 0)
    order = new[np.argsort(start[new], kind="stable")]
    if not len(order):
        return order, order
    reached = np.maximum.accumulate(end[order])
    acked = int(back.ack.max()) if len(back.ack) else 0
    holes = np.concatenate([[way.from_syn and start[order[0]] > 0], start[order[1:]] > reached[:-1]])
    holes &= start[order] > acked
    if holes.any():
        order = order[: int(holes.argmax())]
    return order, np.maximum.accumulate(way.packets["at"][loaded[order]])


def _numbers(way: Way, loaded: Array, base: int) -> Array:
    """Data sequence numbers of packets with payload from a base on, 32 bits; `_NONE` without a mapping.

    A mapping may stand on one packet and hold for others (RFC 8684 section 3.3.1), as where a card cuts large
    segments. The first data can come with MP_CAPABLE in its place (section 3.1).
    """
    import numpy as np

    numbers = np.full(len(loaded), _NONE, "i8")
    if not len(loaded):
        return numbers
    packets, start = way.packets[loaded], way.start[loaded]
    with_it = packets["dss"] & MAPPED > 0
    # Of the subflow's first byte, whose number in mappings is 1.
    shift = packets["data"].astype("i8") & 0xFFFFFFFF
    shift = shift - (packets["subflow"].astype("i8") - 1) - base
    numbers[with_it] = shift[with_it] + (start[with_it] & 0xFFFFFFFF) & 0xFFFFFFFF
    first = ~with_it & (packets["options"] & 1 << CAPABLE > 0)
    numbers[first] = start[first]
    rest = np.flatnonzero(~with_it & ~first)
    if len(rest):
        _borrow(way, numbers, rest, start, base)
    return numbers


def _borrow(way: Way, numbers: Array, rest: Array, start: Array, base: int) -> None:
    """Give packets without a mapping the one that covers them, if there is one."""
    import numpy as np

    mapped = way.packets[(way.packets["dss"] & MAPPED > 0) & (way.packets["mapped"] > 0)]
    begin = (mapped["subflow"].astype("i8") - 1) & 0xFFFFFFFF
    order = np.argsort(begin, kind="stable")
    begin, mapped = begin[order], mapped[order]
    if not len(begin):
        return
    wanted = start[rest] & 0xFFFFFFFF
    place = np.searchsorted(begin, wanted, side="right") - 1
    inside = (place >= 0) & (wanted < begin[place] + mapped["mapped"][place])
    found = mapped["data"][place].astype("i8") & 0xFFFFFFFF
    numbers[rest[inside]] = (found + wanted - begin[place] - base & 0xFFFFFFFF)[inside]


def _fresh_in_tcp(group: Group, end: int, sent: Sent) -> Array:
    """Mask of packets that are no retransmissions of their subflow's TCP."""
    import numpy as np

    fresh = np.ones(len(sent.at), bool)
    for number, member in enumerate(group.members):
        mine = sent.member == number
        repeated = member.flow.sent(member.way(end)).repeated()
        fresh[mine] = ~repeated[sent.place[mine]]
    return fresh


def _acknowledged(group: Group, end: int, base: int, *, fallback: bool) -> tuple[int, int | None]:
    """Highest position that the other end acknowledged, and when it did so first."""
    import numpy as np

    times, positions = [], []
    for member in group.members:
        back = member.flow.sent(member.way(1 - end))
        if fallback:
            chosen = (back.ack >= 0) & (back.packets["flags"] & SYN == 0)
            times.append(back.packets["at"][chosen])
            positions.append(back.ack[chosen])
        else:
            chosen = back.packets["dss"] & ACKED > 0
            times.append(back.packets["at"][chosen])
            positions.append(back.packets["data_ack"][chosen] & np.uint64(0xFFFFFFFF))
    at, numbers = np.concatenate(times), np.concatenate(positions)
    if not len(at):
        return 0, None
    order = np.argsort(at, kind="stable")
    found = numbers[order].astype("i8") if fallback else unwrapped(numbers[order], base)
    highest = max(int(found.max()), 0)
    return highest, int(at[order][found.argmax()])
