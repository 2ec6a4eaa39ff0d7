"""The main job for a workload with a metric of its own: the configuration that serves it best.

    sets of subflows -> search -> choice -> confirmation, throughput and outage beside the default

or where a grid is needed (`OptimiseOptions.needs_grid`), or asked for

    sets of subflows -> screening -> sweep -> choice -> confirmation, ...

Impact factors are of throughput and do not cover delays, so sets of subflows compete directly. There is
no model and no sacrifice, as with transfers (`by_size`): of the configurations that cannot be distinguished
from the best one, the smallest buffer is the answer (`points`). Of two objectives the workload's own decides;
what no other configuration beats in both is the front. It prints nothing and writes no file.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec

from mptune.decision.robustness import FAMILIAR_CC
from mptune.errors import InputError, MptuneError
from mptune.optimisation import baselines, cost, harm
from mptune.optimisation.baselines import Baselines
from mptune.optimisation.budget import BESIDE, Budget
from mptune.optimisation.candidates import screen_buffers
from mptune.optimisation.failover import Failover, Search, Standstill, with_members
from mptune.optimisation.job import Job, failures
from mptune.optimisation.objective_candidates import competing, few_of, worth_measuring
from mptune.optimisation.objective_search import search
from mptune.optimisation.options import OptimiseOptions
from mptune.optimisation.points import Choice, Point, combination
from mptune.optimisation.reached import Reached
from mptune.runner.progress import Reporter
from mptune.runner.runner import TrialRunner
from mptune.statistics import Summary, summary_of
from mptune.testbeds import stack_title
from mptune.topology import Topology
from mptune.trial import (
    Bulk,
    Combination,
    Configuration,
    Described,
    Mix,
    Programs,
    Record,
    ScriptedAction,
    Transfer,
    judged,
)
from mptune.trial.metrics import COST, THROUGHPUT, Metric
from mptune.trial.objectives import has, metrics_of

#: The limit of `--do-no-harm`, for people.
NO_HARM = "loss of another TCP connection of at most 5 % for sure"

#: Runs of each configuration in the screening.
SCREEN_RUNS = 4

#: Combinations that are swept after the screening, at most.
MOST = 12

#: Congestion controls of a set of subflows that are swept, beside the usual one.
_OF_EACH = 2

#: Sets of subflows that are tried where a dead path costs the first too much.
_CONTENDERS = 4

#: Runs of a saturated sender beside the answer, and of an outage.
_BESIDE_RUNS = 5


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of the answer and of the default.

    Attributes
    ----------
    ours, default : over the fresh runs; None where none has it.
    gain : of ours over the default, run by run, positive where ours is better; None without a pair.
    """

    name: str
    unit: str
    ours: Summary | None
    default: Summary | None
    gain: Summary | None


class ObjectiveResult(msgspec.Struct, frozen=True, kw_only=True):
    """The answer and the evidence; fields as in `mptune.optimisation.main_job.Result`.

    Attributes
    ----------
    objective, unit : name of the metric.
    limits : the limits on other metrics.
    points : everything that was swept, in the order of measurement.
    best : the point with the best mean within the limits; `chosen` : the smallest buffer of those like it.
    alike : how many points cannot be distinguished from the best, itself included.
    room : what the chosen point misses of the best at most, in the unit, with 95 % confidence; None with
        single runs.
    reached : how a strategy that learns came to it; None for a grid.
    second, second_unit : of two objectives the other; empty where there is one.
    front : points that none beats in both, the best by `objective` first.
    recommended, default : what was measured again with new seeds.
    subflows : labels of those that may carry data.
    figures : the objective first, then the workload's other metrics.
    throughput : of a saturated sender with the same configurations.
    harm : what another TCP connection loses on each path where one was measured, percent.
    outage : path that was cut halfway, and the longest gap or response; None with a single path.
    costs : what it costs, and how long contracts last, as sentences.
    baselines : what the hosts do today, and endpoints by hand, by the objective.
    failover : timeouts for a limit on what a dead path costs; None if none was asked for.
    """

    name: str
    topology: Topology
    stack: str
    buffer_mode: str
    receive_bytes: int | None = None
    family: str
    workload: Described
    objective: str
    unit: str
    limits: tuple[str, ...]
    points: tuple[Point, ...]
    best: Point
    chosen: Point
    alike: int
    room: float | None = None
    reached: Reached | None = None
    second: str = ""
    second_unit: str = ""
    front: tuple[Point, ...] = ()
    recommended: Configuration
    default: Configuration
    subflows: tuple[str, ...]
    figures: tuple[Figure, ...]
    throughput: Figure
    outage: tuple[str, Figure] | None
    failover: Failover | None = None
    harm: tuple[Figure, ...] = ()
    costs: tuple[str, ...] = ()
    baselines: Baselines
    warnings: tuple[str, ...]
    records: tuple[Record, ...]

    @property
    def table(self) -> tuple[Figure, ...]:
        """Figures for a table, throughput once."""
        is_own = self.objective == self.throughput.name
        return self.figures if is_own else (*self.figures, self.throughput)


def optimise_by_objective(
    topology: Topology,
    runner: TrialRunner,
    options: OptimiseOptions,
    *,
    reporter: Reporter | None = None,
) -> ObjectiveResult:
    """Find the configuration with the best `options.objective` for `options.workload`.

    Raises
    ------
    InputError : an invalid option; before anything is measured.
    MptuneError : no configuration completed a trial.
    """
    options.check()
    workload = options.sent
    assert workload is not None
    if options.at_most_failover_ns is not None and not runner.testbed.cuts:
        expected = f"expected a testbed that cuts paths, found {runner.testbed.name}"
        raise InputError("--at-most-failover", "", expected)
    job = replace(Job.on(topology, runner, options, reporter), sent=workload)
    objective, *second = (_priced(topology, name) for name in options.objectives)
    choice = Choice(objective, tuple(options.limits), next(iter(second), None), not has(workload, THROUGHPUT))
    return _Search(job, workload, choice).answered()


def _priced(topology: Topology, metric: Metric) -> Metric:
    """The metric, with the prices of the topology if it is about them.

    Raises
    ------
    InputError : it has none.
    """
    if metric is not COST:
        return metric
    priced = cost.metric(topology)
    if priced is None:
        expected = "expected a price_per_gb of an interface, which cost needs, found none"
        raise InputError(topology.file, "sites", expected)
    return priced


class _Chosen(NamedTuple):
    """The choice, as in `ObjectiveResult`, and the runs with new seeds."""

    best: Point
    chosen: Point
    alike: int
    room: float | None
    runs: int
    reached: Reached | None = None


@dataclass(frozen=True)
class _Search:
    """One question."""

    job: Job
    workload: Described
    choice: Choice

    @property
    def objective(self) -> Metric:
        """The deciding metric."""
        return self.choice.objective

    def answered(self) -> ObjectiveResult:
        """Everything in order."""
        job, options = self.job, self.job.options
        if options.beside_tcp or options.do_no_harm:
            harm.check(job)
        if options.learns:
            return self._searched()
        asks_saturated = self.choice.asks_saturated
        buffers = (few_of if asks_saturated else worth_measuring)(options.buffers, self.workload)
        runs = min(SCREEN_RUNS, options.runs_each)
        screening, screened = self._points(competing(job), screen_buffers(buffers), "screening", runs)
        staying = self._staying(screening)
        sweep, swept = self._points(staying, buffers, "sweep", options.runs_each)
        points, tried = self._harmless(sweep)
        best, chosen, alike = self.choice.choose(points)
        room = self.choice.room(points, chosen)
        made = _Chosen(best, chosen, alike, room, options.fresh_runs)
        return self._confirmed((*screened, *swept, *tried), points, made)

    def _searched(self) -> ObjectiveResult:
        """The same by a strategy that learns."""
        job, choice = self.job, self.choice
        buffers = worth_measuring(job.options.buffers, self.workload)
        searched = search(job, self.workload, choice, competing(job), buffers)
        best, chosen, _ = choice.choose(searched.finalists)
        alike = choice.alike(searched.points, best)
        runs = min(job.options.fresh_runs, _affordable(searched.budget))
        made = _Chosen(best, chosen, alike, searched.room(choice, chosen), runs, searched.reached)
        return self._confirmed(searched.records, searched.points, made)

    def _points(
        self, combinations: Sequence[Combination], buffers: Sequence[int], name: str, runs: int
    ) -> tuple[tuple[Point, ...], list[Record]]:
        """Every combination with every buffer, and all trials; a saturated sender too if it is asked for."""
        job = self.job
        asked = [
            job.configuration(combination, buffer_bytes)
            for combination in combinations
            for buffer_bytes in buffers
        ]
        records = job.measure(asked, "screen" if name == "screening" else name, runs, name)
        saturated: list[Record] = []
        if self.choice.asks_saturated:
            # Not with the seeds of the throughput that is shown beside the answer.
            few = min(SCREEN_RUNS, runs)
            saturated = job.measure(asked, "screen", few, f"throughput, {name}", workload=self._bulk)
        return self.choice.points(records, saturated), [*records, *saturated]

    @property
    def _bulk(self) -> Bulk:
        return Bulk(duration_ns=self.job.options.duration_ns)

    # ---- candidates -----------------------------------------------------------------------------

    def _staying(self, points: Sequence[Point]) -> list[Combination]:
        """The combinations that may be the best, the best first; of each set of subflows a few.

        With two objectives half of them by each.
        """
        orders = self.choice.orders(points)
        if not orders[0]:
            raise MptuneError("no configuration completed a trial")
        each = [_few(order)[: MOST // len(orders)] for order in orders]
        return list(dict.fromkeys(combination for few in each for combination in few))

    def _harmless(self, points: tuple[Point, ...]) -> tuple[tuple[Point, ...], list[Record]]:
        """With `--do-no-harm`, points of combinations that do harm with their best buffer violate a limit."""
        if not self.job.options.do_no_harm:
            return points, []
        best: dict[Combination, Point] = {}
        for point in points:
            known = best.setdefault(point.combination, point)
            best[point.combination] = min(known, point, key=self.choice.rank)
        asked = [
            self.job.configuration(combination, point.buffer_bytes) for combination, point in best.items()
        ]
        found, records = harm.measure(self.job, asked, SCREEN_RUNS, "harm to another TCP")
        excess = {
            combination: max(losses.harms(number) for losses in found) / 100
            for number, combination in enumerate(best)
        }
        return tuple(
            msgspec.structs.replace(
                point,
                kept=point.kept and not excess[point.combination],
                excess=max(point.excess, excess[point.combination]),
            )
            for point in points
        ), records

    # ---- confirmation ---------------------------------------------------------------------------

    def _confirmed(
        self,
        before: Sequence[Record],
        points: tuple[Point, ...],
        made: "_Chosen",
    ) -> ObjectiveResult:
        """The choice and the default again with new seeds, with a saturated sender, and through an outage."""
        job, options, best, chosen = self.job, self.job.options, made.best, made.chosen
        default = job.default
        runs = made.runs
        chosen, failover, searched = self._failover(points, best, chosen, default, before)
        ours_alone = job.configuration(chosen.combination, chosen.buffer_bytes)
        pair = [with_members(ours_alone, {} if failover is None else failover.members), default]
        fresh = job.measure(pair, "confirm", runs, "confirmation")
        ours, theirs = fresh[:runs], fresh[runs:]
        others = self._others()
        bulk = [configuration.under(self._bulk) for configuration in pair]
        beside = min(_BESIDE_RUNS, runs)
        # A saturated sender has been measured by then, if it is what was asked about.
        is_bulk = isinstance(self.workload, Bulk)
        further = [] if is_bulk else job.measure(bulk, "vary", beside, "throughput beside it")
        saturated = further or [*ours[:beside], *theirs[:beside]]
        cut, outages = self._outage(pair, ours, beside)
        lost = judged(self.workload).judged_by.outage
        losses, rivalled = self._losses(pair, runs)
        shown = baselines.measure(job, ours, runs, metric=self.objective)
        second = self.choice.second
        label = stack_title(job.runner.testbed.name, msgspec.structs.asdict(options.stack.chosen()))
        return ObjectiveResult(
            name=job.topology.name,
            topology=job.topology,
            stack=label,
            buffer_mode=options.mode_of_trials,
            receive_bytes=job.receive_bytes,
            family=options.family,
            workload=self.workload,
            objective=self.objective.name,
            unit=self.objective.unit,
            limits=(
                *(limit.text for limit in self.choice.limits),
                *([NO_HARM] if options.do_no_harm else []),
            ),
            points=points,
            best=best,
            chosen=chosen,
            alike=made.alike,
            room=made.room,
            reached=made.reached,
            second="" if second is None else second.name,
            second_unit="" if second is None else second.unit,
            front=self.choice.front(points, chosen),
            recommended=pair[0],
            default=pair[1],
            subflows=_carrying(job.topology, pair[0], ours),
            figures=tuple(figure(metric, ours, theirs) for metric in (self.objective, *others)),
            throughput=figure(self._alone, saturated[:beside], saturated[beside:]),
            outage=None if cut is None else (cut, figure(lost, outages[:beside], outages[beside:])),
            failover=failover,
            harm=losses,
            baselines=shown,
            costs=tuple(cost.sentences(job.topology, ours)),
            warnings=(
                *self.job.left_out,
                *shown.warnings,
                *self._warnings(before, fresh, saturated, chosen, failover),
                *failures(outages, f"outage ({cut} is cut)"),
            ),
            records=(*before, *searched, *fresh, *further, *outages, *rivalled),
        )

    def _failover(
        self,
        points: Sequence[Point],
        best: Point,
        chosen: Point,
        default: Configuration,
        before: Sequence[Record],
    ) -> tuple[Point, Failover | None, list[Record]]:
        """The first of the contenders that a dead path costs no more than was asked for, or the nearest."""
        limit_ns, job = self.job.options.at_most_failover_ns, self.job
        contenders = self._contenders(points, best, chosen)
        if limit_ns is None or not contenders or len(job.topology.paths) < 2:
            return chosen, None, []
        assert not isinstance(self.workload, Bulk | Programs), "an option that is refused"
        nearest: tuple[Point, Failover] | None = None
        records: list[Record] = []
        of_default: dict[tuple[str, ...], Standstill] = {}
        for point in contenders:
            configuration = job.configuration(point.combination, point.buffer_bytes)
            paths = _carrying(
                job.topology, configuration, [record for record in before if _is_of(record, point)]
            )
            search = Search(job, self.workload, self.objective, paths, job.options.fresh_runs)
            if paths not in of_default:
                of_default[paths] = search.standstill(default, records)
            failover = search.within(limit_ns / 1e6, configuration, of_default[paths], records)
            if nearest is None or failover.ours.ms < nearest[1].ours.ms:
                nearest = point, failover
            if failover.kept:
                break
        assert nearest is not None
        return *nearest, records

    def _contenders(self, points: Sequence[Point], best: Point, chosen: Point) -> list[Point]:
        """The choice, and what is next where a dead path costs too much: of each set of subflows one point.

        Plain TCP ends with its path.
        """

        def order(point: Point) -> tuple[object, ...]:
            worse = self.objective.cost(point.mean) if self.choice.is_worse(point, best) else -math.inf
            simple = self.choice.simplicity(point)
            return point != chosen, point.failed > 0, point.excess, worse, simple

        multipath = [point for point in points if point.by_run and not point.combination.is_tcp]
        ordered = sorted(multipath, key=order)
        firsts: dict[object, Point] = {}
        for point in ordered:
            firsts.setdefault((point.combination.pm, point.combination.subflows), point)
        return list(firsts.values())[:_CONTENDERS]

    def _losses(self, pair: Sequence[Configuration], runs: int) -> tuple[tuple[Figure, ...], list[Record]]:
        """Losses of another TCP connection beside both, if that was asked for."""
        options = self.job.options
        if not (options.beside_tcp or options.do_no_harm):
            return (), []
        found, records = harm.measure(self.job, pair, runs, "beside another TCP")
        return tuple(map(_loss, found)), records

    def _others(self) -> list[Metric]:
        """Metrics of the workload that are shown beside the objective."""
        asked = [
            metric for metric in (self.choice.second, cost.metric(self.job.topology)) if metric is not None
        ]
        asked = [metric for metric in asked if metric.name == COST.name or has(self.workload, metric)]
        # Of a saturated sender the bad seconds too: its mean is shown anyway.
        known = (
            self.workload.judged_by.others if isinstance(self.workload, Bulk) else metrics_of(self.workload)
        )
        by_name = {metric.name: metric for metric in (*asked, *known)}
        return [metric for name, metric in by_name.items() if name != self.objective.name]

    @property
    def _alone(self) -> Metric:
        """Throughput of a saturated sender, which mixes and programs may have among their own."""
        has_its_own = isinstance(self.workload, Mix | Programs)
        return replace(THROUGHPUT, name=f"{THROUGHPUT.name} of one alone") if has_its_own else THROUGHPUT

    def _outage(
        self, pair: Sequence[Configuration], ours: Sequence[Record], runs: int
    ) -> tuple[str | None, list[Record]]:
        """The path that carries most, cut halfway: for good, and the gap that it leaves."""
        is_sized = isinstance(judged(self.workload), Transfer)
        if len(self.job.topology.paths) < 2 or pair[0].protocol == "tcp" or is_sized:
            return None, []
        if not self.job.runner.testbed.cuts:
            return None, []
        if isinstance(self.workload, Programs):
            return None, []  # nobody knows beforehand when half of them is over
        carried: dict[str, float] = {}
        for record in ours:
            for subflow in record.subflows:
                carried[subflow.path] = carried.get(subflow.path, 0.0) + subflow.throughput_mbps
        if not carried:
            return None, []
        path = max(carried, key=lambda label: (carried[label], label))
        script = (ScriptedAction(at_ns=self.workload.duration_ns // 2, path=path, action="down"),)
        cut = [msgspec.structs.replace(configuration, script=script) for configuration in pair]
        return path, self.job.measure(cut, "vary", runs, "outage")

    def _warnings(
        self,
        before: Sequence[Record],
        fresh: Sequence[Record],
        saturated: Sequence[Record],
        chosen: Point,
        failover: Failover | None,
    ) -> Iterator[str]:
        """Sentences; of `fresh` and `saturated` one half is the answer's, the other the default's."""
        (ours, theirs), (alone, their_alone) = _halves(fresh), _halves(saturated)
        yield from failures(before, "screening and sweep")
        yield from failures(fresh, "confirmation")
        if self.job.options.do_no_harm and not chosen.kept:
            yield "No configuration within the limits does no harm to another TCP connection: see its loss."
        for limit in self.choice.limits:
            mean = limit.metric.mean(self.choice.having(limit.metric, ours, alone))
            if not chosen.kept:
                found = "none" if mean is None else f"{mean:.4g} {limit.metric.unit}"
                yield f"No configuration keeps {limit.text}: the nearest is recommended ({found})."
            elif mean is not None and limit.violation(mean) > 0:
                yield f"The answer misses {limit.text} in fresh runs: {mean:.4g} {limit.metric.unit}."
        if failover is not None and not failover.kept:
            yield (
                f"No timeouts keep a dead path within {failover.limit_ms:g} ms: the nearest are recommended "
                f"({failover.ours.ms:.4g} ms, {failover.ours.path})."
            )
        if failover is not None and failover.default.ms > failover.limit_ms:
            return
        for limit in self.choice.limits:
            mean = limit.metric.mean(self.choice.having(limit.metric, theirs, their_alone))
            if limit.violation(mean or 0.0) > 0:
                return  # The default is no choice, however good it is otherwise.
        gain = summary_of(self.objective.gains(ours, theirs))
        if gain is not None and gain.high is not None and gain.high < 0:
            base = self.objective.mean(theirs) or 0.0
            if -gain.mean > self.objective.unnoticed(base):
                yield "The answer is worse than the default in fresh runs; use the default."


def _affordable(budget: Budget) -> int:
    """Runs with new seeds for which a budget has time, two at least.

    Each is one of the answer, the default, and the two that they are shown beside; the first few also of a
    saturated sender and of an outage, with the answer and the default.
    """
    if budget.options.budget_s is None:
        return budget.options.fresh_runs
    trials = budget.affordable(1)
    each, once = 2 + BESIDE, 4 * _BESIDE_RUNS
    return max(2, (trials - once) // each if trials >= each * _BESIDE_RUNS + once else trials // (each + 4))


def _few(ordered: Sequence[Combination]) -> list[Combination]:
    """Of each set of subflows the best congestion controls, and the usual one, in their order."""
    few: dict[object, list[Combination]] = {}
    for one in ordered:
        alike = few.setdefault((one.pm, one.subflows), [])
        if len(alike) < _OF_EACH or (one.cc == FAMILIAR_CC and len(alike) == _OF_EACH):
            alike.append(one)
    kept = {combination for alike in few.values() for combination in alike}
    return [combination for combination in ordered if combination in kept]


def _halves(records: Sequence[Record]) -> tuple[Sequence[Record], Sequence[Record]]:
    half = len(records) // 2
    return records[:half], records[half:]


def _is_of(record: Record, point: Point) -> bool:
    return (combination(record), record.buffer_bytes) == point.place


def figure(metric: Metric, ours: Sequence[Record], theirs: Sequence[Record]) -> Figure:
    """A metric of two configurations, run by run."""
    return Figure(
        name=metric.name,
        unit=metric.unit,
        ours=metric.summary(metric.values(ours)),
        default=metric.summary(metric.values(theirs)),
        gain=metric.summary(metric.gains(ours, theirs)),
    )


def _loss(losses: harm.Losses) -> Figure:
    """The loss beside the answer and beside the default, run by run; less is better."""
    ours, theirs = losses.by_configuration
    gains = [theirs[run] - ours[run] for run in sorted(ours.keys() & theirs.keys())]
    return Figure(
        name=f"loss of another TCP on {losses.path}",
        unit="%",
        ours=losses.summary(0),
        default=losses.summary(1),
        gain=summary_of(gains),
    )


def _carrying(topology: Topology, configuration: Configuration, records: Sequence[Record]) -> tuple[str, ...]:
    """Subflows that may carry data, in the order of the topology: chosen, every one, or those that did.

    With fullmesh a subflow carries messages as soon as the others are full or broken.
    """
    if configuration.active:
        used = set(configuration.active)
    elif configuration.protocol == "mptcp" and configuration.pm == "fullmesh":
        used = {path.label for path in topology.for_mptcp(configuration.initial_path).paths}
    else:
        used = {subflow.path for record in records for subflow in record.subflows if subflow.throughput_mbps}
    return tuple(path.label for path in topology.paths if path.label in used)
