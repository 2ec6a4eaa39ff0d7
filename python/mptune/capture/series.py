"""Curves of each subflow over time, from a run's packets: what the network's edge has seen, whatever sent it.

Times count from the connection's first SYN, in seconds on a grid of equal steps; bytes are payload.

- assigned: bytes given to the subflow for the first time, by whatever schedules
- delivered: bytes that have arrived on it for the first time
- inflight: bytes sent that the sender does not know to have arrived (not acknowledged, nor selectively)
- rtt: what a round trip would take: the way of the data there, queues included, and the usual way back
- window: bytes that the receiver's window still allows, of the whole connection
"""

from __future__ import annotations

import bisect
from typing import Any

import msgspec

from mptune.capture._model import ACK, ARRIVED, NONE, SYN, Run

#: Step of the grid, seconds.
STEP_S = 0.005
#: A retransmission after the subflow was silent for this long is that of a timer (Linux `TCP_RTO_MIN`: 200 ms
#: from the last acknowledgement; a loss probe comes earlier).
_RTO_S = 0.15
#: A packet that has not left the network after this long was dropped by a queue that does not report drops.
_VANISHED_S = 5.0

Array = Any


class Subflow(msgspec.Struct, kw_only=True):
    """Curves and events of one subflow; arrays of times are in seconds and in order.

    Attributes
    ----------
    name : label of its path, with a number if the path has several.
    path : number of the path.
    assigned, delivered, inflight, rtt : on the grid; rtt is NaN before the first packet arrives.
    cwnd, ssthresh, srtt : samples on the grid (segments, segments, seconds), NaN where there are none.
    first_data : when it first carried data; None if never.
    drops, repeats, timeouts : when packets with data were lost or dropped, sent again, and sent again after
        silence.
    sent_at, arrived_at : when packets with data were sent, and when they arrived.
    acks_at : when acknowledgements were sent.
    """

    name: str
    path: int
    assigned: Array
    delivered: Array
    inflight: Array
    rtt: Array
    cwnd: Array
    ssthresh: Array
    srtt: Array
    first_data: float | None
    drops: Array
    repeats: Array
    timeouts: Array
    sent_at: Array
    arrived_at: Array
    acks_at: Array


class Curves(msgspec.Struct, kw_only=True):
    """All of a run.

    Attributes
    ----------
    times : the grid.
    window : bytes left of the receiver's window; NaN before the first acknowledgement.
    in_order : bytes acknowledged in the data sequence space when the receiver acknowledged them.
    segment : payload of a full segment.
    """

    times: Array
    window: Array
    in_order: Array
    segment: int
    subflows: dict[str, Subflow]


def curves(run: Run, labels: tuple[str, ...], until_s: float | None = None) -> Curves:
    """Curves of a run.

    Parameters
    ----------
    labels : of the paths.
    until_s : where the grid ends; None is where the run does.
    """
    import numpy as np

    packets = run.packets
    start = _start(packets)
    end_s = run.duration_ns / 1e9 if until_s is None else until_s
    times = np.arange(round(end_s / STEP_S) + 1) * STEP_S
    data = packets[packets["length"] > 0]
    segment = int(np.bincount(data["length"]).argmax()) if len(data) else 1
    subflows = {}
    for flow, (name, path) in _names(packets, labels).items():
        own = packets[packets["flow"] == flow]
        subflow = _subflow(own, name, path, times, start)
        _add_samples(subflow, _samples_of(run, name, path), times)
        subflows[name] = subflow
    window, in_order = _connection(packets, times, start)
    return Curves(times=times, window=window, in_order=in_order, segment=segment, subflows=subflows)


def _start(packets: Array) -> int:
    """Time of the connection's first SYN, whichever end opens it."""
    syns = packets[packets["flags"] & (SYN | ACK) == SYN]
    return int(syns["entered"][0]) if len(syns) else int(packets["entered"][0]) if len(packets) else 0


def _names(packets: Array, labels: tuple[str, ...]) -> dict[int, tuple[str, int]]:
    """Name and path of each subflow, in order of their first packets; only those that carried data."""
    import numpy as np

    carried = packets[(packets["length"] > 0) & (packets["route"] % 2 == 0)]
    flows, first = np.unique(carried["flow"], return_index=True)
    names: dict[int, tuple[str, int]] = {}
    seen: dict[int, int] = {}
    for flow, index in zip(flows.tolist(), first.tolist(), strict=True):
        path = int(carried["route"][index]) // 2
        seen[path] = seen.get(path, 0) + 1
        label = labels[path] if path < len(labels) else str(path)
        names[flow] = (label if seen[path] == 1 else f"{label} #{seen[path]}", path)
    return names


def _seconds(nanoseconds: Array, start: int) -> Array:
    return (nanoseconds.astype("f8") - start) / 1e9


def _steps(times: Array, at: Array, values: Array, before: float = 0.0) -> Array:
    """A curve on the grid that has each value from its time on."""
    import numpy as np

    if not len(at):
        return np.full(len(times), before)
    index = np.searchsorted(at, times, side="right") - 1
    return np.where(index >= 0, values[np.maximum(index, 0)].astype("f8"), before)


def _highest(values: Array) -> Array:
    """The largest so far."""
    import numpy as np

    return np.maximum.accumulate(values) if len(values) else values


def _subflow(own: Array, name: str, path: int, times: Array, start: int) -> Subflow:
    import numpy as np

    sent = own[(own["route"] % 2 == 0) & (own["length"] > 0)]
    back = own[(own["route"] % 2 == 1) & (own["fate"] == ARRIVED) & (own["flags"] & SYN == 0)]
    back = back[np.argsort(back["left"], kind="stable")]
    sent_at = _seconds(sent["entered"], start)
    ends = sent["seq"] + sent["length"]
    highest = _highest(ends)
    before = np.concatenate([[0], highest[:-1]]).astype("u8") if len(sent) else highest
    fresh = np.where(ends > before, ends - np.maximum(before, sent["seq"]), 0)
    retransmitted = ends <= before
    arrived = sent[sent["fate"] == ARRIVED]
    arrived = arrived[np.argsort(arrived["left"], kind="stable")]
    _, first = np.unique(arrived["seq"], return_index=True)
    new = np.zeros(len(arrived), bool)
    new[first] = True
    arrived_at = _seconds(arrived["left"], start)
    gone = _vanished(sent) | (sent["fate"] > ARRIVED)
    repeats = sent_at[retransmitted]
    quiet = np.diff(sent_at, prepend=sent_at[:1]) > _RTO_S
    return Subflow(
        name=name,
        path=path,
        assigned=_steps(times, sent_at, np.cumsum(fresh)),
        delivered=_steps(times, arrived_at, np.cumsum(arrived["length"] * new)),
        inflight=_inflight(times, sent_at, highest, back, start),
        rtt=_round_trips(times, arrived, arrived_at, back),
        cwnd=np.full(len(times), np.nan),
        ssthresh=np.full(len(times), np.nan),
        srtt=np.full(len(times), np.nan),
        first_data=float(sent_at[0]) if len(sent_at) else None,
        drops=sent_at[gone],
        repeats=repeats,
        timeouts=sent_at[retransmitted & quiet],
        sent_at=sent_at,
        arrived_at=arrived_at,
        acks_at=_seconds(back["entered"], start),
    )


def _vanished(sent: Array) -> Array:
    """Packets that a queue that manages itself has dropped: long under way."""
    last = int(sent["entered"][-1]) if len(sent) else 0
    return (sent["fate"] == 0) & (sent["entered"] + int(_VANISHED_S * 1e9) < last)


def _inflight(times: Array, sent_at: Array, highest: Array, back: Array, start: int) -> Array:
    """Data sent less data acknowledged."""
    import numpy as np

    back_at = _seconds(back["left"], start)
    acked = _highest(back["ack"])
    sacked = _sacked(back, acked)
    known = _steps(times, back_at, acked.astype("f8") + sacked)
    return np.maximum(_steps(times, sent_at, highest) - known, 0.0)


def _sacked(back: Array, acked: Array) -> Array:
    """Bytes that are selectively acknowledged after each acknowledgement."""
    import numpy as np

    total = np.zeros(len(back))
    with_blocks = np.flatnonzero((back["sack"] != 0).any(axis=(1, 2)))
    if not len(with_blocks):
        return total
    ranges: list[tuple[int, int]] = []
    blocks, acks, limits = back["sack"].tolist(), back["ack"].tolist(), acked.tolist()
    for index in range(int(with_blocks[0]), len(back)):
        una = limits[index]
        for low, high in blocks[index]:
            if high > low and acks[index] + high > una:
                _insert(ranges, acks[index] + low, acks[index] + high)
        while ranges and ranges[0][1] <= una:
            ranges.pop(0)
        total[index] = sum(high - max(low, una) for low, high in ranges)
    return total


def _insert(ranges: list[tuple[int, int]], low: int, high: int) -> None:
    """Add a range to disjoint ones in order."""
    first = bisect.bisect_left(ranges, (low, low))
    if first and ranges[first - 1][1] >= low:
        first -= 1
    last = first
    while last < len(ranges) and ranges[last][0] <= high:
        low, high = min(low, ranges[last][0]), max(high, ranges[last][1])
        last += 1
    ranges[first:last] = [(low, high)]


def _round_trips(times: Array, arrived: Array, arrived_at: Array, back: Array) -> Array:
    """The way there of the last packet that arrived, and the median way back."""
    import numpy as np

    if not len(arrived) or not len(back):
        return np.full(len(times), np.nan)
    there = (arrived["left"] - arrived["entered"]).astype("f8") / 1e9
    return_s = float(np.median((back["left"] - back["entered"]).astype("f8"))) / 1e9
    return _steps(times, arrived_at, there + return_s, np.nan)


def _connection(packets: Array, times: Array, start: int) -> tuple[Array, Array]:
    """Room in the window, and data in order, of the whole connection."""
    import numpy as np

    back = packets[(packets["route"] % 2 == 1) & (packets["data_ack"] != NONE)]
    sent = packets[(packets["route"] % 2 == 0) & (packets["data"] != NONE) & (packets["length"] > 0)]
    in_order = _steps(times, _seconds(back["entered"], start), _highest(back["data_ack"]))
    heard = back[back["fate"] == ARRIVED]
    heard = heard[np.argsort(heard["left"], kind="stable")]
    if not len(heard) or not len(sent):
        return np.full(len(times), np.nan), in_order
    edge = np.maximum.accumulate(heard["data_ack"] + heard["window"])
    right = _steps(times, _seconds(heard["left"], start), edge, np.nan)
    ends = np.maximum.accumulate(sent["data"] + sent["length"])
    return right - _steps(times, _seconds(sent["entered"], start), ends), in_order


def _samples_of(run: Run, name: str, path: int) -> Array:
    """The samples of a subflow: of several on a path the one with its number."""
    import numpy as np

    samples = run.samples[run.samples["path"] == path]
    numbers = np.unique(samples["subflow"])
    place = int(name.rpartition("#")[2]) - 1 if " #" in name else 0
    return samples[samples["subflow"] == numbers[place]] if place < len(numbers) else samples[:0]


def _add_samples(subflow: Subflow, samples: Array, times: Array) -> None:
    import numpy as np

    at = samples["t"].astype("f8") / 1e9
    subflow.cwnd = _steps(times, at, samples["cwnd"], np.nan)
    subflow.ssthresh = _steps(times, at, samples["ssthresh"], np.nan)
    subflow.srtt = _steps(times, at, samples["srtt"].astype("f8") / 1e9, np.nan)
