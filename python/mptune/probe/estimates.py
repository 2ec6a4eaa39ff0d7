"""From raw samples to numbers: rates from trains, losses from counts, queues from bursts, round trips.

Pure functions of what the agents reported. A train is packets sent faster than the path forwards them; its
narrowest link spaces them out, and the spacing at the receiver shows its rate (Dovrolis, Ramanathan and
Moore, "What do packet dispersion techniques measure?", INFOCOM 2001). Times of two clocks are never
compared: only spans on the same clock are used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Literal

import msgspec

from mptune.statistics import quantile

#: Nanoseconds of the agent's unit of time.
UNIT_NS = 100
#: Fewer arrivals give no rate.
_LEAST_ARRIVALS = 6
#: A train that arrives almost as fast as it was sent was not slowed down by the path.
_UNHINDERED = 0.93
#: Trains shorter than this share of the longest are not used: the same jitter weighs more.
_LONG_ENOUGH = 0.45
#: A burst that lost this share of its packets overfilled a queue; random losses are fewer.
_OVERFLOW, _OVERFLOW_PACKETS = 0.03, 3
#: A train that begins faster than it ends by this factor ran into a token bucket.
_BENT = 1.5
#: A TCP transfer slower than this share of the trains' rate was slow by itself.
_FAIR = 0.7
#: Two rates that differ by no more than this may be the same link's, and by more than this are not if their
#: samples agree.
SAME, _NOISE = 0.08, 0.01
#: 97.5 % quantile of the normal distribution.
_Z = 1.959964


class Train(msgspec.Struct, frozen=True, kw_only=True):
    """Fate of packets sent in a row.

    Attributes
    ----------
    bytes : size of each, with the headers of IP and UDP.
    packets : how many were sent.
    seq : numbers of those that arrived, in order of arrival.
    sent : when each of them was sent, since the first of the flow, in `UNIT_NS`.
    arrived : when each arrived, from an arbitrary origin, by the receiver's clock, in `UNIT_NS`.
    """

    bytes: int
    packets: int
    seq: tuple[int, ...]
    sent: tuple[int, ...]
    arrived: tuple[int, ...]

    @property
    def span_ns(self) -> int:
        """From the first arrival to the last."""
        return (self.arrived[-1] - self.arrived[0]) * UNIT_NS if self.arrived else 0


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A number with its spread.

    Attributes
    ----------
    value, low, high : the estimate, a median, and the smallest and the largest of its values.
    samples : how many values.
    at_least : the real value may be larger: something else was the limit.
    """

    value: float
    low: float
    high: float
    samples: int
    at_least: bool = False

    @property
    def spread(self) -> float:
        """From the lowest to the highest, as a share of the value."""
        return (self.high - self.low) / self.value if self.value else 0.0


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """Packets lost of those sent, as a share with its 95 % interval."""

    sent: int
    lost: int

    @property
    def share(self) -> float:
        """The share that was lost."""
        return self.lost / self.sent if self.sent else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval (JASA 22, 1927), which does not need a single loss."""
        if not self.sent:
            return 0.0, 1.0
        n, p, z2 = self.sent, self.share, _Z**2
        middle = (p + z2 / (2 * n)) / (1 + z2 / n)
        half = _Z * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
        return max(0.0, middle - half) if self.lost else 0.0, min(1.0, middle + half)


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue in front of a link: its bytes, or a lower bound if it never overflowed."""

    bytes: int
    at_least: bool
    delay_ns: int


class RoundTrip(msgspec.Struct, frozen=True, kw_only=True):
    """Round-trip times of small packets on an idle path, nanoseconds."""

    min_ns: int
    median_ns: int
    p95_ns: int
    samples: int


def slope(bits: float, arrived: Sequence[int]) -> float | None:
    """Rate at which packets of equal size arrived, bit/s; None if they do not show it.

    The median over pairs half a train apart: a receiver that was kept waiting in between does not matter.
    """
    count = len(arrived)
    if count < _LEAST_ARRIVALS:
        return None
    apart = count // 2
    spans = [arrived[k + apart] - arrived[k] for k in range(count - apart)]
    middle = median(spans)
    return apart * bits / (middle * UNIT_NS / 1e9) if middle > 0 else None


def train_rate(train: Train) -> float | None:
    """Rate of the narrowest link, bit/s; None if the train does not show it."""
    return slope(8 * train.bytes, train.arrived)


def hindered(train: Train) -> bool:
    """True if the path slowed a train down; otherwise its rate is a lower bound."""
    if len(train.sent) < _LEAST_ARRIVALS:
        return False
    sent, arrived = train.sent[-1] - train.sent[0], train.arrived[-1] - train.arrived[0]
    lost = train.packets - len(train.seq)
    return sent < _UNHINDERED * arrived or overflowed(train.packets, lost)


def overflowed(packets: int, lost: int) -> bool:
    """True if there are too many losses for anything but a full queue."""
    return lost >= max(_OVERFLOW_PACKETS, _OVERFLOW * packets)


def rate(trains: Sequence[Train]) -> Estimate | None:
    """Rate of a path in one direction from several trains; None if none of them shows it.

    Only the longest count: the same jitter is a smaller share of them.
    """
    rates = _rates(trains)
    if not rates:
        return None
    held = any(hindered(train) for train in trains if train_rate(train) is not None)
    return Estimate(
        value=median(rates), low=min(rates), high=max(rates), samples=len(rates), at_least=not held
    )


def _rates(trains: Sequence[Train]) -> list[float]:
    """Estimates of the longest trains that were slowed down, or of all if none was."""
    known = [(train, found) for train in trains if (found := train_rate(train)) is not None]
    chosen = [(train, found) for train, found in known if hindered(train)] or known
    longest = max((train.span_ns for train, _ in chosen), default=0)
    return [found for train, found in chosen if train.span_ns >= _LONG_ENOUGH * longest]


def disagree(trains: Sequence[Train]) -> float:
    """Spread of the middle half of the estimates of long trains, as a share of their median."""
    found = sorted(_rates(trains))
    return (quantile(found, 0.75) - quantile(found, 0.25)) / median(found) if len(found) > 1 else 0.0


def sustained(trains: Sequence[Train]) -> float | None:
    """Rate at the end of trains that began much faster than they ended, as behind a token bucket, bit/s.

    None if most of them did not.
    """
    ends = []
    for train in trains:
        third = len(train.arrived) // 3
        parts = train.arrived[:third], train.arrived[-third:]
        first, last = (slope(8 * train.bytes, part) for part in parts)
        if first is not None and last is not None and first > _BENT * last:
            ends.append(last)
    return median(ends) if len(ends) > len(trains) / 2 else None


def decided(trains: float, transfer: float | None) -> float:
    """The rate when the trains are doubtful: that of a TCP transfer, unless it was too slow by itself."""
    return transfer if transfer is not None and transfer > _FAIR * trains else trains


def joint_rate(trains: Sequence[Train], *, leaving: bool) -> float | None:
    """Rate of all trains together while all of them are there, bit/s; None if they hardly ever are.

    Parameters
    ----------
    leaving : they share the link by which they leave: times are those at its end, for which the way of each
        train's first packet beyond it is taken off. Otherwise they share the link by which they arrive.
    """
    if any(len(train.arrived) < _LEAST_ARRIVALS for train in trains):
        return None
    bases = [train.arrived[0] - train.sent[0] if leaving else 0 for train in trains]
    times = [[at - base for at in train.arrived] for train, base in zip(trains, bases, strict=True)]
    begin, end = max(time[0] for time in times), min(time[-1] for time in times)
    if end - begin < 0.3 * max(time[-1] - time[0] for time in times):
        return None
    inside = [
        (at, train.bytes)
        for train, one in zip(trains, times, strict=True)
        for at in one
        if begin <= at <= end
    ]
    bits = 8 * sum(size for _, size in inside) / len(inside)
    return _mean_slope(bits, sorted(at for at, _ in inside))


def _mean_slope(bits: float, arrived: Sequence[int]) -> float | None:
    """Rate from the means of the two halves.

    Packets of two trains may be at the same time; a median of spans is then that of one too many or too few.
    """
    half = len(arrived) // 2
    if half < _LEAST_ARRIVALS / 2:
        return None
    span = fmean(arrived[-half:]) - fmean(arrived[:half])
    return (len(arrived) - half) * bits / (span * UNIT_NS / 1e9) if span > 0 else None


def queue(train: Train, rate_bps: float) -> Queue | None:
    """Queue in front of the narrowest link, from a burst; None if too little of it arrived.

    A packet of a burst waits for those before it: its delay, less that of the first packet, is the backlog
    that it found. Where packets are missing, the queue was full.
    """
    if len(train.seq) < 3:
        return None
    base = train.arrived[0] - train.sent[0]
    waits = [at - sent - base for at, sent in zip(train.arrived, train.sent, strict=True)]
    # A burst that is hardly faster than the link loses little, but all of it once the queue is full.
    full = overflowed(train.packets - _first_missing(train), train.packets - len(train.seq))
    highest = max(waits)
    if full:
        late = [wait for seq, wait in zip(train.seq, waits, strict=True) if seq > _first_missing(train)]
        if len(late) >= 5:
            highest = round(quantile(sorted(late), 0.9))
    delay_ns = max(0, highest) * UNIT_NS
    # The last packet with room in the queue had to fit beside those before it.
    return Queue(bytes=round(delay_ns * rate_bps / 8e9) + train.bytes, at_least=not full, delay_ns=delay_ns)


def _first_missing(train: Train) -> int:
    present = set(train.seq)
    return next((number for number in range(train.packets) if number not in present), train.packets)


def joined_queue(found: Sequence[Queue]) -> Queue | None:
    """Estimate of one queue from several bursts: the largest that overflowed it, else the largest at all."""
    full = [each_queue for each_queue in found if not each_queue.at_least]
    if full:
        size = round(median(each_queue.bytes for each_queue in full))
        delay = round(median(each_queue.delay_ns for each_queue in full))
        return Queue(bytes=size, at_least=False, delay_ns=delay)
    return max(found, key=lambda one: one.bytes, default=None)


def queue_behind(fast: Queue | None, slow: Queue | None, *, spared: bool) -> Queue | None:
    """Queue behind a link of which it is not known how much faster it is; None if bursts do not show it.

    A fast burst may have filled the queue of the link before as well, so that the sum of both was seen, or
    have overflowed it alone. A slower one spares it.

    Parameters
    ----------
    fast, slow : estimates from bursts of both kinds.
    spared : the fast ones were no faster than the link before is known to be.
    """
    if fast is None or fast.at_least or spared:
        return fast
    return slow


def limit(near: Estimate, far: Estimate, path: float) -> Literal["near", "far"] | None:
    """The one of its two links that limits a path; None if that is unknown.

    Parameters
    ----------
    path : its own rate.
    """
    alike = abs(near.value - far.value) <= SAME * max(near.value, far.value)
    if not (near.at_least or far.at_least) and _same(near, far):
        return None
    if not alike or near.at_least == far.at_least:
        return "near" if near.value < far.value or _same(near, far) else "far"
    known: tuple[Estimate, Literal["near", "far"]] = (far, "far") if near.at_least else (near, "near")
    # A little slower than the link that is known: the other one, of which nothing else is known, may be why.
    return known[1] if path >= (1 - _noise(near, far)) * known[0].value else None


def _same(estimate: Estimate, other: Estimate) -> bool:
    return abs(estimate.value - other.value) <= _noise(estimate, other) * max(estimate.value, other.value)


def _noise(estimate: Estimate, other: Estimate) -> float:
    """By how much two estimates of the same rate may differ, as a part of it."""
    return min(SAME, max(_NOISE, estimate.spread, other.spread))


def round_trip(samples: Sequence[Sequence[int]], least_ns: Sequence[int | None]) -> RoundTrip | None:
    """Round-trip times from what several flows reported, and the smallest of each flow."""
    times = sorted(time for flow in samples for time in flow)
    lowest = [least for least in least_ns if least is not None]
    if not times or not lowest:
        return None
    return RoundTrip(
        min_ns=min(lowest),
        median_ns=round(quantile(times, 0.5)),
        p95_ns=round(quantile(times, 0.95)),
        samples=len(times),
    )


def propagation_ns(min_ns: int, packet_bytes: int, rates_bps: Sequence[float | None]) -> int:
    """A round-trip time without the transmission time of the packet on each link."""
    on_links = sum(8e9 * packet_bytes / rate for rate in rates_bps if rate)
    return max(0, round(min_ns - on_links))


def transfer_rate(arrived: Sequence[tuple[int, int]], share_of_payload: float) -> float | None:
    """Rate of the link that a TCP transfer filled, bit/s, from bytes per millisecond; None if too short.

    The first part, while the window grows, is left out.
    """
    if not arrived or arrived[-1][0] < 20:
        return None
    begin, end = 0.4 * arrived[-1][0], arrived[-1][0]
    bits = sum(8 * count for at, count in arrived if at > begin)
    return bits / ((end - begin) / 1e3) / share_of_payload


def mtu(arrived: Sequence[int], refused: Sequence[int]) -> tuple[int | None, int | None]:
    """Largest size that arrived, and the smallest above it that did not."""
    largest = max(arrived, default=None)
    above = [size for size in refused if largest is not None and size > largest]
    return largest, min(above, default=None)


class LinkRates(msgspec.Struct, frozen=True, kw_only=True):
    """Rates of access links by number of the interface, and what limits single paths beyond both ends."""

    near: tuple[Estimate | None, ...]
    far: tuple[Estimate | None, ...]
    core: dict[tuple[int, int], float]


def link_rates(
    paths: Mapping[tuple[int, int], Estimate],
    near_together: Mapping[int, Estimate],
    far_together: Mapping[int, Estimate],
    near: int,
    far: int,
) -> LinkRates:
    """Rates of the links that paths in one direction share.

    A link is as fast as the fastest of its paths, and at least as fast as several of them together.

    Parameters
    ----------
    paths : rate by number of the near (sending) and of the far interface.
    near_together, far_together : rate of all paths of an interface at the same time, where it was measured.
    near, far : how many interfaces.
    """
    by_near = [{j: found for (i, j), found in paths.items() if i == own} for own in range(near)]
    by_far = [{i: found for (i, j), found in paths.items() if j == own} for own in range(far)]
    ends = (
        [_link(found, near_together.get(own)) for own, found in enumerate(by_near)],
        [_link(found, far_together.get(own)) for own, found in enumerate(by_far)],
    )
    settled = (
        [_settled(own, by_near[number], ends[1]) for number, own in enumerate(ends[0])],
        [_settled(own, by_far[number], ends[0]) for number, own in enumerate(ends[1])],
    )
    core = {}
    for (i, j), found in paths.items():
        narrowest = min(end.value for end in (ends[0][i], ends[1][j]) if end is not None)
        if found.value < (1 - SAME) * narrowest:
            core[i, j] = found.value
    return LinkRates(near=tuple(settled[0]), far=tuple(settled[1]), core=core)


def _link(paths: Mapping[int, Estimate], together: Estimate | None) -> Estimate | None:
    """The link of an interface, from its paths alone and together."""
    if not paths:
        return None
    fastest = max(paths.values(), key=lambda estimate: estimate.value)
    wanted = sum(path.value for path in paths.values())
    if len(paths) == 1 or together is None:
        return msgspec.structs.replace(fastest, at_least=True)
    if together.value <= (1 + SAME) * fastest.value:
        # Together they are no faster than one of them: the link is the limit of both measurements, unless the
        # others are so slow that they make no difference.
        return msgspec.structs.replace(fastest, at_least=wanted <= (1 + SAME) * fastest.value)
    if together.low <= (1 + SAME) * fastest.value:
        # The attempts disagree on whether they are.
        return msgspec.structs.replace(fastest, at_least=True)
    scale = together.value / fastest.value
    return msgspec.structs.replace(
        fastest,
        value=together.value,
        low=min(together.low, fastest.low * scale),
        high=max(together.high, fastest.high * scale),
        at_least=together.high >= (1 - SAME) * wanted,
    )


def _settled(
    link: Estimate | None, paths: Mapping[int, Estimate], others: Sequence[Estimate | None]
) -> Estimate | None:
    """The same, no lower bound if it is the limit of its only path, whose other end is faster."""
    if link is None or len(paths) != 1:
        return link
    ((number, found),) = paths.items()
    other = others[number]
    faster = other is not None and other.value > (1 + SAME) * found.value
    return msgspec.structs.replace(link, at_least=found.at_least or not faster)
