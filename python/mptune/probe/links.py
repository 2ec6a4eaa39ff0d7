"""The rates of paths, and of the links that they consist of: at the sending end, at the other, and between.

Paths of one interface share its link, so what they carry together separates it from those behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mptune.probe import estimates
from mptune.probe.ends import ENDS, End
from mptune.probe.estimates import Estimate, LinkRates
from mptune.probe.preparation import Prepared
from mptune.probe.trains import Trains

#: Share of the data budget for several paths at once.
_FOR_TOGETHER = 0.1

#: A link: "near", "far" or "core", and the numbers of its interfaces.
Link = tuple[str, int, int]


@dataclass(frozen=True)
class Rate:
    """The rate of one direction of a path, None if it is not known, and how it was found or why not."""

    estimate: Estimate | None
    how: str


class Links:
    """Rates of paths and links as they are known so far, by the end that sends."""

    def __init__(self, prepared: Prepared, trains: Trains) -> None:
        self._prepared, self._trains = prepared, trains
        #: Common rate of an interface's paths, by its number: on the sending and on the receiving side.
        self._together: dict[End, tuple[dict[int, Estimate], dict[int, Estimate]]] = {
            end: ({}, {}) for end in ENDS
        }
        self.paths: dict[End, dict[int, Rate]] = {
            end: {path: _by_trains(trains.rate(end, path)) for path in trains.udp} for end in ENDS
        }
        self._links = {end: self._rates(end) for end in ENDS}

    def __getitem__(self, end: End) -> LinkRates:
        """Rates of the links in the direction of an end."""
        return self._links[end]

    def share(self) -> None:
        """Measure what paths of one interface carry together."""
        groups = [
            (end, near, members)
            for end in ENDS
            for near in (True, False)
            for members in self._groups(end, near=near)
        ]
        for end, near, members in groups:
            rates = {
                path: found.value for path in members if (found := self._trains.rate(end, path)) is not None
            }
            if len(rates) > 1:
                budget = _FOR_TOGETHER * self._prepared.wish.data_bytes / len(groups)
                carried = self._trains.carried(end, rates, budget, near=near)
                if carried is not None:
                    number = self._prepared.number(end, members[0], near=near)
                    self._together[end][0 if near else 1][number] = carried
        self.update({})

    def update(self, paths: Mapping[tuple[End, int], Rate]) -> None:
        """Take rates of paths that are known better, and what follows for the links."""
        for (end, path), rate in paths.items():
            self.paths[end][path] = rate
        self._links = {end: self._rates(end) for end in ENDS}

    def rate(self, end: End, path: int) -> Estimate | None:
        """Rate of one direction of a path."""
        rate = self.paths[end].get(path)
        return None if rate is None else rate.estimate

    def near(self, end: End, path: int) -> Estimate | None:
        """Rate of the first link of a path."""
        return self._links[end].near[self._prepared.number(end, path, near=True)]

    def limit(self, end: End, path: int) -> Link | None:
        """The link that limits a path: at the sending end, at the arriving end, or between them."""
        i, j = (self._prepared.number(end, path, near=near) for near in (True, False))
        links = self._links[end]
        near, far = links.near[i], links.far[j]
        if (i, j) in links.core:
            return "core", i, j
        if near is None or far is None:
            return None
        rate = self.rate(end, path)
        which = estimates.limit(near, far, near.value if rate is None else rate.value)
        return None if which is None else (which, i if which == "near" else j, 0)

    def _groups(self, end: End, *, near: bool) -> list[list[int]]:
        """Paths of the same interface, each pair of interfaces once: both families have the same links."""
        found: dict[int, list[int]] = {}
        routes = self._prepared.paths
        pairs = {(routes[path].local, routes[path].remote): path for path in reversed(self._trains.udp)}
        for path in sorted(pairs.values()):
            found.setdefault(self._prepared.number(end, path, near=near), []).append(path)
        return [members for members in found.values() if len(members) > 1]

    def _rates(self, end: End) -> LinkRates:
        """Rates of the links by those of the paths; of two families those over IPv4, which come first."""
        prepared, other = self._prepared, ENDS[1 - ENDS.index(end)]
        rates: dict[tuple[int, int], Estimate] = {}
        for path, rate in sorted(self.paths[end].items()):
            if rate.estimate is not None:
                i, j = (prepared.number(end, path, near=near) for near in (True, False))
                rates.setdefault((i, j), rate.estimate)
        near, far = len(prepared.nics[end]), len(prepared.nics[other])
        return estimates.link_rates(rates, *self._together[end], near, far)


def _by_trains(rate: Estimate | None) -> Rate:
    return Rate(rate, "no train arrived" if rate is None else f"{rate.samples} trains")
