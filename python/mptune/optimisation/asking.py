"""Trials one batch after the other, as a strategy asks for them, with the beliefs on the way.

What is searched is told by others: `learning` searches the throughput, `objective_search` the metric of a
workload. Everything depends on the trials' results alone, so a campaign that was killed asks for the same
next trial.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from mptune.optimisation.budget import BATCH, Budget
from mptune.optimisation.job import Job
from mptune.optimisation.prior import Prior
from mptune.optimisation.reached import Reached, Step, percent_certain, telling
from mptune.runner.planning import plan_run
from mptune.runner.running import Advance
from mptune.strategy import Arm, Ask, Question, Strategy, Told, Verdict, create
from mptune.trial import Combination, PlannedTrial, Record, Workload
from mptune.units import format_size

#: Most rounds in which neighbours of the best arms join, or buffers beyond the ends.
_WIDENED = 8

#: Trials that are foreseen, for each that may run at once, and at most: the later ones are mostly wrong.
_FORESEEN, _MOST_FORESEEN = 2, 2 * BATCH


class Sought(Protocol):
    """What is searched: the configurations that compete, and what their runs are worth.

    Attributes
    ----------
    combinations : one for each arm, in the order in which the strategy numbers them.
    buffers : bytes, ascending.
    sacrifice : share of the worth that a smaller buffer may cost.
    unit : of what is shown of it.
    aim : as in `mptune.optimisation.reached.Step`.
    """

    combinations: list[Combination]
    buffers: tuple[int, ...]
    aim: str

    @property
    def sacrifice(self) -> float:
        """See above."""
        ...

    @property
    def unit(self) -> str:
        """See above."""
        ...

    def arms(self) -> tuple[Arm, ...]:
        """The arms as the strategy wants them."""
        ...

    def grow(self, verdict: Verdict) -> bool:
        """Let more arms or buffers compete, where the answer may lie there; whether there were any."""
        ...

    def workload(self, run: int) -> Workload:
        """What the programs do in a run of a configuration."""
        ...

    def worths(self, records: Sequence[Record]) -> list[float | None]:
        """Worths of all runs of a configuration so far; None for a run that is no evidence."""
        ...

    def value(self, worth: float) -> float:
        """What is shown of a worth, in the unit."""
        ...


class Predictor(Protocol):
    """What is expected before any trial: simulated (`prior`) or learnt (`learnt_prior`).

    Attributes
    ----------
    takes_time : so much that its progress is shown.
    named : how a step names the belief in it, with the strategy's words in place of `{}`.
    """

    takes_time: bool
    named: str

    def rows(
        self, arms: Sequence[Arm], buffers: Sequence[int], progress: Advance | None = None, /
    ) -> tuple[tuple[float, ...], ...]:
        """Worths: a row per arm, a value per buffer (bytes, ascending); empty if an arm is unknown."""
        ...

    def error(self, arms: Sequence[Arm], buffers: Sequence[int], /) -> tuple[float, float] | None:
        """As `mptune.strategy.Question.prior_error`."""
        ...


def _predictor(job: Job, sought: Sought) -> Predictor | None:
    if job.has_prior:
        # What is looked at again is measured whole, and so is what is predicted.
        return Prior(job.topology, job.configuration, sought.workload(1), job.options.seed, sought.worths)
    if job.has_learnt_prior:
        # Imported here because numpy loads slowly.
        from mptune.optimisation.learnt_prior import LearntPrior

        return LearntPrior(job.topology, grown=job.options.grows_at_sender)
    return None


class _Measured(NamedTuple):
    """A trial; `at_s` is when it ended, in seconds of the search on the testbed."""

    combination: Combination
    size: int
    run: int
    record: Record
    at_s: float

    @property
    def place(self) -> tuple[Combination, int]:
        """The configuration."""
        return self.combination, self.size


class Search:
    """The question as it is now, and the trials so far.

    Parameters
    ----------
    budget : before the search.
    """

    def __init__(self, job: Job, budget: Budget, sought: Sought) -> None:
        self._job, self.budget, self._sought = job, budget, sought
        self._predictor = _predictor(job, sought)
        self._runner = job.runner
        self._known: list[_Measured] = []
        #: What is measured now, for which strategy, and all trials that were asked for or foreseen.
        self._asked: tuple[Strategy, Sequence[Ask]]
        self._plans: dict[tuple[Combination, int, int], PlannedTrial] = {}
        self._spent_s = 0.0
        self._ended = "certain"
        self.steps: list[Step] = []

    def run(self) -> None:
        """Ask until nothing is asked, then for what is beside the answer.

        Raises
        ------
        Interrupted, LimitReached : Ctrl-C, or a limit of the user's, with the best answer so far.
        """
        predictor, sought = self._predictor, self._sought
        if predictor is not None and predictor.takes_time:
            with self._job.phase("prediction") as progress:
                predictor.rows(sought.arms(), sought.buffers, progress)
        with (
            self._job.phase("sweep") as progress,
            telling(self.steps),
            self._job.runner.ahead(self._foresee) as self._runner,
        ):
            self._ask(progress)
        self._runner = self._job.runner

    def _foresee(self) -> list[PlannedTrial]:
        """Trials that are likely to be asked for after those that run now."""
        strategy, asked = self._asked
        most = min(_FORESEEN * self._job.runner.at_once, _MOST_FORESEEN)
        foreseen = strategy.foreseen(asked, most)
        return [self._planned(*self._place(ask), ask.run) for ask in foreseen]

    def _ask(self, progress: Advance | None) -> None:
        for _ in range(_WIDENED + 1):
            strategy = self.strategy()
            while asked := strategy.ask():
                self._measure(strategy, asked)
                self._note(strategy, progress)
            verdict, self._ended = strategy.verdict(), self._why(strategy)
            if verdict is None or self._ended == "budget" or not self._sought.grow(verdict):
                break
        if progress is not None and self._known:
            progress(len(self._known), len(self._known), self._said())

    def complete(self, strategy: Strategy, places: Sequence[tuple[Combination, int]], runs: int) -> bool:
        """Measure what these configurations lack of so many runs, and tell it; whether there was anything."""
        done = dict.fromkeys(places, 0)
        for measured in self._known:
            if measured.place in done:
                done[measured.place] += 1
        numbers = [
            Ask(self._sought.combinations.index(combination), self._sought.buffers.index(size), run)
            for (combination, size), first in done.items()
            for run in range(first, runs)
        ]
        if numbers:
            with self._job.phase("finalists") as progress, telling(self.steps):
                self._measure(strategy, numbers, progress)
            self._note(strategy, None)
        return bool(numbers)

    @property
    def reached(self) -> Reached:
        """The course so far."""
        options = self._job.options
        return Reached(
            strategy=options.chosen_strategy,
            wanted=options.certainty,
            budget_s=options.budget_s,
            spent_s=self.budget.spent_s + self._spent_s,
            ended=self._ended,
            steps=tuple(self.steps),
        )

    @property
    def records(self) -> tuple[Record, ...]:
        """The trials so far, in their order."""
        return tuple(measured.record for measured in self._known)

    # ---- the question ------------------------------------------------------------------------------

    def strategy(self) -> Strategy:
        """A strategy for the question as it is now, which knows what was measured."""
        job, options, sought = self._job, self._job.options, self._sought
        budget_s, predictor, arms = self.budget.sweep_s, self._predictor, sought.arms()
        question = Question(
            arms=arms,
            buffers=sought.buffers,
            sacrifice=sought.sacrifice,
            runs=options.runs_each,
            certainty=options.certainty,
            batch=1 if job.is_timed else BATCH,
            trial_s=self.budget.trial_s,
            budget_s=None if budget_s is None else max(0.0, budget_s),
            seed=options.seed,
            prior=() if predictor is None else predictor.rows(arms, sought.buffers),
            prior_error=None if predictor is None else predictor.error(arms, sought.buffers),
        )
        strategy = create(options.chosen_strategy, question)
        strategy.tell(list(self._told()))
        return strategy

    def _told(self, places: Sequence[tuple[Combination, int]] | None = None) -> Iterator[Told]:
        """Observations in terms of the question, of all configurations or of some."""
        arms = {arm: index for index, arm in enumerate(self._sought.combinations)}
        sizes = {buffer_bytes: index for index, buffer_bytes in enumerate(self._sought.buffers)}
        by_place: dict[tuple[Combination, int], list[_Measured]] = {}
        for measured in self._known:
            by_place.setdefault(measured.place, []).append(measured)
        for place in by_place if places is None else dict.fromkeys(places):
            runs = by_place[place]
            for measured, worth in zip(runs, self._sought.worths([one.record for one in runs]), strict=True):
                ask = Ask(arms[measured.combination], sizes[measured.size], measured.run)
                at_s = measured.at_s if self._job.is_timed else None
                yield Told(ask, worth, self.budget.seconds(measured.record), at_s)

    def _measure(self, strategy: Strategy, asked: Sequence[Ask], progress: Advance | None = None) -> None:
        """Trials of what was asked for, of which the strategy is told."""
        places = [self._place(request) for request in asked]
        planned = [self._planned(*place, one.run) for one, place in zip(asked, places, strict=True)]
        self._asked = strategy, asked
        before = 0 if progress is not None else len(self._known)
        given = self._runner.measure(planned, before=before, progress=progress)
        self.budget = self.budget.learnt(given)
        for question, (combination, buffer_bytes), record in zip(asked, places, given, strict=True):
            self._spent_s += self.budget.seconds(record)
            self._known.append(_Measured(combination, buffer_bytes, question.run, record, self._spent_s))
        strategy.tell(list(self._told(places)))

    def _place(self, ask: Ask) -> tuple[Combination, int]:
        """The configuration, combination and buffer, that was asked for."""
        return self._sought.combinations[ask.arm], self._sought.buffers[ask.size]

    def _planned(self, combination: Combination, buffer_bytes: int, run: int) -> PlannedTrial:
        """The trial of a run; the very same object every time, by which a foreseen one is known."""
        job, key = self._job, (combination, buffer_bytes, run)
        if key not in self._plans:
            self._plans[key] = plan_run(
                job.topology,
                job.configuration(combination, buffer_bytes).under(self._sought.workload(run)),
                purpose="sweep",
                run=run,
                base_seed=job.options.seed,
                round_=job.round_,
            )
        return self._plans[key]

    def _left_s(self) -> float | None:
        """Seconds of the budget that are left for the search."""
        budget_s = self.budget.sweep_s
        return None if budget_s is None else budget_s - self._spent_s

    # ---- what is known -----------------------------------------------------------------------------

    def _note(self, strategy: Strategy, progress: Advance | None) -> None:
        """Keep what is believed now, and show it."""
        verdict, done, sought = strategy.verdict(), len(self._known), self._sought
        if verdict is not None:
            low, high = (sought.buffers[size] for size in verdict.sizes)
            self.steps.append(
                Step(
                    trials=done,
                    seconds=self.budget.spent_s + self._spent_s,
                    combination=sought.combinations[verdict.arm],
                    buffer_bytes=sought.buffers[verdict.size],
                    value=sought.value(verdict.value),
                    unit=sought.unit,
                    aim=sought.aim,
                    certainty=verdict.certainty,
                    room=verdict.room,
                    contenders=tuple(sought.combinations[contender] for contender in verdict.contenders),
                    among=len(sought.combinations),
                    buffers=(low, high),
                    more_s=verdict.more_s,
                    prior=self._predictor.named.format(verdict.prior)
                    if verdict.prior and self._predictor is not None
                    else verdict.prior,
                    drift=None if verdict.drift is None else verdict.drift.change,
                )
            )
        if progress is not None:
            # How many there will be is not known: what the strategy expects, within the budget.
            ends = [self._left_s(), None if verdict is None else verdict.more_s]
            more_s = min((end for end in ends if end is not None), default=self._spent_s)
            more = round(more_s / self.budget.trial_s)
            progress(done, done + max(1, more), self._said())

    def _said(self) -> str:
        """The progress in words."""
        if not self.steps:
            return ""
        last = self.steps[-1]
        low, high = last.buffers
        return (
            f"{len(last.contenders)} of {last.among} candidates left, buffer "
            f"{format_size(low, 2)} to {format_size(high, 2)}, {percent_certain(last.certainty)} certain "
            f"within {last.room:.0%}"
        )

    def _why(self, strategy: Strategy) -> str:
        verdict = strategy.verdict()
        if verdict is not None and verdict.more_s == 0:
            return "certain"
        left_s = self._left_s()
        enough = left_s is None or left_s >= self.budget.trial_s
        return "everything" if enough else "budget"
