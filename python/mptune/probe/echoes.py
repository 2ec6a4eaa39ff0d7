"""Small packets that are answered, and larger ones: which paths let datagrams through, and of which size.

First in a hurry (`greet`); at the end, when rates are known, as many as there is time for (`measure_losses`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mptune.probe import estimates, orders
from mptune.probe.ends import ENDS, End, Ends, Flow, Result, host_of
from mptune.probe.estimates import Loss, RoundTrip
from mptune.probe.preparation import Prepared

_MS = 1_000_000
#: Round trips longer than this are not waited for, ns.
_LONGEST_RTT_NS = 1_500 * _MS
#: Enough echoes for a path: a loss of 0.1 % is known within a factor of 2.
_ENOUGH_ECHOES = 30_000
#: Seconds kept for the end.
END_S = 6.0


@dataclass
class Greeted:
    """Result of the first echoes.

    Attributes
    ----------
    udp : paths that let datagrams through both ways, ascending.
    rtts : by path, idle.
    sources : by path, the address that the receiver saw.
    mtus : by the end that sends and path: the largest packet that arrived whole, and the smallest larger one
        that did not (None if all that were tried arrived).
    """

    udp: list[int] = field(default_factory=list)
    rtts: dict[int, RoundTrip] = field(default_factory=dict)
    sources: dict[int, str] = field(default_factory=dict)
    mtus: dict[End, dict[int, tuple[int | None, int | None]]] = field(default_factory=dict)

    def rtt_ns(self, path: int) -> int:
        """Round-trip time; the longest there can be where it is not known."""
        rtt = self.rtts.get(path)
        return _LONGEST_RTT_NS if rtt is None else rtt.median_ns

    @property
    def longest_ns(self) -> int:
        """Round-trip time of the longest path."""
        return max((self.rtt_ns(path) for path in self.udp), default=0)

    @property
    def apart_ns(self) -> int:
        """Largest difference between the round-trip times of two paths."""
        times = [self.rtt_ns(path) for path in self.udp]
        return max(times) - min(times) if times else 0


def greet(prepared: Prepared) -> Greeted:
    """Paths that pass datagrams, their rough round-trip times, and their largest packets."""
    greeted = answered(prepared.ends, {path: prepared.least_bytes(path) for path in prepared.possible})
    for end in ENDS:
        greeted.mtus[end] = _mtus(prepared, greeted, end)
    return greeted


def answered(ends: Ends, sizes: Mapping[int, int]) -> Greeted:
    """Paths that pass datagrams, and their rough round-trip times; the receiver learns the other ends.

    Parameters
    ----------
    sizes : bytes of a datagram of each path.
    """
    greeted = Greeted()
    waiting = list(sizes)
    for _ in range(2):
        flows = [Flow(path, 5, sizes[path], 20 * _MS, 0, True, False) for path in waiting]
        sent, sources = ends.send("sender", flows, wait_ns=_LONGEST_RTT_NS, quiet_ns=100 * _MS)
        for result in sent:
            if result.sent.answered:
                path = result.flow.path
                greeted.udp.append(path)
                if (source := sources[path]) is not None:
                    greeted.sources[path] = host_of(source)
                if (rtt := round_trip(result)) is not None:
                    greeted.rtts[path] = rtt
        waiting = [path for path in waiting if path not in greeted.udp]
    greeted.udp.sort()
    return greeted


def _paths_of_link(prepared: Prepared, udp: Sequence[int]) -> Iterator[int]:
    """Number of paths that share each access link; at least 1."""
    yield 1
    for end in ENDS:
        yield from Counter(prepared.number(end, path, near=True) for path in udp).values()


def round_trip(result: Result) -> RoundTrip | None:
    """Round-trip time of answered packets; None if none was."""
    return estimates.round_trip([result.sent.rtt_ns], [result.sent.min_rtt_ns])


def _mtus(prepared: Prepared, greeted: Greeted, end: End) -> dict[int, tuple[int | None, int | None]]:
    """The largest packets that arrive whole, in one direction."""
    udp = greeted.udp
    tried: dict[int, list[int]] = {path: [prepared.nic(end, path).mtu] for path in udp}
    arrived: dict[int, set[int]] = {path: {prepared.least_bytes(path)} for path in udp}
    missing: dict[int, set[int]] = {path: set() for path in udp}
    for step in range(3):
        flows = [
            Flow(path, 3 if step == 0 else 2, min(size, 9000), 10 * _MS, number * 25 * _MS, False, False)
            for path, sizes in tried.items()
            for number, size in enumerate(sizes)
        ]
        sent, _ = prepared.ends.send(end, flows, quiet_ns=greeted.longest_ns + 200 * _MS)
        for result in sent:
            known = arrived if result.arrived.received else missing
            known[result.flow.path].add(result.flow.bytes)
        tried = {}
        for path in udp:
            largest, above = estimates.mtu(sorted(arrived[path]), sorted(missing[path]))
            assert largest is not None
            if above is not None and above > largest + 1:
                least = prepared.least_bytes(path)
                tried[path] = orders.ladder(above, least) if step == 0 else orders.between(largest, above)
    return {path: estimates.mtu(sorted(arrived[path]), sorted(missing[path])) for path in udp}


@dataclass(frozen=True)
class Losses:
    """Losses by the end that sends and path, and round-trip times by path, as far as echoes came back."""

    losses: Mapping[End, Mapping[int, Loss]]
    rtts: Mapping[int, RoundTrip]


def measure_losses(prepared: Prepared, greeted: Greeted, rates: Mapping[int, Sequence[float]]) -> Losses:
    """Echoes on all paths side by side, as long as there is time and data.

    Parameters
    ----------
    rates : by path, of its directions as far as they are known, bit/s.
    """
    udp, ends = greeted.udp, prepared.ends
    left = prepared.wish.data_bytes - ends.bytes
    shared = max(_paths_of_link(prepared, udp))
    seconds = max(2.0, prepared.left_s - END_S - 3 * greeted.longest_ns / 1e9)
    flows = []
    for number, path in enumerate(udp):
        size = prepared.least_bytes(path)
        interval_ns = orders.echo_interval_ns(rates[path], shared, size)
        most = min(_ENOUGH_ECHOES, seconds * 1e9 / interval_ns, left / (2 * size * len(udp)))
        start_ns = number * interval_ns // len(udp)
        flows.append(Flow(path, max(50, int(most)), size, interval_ns, start_ns, True, False))
    wait_ns = 2 * greeted.longest_ns + 500 * _MS
    results, _ = ends.send("sender", flows, wait_ns=wait_ns, quiet_ns=300 * _MS)
    losses: dict[End, dict[int, Loss]] = {end: {} for end in ENDS}
    rtts = {}
    for result in results:
        path, arrived = result.flow.path, result.arrived
        answers = arrived.received + arrived.duplicates
        losses["sender"][path] = Loss(sent=result.sent.sent, lost=result.sent.sent - arrived.received)
        losses["receiver"][path] = Loss(sent=answers, lost=max(0, answers - result.sent.answered))
        if (rtt := round_trip(result)) is not None:
            rtts[path] = rtt
    return Losses(losses, rtts)
