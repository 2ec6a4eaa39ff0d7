"""The trials behind the claims: planned once for all of them, run by the runner, and judged.

A trial that several claims need is run once. It writes no file and prints nothing.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import msgspec

from mptune import testbeds
from mptune.errors import InputError, MptuneError
from mptune.impact import ImpactOptions, measure_impact
from mptune.optimisation.main_job import optimise
from mptune.optimisation.mpcoa import MpcoaOptions
from mptune.options import SWITCH, Option, Options, count, time
from mptune.options.stacks import StackOptions
from mptune.options.trials import Jobs, Runs, Testbed
from mptune.papers.measure._declare import PMS, STACK
from mptune.papers.measure.claim import Answer, Claim, Factors, Point, network
from mptune.papers.measure.rule import Answered, Judgement, Values, judge
from mptune.runner.planning import plan_trials
from mptune.runner.progress import Reporter
from mptune.runner.runner import TrialRunner
from mptune.statistics import Summary, summary_of
from mptune.trial import Bulk, Combination, Configuration, PlannedTrial, Record
from mptune.trial.stacks import DEFAULT_STACK, STACKS, Stack
from mptune.units import MIB


class MeasureOptions(Options, frozen=True, kw_only=True):
    """Settings for measuring the claims.

    Attributes
    ----------
    duration_ns : of every trial that sends for a time, and T of the impact factors; None is each claim's own.
    """

    runs: Runs = 3
    duration_ns: Annotated[
        int | None,
        Option(
            time(positive=True),
            "With --measure: length of each trial.",
            flag="--duration",
            unset="the papers'",
        ),
    ] = None
    seed: Annotated[int, Option(count(), "With --measure: base of all seeds.", flag="--seed")] = 1
    testbed: Testbed = "simulated"
    jobs: Jobs = None
    calibrated: Annotated[
        bool,
        Option(
            SWITCH,
            "With --measure: on calibrated scenarios (NAME.calibrated), where there are any.",
            flag="--calibrated",
        ),
    ] = False


class Number(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a point's runs.

    Attributes
    ----------
    measured : None if every run failed.
    reason : why the first run that failed did; empty if none did.
    """

    point: Point
    measured: Summary | None
    reason: str = ""


class Again(msgspec.Struct, frozen=True, kw_only=True):
    """A claim measured again.

    Attributes
    ----------
    numbers : of its points, in their order.
    factors : mean impact factor by path, by name of the factors.
    answers : of Algorithm 1, by name.
    """

    judgement: Judgement
    numbers: tuple[Number, ...]
    factors: dict[str, dict[str, float]]
    answers: dict[str, Answered] = {}

    @property
    def claim(self) -> Claim:
        """The claim."""
        return self.judgement.claim


def measure(
    chosen: Sequence[Claim], runner: TrialRunner, options: MeasureOptions, *, reporter: Reporter | None = None
) -> tuple[Again, ...]:
    """Measure claims again and judge them.

    Raises
    ------
    InputError : an invalid option; the testbed can run none of the trials.
    MptuneError : the store cannot be written.
    """
    options.check()
    shown = reporter or Reporter(quiet=True)
    points = {_key(point, options): point for claim in chosen for point in claim.points}
    runs = _throughputs(points, runner, options, shown)
    factors = _factors([factor for claim in chosen for factor in claim.factors], runner, options, shown)
    answers = {
        answer.scenario: answered
        for claim in chosen
        for answer in claim.answers
        if (answered := _answered(answer, runner, options, shown)) is not None
    }
    return tuple(_again(claim, runs, factors, answers, options) for claim in chosen)


def _stack(testbed: str, stack: Stack) -> Stack:
    """The papers' stack, or the only one that a testbed has."""
    return stack if testbeds.only_stack(testbed) is None else STACKS[DEFAULT_STACK]


def _configuration(point: Point, options: MeasureOptions) -> Configuration:
    """Configuration of a point."""
    configuration = point.configuration
    configuration = msgspec.structs.replace(configuration, stack=_stack(options.testbed, configuration.stack))
    if options.duration_ns is not None and isinstance(configuration.workload, Bulk):
        configuration = configuration.under(Bulk(duration_ns=options.duration_ns))
    return configuration


def _key(point: Point, options: MeasureOptions) -> tuple[str, bytes]:
    """Identity of what is run for a point."""
    return point.scenario, msgspec.json.encode(_configuration(point, options))


Measured = tuple[list[float], str]


def _throughputs(
    points: Mapping[tuple[str, bytes], Point],
    runner: TrialRunner,
    options: MeasureOptions,
    reporter: Reporter,
) -> dict[tuple[str, bytes], Measured]:
    """The numbers of every point, one per run, and why the first that failed did."""
    if not points:
        return {}
    planned, refused = {}, {}
    for key, point in points.items():
        trials = plan_trials(
            point.topology,
            [_configuration(point, options)],
            purpose="sweep",
            runs=options.runs,
            base_seed=options.seed,
        )
        if reason := _why_not(runner, trials[0]):
            refused[key] = reason
        else:
            planned[key] = trials
    if refused and not planned:
        raise next(iter(refused.values()))
    with reporter.phase("trials") as progress:
        records = iter(runner.measure(list(itertools.chain(*planned.values())), progress=progress))
    measured: dict[tuple[str, bytes], Measured] = {key: ([], str(why)) for key, why in refused.items()}
    for key, trials in planned.items():
        mine = list(itertools.islice(records, len(trials)))
        measured[key] = points[key].metric.values(mine), _reason(mine)
    return measured


def _why_not(runner: TrialRunner, trial: PlannedTrial) -> InputError | None:
    """Why a testbed refuses a trial."""
    try:
        runner.testbed.check(trial.trial)
    except InputError as error:
        return error
    return None


def _reason(records: Iterable[Record]) -> str:
    return next((str(record.failed) for record in records if record.failed is not None), "")


def _factors(
    wanted: Sequence[Factors], runner: TrialRunner, options: MeasureOptions, reporter: Reporter
) -> dict[tuple[str, str], dict[str, float]]:
    """Mean impact factor by path, by scenario and congestion control."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    scenarios = dict.fromkeys(factors.scenario for factors in wanted)
    for scenario in scenarios:
        mine = {factors.cc: factors for factors in wanted if factors.scenario == scenario}
        factors = next(iter(mine.values()))
        plan = ImpactOptions(
            design="eq5",
            runs=options.runs,
            window_ns=options.duration_ns or factors.window_ns,
            buffer_bytes=factors.buffer_bytes,
            seed=options.seed,
        )
        stack = _stack(options.testbed, STACKS[STACK])
        with reporter.phase(f"impact factors, {scenario}") as progress:
            impacts, _ = measure_impact(
                network(scenario), runner, list(mine), plan, stack=stack, progress=progress
            )
        for impact in impacts:
            found[scenario, impact.cc] = {
                path.path: path.omega.mean for path in impact.paths if path.omega is not None
            }
    return found


def _answered(
    answer: Answer, runner: TrialRunner, options: MeasureOptions, reporter: Reporter
) -> Answered | None:
    """The answer of Algorithm 1; None if too many trials failed for one."""
    stack = STACK if testbeds.only_stack(options.testbed) is None else DEFAULT_STACK
    duration_ns = options.duration_ns or answer.duration_ns
    plan = MpcoaOptions(
        buffers=answer.buffers,
        duration_ns=duration_ns,
        runs=options.runs,
        confirm_runs=options.runs,
        impact=ImpactOptions(
            design="eq5", runs=options.runs, window_ns=duration_ns, buffer_bytes=answer.buffers[-1]
        ),
        seed=options.seed,
        stack=StackOptions(stack=stack),
    )
    try:
        result = optimise(network(answer.scenario), runner, plan, reporter=reporter)
    except InputError:
        raise
    except MptuneError:
        return None
    low, high = (size / MIB for size in (answer.buffers[0], answer.buffers[-1]))
    return Answered(
        maxima_mbps={
            name_of(combination): curve.maximum(low, high)[1]
            for combination, curve in result.response.curves.items()
        },
        chosen=name_of(result.optimum.combination),
        buffer_bytes=result.buffer_bytes,
        throughput_mbps=result.optimum.throughput_mbps,
    )


def name_of(combination: Combination) -> str:
    """A combination as the papers call it, "PCDC/hybla"."""
    pms = {ours: theirs for theirs, ours in PMS.items()}
    return f"{pms.get(combination.pm, combination.pm)}/{combination.cc}"


def _again(
    claim: Claim,
    runs: Mapping[tuple[str, bytes], Measured],
    factors: Mapping[tuple[str, str], dict[str, float]],
    answers: Mapping[str, Answered],
    options: MeasureOptions,
) -> Again:
    """A claim with its numbers and its verdict."""
    measured = {point.name: runs[_key(point, options)] for point in claim.points}
    mine = {factor.name: factors[factor.scenario, factor.cc] for factor in claim.factors}
    answered = {
        answer.name: answers[answer.scenario] for answer in claim.answers if answer.scenario in answers
    }
    values = Values(
        runs={name: found for name, (found, _) in measured.items()}, factors=mine, answers=answered
    )
    return Again(
        judgement=judge(claim, values),
        numbers=tuple(
            Number(
                point=point,
                measured=summary_of(measured[point.name][0]),
                reason=measured[point.name][1],
            )
            for point in claim.points
        ),
        factors=mine,
        answers=answered,
    )
