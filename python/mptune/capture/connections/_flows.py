"""TCP flows of a capture that have options of MPTCP: their packets as the two ends see them, in positions.

A flow that was captured at two points has two views, otherwise both are the same. What its subflow means to
a connection is not decided here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec

from mptune.capture.connections._coverage import Coverage, coverage, unwrapped
from mptune.capture.pcap import DSS

if TYPE_CHECKING:
    from mptune.capture.pcap import Ends, Option, Packets

Array = Any
T = TypeVar("T", bound="Option", covariant=True)

FIN, SYN, RST, ACK = 1, 1 << 1, 1 << 2, 1 << 4
#: Bits of `options` that mean MPTCP.
_MULTIPATH = (1 << 9) - 1
#: Most flows that are looked at, the busiest ones.
MOST_FLOWS = 10_000
#: A capture is near an end if at least this part of the round trip is on the other side.
_NEAR = 0.9


class Way(msgspec.Struct, kw_only=True):
    """Packets of one direction at one point, in order of time.

    Attributes
    ----------
    packets : their rows (`mptune.capture.pcap.PACKET`).
    start, end : positions of the payload from the subflow's first byte on.
    ack : position that the packet acknowledges in the other direction; -1 if none.
    first : whose number the sequence number of position 0 is.
    from_syn : that is known from a SYN.
    """

    packets: Array
    start: Array
    end: Array
    ack: Array
    first: int
    from_syn: bool

    @property
    def loaded(self) -> Array:
        """Numbers of the packets with payload."""
        import numpy as np

        return np.flatnonzero(self.packets["length"] > 0)

    def covered(self) -> Coverage:
        """Of the packets with payload."""
        loaded = self.loaded
        return coverage(self.start[loaded], self.end[loaded])

    def repeated(self) -> Array:
        """Mask of packets with payload that ends below data that were sent before."""
        import numpy as np

        end = self.end[self.loaded]
        if not len(end):
            return np.zeros(0, bool)
        highest = np.maximum.accumulate(end)
        return np.concatenate([[False], end[1:] <= highest[:-1]])


class View(msgspec.Struct, kw_only=True):
    """A flow at one point.

    Attributes
    ----------
    point : its number.
    ways : from the end that opened the flow, and to it.
    options : those beside DSS: time, way, flags, and option.
    first_ns, last_ns : times of its packets.
    """

    point: int
    ways: tuple[Way, Way]
    options: list[Sent[Option]]
    first_ns: int
    last_ns: int

    def syn(self, way: int) -> int | None:
        """Number of the last SYN on a way before it was answered; None without one."""
        import numpy as np

        packets = self.ways[way].packets
        found = np.flatnonzero(packets["flags"] & SYN > 0)
        if way == 0 and len(found):
            answers = self.ways[1].packets
            answers = answers["at"][answers["flags"] & SYN > 0]
            if len(answers):
                found = found[packets["at"][found] <= answers[0]]
        return int(found[-1]) if len(found) else None

    def handshake_ns(self) -> tuple[int, int] | None:
        """Time from SYN to SYN/ACK, and from there to the next packet of the opener."""
        import numpy as np

        syn, answer = self.syn(0), self.syn(1)
        if syn is None or answer is None:
            return None
        there, back = self.ways[0].packets, self.ways[1].packets
        answered = int(back["at"][np.flatnonzero(back["flags"] & SYN > 0)[0]])
        later = np.flatnonzero((there["at"] >= answered) & (there["flags"] & (SYN | ACK) == ACK))
        if not len(later):
            return None
        return answered - int(there["at"][syn]), int(there["at"][later[0]]) - answered

    def nearer(self) -> int | None:
        """The end near which it was captured: 0 opened the flow; None between them, or not known."""
        gaps = self.handshake_ns()
        if gaps is None or sum(gaps) <= 0:
            return None
        share = gaps[0] / sum(gaps)
        return 0 if share >= _NEAR else 1 if share <= 1 - _NEAR else None


class Sent(NamedTuple, Generic[T]):
    """An option beside DSS, of a packet."""

    at_ns: int
    way: int
    flags: int
    option: T


class Flow(msgspec.Struct, kw_only=True):
    """A flow.

    Attributes
    ----------
    ends : the opener's first, as far as that is known.
    near, far : views of the opener's end and of the other; the same one if there is only one.
    one_clock : both have the same clock.
    """

    ends: Ends
    near: View
    far: View
    one_clock: bool

    @property
    def both(self) -> bool:
        """It was captured at two points."""
        return self.near is not self.far

    def sent(self, way: int) -> Way:
        """The packets of a way where they are sent, as near as there is a capture."""
        return (self.near, self.far)[way].ways[way]

    def arrived(self, way: int) -> Way:
        """The packets of a way where they arrive, as near as there is a capture."""
        return (self.far, self.near)[way].ways[way]

    def options(self, kind: type[T]) -> list[Sent[T]]:
        """Options of a kind, where they are sent."""
        found: list[Sent[T]] = []
        for way, view in enumerate((self.near, self.far)):
            for at_ns, there, flags, option in view.options:
                if there == way and isinstance(option, kind):
                    found.append(Sent(at_ns, way, flags, option))
        return found


class Found(NamedTuple):
    """Flows with MPTCP, and how many there are beside them: too many to look at, and plain ones."""

    flows: list[Flow]
    omitted: int
    plain: int


def find(packets: Packets) -> Found:
    """All flows with options of MPTCP, in order of their first packets."""
    import numpy as np

    table = packets.table
    count = len(packets.flows)
    multipath = np.bincount(table["flow"], table["options"] & _MULTIPATH, minlength=count) > 0
    sizes = np.bincount(table["flow"], minlength=count)
    numbers = np.flatnonzero(multipath)
    busiest = numbers[np.argsort(-sizes[numbers], kind="stable")][:MOST_FLOWS]
    order = np.argsort(table["flow"], kind="stable")
    bounds = np.searchsorted(table["flow"][order], np.arange(count + 1))
    flows: list[Flow] = []
    for number in np.sort(busiest).tolist():
        own = order[bounds[number] : bounds[number + 1]]
        flows += _flows(packets, number, own)
    flows.sort(key=lambda flow: flow.near.first_ns)
    return Found(flows, len(numbers) - len(busiest), int(np.count_nonzero((sizes > 0) & ~multipath)))


def _flows(packets: Packets, number: int, own: Array) -> Iterator[Flow]:
    """Flows between the same ends, one after the other."""
    table = packets.table
    ends, opener = packets.flows[number], _opener(table[own])
    if opener == 1:
        ends = type(ends)(ends.addresses[::-1], ends.ports[::-1])
    lives: dict[int, list[Array]] = {}
    for rows in _by_point(packets, own):
        for life, part in enumerate(_lives(table[rows])):
            lives.setdefault(life, []).append(rows[part])
    for parts in lives.values():
        if not any((table["options"][part] & _MULTIPATH).any() for part in parts):
            continue
        near, far = _ends_of([_view(packets, part, opener) for part in parts])
        files = {packets.points[view.point].file for view in (near, far)}
        yield Flow(ends=ends, near=near, far=far, one_clock=len(files) == 1)


def _opener(own: Array) -> int:
    """The way of a SYN without ACK; else against that of one with it; else 0."""
    import numpy as np

    handshake = own["flags"] & (SYN | ACK)
    for flags, opposite in ((SYN, 0), (SYN | ACK, 1)):
        found = np.flatnonzero(handshake == flags)
        if len(found):
            return int(own["way"][found[0]]) ^ opposite
    return 0


def _by_point(packets: Packets, own: Array) -> list[Array]:
    """Rows of each point that saw the flow; all together if no two points saw the same direction."""
    import numpy as np

    table = packets.table
    points = np.unique(table["point"][own])
    parts = [own[table["point"][own] == point] for point in points.tolist()]
    ways = [set(np.unique(table["way"][part]).tolist()) for part in parts]
    if sum(map(len, ways)) <= 2 and len(parts) == 2:
        parts = [own]
    elif len(parts) > 1:
        whole = [part for part, seen in zip(parts, ways, strict=True) if len(seen) == 2]
        parts = whole or parts
    return [part[np.argsort(table["at"][part], kind="stable")] for part in parts]


def _lives(rows: Array) -> list[Array]:
    """Parts of packets between the same ports, each from a SYN with another number on."""
    import numpy as np

    syns = np.flatnonzero(rows["flags"] & (SYN | ACK) == SYN)
    numbers = rows["seq"][syns]
    again = syns[1:][numbers[1:] != numbers[:-1]]
    return [np.arange(low, high) for low, high in pairwise([0, *again.tolist(), len(rows)])]


def _view(packets: Packets, own: Array, opener: int) -> View:
    """Positions of a flow's packets at one point."""
    import numpy as np

    rows = packets.table[own]
    way = rows["way"] ^ opener
    parts = [rows[way == number] for number in range(2)]
    firsts = [_first(part, other) for part, other in zip(parts, reversed(parts), strict=True)]
    ways = []
    for number, part in enumerate(parts):
        (first, from_syn), (other, _) = firsts[number], firsts[1 - number]
        shift = part["flags"] & SYN > 0
        start = unwrapped((part["seq"] + shift).astype("u4"), first)
        answering = part["flags"] & ACK > 0
        ack = np.full(len(part), -1, "i8")
        ack[answering] = unwrapped(part["ack"][answering], other)
        end = start + part["length"]
        ways.append(Way(packets=part, start=start, end=end, ack=ack, first=first, from_syn=from_syn))
    options = [
        Sent(int(rows["at"][place]), int(way[place]), int(rows["flags"][place]), option)
        for place in np.flatnonzero(rows["options"] & (_MULTIPATH & ~(1 << DSS))).tolist()
        for option in packets.options.get(int(own[place]), ())
    ]
    return View(
        point=int(rows["point"][0]),
        ways=(ways[0], ways[1]),
        options=options,
        first_ns=int(rows["at"][0]),
        last_ns=int(rows["at"][-1]),
    )


def _first(part: Array, other: Array) -> tuple[int, bool]:
    """Sequence number of a way's first byte, and whether a SYN tells it."""
    import numpy as np

    syns = np.flatnonzero(part["flags"] & SYN > 0)
    if len(syns):
        return int(part["seq"][syns[-1]]) + 1 & 0xFFFFFFFF, True
    answers = np.flatnonzero(other["flags"] & (SYN | ACK) == SYN | ACK)
    if len(answers):
        return int(other["ack"][answers[0]]), True
    if len(part):
        # The lowest number near the beginning: packets may be out of order.
        begin = part["seq"][:64]
        steps = (begin - begin[0]).view("i4")
        return int(begin[steps.argmin()]), False
    acks = other["ack"][other["flags"] & ACK > 0]
    return (int(acks[0]) if len(acks) else 0), False


def _ends_of(views: list[View]) -> tuple[View, View]:
    """The views nearest to the opener and to the other end."""
    if len(views) == 1:
        return views[0], views[0]

    def distance(view: View) -> tuple[int, int]:
        gaps = view.handshake_ns()
        return (-gaps[0] if gaps is not None else 0), view.first_ns

    ordered = sorted(views, key=distance)
    return ordered[0], ordered[-1]
