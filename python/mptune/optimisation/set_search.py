"""A search for better sets of subflows, from those that the impact factors propose.

An impact factor states what one subflow is worth beside all the others. Which of them are best together it
does not state: of two that share a bottleneck each is worth nothing beside the other. So the fastest sets are
changed in one place (a subflow more, a subflow fewer, one in exchange for another that shares an interface
with it, or another congestion control) as long as that leads to faster ones. Where there are few sets, all of
them are tried. Nothing is measured here.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from mptune.topology import Topology
from mptune.trial import Combination

#: Up to this many combinations all are tried: every set of four subflows with six congestion controls.
_ALL = 90

#: The fastest combinations whose neighbours are tried.
_BEAM = 4

#: Times that all of their neighbours are tried, at most.
_STEPS = 6

#: The fastest of those that are known already from which the search starts.
_START = 4

#: A set is worth more trials if it comes this close to the fastest one.
_NEAR = 0.9

#: Sets that are worth more trials, at most.
_FOUND = 4


class SetSearch:
    """Ask what to measure, give it the results, until nothing is asked.

    Parameters
    ----------
    ccs : congestion controls that may be used.
    optional : congestion control -> the set that PCDC has of itself.
    mesh : all subflows together may be used, as FullMesh.
    """

    def __init__(
        self, topology: Topology, ccs: Sequence[str], optional: Mapping[str, tuple[str, ...]], *, mesh: bool
    ) -> None:
        self._paths = {path.label: path for path in topology.paths}
        self._ccs = tuple(ccs)
        self._optional = optional
        self._mesh = mesh
        self._given: dict[Combination, float] = {}
        self._start: list[Combination] = []
        self._steps = 0

    def start(self, given: Mapping[Combination, float]) -> None:
        """Start from the fastest of these; their throughputs may be of other trials than those to come."""
        known = [each_combination for each_combination in given if self._set(each_combination)]
        self._start = sorted(known, key=lambda combination: (-given[combination], combination))[:_START]

    def ask(self) -> list[Combination]:
        """Sets to measure next, each once; empty at the end."""
        if not self._given:
            return self._everything() or self._start
        if self._steps == _STEPS:
            return []
        self._steps += 1
        asked = (other for combination in self._beam() for other in self._neighbours(combination))
        return [fromkey for fromkey in dict.fromkeys(asked) if fromkey not in self._given]

    def tell(self, given: Mapping[Combination, float]) -> None:
        """Throughputs of what was asked for, with the best buffer of each, Mbit/s."""
        self._given |= given

    def around(self, combination: Combination) -> list[Combination]:
        """Combinations that differ in one place; none where the path manager chooses."""
        return list(self._neighbours(combination)) if self._set(combination) else []

    def found(self, known: Iterable[Combination]) -> list[Combination]:
        """Those near the fastest that are not known already, the fastest first."""
        fastest, without = self._fastest(), set(known)
        mark = _NEAR * max(self._given.values(), default=0.0)
        return [
            combination
            for combination in fastest
            if combination not in without and self._given[combination] >= mark
        ][:_FOUND]

    def _fastest(self) -> list[Combination]:
        return sorted(self._given, key=lambda combination: (-self._given[combination], combination))

    def _beam(self) -> list[Combination]:
        """The fastest ones; FullMesh and a PCDC that uses all subflows are one."""
        found: dict[tuple[frozenset[str], str, str], Combination] = {}
        for combination in self._fastest():
            found.setdefault((self._set(combination), combination.cc, combination.initial_path), combination)
        return list(found.values())[:_BEAM]

    def _everything(self) -> list[Combination]:
        """Every set with every congestion control, from every initial path; nothing if these are too many."""
        likes = {each_combination.initial_path: each_combination for each_combination in self._start}
        labels = tuple(self._paths)
        if (2 ** len(labels) - 1) * len(self._ccs) * len(likes) > _ALL:
            return []
        sets = [frozenset(some) for n in range(len(labels)) for some in itertools.combinations(labels, n + 1)]
        return [
            combination
            for like, cc, active in itertools.product(likes.values(), self._ccs, sets)
            for combination in self._combination(like, cc, active)
        ]

    def _neighbours(self, combination: Combination) -> Iterator[Combination]:
        active = self._set(combination)
        for cc in self._ccs:
            if cc != combination.cc:
                yield from self._combination(combination, cc, active)
        for labels in self._changed(active):
            yield from self._combination(combination, combination.cc, labels)

    def _changed(self, active: frozenset[str]) -> Iterator[frozenset[str]]:
        """Sets that differ in one subflow."""
        outside = [label for label in self._paths if label not in active]
        for label in sorted(active) if len(active) > 1 else ():
            yield active - {label}
        for label in outside:
            yield active | {label}
        for ours in sorted(active):
            yield from (active - {ours} | {other} for other in outside if self._share(ours, other))

    def _share(self, name: str, other: str) -> bool:
        """True if two subflows have an interface or a shared segment in common."""
        return self._paths[name].meets(self._paths[other])

    def _set(self, combination: Combination) -> frozenset[str]:
        """The subflows that carry data; empty where the path manager decides."""
        if combination.pm == "fullmesh":
            return frozenset(self._paths)
        if combination.pm != "pcdc":
            return frozenset()
        return frozenset(combination.subflows or self._optional.get(combination.cc, ()))

    def _combination(self, like: Combination, cc: str, active: frozenset[str]) -> Iterator[Combination]:
        """The combination with this set, as the sweep names it; nothing where it may not be used."""
        labels = tuple(label for label in self._paths if label in active)
        if len(labels) == len(self._paths):
            if self._mesh:
                yield Combination("fullmesh", cc, (), like.initial_path)
            return
        own = frozenset(labels) == frozenset(self._optional.get(cc, ()))
        yield Combination("pcdc", cc, () if own else labels, like.initial_path)
