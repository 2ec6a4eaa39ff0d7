"""The search for the best configuration by a metric of a workload, as a strategy asks for it.

    combinations and buffers -> strategy asks, testbed answers, ... -> finalists with all their runs

The strategy is given the worth of each run (`mptune.trial.metrics`), so that it needs to know no metric: a
step that nobody notices is one hundredth of it, which a smaller buffer may cost. What fails, or violates a
limit, is worth nothing; where nothing keeps the limits, what violates them least is searched instead. The
belief names the finalists; which of them is the answer their own runs decide (`points`).
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from mptune.decision.robustness import FAMILIAR_CC
from mptune.optimisation.arms import active, geometric
from mptune.optimisation.asking import Search
from mptune.optimisation.budget import Budget
from mptune.optimisation.job import Job
from mptune.optimisation.points import Choice, Point, simplicity
from mptune.optimisation.reached import Reached
from mptune.options import error_about
from mptune.strategy import Arm, Odds, Verdict
from mptune.trial import Combination, Described, Record
from mptune.trial.metrics import UNNOTICED
from mptune.units import format_time

#: Buffers up to this number are all looked at; of more, those a quarter of an octave apart.
_FEW = 12

#: Finalists that are the simplest of those that probably suffice, beside the most likely and the best.
_SIMPLE = 5

#: The least worth that has a value: a belief may go below zero.
_LEAST = 1e-9

#: Shares of a budget: for the search, and for that and the finalists; the rest is for the confirmation.
_SEARCHING, _DECIDING = 0.5, 0.7

#: Trials for which a budget has to be enough, at least.
_LEAST_TRIALS = 50

#: Runs of a finalist, at least.
_LEAST_RUNS = 3

#: Rounds of finalists: their runs may name others.
_ROUNDS = 3


class Searched(NamedTuple):
    """Results of a search.

    Attributes
    ----------
    points : all that was measured; `finalists` : those with all their runs.
    odds : beliefs about all that competed, measured or not.
    budget : after all of it.
    """

    points: tuple[Point, ...]
    finalists: tuple[Point, ...]
    records: tuple[Record, ...]
    reached: Reached
    odds: Odds | None
    question: "_Question"
    budget: Budget

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
    aim = "is best"

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
        #: True if what fails seldom and violates the limits least is searched.
        self.nearest = False

    @property
    def unit(self) -> str:
        return "% beyond the limits" if self.nearest else self._choice.objective.unit

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
        lost = [record for record, value in zip(records, values, strict=True) if value is None]
        failed = any(record.failed_kind != "overloaded" for record in lost)
        excess = self._choice.excess(records) if known else 0.0
        if self.nearest:
            worths = iter([1 / (1 + excess)] * len(known))
        else:
            worths = iter(objective.worths(known) if known and not (failed or excess) else [0.0] * len(known))
        return [
            None if record.failed_kind == "overloaded" else 0.0 if value is None else next(worths)
            for record, value in zip(records, values, strict=True)
        ]

    def value(self, worth: float) -> float:
        worth = max(worth, _LEAST)
        return 100 * (1 / worth - 1) if self.nearest else self._choice.objective.of_worth(worth)

    def finalists(self, odds: Odds, verdict: Verdict) -> Iterator[tuple[Combination, int]]:
        """The likeliest answer, the best of some kinds, and the simplest that probably suffice.

        The first two also with the usual congestion control, which need not be better.
        """
        arms, sizes = range(len(self.combinations)), range(len(self.buffers))
        best: dict[object, tuple[int, int]] = {}
        for arm, size in itertools.product(arms, sizes):
            kind = self._kind(self.combinations[arm])
            known = best.setdefault(kind, (arm, size))
            best[kind] = max(known, (arm, size), key=lambda cell: odds.expected[cell[0]][cell[1]])
        for arm, size in [(verdict.arm, verdict.size), *best.values()]:
            combination = self.combinations[arm]
            yield combination, self.buffers[size]
            if (familiar := combination._replace(cc=FAMILIAR_CC)) in self.combinations:
                yield familiar, self.buffers[size]
        smallest = [
            (self.combinations[arm], self.buffers[min(enough)])
            for arm in arms
            if (enough := [size for size in sizes if odds.suffices[arm][size] >= 0.5])
        ]
        yield from sorted(smallest, key=lambda place: simplicity(*place))[:_SIMPLE]

    def _kind(self, combination: Combination) -> object:
        """MPTCP or plain TCP; every set of subflows where another one may have to take over."""
        if self._job.options.at_most_failover_ns is None:
            return combination.is_tcp
        return combination.pm, combination.subflows


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
    InputError : a budget that is too short; before anything is measured.
    Interrupted, LimitReached : Ctrl-C, or a limit of the user's, with the best answer so far.
    """
    options = job.options
    question = _Question(job, workload, choice, combinations, buffers)
    budget = Budget.on(job.runner.testbed, job.topology, options, job.runner.at_once)
    _check(budget)
    asking = Search(job, replace(budget, kept=1 - _SEARCHING), question)
    asking.run()
    points = choice.points(asking.records)
    if not any(point.by_run and point.kept and not point.failed for point in points):
        question.nearest = True
        asking.run()
    places: dict[tuple[Combination, int], None] = {}
    strategy = asking.strategy()
    for _ in range(_ROUNDS):
        odds, verdict = strategy.odds(), strategy.verdict()
        if odds is None or verdict is None:
            break
        places |= dict.fromkeys(question.finalists(odds, verdict))
        runs = _runs(budget.after(asking.records), len(places))
        if not asking.complete(strategy, list(places), runs):
            break
    points = choice.points(asking.records)
    finalists = tuple(point for point in points if point.place in places)
    odds, after = strategy.odds(), budget.after(asking.records)
    return Searched(points, finalists, asking.records, asking.reached, odds, question, after)


def _runs(budget: Budget, finalists: int) -> int:
    """Runs of each finalist: as many as were asked for, but no more than the budget's share for them has."""
    options = budget.options
    if options.budget_s is None:
        return options.runs_each
    left_s = _DECIDING * options.budget_s - budget.spent_s
    most = options.runs_each
    return max(min(_LEAST_RUNS, most), min(most, int(left_s / (finalists * budget.trial_s))))


def _check(budget: Budget) -> None:
    """Refuse a budget that is no more than a few looks."""
    options, least_s = budget.options, _LEAST_TRIALS * budget.trial_s
    if options.budget_s is None or options.budget_s >= least_s:
        return
    least, found = format_time(math.ceil(least_s) * 10**9), format_time(options.budget_ns or 0)
    each = f"for {_LEAST_TRIALS} trials of {format_time(options.duration_ns)}"
    raise error_about(type(options), ("budget_ns",), f"expected at least {least}, {each}, found {found}")
