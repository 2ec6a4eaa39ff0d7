"""The search for the best configuration by a metric of a workload, as a strategy asks for it.

    combinations and buffers -> strategy asks, testbed answers, ... -> finalists with all their runs

The strategy is given the worth of each run (`mptune.trial.metrics`), so that it needs to know no metric: a step
that nobody notices is one hundredth of it, which a smaller buffer may cost. What fails, or violates a limit,
is worth nothing. Its belief names the finalists; which of them is the answer their own runs decide (`points`).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mptune.optimisation.arms import active, geometric
from mptune.optimisation.asking import Search
from mptune.optimisation.budget import Budget
from mptune.optimisation.job import Job
from mptune.optimisation.points import Choice, Point, simplicity
from mptune.optimisation.reached import Reached
from mptune.strategy import Arm, Odds, Verdict
from mptune.trial import Combination, Described, Record
from mptune.trial.metrics import UNNOTICED

#: Buffers up to this number are all looked at; of more, those a quarter of an octave apart.
_FEW = 12

#: Finalists that are the simplest of those that probably suffice, beside the most likely and the best.
_SIMPLE = 5

#: Rounds of finalists: their runs may name others.
_ROUNDS = 3


class Searched(NamedTuple):
    """Results of a search.

    Attributes
    ----------
    points : all that was measured; `finalists` : those with all their runs.
    odds : beliefs about all that competed, measured or not.
    """

    points: tuple[Point, ...]
    finalists: tuple[Point, ...]
    records: tuple[Record, ...]
    reached: Reached
    question: "_Question"
    odds: Odds | None

    def room(self, choice: Choice, chosen: Point) -> float | None:
        """What the chosen point misses of the best at most, in the unit, with the certainty asked for.

        Against the other finalists by their runs, against all others by the belief.
        """
        by_runs = choice.room(self.finalists, chosen)
        if self.odds is None or by_runs is None:
            return by_runs
        arm = self.question.combinations.index(chosen.combination)
        behind = self.odds.behind[arm][self.question.buffers.index(chosen.buffer_bytes)]
        objective = choice.objective
        best = objective.of_worth(objective.worth(chosen.mean) / (1 - min(behind, 0.99)))
        return max(by_runs, objective.cost(chosen.mean) - objective.cost(best))


class _Question:
    """As `mptune.optimisation.asking.Sought`."""

    #: A step that nobody notices.
    sacrifice = UNNOTICED

    def __init__(
        self,
        job: Job,
        workload: Described,
        choice: Choice,
        combinations: Sequence[Combination],
        buffers: Sequence[int],
    ) -> None:
        self._job, self._workload, self._choice = job, workload, choice
        self.combinations = list(combinations)
        self.buffers = tuple(sorted(buffers) if len(buffers) <= _FEW else geometric(buffers))
        self.unit = choice.objective.unit

    def arms(self) -> tuple[Arm, ...]:
        return tuple(Arm(combination, active(self._job, combination)) for combination in self.combinations)

    def grow(self, verdict: Verdict) -> bool:
        """Never: all that is worth measuring competes from the beginning."""
        return False

    def workload(self, run: int) -> Described:
        return self._workload

    def worths(self, records: Sequence[Record]) -> list[float | None]:
        objective = self._choice.objective
        values = [objective.of(record) for record in records]
        known = [value for value in values if value is not None]
        if known and self._choice.excess(records):
            known = []
        worths = iter(objective.worths(known)) if known else iter(())
        return [
            None if record.failed_kind == "overloaded" else 0.0 if value is None else next(worths, 0.0)
            for record, value in zip(records, values, strict=True)
        ]

    def value(self, worth: float) -> float:
        return self._choice.objective.of_worth(max(worth, 1e-9))

    def finalists(self, odds: Odds, verdict: Verdict) -> Iterator[tuple[Combination, int]]:
        """The likeliest answer, the best of MPTCP and of plain TCP, and the simplest that probably suffice."""
        arms, sizes = range(len(self.combinations)), range(len(self.buffers))
        yield self.combinations[verdict.arm], self.buffers[verdict.size]
        for kind in (False, True):
            cells = [(arm, size) for arm in arms for size in sizes if self.combinations[arm].is_tcp == kind]
            if cells:
                arm, size = max(cells, key=lambda cell: (odds.expected[cell[0]][cell[1]], -cell[1]))
                yield self.combinations[arm], self.buffers[size]
        smallest = [
            (self.combinations[arm], self.buffers[min(enough)])
            for arm in arms
            if (enough := [size for size in sizes if odds.suffices[arm][size] >= 0.5])
        ]
        yield from sorted(smallest, key=lambda place: simplicity(*place))[:_SIMPLE]


def search(
    job: Job,
    workload: Described,
    choice: Choice,
    combinations: Sequence[Combination],
    buffers: Sequence[int],
) -> Searched:
    """Search these combinations and buffers.

    Raises
    ------
    Interrupted, LimitReached : Ctrl-C, or a limit of the user's, with the best answer so far.
    """
    options = job.options
    question = _Question(job, workload, choice, combinations, buffers)
    budget = Budget.on(job.runner.testbed, job.topology, options, job.runner.at_once)
    asking = Search(job, budget, question)
    asking.run()
    places: dict[tuple[Combination, int], None] = {}
    for _ in range(_ROUNDS):
        strategy = asking.strategy()
        odds, verdict = strategy.odds(), strategy.verdict()
        if odds is None or verdict is None:
            break
        places |= dict.fromkeys(question.finalists(odds, verdict))
        if not asking.complete(list(places), options.runs_each):
            break
    points = choice.points(asking.records)
    finalists = tuple(point for point in points if point.place in places)
    return Searched(points, finalists, asking.records, asking.reached, question, asking.strategy().odds())
