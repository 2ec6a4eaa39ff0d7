"""The sweep as a strategy asks for it: which arms compete, what is measured next, and what follows.

    arms -> strategy asks, testbed answers, ... -> neighbours of the best arms -> ... -> decision

The strategy (`mptune.strategy`) decides what to measure and how sure the answer is; here its question is put,
its trials are measured, and its answer becomes a `Decision`. Everything depends on the trials' results alone,
so a campaign that was killed asks for the same next trial.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from mptune.decision import Decision, decide
from mptune.decision.revision import answering
from mptune.decision.selection import Optimum
from mptune.decision.sweep import stalls, sweep_samples
from mptune.decision.uncertainty import Uncertainty
from mptune.errors import MptuneError
from mptune.impact import Impact
from mptune.optimisation.arms import Arms
from mptune.optimisation.budget import BATCH, Budget
from mptune.optimisation.job import Job
from mptune.optimisation.prior import Prior
from mptune.optimisation.reached import Reached, Step, percent_certain, telling
from mptune.optimisation.sweep import Swept
from mptune.runner.planning import plan_run
from mptune.runner.running import Advance
from mptune.strategy import Ask, Question, Strategy, Told, create
from mptune.trial import Bulk, Combination, Record
from mptune.units import MIB, format_size

#: Most rounds in which neighbours of the best arms join, or buffers beyond the ends.
_WIDENED = 8


def learn(job: Job, budget: Budget, impacts: Sequence[Impact]) -> Swept:
    """Ask the strategy until it is certain, the budget is used up, or there is nothing left to ask.

    Parameters
    ----------
    budget : after the impact factors.

    Raises
    ------
    Interrupted, LimitReached : Ctrl-C, or a limit of the user's, with the best answer so far.
    MptuneError : no trial gave a usable throughput.
    """
    sweep = _Sweep(job, budget, impacts)
    if job.has_prior:
        with job.phase("prediction") as progress:
            sweep.predict(progress)
    with job.phase("sweep") as progress, telling(sweep.steps):
        sweep.run(progress)
    return sweep.swept()


class _Measured(NamedTuple):
    """A trial of the sweep; `at_s` is when it ended, in seconds of the sweep on the testbed."""

    combination: Combination
    size: int
    run: int
    record: Record
    at_s: float

    def told(self, ask: Ask, budget: Budget, *, timed: bool) -> Told:
        """As the strategy wants to know it."""
        # A stalled connection delivers nothing any more; other failures carry no information.
        mbps = 0.0 if self.record.failed_kind == "stalled" else self.record.throughput_mbps
        return Told(ask, mbps, budget.seconds(self.record), self.at_s if timed else None)


class _Sweep:
    """The question as it is now, and the trials so far."""

    def __init__(self, job: Job, budget: Budget, impacts: Sequence[Impact]) -> None:
        self._job, self._budget = job, budget
        self._arms = Arms(job, impacts)
        self._known: list[_Measured] = []
        self._spent_s = 0.0
        self._prior = self._learnt = None
        options = job.options
        if job.has_prior:
            self._prior = Prior(job.topology, job.configuration, options.duration_ns, options.seed)
        elif job.has_learnt_prior:
            # Imported here because numpy loads slowly.
            from mptune.optimisation.learnt_prior import LearntPrior

            self._learnt = LearntPrior(job.topology, grown=options.grows_at_sender)
        self._ended = "certain"
        self.steps: list[Step] = []

    def predict(self, progress: Advance | None = None) -> tuple[tuple[float, ...], ...]:
        """The predictions for the question as it is now, if there are any."""
        if self._prior is not None:
            return self._prior.rows(self._arms.combinations, self._arms.buffers, progress)
        return () if self._learnt is None else self._learnt.rows(self._arms.arms(), self._arms.buffers)

    def _error(self) -> tuple[float, float] | None:
        """How wrong they are, if that is known."""
        if self._prior is not None:
            return self._prior.error(self._arms.combinations, self._arms.buffers)
        return None if self._learnt is None else self._learnt.error

    def run(self, progress: Advance | None) -> None:
        """Ask until nothing is asked, then for what is beside the answer."""
        for _ in range(_WIDENED + 1):
            strategy = self._strategy()
            while asked := strategy.ask():
                strategy.tell(self._measure(asked))
                self._note(strategy, progress)
            verdict, self._ended = strategy.verdict(), self._why(strategy)
            if verdict is None or self._ended == "budget":
                break
            if not (self._arms.widen(verdict) or self._arms.add_neighbours(verdict)):
                break
        if progress is not None and self._known:
            progress(len(self._known), len(self._known), self._said())

    def swept(self) -> Swept:
        """The decision on what was measured."""
        options = self._job.options
        reached = Reached(
            strategy=options.chosen_strategy,
            wanted=options.certainty,
            budget_s=options.budget_s,
            spent_s=self._budget.spent_s + self._spent_s,
            ended=self._ended,
            steps=tuple(self.steps),
        )
        return Swept.of(self._job, self._records, self._decision(), reached)

    # ---- the question ------------------------------------------------------------------------------

    def _strategy(self) -> Strategy:
        """A strategy for the question as it is now, which knows what was measured."""
        job, options = self._job, self._job.options
        budget_s = self._budget.sweep_s
        question = Question(
            arms=self._arms.arms(),
            buffers=self._arms.buffers,
            sacrifice=options.sacrifice,
            runs=options.runs_each,
            certainty=options.certainty,
            batch=1 if job.is_timed else BATCH,
            trial_s=self._budget.trial_s,
            budget_s=None if budget_s is None else max(0.0, budget_s),
            seed=options.seed,
            prior=self.predict(),
            prior_error=self._error(),
        )
        strategy = create(options.chosen_strategy, question)
        strategy.tell(list(self._told()))
        return strategy

    def _told(self) -> Iterator[Told]:
        """Observations in terms of the question."""
        arms = {arm: index for index, arm in enumerate(self._arms.combinations)}
        sizes = {buffer_bytes: index for index, buffer_bytes in enumerate(self._arms.buffers)}
        for measured in self._known:
            ask = Ask(arms[measured.combination], sizes[measured.size], measured.run)
            yield measured.told(ask, self._budget, timed=self._job.is_timed)

    def _measure(self, asked: Sequence[Ask]) -> list[Told]:
        """Trials of what was asked for."""
        job, options = self._job, self._job.options
        arms = self._arms
        places = [(arms.combinations[request.arm], arms.buffers[request.size]) for request in asked]
        planned = [
            plan_run(
                job.topology,
                job.configuration(combination, buffer_bytes).under(
                    # A first look may be short; what is looked at again must be sure.
                    Bulk(duration_ns=options.duration_ns, ends_early=job.is_lean and one.run == 0)
                ),
                purpose="sweep",
                run=one.run,
                base_seed=options.seed,
                round_=job.round_,
            )
            for one, (combination, buffer_bytes) in zip(asked, places, strict=True)
        ]
        given = job.runner.measure(planned, before=len(self._known))
        self._budget = self._budget.learnt(given)
        told = []
        for question, (combination, buffer_bytes), record in zip(asked, places, given, strict=True):
            self._spent_s += self._budget.seconds(record)
            self._known.append(_Measured(combination, buffer_bytes, question.run, record, self._spent_s))
            told.append(self._known[-1].told(question, self._budget, timed=job.is_timed))
        return told

    @property
    def _records(self) -> tuple[Record, ...]:
        """The trials so far, in their order."""
        return tuple(measured.record for measured in self._known)

    def _left_s(self) -> float | None:
        """Seconds of the budget that are left for the sweep."""
        budget_s = self._budget.sweep_s
        return None if budget_s is None else budget_s - self._spent_s

    # ---- what is known -----------------------------------------------------------------------------

    def _note(self, strategy: Strategy, progress: Advance | None) -> None:
        """Keep what is believed now, and show it."""
        verdict, done = strategy.verdict(), len(self._known)
        if verdict is not None:
            low, high = (self._arms.buffers[size] for size in verdict.sizes)
            self.steps.append(
                Step(
                    trials=done,
                    seconds=self._budget.spent_s + self._spent_s,
                    combination=self._arms.combinations[verdict.arm],
                    buffer_bytes=self._arms.buffers[verdict.size],
                    throughput_mbps=verdict.value,
                    certainty=verdict.certainty,
                    room=verdict.room,
                    contenders=tuple(self._arms.combinations[contender] for contender in verdict.contenders),
                    among=len(self._arms.combinations),
                    buffers=(low, high),
                    more_s=verdict.more_s,
                    prior=f"learnt, {verdict.prior}" if verdict.prior and self._learnt else verdict.prior,
                    drift=None if verdict.drift is None else verdict.drift.change,
                )
            )
        if progress is not None:
            # How many there will be is not known: what the strategy expects, within the budget.
            ends = [self._left_s(), None if verdict is None else verdict.more_s]
            more_s = min((end for end in ends if end is not None), default=self._spent_s)
            more = round(more_s / self._budget.trial_s)
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
        enough = left_s is None or left_s >= self._budget.trial_s
        return "everything" if enough else "budget"

    def _decision(self) -> Decision:
        """The strategy's answer, with the curves that belong to it."""
        job, options = self._job, self._job.options
        verdict = self._strategy().verdict()
        if verdict is None:
            raise MptuneError(f"every trial of the sweep failed (first reason: {self._records[0].failed})")
        decision = decide(
            sweep_samples(self._records, job.optional),
            msgspec.structs.replace(options, resamples=0, model="belief"),
            stalled=stalls(self._records, job.optional),
            reporter=job.reporter,
        )
        combination, buffer_mib = self._arms.combinations[verdict.arm], self._arms.buffers[verdict.size] / MIB
        curve = decision.response.curves.get(combination)
        optimum = Optimum(
            **combination._asdict(),
            buffer_mib=buffer_mib,
            throughput_mbps=verdict.value if curve is None else curve.predict(buffer_mib),
        )
        low, high = verdict.sizes
        # The answer lies above the buffer before the smallest that may do.
        ends = self._arms.buffers[max(low - 1, 0)] / MIB, self._arms.buffers[high] / MIB
        uncertainty = Uncertainty(
            resamples=0,
            obs_mib=(min(ends[0], buffer_mib), max(ends[1], buffer_mib)),
            otp_mbps=verdict.interval,
            wins={
                self._arms.combinations[arm]: share
                for arm, share in zip(verdict.contenders, verdict.shares, strict=True)
            },
            single_runs=False,
        )
        answered = answering(decision, optimum)
        # The other points are the curves' alone: what contradicts the answer, which knows more, is left out.
        front = tuple(
            point
            for point in answered.front
            if point.optimum == optimum
            or (point.sacrifice < options.sacrifice) == (point.optimum.buffer_mib > optimum.buffer_mib)
        )
        return msgspec.structs.replace(answered, front=front, uncertainty=uncertainty)
