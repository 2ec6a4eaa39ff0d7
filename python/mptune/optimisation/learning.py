"""The sweep as a strategy asks for it: which arms compete, what is measured next, and what follows.

    arms -> strategy asks, testbed answers, ... -> neighbours of the best arms -> ... -> decision

The strategy (`mptune.strategy`) decides what to measure and how sure the answer is; here its question is put,
its trials are measured, and its answer becomes a `Decision`. Everything depends on the trials' results alone,
so a campaign that was killed asks for the same next trial.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from mptune._text import digits
from mptune.decision import Decision, decide
from mptune.decision.selection import Optimum, whole_buffer
from mptune.decision.sweep import stalls, sweep_samples
from mptune.decision.uncertainty import Uncertainty
from mptune.errors import Interrupted, LimitReached, MptuneError
from mptune.impact import Impact, SubflowSets
from mptune.optimisation.candidates import FLOOR
from mptune.optimisation.job import Job, answering, optional_sets
from mptune.optimisation.prior import Prior
from mptune.optimisation.set_search import SetSearch
from mptune.runner.planning import plan_run
from mptune.runner.running import Advance
from mptune.strategy import Arm, Ask, Question, Strategy, Told, Verdict, create
from mptune.trial import Bulk, Combination, Record
from mptune.units import MIB, format_size

#: Trials that are asked for together where a testbed runs several at once; the answer depends on it, so it is
#: the same on every machine.
_BATCH = 4

#: How often neighbours of the best arms join, or buffers beyond the ends, at most.
_WIDENED = 8

#: Arms whose neighbours join: the likeliest.
_BEST = 2

#: Buffers per octave.
_PER_OCTAVE = 4

#: The largest buffer is multiplied by this at most where throughput still rises there.
_LARGER = 4


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What was believed after some trials.

    Attributes
    ----------
    trials, seconds : of the sweep until then, and on the testbed.
    certainty, room : probability that the best answer so far misses what the sacrifice allows by this share
        at most.
    more_s : seconds on the testbed after which it is expected to be certain; 0 if it is, None if that is not
        in sight.
    prior : whether the simulator's prediction is "followed" or was "dropped"; empty without one.
    drift : change of the network's throughput while it was measured, as a share; None without one.
    contenders : combinations that may still hold the best answer, the likeliest first.
    among : number of combinations that competed.
    buffers : smallest and largest buffer that may still be the answer, bytes.
    """

    trials: int
    seconds: float
    combination: Combination
    buffer_bytes: int
    throughput_mbps: float
    certainty: float
    room: float
    contenders: tuple[Combination, ...]
    among: int
    buffers: tuple[int, int]
    more_s: float | None = None
    prior: str = ""
    drift: float | None = None


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """How the decision was reached.

    Attributes
    ----------
    strategy : name in `mptune.strategy.STRATEGIES`.
    wanted : the certainty that was asked for.
    budget_s : seconds on the testbed, for everything; None for as many as the certainty needs.
    spent_s : seconds of impact factors and sweep together.
    ended : "certain"; "budget"; or "everything", where all runs that could change the answer were measured.
    steps : after every batch of trials.
    """

    strategy: str
    wanted: float
    budget_s: float | None
    spent_s: float
    ended: str
    steps: tuple[Step, ...]


class Learned(msgspec.Struct, frozen=True, kw_only=True):
    """The trials of the sweep, the decision, and how it was reached."""

    records: tuple[Record, ...]
    decision: Decision
    reached: Reached


def learn(job: Job, impacts: Sequence[Impact], sets: Mapping[str, SubflowSets], spent_s: float) -> Learned:
    """Ask the strategy until it is certain, the budget is used up, or there is nothing left to ask.

    Parameters
    ----------
    spent_s : seconds on the testbed that the impact factors took.

    Raises
    ------
    Interrupted, LimitReached : Ctrl-C, or a limit of the user's, with the best answer so far.
    MptuneError : no trial gave a usable throughput.
    """
    sweep = _Sweep(job, impacts, sets, spent_s)
    if job.has_prior:
        with job.phase("prediction") as progress:
            sweep.predict(progress)
    with job.phase("sweep") as progress:
        try:
            sweep.run(progress)
        except KeyboardInterrupt as error:
            raise Interrupted(so_far(sweep.steps), error) from None
        except LimitReached as error:
            error.so_far = so_far(sweep.steps)
            raise
    return sweep.learned()


class _Measured(NamedTuple):
    """A trial of the sweep; `at_s` is when it ended, in seconds of the sweep on the testbed."""

    combination: Combination
    size: int
    run: int
    record: Record
    at_s: float

    def told(self, ask: Ask, job: Job, *, timed: bool) -> Told:
        """As the strategy wants to know it."""
        # A stalled connection delivers nothing any more; what else failed says nothing.
        mbps = 0.0 if self.record.failed_kind == "stalled" else self.record.throughput_mbps
        return Told(ask, mbps, job.seconds(self.record), self.at_s if timed else None)


class _Sweep:
    """Arms and buffers of the question, and the trials so far."""

    def __init__(
        self, job: Job, impacts: Sequence[Impact], sets: Mapping[str, SubflowSets], spent_s: float
    ) -> None:
        self._job, self._sets, self._before_s = job, sets, spent_s
        self._optional = optional_sets(sets)
        self._arms: list[Combination] = []
        self._join([*job.asked(), *job.competing(impacts)])
        options = job.options
        self._buffers = geometric(options.buffers) if options.extend else tuple(sorted(options.buffers))
        self._known: list[_Measured] = []
        self._spent_s = 0.0
        self._prior = None
        if job.has_prior:
            self._prior = Prior(
                job.topology,
                lambda combination, size: job.configuration(combination, size, sets),
                options.duration_ns,
                options.seed,
            )
        self._ended = "certain"
        self.steps: list[Step] = []

    def predict(self, progress: Advance | None = None) -> tuple[tuple[float, ...], ...]:
        """What the simulator says of the question as it is now; nothing where it is the testbed itself."""
        return () if self._prior is None else self._prior.rows(self._arms, self._buffers, progress)

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
            if not (self._widened(verdict) or self._joined(verdict)):
                break
        if progress is not None and self._known:
            progress(len(self._known), len(self._known), self._said())

    def learned(self) -> Learned:
        """The decision on what was measured."""
        return Learned(
            records=self._records,
            decision=self._decision(),
            reached=Reached(
                strategy=self._job.options.chosen_strategy,
                wanted=self._job.options.certainty,
                budget_s=self._job.options.budget_s,
                spent_s=self._before_s + self._spent_s,
                ended=self._ended,
                steps=tuple(self.steps),
            ),
        )

    # ---- the question ------------------------------------------------------------------------------

    def _strategy(self) -> Strategy:
        """A strategy for the question as it is now, which knows what was measured."""
        job, options = self._job, self._job.options
        budget_s = self._budget_s
        question = Question(
            arms=tuple(Arm(arm, self._active(arm)) for arm in self._arms),
            buffers=self._buffers,
            sacrifice=options.sacrifice,
            runs=options.runs_each,
            certainty=options.certainty,
            batch=1 if job.is_real else _BATCH,
            trial_s=job.trial_s(options.duration_ns),
            budget_s=None if budget_s is None else max(0.0, budget_s),
            seed=options.seed,
            prior=self.predict(),
            prior_error=None if self._prior is None else self._prior.error(self._arms, self._buffers),
        )
        strategy = create(options.chosen_strategy, question)
        strategy.tell(list(self._told()))
        return strategy

    def _told(self) -> Iterator[Told]:
        """What was measured, in terms of the question."""
        arms = {arm: index for index, arm in enumerate(self._arms)}
        sizes = {size: index for index, size in enumerate(self._buffers)}
        for measured in self._known:
            ask = Ask(arms[measured.combination], sizes[measured.size], measured.run)
            yield measured.told(ask, self._job, timed=self._job.is_real)

    def _measure(self, asked: Sequence[Ask]) -> list[Told]:
        """Trials of what was asked for."""
        job, options = self._job, self._job.options
        places = [(self._arms[request.arm], self._buffers[request.size]) for request in asked]
        planned = [
            plan_run(
                job.topology,
                job.configuration(combination, size, self._sets).under(
                    # A first look may be short; what is looked at again must be sure.
                    Bulk(duration_ns=options.duration_ns, ends_early=job.is_lean and one.run == 0)
                ),
                purpose="sweep",
                run=one.run,
                base_seed=options.seed,
                round_=job.round_,
            )
            for one, (combination, size) in zip(asked, places, strict=True)
        ]
        given = job.runner.measure(planned, before=len(self._known))
        told = []
        for question, (combination, size), record in zip(asked, places, given, strict=True):
            self._spent_s += job.seconds(record)
            self._known.append(_Measured(combination, size, question.run, record, self._spent_s))
            told.append(self._known[-1].told(question, job, timed=self._job.is_real))
        return told

    @property
    def _records(self) -> tuple[Record, ...]:
        """The trials so far, in their order."""
        return tuple(measured.record for measured in self._known)

    @property
    def _budget_s(self) -> float | None:
        """Seconds of the budget that the sweep has in all."""
        budget_s = self._job.options.budget_s
        return None if budget_s is None else budget_s - self._before_s - self._job.reserved_s

    def _left_s(self) -> float | None:
        """Seconds of the budget that are left for the sweep."""
        budget_s = self._budget_s
        return None if budget_s is None else budget_s - self._spent_s

    # ---- what competes -----------------------------------------------------------------------------

    def _join(self, ones: Iterable[Combination]) -> bool:
        """Let more arms compete; whether there were any that do something of their own."""
        known = {self._does(arm) for arm in self._arms}
        before = len(self._arms)
        for combination in ones:
            if (does := self._does(combination)) not in known:
                known.add(does)
                self._arms.append(combination)
        return len(self._arms) > before

    def _does(self, combination: Combination) -> tuple[object, ...]:
        """What a combination does: PCDC with every subflow is FullMesh again."""
        active = self._active(combination)
        return (
            active if active else combination.pm,
            combination.is_tcp,
            combination.cc,
            combination.initial_path,
        )

    def _active(self, combination: Combination) -> frozenset[str]:
        """The subflows that carry data; empty where only the path manager knows."""
        if combination.pm == "fullmesh":
            return frozenset(path.label for path in self._job.mptcp.paths)
        own = self._optional.get(combination.cc, ()) if combination.pm == "pcdc" else ()
        return frozenset(combination.subflows or own)

    def _joined(self, verdict: Verdict) -> bool:
        """Let sets of subflows beside those of the best arms compete."""
        job, options = self._job, self._job.options
        if not job.sets_compete:
            return False
        search = SetSearch(job.mptcp, options.ccs, self._optional, mesh="fullmesh" in options.pms)
        best = [self._arms[arm] for arm in verdict.contenders[:_BEST]]
        return self._join(combination for arm in best for combination in search.around(arm))

    def _widened(self, verdict: Verdict) -> bool:
        """Add an octave of buffers where the answer may lie beyond an end."""
        options, ratio = self._job.options, 2 ** (1 / _PER_OCTAVE)
        if not options.extend:
            return False
        low, high = self._buffers[0], self._buffers[-1]
        new: list[int] = []
        if verdict.sizes[0] == 0:
            steps = (whole_buffer(low / ratio**step / MIB) for step in range(_PER_OCTAVE, 0, -1))
            new += [size for size in steps if size >= FLOOR]
        if verdict.size == len(self._buffers) - 1 and 2 * high <= _LARGER * max(options.buffers):
            new += [whole_buffer(high * ratio**step / MIB) for step in range(1, _PER_OCTAVE + 1)]
        self._buffers = tuple(sorted({*self._buffers, *new}))
        return bool(new)

    # ---- what is known -----------------------------------------------------------------------------

    def _note(self, strategy: Strategy, progress: Advance | None) -> None:
        """Keep what is believed now, and show it."""
        verdict, done = strategy.verdict(), len(self._known)
        if verdict is not None:
            low, high = (self._buffers[size] for size in verdict.sizes)
            self.steps.append(
                Step(
                    trials=done,
                    seconds=self._before_s + self._spent_s,
                    combination=self._arms[verdict.arm],
                    buffer_bytes=self._buffers[verdict.size],
                    throughput_mbps=verdict.value,
                    certainty=verdict.certainty,
                    room=verdict.room,
                    contenders=tuple(self._arms[contender] for contender in verdict.contenders),
                    among=len(self._arms),
                    buffers=(low, high),
                    more_s=verdict.more_s,
                    prior=verdict.prior,
                    drift=None if verdict.drift is None else verdict.drift.change,
                )
            )
        if progress is not None:
            # How many there will be is not known: what the strategy expects, within the budget.
            ends = [self._left_s(), None if verdict is None else verdict.more_s]
            more_s = min((end for end in ends if end is not None), default=self._spent_s)
            more = round(more_s / self._job.trial_s(self._job.options.duration_ns))
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
        enough = left_s is None or left_s >= self._job.trial_s(self._job.options.duration_ns)
        return "everything" if enough else "budget"

    def _decision(self) -> Decision:
        """The strategy's answer, with the curves that belong to it."""
        job, options = self._job, self._job.options
        verdict = self._strategy().verdict()
        if verdict is None:
            raise MptuneError(f"every trial of the sweep failed (first reason: {self._records[0].failed})")
        decision = decide(
            sweep_samples(self._records, self._optional),
            msgspec.structs.replace(options, resamples=0, model="belief"),
            stalled=stalls(self._records, self._optional),
            reporter=job.reporter,
        )
        combination, size = self._arms[verdict.arm], self._buffers[verdict.size] / MIB
        curve = decision.response.curves.get(combination)
        optimum = Optimum(
            **combination._asdict(),
            buffer_mib=size,
            throughput_mbps=verdict.value if curve is None else curve.predict(size),
        )
        low, high = verdict.sizes
        # The answer lies above the buffer before the smallest that may do.
        ends = self._buffers[max(low - 1, 0)] / MIB, self._buffers[high] / MIB
        uncertainty = Uncertainty(
            resamples=0,
            obs_mib=(min(ends[0], size), max(ends[1], size)),
            otp_mbps=verdict.interval,
            wins={
                self._arms[arm]: share for arm, share in zip(verdict.contenders, verdict.shares, strict=True)
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


def so_far(steps: Sequence[Step]) -> str:
    """The best answer after some trials, as a sentence; empty where there is none."""
    if not steps:
        return ""
    last = steps[-1]
    name = last.combination
    return (
        f"best answer after {last.trials} trials: {name.manager} with {name.cc} and "
        f"{format_size(last.buffer_bytes, 3)}, some {digits(last.throughput_mbps, 3)} Mbit/s "
        f"({percent_certain(last.certainty)} certain that this is within {100 * last.room:.2g} % of what the "
        "sacrifice allows)"
    )


def percent_certain(certainty: float) -> str:
    """A certainty for people: nothing that was measured is certain."""
    return f"{min(100 * certainty, 99.9):.3g} %"


def geometric(buffers: Sequence[int]) -> tuple[int, ...]:
    """Buffers from the smallest to the largest, a quarter of an octave apart, in whole KiB."""
    low, high = min(buffers), max(buffers)
    steps = max(1, round(_PER_OCTAVE * math.log2(high / low)))
    return tuple(
        sorted({whole_buffer(low * (high / low) ** (step / steps) / MIB) for step in range(steps + 1)})
    )
