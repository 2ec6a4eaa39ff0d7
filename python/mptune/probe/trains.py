"""Trains of datagrams, one path and one direction after the other, because paths share links.

Trains of growing length give the rate of a path, several paths at once that of a shared link, bursts the
queue in front of a link. Their evaluation is in `estimates`; here they are sent and kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from mptune.probe import estimates, orders
from mptune.probe.echoes import Greeted
from mptune.probe.ends import ENDS, End, Flow
from mptune.probe.estimates import Estimate, Train
from mptune.probe.preparation import Prepared

#: Silence after which what is missing of a train is lost, beyond the longest round trip, ns.
_QUIET_NS = 400_000_000
#: Share of the data budget for rates.
FOR_RATES = 0.3
#: If trains disagree by more than this, more of them decide.
_AGREE = 0.06


class Trains:
    """The trains of a probe so far. Directions are named after the end that sends.

    Attributes
    ----------
    udp : paths that trains can take.
    sizes : of packets by end and path, bytes.
    """

    def __init__(self, prepared: Prepared, greeted: Greeted) -> None:
        self._prepared, self._greeted = prepared, greeted
        self.udp = greeted.udp
        self.sizes = {
            end: {path: min(greeted.mtus[end][path][0] or 1280, 1500) for path in self.udp} for end in ENDS
        }
        self._sent: dict[End, dict[int, list[Train]]] = {end: {} for end in ENDS}
        self._bursts: dict[End, dict[int, list[Train]]] = {end: {} for end in ENDS}

    def of(self, end: End, path: int) -> list[Train]:
        """All trains of a path, in their order."""
        return self._sent[end].get(path, [])

    def bursts(self, end: End, path: int) -> list[Train]:
        """Trains sent as fast as possible, which show queues."""
        return self._bursts[end].get(path, [])

    def rate(self, end: End, path: int) -> Estimate | None:
        """Estimates of a path from its trains; None if none arrived."""
        return estimates.rate(self.of(end, path))

    def measure_rates(self) -> None:
        """Trains of growing length on every path, and more where they disagree or were too slow."""
        apart_ns = self._greeted.apart_ns
        for end in ENDS:
            sizes = self.sizes[end]
            budget = FOR_RATES * self._prepared.wish.data_bytes / max(1, 2 * len(self.udp))
            self.send(end, orders.rough(self.udp, sizes, apart_ns), burst=True)
            self.send(end, self._next(end, 1, 0.2 * budget, paced=False), burst=True)
            self.send(end, self._next(end, 4, 0.8 * budget, paced=True))
            for path in self.udp:
                found = self.rate(end, path)
                if found is not None and estimates.disagree(self.of(end, path)) > _AGREE:
                    again = orders.trains({path: found.value}, sizes, 4, 0.8 * budget, 0, paced=True)
                    self.send(end, again)
                if found is not None and found.at_least:
                    # The path kept up with the trains: the first estimate was too low.
                    faster = orders.trains({path: 4 * found.value}, sizes, 2, 0.4 * budget, 0, paced=False)
                    self.send(end, faster, burst=True)

    def _next(self, end: End, count: int, budget: float, *, paced: bool) -> list[Flow]:
        rates = {path: found.value for path in self.udp if (found := self.rate(end, path)) is not None}
        return orders.trains(rates, self.sizes[end], count, budget, self._greeted.apart_ns, paced=paced)

    def send(self, end: End, flows: Sequence[Flow], *, burst: bool = False) -> list[Train]:
        """Send trains, and keep what arrived."""
        results, _ = self._prepared.ends.send(end, flows, quiet_ns=self._quiet_ns)
        for result in results:
            self._sent[end].setdefault(result.flow.path, []).append(result.train)
            if burst:
                self._bursts[end].setdefault(result.flow.path, []).append(result.train)
        return [result.train for result in results]

    def carried(self, end: End, rates: Mapping[int, float], budget: float, *, near: bool) -> Estimate | None:
        """Rate of several paths together, from a few attempts; None if no attempt shows it.

        Parameters
        ----------
        rates : of each path alone, bit/s.
        budget : bytes.
        near : they leave by one interface; otherwise they arrive by one.
        """
        # If they leave by one link they begin together; if they arrive by one they arrive together.
        greeted, count = self._greeted, len(rates)
        farthest = max(greeted.rtt_ns(path) for path in rates)
        starts = {path: 0 if near else (farthest - greeted.rtt_ns(path)) // 2 for path in rates}
        flows = orders.together(rates, self.sizes[end], starts, budget, greeted.apart_ns)
        results, _ = self._prepared.ends.send(end, flows, quiet_ns=self._quiet_ns)
        trains = [result.train for result in results]
        found = [
            estimates.joint_rate(trains[first : first + count], leaving=near)
            for first in range(0, len(trains), count)
        ]
        known = [rate for rate in found if rate is not None]
        if not known:
            return None
        return Estimate(value=median(known), low=min(known), high=max(known), samples=len(known))

    @property
    def _quiet_ns(self) -> int:
        return self._greeted.longest_ns + _QUIET_NS
