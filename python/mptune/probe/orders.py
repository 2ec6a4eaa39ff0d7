"""Packets to send: trains, bursts and echoes, depending on what is known of the paths. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mptune.probe.ends import Flow

_MS = 1_000_000
#: First trains, when nothing is known: packets, how many, and time from one to the next.
_ROUGH_PACKETS, _ROUGH_TRAINS, _ROUGH_GAP_NS = 12, 2, 120 * _MS
#: A train is sent faster than its path forwards it by this factor, one of several at the same time by less.
_FASTER, _FASTER_TOGETHER = 1.5, 1.3
#: Repetitions of measuring several at the same time, and packets that are enough of each at any rate.
_TIMES_TOGETHER, _PACKETS_TOGETHER = 3, 60
#: Length of a train, if the data budget allows it, and its fewest packets.
_TRAIN_S, _LEAST_PACKETS = 0.06, 20
#: Longest trains of several paths at the same time.
_LONGEST_TOGETHER_S = 0.3
#: Pause after a train, for what its path still holds.
_PAUSE_NS = 25 * _MS
#: Longest queue that is filled, seconds: the traffic of others waits in it.
_LONGEST_QUEUE_S = 1.5
#: First burst, bytes, and how far it stays below the rate of the link before the queue.
_FIRST_BURST, _BELOW = 30_000, 0.95
#: A burst that spares the queues of links before: slowest and fastest pace, how much more than the queue is
#: to stay behind, and its longest time.
_HARDLY_FASTER, _SLOWER, _AND_MORE, _LONGEST_BURST_S = 1.08, 1.3, 1.5, 3.0
#: A pace that is safe below a known rate, and the least above a path's that is worth a burst; packets that it
#: is to leave waiting at the least.
_HARDLY_BELOW, _LEAST_ABOVE, _LEAST_BACKLOG = 0.98, 0.04, 5
#: Echoes take at most this part of a link, and come at most so often on a path.
_ECHO_SHARE, _ECHOES_PER_S = 0.1, 1200
#: Sizes at which tunnels and lines cut packets, from the largest.
_LADDER = (1500, 1492, 1480, 1476, 1472, 1460, 1450, 1440, 1430, 1420, 1412, 1400, 1380, 1360, 1320, 1280)


def rough(paths: Sequence[int], sizes: Mapping[int, int], apart_ns: int) -> list[Flow]:
    """A few short trains on each path, one after the other.

    Parameters
    ----------
    apart_ns : pause between two paths, which share links: how much longer one may take than the other.
    """
    flows, start_ns = [], 0
    for path in paths:
        for _ in range(_ROUGH_TRAINS):
            flows.append(Flow(path, _ROUGH_PACKETS, sizes[path], start_ns=start_ns))
            start_ns += _ROUGH_GAP_NS
        start_ns += apart_ns
    return flows


def trains(
    rates: Mapping[int, float],
    sizes: Mapping[int, int],
    count: int,
    budget_bytes: float,
    apart_ns: int,
    *,
    paced: bool,
    seconds: float = _TRAIN_S,
) -> list[Flow]:
    """Trains on each path, one after the other.

    Parameters
    ----------
    rates : of each path as far as known, bit/s.
    count : of trains on each path.
    budget_bytes : for one path.
    apart_ns : pause between two paths, which share links: how much longer one may take than the other.
    paced : a little faster than the path; otherwise as fast as possible.
    """
    flows, start_ns = [], 0
    for path, rate in rates.items():
        packets = train_packets(rate, sizes[path], budget_bytes / count, seconds)
        interval_ns = round(8e9 * sizes[path] / (_FASTER * rate)) if paced else 0
        for _ in range(count):
            flows.append(Flow(path, packets, sizes[path], interval_ns, start_ns))
            start_ns += round(8e9 * packets * sizes[path] / rate) + _PAUSE_NS
        start_ns += apart_ns
    return flows


def train_packets(rate: float, size: int, budget_bytes: float, seconds: float = _TRAIN_S) -> int:
    """Packets of a train of the intended length, within the budget."""
    wanted = rate * seconds / (8 * size)
    return max(_LEAST_PACKETS, round(min(wanted, budget_bytes / size)))


def together(
    rates: Mapping[int, float],
    sizes: Mapping[int, int],
    starts_ns: Mapping[int, int],
    budget_bytes: float,
    apart_ns: int,
) -> list[Flow]:
    """Trains on several paths at the same time, each a little faster than its path alone; a few times.

    Parameters
    ----------
    starts_ns : of each path after the first.
    budget_bytes : for all of them.
    apart_ns : pause until the next time: how much longer one path may take than another.
    """
    total = sum(rates.values()) * _FASTER_TOGETHER
    enough = max(
        8 * _PACKETS_TOGETHER * sizes[path] / (_FASTER_TOGETHER * rate) for path, rate in rates.items()
    )
    wanted = max(_TRAIN_S, min(enough, _LONGEST_TOGETHER_S))
    seconds = min(wanted, 8 * budget_bytes / total / _TIMES_TOGETHER)
    flows, begin_ns = [], 0
    for _ in range(_TIMES_TOGETHER):
        last_ns = 0
        for path, rate in rates.items():
            interval_ns = round(8e9 * sizes[path] / (_FASTER_TOGETHER * rate))
            packets = max(_LEAST_PACKETS, round(seconds * 1e9 / interval_ns))
            flows.append(Flow(path, packets, sizes[path], interval_ns, begin_ns + starts_ns[path]))
            last_ns = max(last_ns, starts_ns[path] + packets * interval_ns)
        # As long as a link takes to carry all of it that each path alone could fill.
        begin_ns += round(_FASTER_TOGETHER * len(rates) * last_ns) + _PAUSE_NS + apart_ns
    return flows


def burst(
    path: int, size: int, rate: float, pace: float | None, sent: int, budget_bytes: float
) -> Flow | None:
    """The next burst for a queue that has not overflowed yet; None if there is no room for one.

    Twice as many packets as before: what a queue drops was sent for nothing.

    Parameters
    ----------
    rate : of the link behind the queue.
    pace : at which packets are sent, above `rate`; None for as fast as possible.
    sent : bytes of the largest burst so far, 0 if there was none.
    """
    # The queue holds what arrives faster than it leaves.
    takes = 1.0 if pace is None else 1 - rate / pace
    sent = max(sent, round(_FIRST_BURST / takes / 2))
    most = min(budget_bytes, rate * _LONGEST_QUEUE_S / 8 / takes)
    wanted = 2 * sent if 4 * sent <= most else most
    if wanted < 1.3 * sent:
        return None
    return Flow(path, round(wanted / size) + 2, size, 0 if pace is None else round(8e9 * size / pace))


def slower_burst(
    path: int, size: int, rate: float, before: float, queue_bytes: int, budget_bytes: float
) -> Flow | None:
    """A burst hardly faster than its path, for the queue that was found; None if there is no room.

    As slow as the room allows, unless it is known what the link before takes. With less room it is shorter,
    and may not fill the queue; what was found may be far more than that.

    Parameters
    ----------
    before : the link before the queue is at least so fast.
    """
    most = min(budget_bytes, rate * _LONGEST_BURST_S / 8)
    wanted = _AND_MORE * queue_bytes
    if most <= 0:
        return None
    safe = min(_HARDLY_BELOW * before, _SLOWER * rate)
    affordable = rate / max(1 - wanted / most, 1 / _SLOWER)
    pace = safe if safe >= (1 + _LEAST_ABOVE) * rate else max(affordable, _HARDLY_FASTER * rate)
    takes = 1 - rate / pace
    packets = min(round(wanted / takes / size), int(most / size))
    if packets * takes < _LEAST_BACKLOG:
        return None
    return Flow(path, packets, size, round(8e9 * size / pace))


def burst_pace(rate: float, before: float, *, at_least: bool) -> float:
    """Pace of a burst for a queue behind another link: that one's queue is not to fill.

    Parameters
    ----------
    before : rate of the link before, or what it is at least.
    """
    below = max(_BELOW * before, 1.02 * rate)
    return max(_FASTER * rate, below) if at_least else below


def spares(pace: float, before: float) -> bool:
    """True if a burst of this pace leaves the queue of a link empty that is at least so fast."""
    return pace <= _HARDLY_BELOW * before


def echo_interval_ns(rates: Sequence[float], paths_of_link: int, size: int) -> int:
    """Time between two echoes on a path: they must find idle links.

    Parameters
    ----------
    rates : of the links of the path.
    paths_of_link : how many paths share a link at most.
    """
    slowest = min(rates, default=1e6)
    per_second = min(_ECHOES_PER_S, _ECHO_SHARE * slowest / (8 * size * paths_of_link))
    return round(1e9 / max(per_second, 1.0))


def ladder(most: int, least: int) -> list[int]:
    """Sizes to try where the largest did not arrive."""
    return [size for size in _LADDER if least <= size < most]


def between(arrived: int, missing: int) -> list[int]:
    """Sizes between one that arrived and one that did not."""
    step = max(1, (missing - arrived) // 40)
    return list(range(arrived + step, missing, step))
