"""The truth beside an answer for what programs do, and how far it lies beyond what the answer claims.

Not a benchmark; the figures of one network for `claims.py`. All that competed has a first look, the best of
it is measured over the range of buffers, and the best of that in many runs, in two halves.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from mptune.decision.selection import whole_buffer
from mptune.optimisation.by_objective import ObjectiveResult
from mptune.optimisation.job import Job
from mptune.optimisation.objective_candidates import competing
from mptune.optimisation.points import Choice, Point
from mptune.runner.planning import plan_trials
from mptune.statistics import Summary
from mptune.trial import Configuration
from mptune.units import MIB, format_size

#: Base of the truth's seeds, which no main job has.
TRUTH = 1_000_003

#: Runs of the first look, of curves over the buffer, of finalists, and of the answer and the default.
LOOK, CURVE, FINAL, VALUE = 3, 4, 40, 120

#: Combinations with curves, buffers of these beside the answer's, and finalists.
CURVES, SIZES, FINALISTS = 6, 5, 6

#: Standard errors by which the truth must lie beyond a claim.
SURE = 2.0


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """How far the truth lies beyond a claim, in the unit of the objective, and the standard error of that."""

    beyond: float
    error: float

    @property
    def is_missed(self) -> bool:
        """True if it is wrong by what the truth was measured as, whose last digits mean nothing."""
        return self.beyond > 1e-9

    @property
    def is_wrong(self) -> bool:
        """True if it is wrong for sure."""
        return self.is_missed and self.beyond > SURE * self.error


class Mean(NamedTuple):
    """Mean of a sample, and its standard error."""

    value: float
    error: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Mean":
        """Of at least two values."""
        return cls(statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values)))

    def against(self, claimed: Summary | None) -> Claim | None:
        """An interval that claims to hold it; None where there is no interval."""
        if claimed is None or claimed.low is None or claimed.high is None:
            return None
        return Claim(beyond=max(claimed.low - self.value, self.value - claimed.high), error=self.error)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """An answer beside the truth; values in the unit of the objective.

    Attributes
    ----------
    floor : differences up to this matter to nobody.
    value : what the answer gives.
    regret, error : what it misses of the best, and the standard error of that.
    room : what it claims to miss at most; None without such a claim.
    best : what is better, in either half of the runs.
    trials, simulated_s : of the main job.
    """

    workload: str
    strategy: str
    network: str
    objective: str
    unit: str
    floor: float
    answer: str
    best: tuple[str, ...]
    value: float
    regret: float
    error: float
    room: float | None
    claims: dict[str, Claim]
    trials: int
    simulated_s: float

    def share(self, difference: float) -> float:
        """A difference as a share of what the answer gives."""
        return difference / abs(self.value) if self.value else math.inf

    def is_noticed(self, claim: str) -> bool:
        """True if it is wrong for sure, and by more than nobody notices."""
        return self.claims[claim].is_wrong and self.claims[claim].beyond > self.floor


class Judge(NamedTuple):
    """The means of measuring configurations of a network by an objective."""

    job: Job
    choice: Choice

    def points(self, configurations: Iterable[Configuration], runs: int, first: int = 0) -> list[Point]:
        """Each of them over so many of the truth's runs, from the first on."""
        topology = self.job.topology
        planned = plan_trials(
            topology, configurations, purpose="vary", runs=runs, base_seed=TRUTH, first=first
        )
        with self.job.phase(f"{topology.name}: truth") as progress:
            records = self.job.runner.measure(planned, progress=progress)
        # One by one: what differs in nothing but the mode of its buffers would be one point.
        parts = (records[place : place + runs] for place in range(0, len(records), runs))
        return [point for part in parts for point in self.choice.points(part)]

    def finalists(self, result: ObjectiveResult) -> list[Configuration]:
        """The answer, what the main job took for the best, and what the truth does."""
        configuration, buffers = self.job.configuration, self.job.options.buffers
        low, high = min(buffers), max(buffers)
        competed = competing(self.job)
        look = self.points((configuration(one, size) for one in competed for size in (low, high)), LOOK)
        best = dict.fromkeys(point.combination for point in sorted(look, key=self.choice.rank))
        steps = (low * (high / low) ** (number / (SIZES - 1)) for number in range(SIZES))
        sizes = sorted({*(whole_buffer(size / MIB) for size in steps), result.chosen.buffer_bytes})
        curves = self.points(
            (configuration(one, size) for one in list(best)[:CURVES] for size in sizes), CURVE, LOOK
        )
        promising = [result.best, *sorted(curves, key=self.choice.rank)[:FINALISTS]]
        others = (configuration(point.combination, point.buffer_bytes) for point in promising)
        return [result.recommended, *(one for one in others if one != result.recommended)]

    def regret(self, points: Sequence[Point]) -> tuple[Mean, list[Point]]:
        """What the first point misses of the best one, and which that is: by either half of the runs."""
        cost, answer = self.choice.objective.cost, points[0]
        differences, found = [], []
        for parity in (0, 1):
            best = min(points, key=lambda point: self.choice.rank(half(point, parity)))
            others = half(best, 1 - parity).by_run
            shared = sorted(answer.by_run.keys() & others.keys())
            differences += [cost(answer.by_run[run]) - cost(others[run]) for run in shared]
            found.append(best)
        return Mean.of(differences), found

    def outcome(self, workload: str, strategy: str, result: ObjectiveResult) -> Outcome:
        """The answer beside the truth."""
        job, objective, first = self.job, self.choice.objective, LOOK + CURVE
        regret, best = self.regret(self.points(self.finalists(result), FINAL, first))
        ours, theirs = self.points((result.recommended, result.default), VALUE, first)
        value, figure = Mean.of(list(ours.by_run.values())), result.figures[0]
        shared = sorted(ours.by_run.keys() & theirs.by_run.keys())
        gains = [objective.cost(theirs.by_run[run]) - objective.cost(ours.by_run[run]) for run in shared]
        room = result.room
        claims = {
            "value": value.against(figure.ours),
            "gain": Mean.of(gains).against(figure.gain) if len(gains) > 1 else None,
            "best": None if room is None else Claim(beyond=regret.value - room, error=regret.error),
        }
        return Outcome(
            workload=workload,
            strategy=strategy,
            network=job.topology.name,
            objective=objective.name,
            unit=objective.unit,
            floor=objective.floor,
            answer=words(ours),
            best=tuple(dict.fromkeys(map(words, best))),
            value=value.value,
            regret=regret.value,
            error=regret.error,
            room=room,
            claims={name: claim for name, claim in claims.items() if claim is not None},
            trials=len(result.records),
            simulated_s=math.fsum(record.duration_s or 0.0 for record in result.records),
        )


def half(point: Point, parity: int) -> Point:
    """Every second run of a point."""
    runs = {run: value for run, value in point.by_run.items() if run % 2 == parity}
    return msgspec.structs.replace(point, by_run=runs)


def words(point: Point) -> str:
    """A configuration in words."""
    one = point.combination
    return f"{'+'.join(one.subflows) or one.manager}/{one.cc} {format_size(point.buffer_bytes, 3)}"
