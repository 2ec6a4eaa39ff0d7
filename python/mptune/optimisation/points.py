"""Configurations that were measured for an objective: which is the best, which to use, which none beats.

Pure: it measures nothing. `by_objective` measures, and asks here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from mptune.decision.robustness import FAMILIAR_CC, REGRET, SURVIVAL
from mptune.errors import MptuneError
from mptune.optimisation.limits import Limit
from mptune.statistics import CONFIDENCE, half_width, summarise
from mptune.trial import Combination, Record
from mptune.trial.kept import is_tcp
from mptune.trial.metrics import THROUGHPUT, Metric


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration that was measured.

    Attributes
    ----------
    by_run : the objective of every run that has one, in its unit.
    kept : False if it violates a limit.
    excess : the largest violation, as a share of the limit; 0 where there is none.
    failed : runs without a value; not those for which the machine was too busy.
    second : the same as `by_run` of a second objective; empty where none was asked for.
    """

    combination: Combination
    buffer_bytes: int
    by_run: dict[int, float]
    kept: bool
    excess: float
    failed: int
    second: dict[int, float] = {}

    @property
    def mean(self) -> float:
        """Mean of the objective."""
        return _mean(self.by_run)

    @property
    def place(self) -> tuple[Combination, int]:
        """The configuration."""
        return self.combination, self.buffer_bytes


@dataclass(frozen=True)
class Choice:
    """Criteria for comparing points.

    Attributes
    ----------
    limits : on other metrics.
    second : another objective, for a front; None where there is none.
    saturated : throughput is that of a saturated sender in trials of its own, as the workload has none.
    """

    objective: Metric
    limits: tuple[Limit, ...] = ()
    second: Metric | None = None
    saturated: bool = False

    @property
    def asks_saturated(self) -> bool:
        """True if points need trials of a saturated sender beside those of the workload."""
        asked = (self.second, *(limit.metric for limit in self.limits))
        return self.saturated and THROUGHPUT in asked

    def points(self, records: Sequence[Record], saturated: Sequence[Record] = ()) -> tuple[Point, ...]:
        """Trials by configuration, in the order of measurement.

        Parameters
        ----------
        saturated : trials of a saturated sender, where they are asked for.
        """
        alone = _grouped(saturated)
        return tuple(
            self._point(*place, ones, alone.get(place, [])) for place, ones in _grouped(records).items()
        )

    def _point(
        self, combination: Combination, buffer_bytes: int, records: list[Record], saturated: list[Record]
    ) -> Point:
        excess = self.excess(records, saturated)
        second = self.second
        return Point(
            combination=combination,
            buffer_bytes=buffer_bytes,
            by_run=_by_run(self.objective, records),
            kept=excess == 0,
            excess=excess,
            failed=sum(
                self.objective.of(record) is None and record.failed_kind != "overloaded" for record in records
            ),
            second={} if second is None else _by_run(second, self.having(second, records, saturated)),
        )

    def excess(self, records: Sequence[Record], saturated: Sequence[Record] = ()) -> float:
        """The largest violation of a limit by trials of one configuration, as a share of it; 0 for none."""
        excess = 0.0
        for limit in self.limits:
            mean = limit.metric.mean(self.having(limit.metric, records, saturated))
            excess = max(excess, 1.0 if mean is None else limit.violation(mean))
        return excess

    def having(
        self, metric: Metric, records: Sequence[Record], saturated: Sequence[Record]
    ) -> Sequence[Record]:
        """Those of the trials that have a metric."""
        return saturated if self.saturated and metric is THROUGHPUT else records

    # ---- the choice -----------------------------------------------------------------------------

    def rank(self, point: Point) -> tuple[object, ...]:
        """Better points first: those with values, without failures, within the limits, by the objective."""
        return _rank(point, self.objective, point.by_run)

    def orders(self, points: Sequence[Point]) -> list[list[Combination]]:
        """Combinations with values, the best first: by the objective, and by the second where there is one.

        Each with its best buffer.
        """
        found = []
        both = [(self.objective, "by_run"), *([] if self.second is None else [(self.second, "second")])]
        for metric, field in both:
            best: dict[Combination, tuple[object, ...]] = {}
            for point in points:
                if not getattr(point, field):
                    continue
                rank = _rank(point, metric, getattr(point, field))
                best[point.combination] = min(best.get(point.combination, rank), rank)
            found.append(sorted(best, key=lambda combination: (best[combination], combination)))
        return found

    def choose(self, points: Sequence[Point]) -> tuple[Point, Point, int]:
        """The best point, the one to use, and how many cannot be distinguished from the best.

        Plain TCP is the best only if it is better by more than what surviving a failure of its path is worth.
        Of those like the best by the objective only those count that are like the best of them by a second.
        """
        done = [point for point in points if point.by_run]
        if not done:
            raise MptuneError("no configuration completed a trial")
        best = self._best(done)
        sound = self._sound(done, best)
        multipath = [point for point in sound if not point.combination.is_tcp]
        if best.combination.is_tcp and multipath:
            rival = self._best(multipath)
            behind = self.objective.cost(rival.mean) - self.objective.cost(best.mean)
            if behind <= max(self.objective.floor, SURVIVAL * abs(best.mean)):
                best, sound = rival, multipath
        alike = [point for point in sound if not self.is_worse(point, best)]
        if self.second is not None:
            alike = self._best_by_second(alike, self.second) or alike
        return best, min(alike, key=self.simplicity), len(alike)

    def alike(self, points: Sequence[Point], best: Point) -> int:
        """How many points cannot be distinguished from the best; some may have few runs."""
        sound = self._sound([point for point in points if point.by_run], best)
        return sum(not self.is_worse(point, best) for point in sound)

    @staticmethod
    def _sound(points: Sequence[Point], best: Point) -> list[Point]:
        """Those that fail and keep the limits as the best does.

        Where none is within the limits those that are as near: the nearest is asked for then.
        """
        return [
            point
            for point in points
            if (point.failed > 0, point.kept) == (best.failed > 0, best.kept)
            and point.excess <= best.excess + REGRET
        ]

    @staticmethod
    def _best_by_second(alike: Sequence[Point], second: Metric) -> list[Point]:
        """Those like the best by the second; plain TCP, which ends with its path, only among itself."""
        known = [point for point in alike if point.second]
        known = [point for point in known if not point.combination.is_tcp] or known
        if not known:
            return []
        top = min(known, key=lambda point: second.cost(_mean(point.second)))
        return [point for point in known if not _worse(second, point.second, top.second)]

    def _best(self, points: Sequence[Point]) -> Point:
        """The best mean of those within the limits."""
        return min(points, key=lambda point: (*self.rank(point), point.buffer_bytes, point.combination))

    def simplicity(self, point: Point) -> tuple[object, ...]:
        """Simpler configurations first, and of those alike the better objective."""
        *first, last = simplicity(point.combination, point.buffer_bytes)
        return (*first, self.objective.cost(point.mean), last)

    def is_worse(self, point: Point, best: Point) -> bool:
        """True if it is worse for sure, run by run, and by as much as matters."""
        return _worse(self.objective, point.by_run, best.by_run)

    def room(self, points: Sequence[Point], chosen: Point) -> float | None:
        """What it misses of the best at most, in the objective's unit, with 95 % confidence.

        None where runs show no scatter because there is one. The limit of whichever is the best holds with
        95 %, and the largest limit of all is no less: that there are many needs no correction (J. C. Hsu,
        Annals of Statistics 9, 1981). No less than what makes no difference to the choice either: runs that
        all agree say nothing about rare ones.
        """
        sound = [
            point
            for point in points
            if (point.failed > 0, point.excess) <= (chosen.failed > 0, chosen.excess)
        ]
        limits = [_most_behind(self.objective, chosen.by_run, point.by_run) for point in sound]
        known = [limit for limit in limits if limit is not None]
        return max(*known, self.objective.unnoticed(chosen.mean)) if known else None

    # ---- the front ------------------------------------------------------------------------------

    def front(self, points: Sequence[Point], chosen: Point) -> tuple[Point, ...]:
        """Points that none beats in both objectives, the best by the first one first.

        A point is beaten by one that is not worse in either by as much as matters, and for sure better in
        one. Of points that cannot be distinguished in either the simplest stays. The chosen one is among
        them, if it has both values.
        """
        if self.second is None:
            return ()
        sound = [point for point in points if point.by_run and point.second and point.kept]
        sound = [point for point in sound if not point.failed or point == chosen]
        standing = [
            point
            for point in sound
            if point == chosen or not any(self._beats(rival, point) for rival in sound)
        ]
        few: list[Point] = []
        for point in sorted(standing, key=lambda point: (point != chosen, self.simplicity(point))):
            if all(self._differ(point, kept) for kept in few):
                few.append(point)
        return tuple(sorted(few, key=lambda point: (self.objective.cost(point.mean), self.simplicity(point))))

    def _both(self, point: Point) -> list[tuple[Metric, dict[int, float]]]:
        assert self.second is not None
        return [(self.objective, point.by_run), (self.second, point.second)]

    def _beats(self, one: Point, other: Point) -> bool:
        pairs = list(zip(self._both(one), self._both(other), strict=True))
        if any(_behind(metric, ours, theirs) for (metric, ours), (_, theirs) in pairs):
            return False
        return any(_worse(metric, theirs, ours) for (metric, ours), (_, theirs) in pairs)

    def _differ(self, one: Point, other: Point) -> bool:
        return any(
            _worse(metric, ours, theirs) or _worse(metric, theirs, ours)
            for (metric, ours), (_, theirs) in zip(self._both(one), self._both(other), strict=True)
        )


def simplicity(combination: Combination, buffer_bytes: int) -> tuple[object, ...]:
    """Smaller buffers first, then MPTCP, the usual congestion control, all subflows."""
    return (
        buffer_bytes,
        combination.is_tcp,
        combination.cc != FAMILIAR_CC,
        combination.pm == "pcdc",
        combination,
    )


def combination(record: Record) -> Combination:
    """The combination of a trial. PCDC has no set of itself here: every set was chosen."""
    path = str(record.settings.get("initial_path") or "")
    if is_tcp(record.settings):
        return Combination.plain_tcp(path, record.cc)
    return Combination(record.pm, record.cc, tuple(record.settings.get("active", ())), path)


def _grouped(records: Sequence[Record]) -> dict[tuple[Combination, int], list[Record]]:
    grouped: dict[tuple[Combination, int], list[Record]] = {}
    for record in records:
        grouped.setdefault((combination(record), record.buffer_bytes), []).append(record)
    return grouped


def _by_run(metric: Metric, records: Sequence[Record]) -> dict[int, float]:
    return {record.run: value for record in records if (value := metric.of(record)) is not None}


def _mean(by_run: dict[int, float]) -> float:
    return sum(by_run.values()) / len(by_run)


def _rank(point: Point, metric: Metric, by_run: dict[int, float]) -> tuple[object, ...]:
    if not by_run:
        return True, 0, 0, 0.0
    return False, point.failed > 0, point.excess, metric.cost(_mean(by_run))


def _behind(metric: Metric, ours: dict[int, float], theirs: dict[int, float]) -> bool:
    """True if the mean of ours is worse by as much as matters."""
    mean = _mean(theirs)
    return metric.cost(_mean(ours)) - metric.cost(mean) > metric.unnoticed(mean)


def _most_behind(metric: Metric, ours: dict[int, float], theirs: dict[int, float]) -> float | None:
    """By how much ours are worse at most, run by run, with 95 % confidence; None below two runs of both."""
    runs = ours.keys() & theirs.keys()
    more = [metric.cost(ours[run]) - metric.cost(theirs[run]) for run in sorted(runs)]
    # One of the two ends of an interval.
    half = half_width(more, 2 * CONFIDENCE - 1)
    return None if half is None else summarise(more).mean + half


def _worse(metric: Metric, ours: dict[int, float], theirs: dict[int, float]) -> bool:
    """True if ours are worse for sure, run by run, and by as much as matters."""
    if not _behind(metric, ours, theirs):
        return False
    runs = sorted(ours.keys() & theirs.keys())
    if not runs:
        return True
    more = summarise([metric.cost(ours[run]) - metric.cost(theirs[run]) for run in runs])
    return (more.mean if more.low is None else more.low) > 0
