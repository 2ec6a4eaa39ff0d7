"""One direction of a subflow: amount, rate, what was sent again, RTTs, and what two captures add."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from mptune.capture.connections._flows import RST, SYN, Way
from mptune.capture.connections._model import Traffic

if TYPE_CHECKING:
    from mptune.capture.connections._data import Direction
    from mptune.capture.connections._flows import Flow
    from mptune.capture.connections._grouping import Member

Array = Any

#: Part of the packets whose extra delay is not more than the jitter.
_JITTER = 0.99
#: Segments of which at least this part is the same at both ends are compared one by one.
_SAME = 0.5
#: Lengths are the lower bits of a key.
_LENGTH_BITS = 17
_LENGTHS = (1 << _LENGTH_BITS) - 1


def traffic(member: Member, number: int, end: int, direction: Direction) -> Traffic:
    """Data that an end sent on a subflow.

    Parameters
    ----------
    number : of the subflow.
    direction : of the same end.
    """
    flow, way = member.flow, member.way(end)
    sent = flow.sent(way)
    packets, loaded, repeated = sent.packets, sent.loaded, sent.repeated()
    lengths, at = packets["length"][loaded].astype("i8"), packets["at"][loaded]
    mine, arrived = direction.sent.member == number, direction.arrived.member == number
    answers = flow.sent(1 - way).packets
    usual = packets["flags"] & (SYN | RST) == 0
    found = Traffic(
        packets=len(loaded),
        bytes=int(lengths.sum()),
        mbps=_mbps(int(lengths.sum()), at),
        retransmitted=int(repeated.sum()),
        retransmitted_bytes=int(lengths[repeated].sum()),
        reinjected=int(direction.reinjected[mine].sum()),
        reinjected_bytes=int(direction.reinjected_bytes[mine].sum()),
        first_bytes=int(direction.first[arrived].sum()),
        unmapped=direction.sent.unmapped[number],
        zero_windows=int(((packets["window"] == 0) & usual).sum()),
        duplicate_acks=int(answers["repeated"].sum()),
    )
    found = _with_round_trips(found, flow, way)
    return _with_both(found, flow, way) if flow.both else found


def _mbps(size: int, at: Array) -> float | None:
    span = int(at[-1] - at[0]) if len(at) > 1 else 0
    return size * 8e3 / span if span > 0 else None


def _with_round_trips(found: Traffic, flow: Flow, way: int) -> Traffic:
    """RTTs, where they are seen near the end that sends."""
    import numpy as np

    nearer = flow.near.nearer()
    if not flow.both and nearer is not None and nearer != way:
        return found
    rtts = round_trips((flow.near, flow.far)[way].ways[way], (flow.near, flow.far)[way].ways[1 - way])[1]
    if not len(rtts):
        return found
    return msgspec.structs.replace(
        found, rtt_ms=float(rtts.min()) / 1e6, median_rtt_ms=float(np.median(rtts)) / 1e6
    )


def round_trips(there: Way, back: Way) -> tuple[Array, Array]:
    """Times of packets and of their acknowledgement after them, ns; not of what was sent again (Karn).

    Parameters
    ----------
    there, back : the two ways at one point.
    """
    import numpy as np

    loaded, repeated = there.loaded, there.repeated()
    once = loaded[~repeated]
    again = np.unique(there.start[loaded[repeated]])
    once = once[~np.isin(there.start[once], again)]
    acking = np.flatnonzero(back.ack >= 0)
    if not len(once) or not len(acking):
        return np.zeros(0, "i8"), np.zeros(0, "i8")
    reached = np.maximum.accumulate(back.ack[acking])
    place = np.searchsorted(reached, there.end[once])
    answered = place < len(acking)
    at = there.packets["at"][once[answered]]
    rtts = back.packets["at"][acking[place[answered]]] - at
    return at[rtts >= 0], rtts[rtts >= 0]


def _with_both(found: Traffic, flow: Flow, way: int) -> Traffic:
    """Losses and delays between two captures, where segments are the same at both."""
    import numpy as np

    sent, arrived = flow.sent(way), flow.arrived(way)
    other = _keys(arrived)
    keys, first, counts = np.unique(_keys(sent), return_index=True, return_counts=True)
    common, here, there = np.intersect1d(keys, other, return_indices=True)
    if not len(common):
        return found
    mine = sent.loaded
    once = counts[here] == 1
    delays = arrived.packets["at"][arrived.loaded[there]] - sent.packets["at"][mine[first[here]]]
    delays = delays[once]
    if len(delays):
        longer = np.quantile(delays - delays.min(), _JITTER)
        found = msgspec.structs.replace(
            found,
            jitter_ms=float(longer) / 1e6,
            delay_ms=float(delays.min()) / 1e6 if flow.one_clock else None,
        )
    # Large segments that a card cuts, or puts together, are not the same at both ends.
    if len(common) < _SAME * len(keys):
        return found
    # Those sent after the last one that is known to have arrived may still be under way.
    known = first <= first[here].max()
    arrived_of = np.zeros(len(keys), "i8")
    others, times = np.unique(other, return_counts=True)
    _, place, there = np.intersect1d(keys, others, assume_unique=True, return_indices=True)
    arrived_of[place] = times[there]
    lost = np.where(known, np.maximum(counts - arrived_of, 0), 0)
    return msgspec.structs.replace(
        found, lost=int(lost.sum()), lost_bytes=int((lost * (keys & _LENGTHS)).sum())
    )


def _keys(way: Way) -> Array:
    """Position and length of segments as one number each."""
    loaded = way.loaded
    return way.start[loaded] << _LENGTH_BITS | way.packets["length"][loaded].astype("i8") & _LENGTHS
