"""A short contest of sets of subflows: which one `mptune impact` ships, and `optimise --sets signs`.

By default the main job lets sets compete in its sweep instead (`mptune.optimisation.arms`).

An impact factor is what one subflow is worth beside all others, in the middle of a connection. It does not
show what several of them do without the others (two that share a link take over from each other, so neither
matters), nor what start-up and growth cost. Where every subflow helps nothing is at stake, and all of them
stay. Elsewhere PCDC is measured with some sets: those that rules propose, then the neighbours of the fastest,
which have one subflow more or fewer, as long as that leads to a faster one. What looks fast is measured more
often. Nothing is measured here: `Contest` is asked what to measure, and given the results.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from mptune.impact._result import Compared, PathImpact, SubflowSets
from mptune.topology import Topology

#: Runs of a set that a rule proposes, and of a neighbour that comes close.
_RUNS = 2

#: A neighbour gets its second run if its first comes this close to the same run of the fastest set, and is
#: the fastest if its mean is higher by `_FASTER`: a step that is worth less is noise.
_NEAR, _FASTER = 0.97, 1.01

#: Neighbours of one set that get a second run, at most.
_SECOND = 2

#: Runs of the fastest sets in the end: (sets that stay, runs of each).
_FINAL = ((3, 4), (2, 8), (2, 12))

#: Trials kept for that, as a share of all, and at most.
_RESERVE, _MOST_RESERVED = 0.25, 8

#: Trials without which there is no contest: two runs of two sets.
LEAST = 4

Set = frozenset[str]


class Contest:
    """Ask what to measure, give it the results, until nothing is asked.

    Parameters
    ----------
    sets : as the signs have it.
    trials : at most so many.
    """

    def __init__(
        self, topology: Topology, paths: Sequence[PathImpact], sets: SubflowSets, trials: int
    ) -> None:
        self._labels = [path.label for path in topology.paths]
        self._factors = {path.path: path.omega.mean if path.omega else 0.0 for path in paths}
        self._given: dict[Set, list[float]] = {}
        self._left = trials
        self._reserved = min(int(_RESERVE * trials), _MOST_RESERVED)
        self._course = self._run(list(_proposed(topology, paths, sets)))

    @property
    def compared(self) -> tuple[Compared, ...]:
        """Every set that was measured, the fastest first; of those with equally many runs."""
        ranked = sorted(
            self._given,
            key=lambda members: (-len(self._given[members]), -self._mean(members), sorted(members)),
        )
        return tuple(
            Compared(subflows=self._ordered(members), throughput_mbps=tuple(self._given[members]))
            for members in ranked
        )

    @property
    def best(self) -> tuple[str, ...] | None:
        """The subflows of the fastest set in the order of the topology; None if nothing was delivered."""
        most = max((len(values) for values in self._given.values()), default=0)
        final = [members for members, values in self._given.items() if len(values) == most]
        fastest = max(final, key=self._mean, default=None)
        return self._ordered(fastest) if fastest is not None and self._mean(fastest) > 0 else None

    def ask(self) -> list[tuple[tuple[str, ...], int]]:
        """Sets to measure next, each with the number of its run; empty at the end."""
        return [(self._ordered(members), run) for members, run in next(self._course, [])]

    def tell(self, asked: Iterable[tuple[tuple[str, ...], int]], given: Iterable[float]) -> None:
        """Throughputs of what was asked for, Mbit/s; 0 for a failed trial."""
        for (labels, _), value in zip(asked, given, strict=True):
            self._given.setdefault(frozenset(labels), []).append(value)

    # ---- course ------------------------------------------------------------------------------------

    def _run(self, proposed: Sequence[Set]) -> Iterator[list[tuple[Set, int]]]:
        """Batches of trials, each of which depends on those before."""
        yield from self._up_to(proposed[: self._left // _RUNS], _RUNS)
        lead, centres = max(self._given, key=self._mean), set[Set]()
        while lead not in centres and self._left > self._reserved:
            centres.add(lead)
            new = [members for members in self._neighbours(lead) if members not in self._given]
            tried = new[: self._left - self._reserved]
            yield from self._up_to(tried, 1)
            first = self._given[lead][0]
            near = [members for members in tried if self._given[members][0] > _NEAR * first]
            second = sorted(near, key=lambda members: -self._given[members][0])[: min(_SECOND, self._left)]
            yield from self._up_to(second, _RUNS)
            faster = max(second, key=self._mean, default=lead)
            if self._mean(faster) > _FASTER * self._mean(lead):
                lead = faster
        for stay, runs in _FINAL:
            twice = [members for members, values in self._given.items() if len(values) >= _RUNS]
            most = max(len(self._given[members]) for members in twice)
            ranked = sorted(twice, key=lambda members: -self._mean(members))
            pool = [members for members in ranked if len(self._given[members]) == most][:stay]
            if len(pool) > 1:
                yield from self._up_to(pool, min(runs, most + self._left // len(pool)))

    def _up_to(self, sets: Sequence[Set], runs: int) -> Iterator[list[tuple[Set, int]]]:
        """One batch after which each of the sets has so many runs."""
        batch = [(members, run) for members in sets for run in range(len(self._given.get(members, ())), runs)]
        self._left -= len(batch)
        if batch:
            yield batch

    # ---- sets --------------------------------------------------------------------------------------

    def _neighbours(self, lead: Set) -> list[Set]:
        """Sets with one subflow fewer or more, those first that the factors favour."""
        fewer = [(self._factors[label], lead - {label}) for label in lead if len(lead) > 1]
        more = [(-self._factors[label], lead | {label}) for label in self._labels if label not in lead]
        return [
            members for _, members in sorted([*fewer, *more], key=lambda pair: (pair[0], sorted(pair[1])))
        ]

    def _mean(self, members: Set) -> float:
        values = self._given[members]
        return math.fsum(values) / len(values)

    def _ordered(self, members: Set) -> tuple[str, ...]:
        return tuple(label for label in self._labels if label in members)


def decided(sets: SubflowSets, best: Sequence[str], factors: Mapping[str, float]) -> SubflowSets:
    """The sets with another optional one; the others are on standby, best impact factor first."""
    standby = sorted((label for label in factors if label not in best), key=lambda label: -factors[label])
    fallback = sets.fallback and tuple(best) == sets.optional
    return msgspec.structs.replace(sets, optional=tuple(best), standby=tuple(standby), fallback=fallback)


def _proposed(topology: Topology, paths: Sequence[PathImpact], sets: SubflowSets) -> Iterator[Set]:
    """Sets to begin with, each once: the signs', stricter ones, all, one per interface, and single ones.

    Where paths share segments, also the best one of those that cross the same.
    """
    labels = [path.label for path in topology.paths]
    factors = {path.path: path.omega.mean if path.omega else 0.0 for path in paths}
    carried = {path.path: path.carried_mbps or 0.0 for path in paths}
    ranked = sorted(labels, key=lambda label: -factors[label])
    rising = sorted(topology.paths, key=lambda path: factors[path.label])
    by_sender = {path.local_index: path.label for path in rising}  # the last one of each has the best factor
    by_receiver = {path.remote_index: path.label for path in rising}
    by_segments = {
        tuple(segment.name for segment in path.shared) or path.label: path.label
        for path in rising
        if topology.shared
    }
    proposals: list[Iterable[str]] = [
        sets.optional,
        [label for label in labels if factors[label] > 0],
        labels,
        [path.path for path in paths if path.decision == "helps"],
        [max(ranked, key=lambda label: carried[label])],
        by_sender.values(),
        by_receiver.values(),
        by_segments.values(),
        ranked[:1],
    ]
    yield from dict.fromkeys(members for proposal in proposals if (members := frozenset(proposal)))
