"""The main job for a workload with a metric of its own: the configuration that serves it best.

    sets of subflows -> screening -> sweep -> choice -> confirmation, throughput and outage beside the default

Impact factors are of throughput and say nothing about delays, so sets of subflows compete directly. There is
no model and no sacrifice, as with transfers (`by_size`): of the configurations that cannot be distinguished
from the best one, the smallest buffer is the answer. It prints nothing and writes no file.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from mptune.decision.robustness import FAMILIAR_CC, REGRET, SURVIVAL
from mptune.errors import InputError, MptuneError
from mptune.optimisation import baselines, harm
from mptune.optimisation.baselines import Baselines
from mptune.optimisation.candidates import screen_buffers
from mptune.optimisation.competing import beginnings, subsets, worth_measuring
from mptune.optimisation.failover import Failover, Search, Standstill, with_members
from mptune.optimisation.job import Job, failures
from mptune.optimisation.options import Limit, OptimiseOptions
from mptune.optimisation.plain_tcp import everywhere
from mptune.runner.progress import Reporter
from mptune.runner.runner import TrialRunner
from mptune.statistics import Summary, summarise
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
from mptune.trial.metrics import THROUGHPUT, Metric, metric_named, metrics_of, through_an_outage
from mptune.trial.records import is_tcp

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


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration that was measured.

    Attributes
    ----------
    by_run : the objective of every run that has one, in its unit.
    kept : False if it violates a limit.
    excess : the largest violation, as a share of the limit; 0 where there is none.
    failed : runs without a value; not those for which the machine was too busy.
    """

    combination: Combination
    buffer_bytes: int
    by_run: dict[int, float]
    kept: bool
    excess: float
    failed: int

    @property
    def mean(self) -> float:
        """Mean of the objective."""
        return sum(self.by_run.values()) / len(self.by_run)


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
    recommended, default : what was measured again with new seeds.
    subflows : labels of those that may carry data.
    figures : the objective first, then the workload's other metrics.
    throughput : of a saturated sender with the same configurations.
    harm : what another TCP connection loses on each path where one was measured, percent.
    outage : path that was cut halfway, and the longest gap or response; None with a single path.
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
    recommended: Configuration
    default: Configuration
    subflows: tuple[str, ...]
    figures: tuple[Figure, ...]
    throughput: Figure
    outage: tuple[str, Figure] | None
    failover: Failover | None = None
    harm: tuple[Figure, ...] = ()
    baselines: Baselines
    warnings: tuple[str, ...]
    records: tuple[Record, ...]


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
    return _Search(job, workload, metric_named(options.objective_word), tuple(options.limits)).answered()


@dataclass(frozen=True)
class _Search:
    """One question.

    Attributes
    ----------
    limits : on other metrics.
    """

    job: Job
    workload: Described
    objective: Metric
    limits: tuple[Limit, ...]

    def answered(self) -> ObjectiveResult:
        """Everything in order."""
        job, options = self.job, self.job.options
        if options.beside_tcp or options.do_no_harm:
            harm.check(job)
        buffers = worth_measuring(options.buffers, self.workload)
        screening = job.measure(
            [
                job.configuration(combination, buffer_bytes)
                for combination in self._combinations()
                for buffer_bytes in screen_buffers(buffers)
            ],
            "screen",
            min(SCREEN_RUNS, options.runs_each),
            "screening",
        )
        staying = self._staying(self._points(screening))
        swept = job.measure(
            [job.configuration(one, buffer_bytes) for one in staying for buffer_bytes in buffers],
            "sweep",
            options.runs_each,
            "sweep",
        )
        points, tried = self._harmless(self._points(swept))
        best, chosen, alike = self._choose(points)
        return self._confirmed((*screening, *swept, *tried), points, best, chosen, alike)

    # ---- candidates -----------------------------------------------------------------------------

    def _combinations(self) -> list[Combination]:
        """Path managers and sets of subflows, and plain TCP on every path, with every congestion control."""
        job, options = self.job, self.job.options
        managers = [
            Combination(pm, cc, (), path)
            for pm in options.pms
            for cc in options.ccs
            for path in options.initial_paths or ("",)
            if pm != "pcdc"
        ]
        sets = [
            Combination("pcdc", cc, subset, path)
            for subset in (subsets(job.mptcp) if "pcdc" in options.pms else ())
            for cc in options.ccs
            for path in beginnings(job.mptcp, subset, options.initial_paths)
        ]
        return [*managers, *sets, *(everywhere(job.topology, options.ccs) if options.tcp else ())]

    def _staying(self, points: Sequence[Point]) -> list[Combination]:
        """The combinations that may be the best, the best first; of each set of subflows a few."""
        by_combination: dict[Combination, list[Point]] = {}
        for point in points:
            by_combination.setdefault(point.combination, []).append(point)
        best = {one: min(of_one, key=self._rank) for one, of_one in by_combination.items()}
        ordered = sorted(best, key=lambda one: (self._rank(best[one]), one))
        usable = [one for one in ordered if best[one].by_run]
        if not usable:
            raise MptuneError("no configuration completed a trial")
        few: dict[object, list[Combination]] = {}
        for one in usable:
            alike = few.setdefault((one.pm, one.subflows), [])
            if len(alike) < _OF_EACH or (one.cc == FAMILIAR_CC and len(alike) == _OF_EACH):
                alike.append(one)
        kept = {one for alike in few.values() for one in alike}
        return [one for one in usable if one in kept][:MOST]

    def _rank(self, point: Point) -> tuple[object, ...]:
        """Better points first: those with values, without failures, within the limits, by the objective."""
        if not point.by_run:
            return True, 0, 0, 0.0
        return False, point.failed > 0, point.excess, self.objective.cost(point.mean)

    def _harmless(self, points: tuple[Point, ...]) -> tuple[tuple[Point, ...], list[Record]]:
        """With `--do-no-harm`, points of combinations that do harm with their best buffer violate a limit."""
        if not self.job.options.do_no_harm:
            return points, []
        best: dict[Combination, Point] = {}
        for point in points:
            known = best.setdefault(point.combination, point)
            best[point.combination] = min(known, point, key=self._rank)
        asked = [self.job.configuration(one, point.buffer_bytes) for one, point in best.items()]
        found, records = harm.measure(self.job, asked, SCREEN_RUNS, "harm to another TCP")
        excess = {one: max(losses.harms(number) for losses in found) / 100 for number, one in enumerate(best)}
        return tuple(
            msgspec.structs.replace(
                point,
                kept=point.kept and not excess[point.combination],
                excess=max(point.excess, excess[point.combination]),
            )
            for point in points
        ), records

    # ---- the choice -----------------------------------------------------------------------------

    def _choose(self, points: Sequence[Point]) -> tuple[Point, Point, int]:
        """The best point, the one to use, and how many cannot be distinguished from the best.

        Plain TCP is the best only if it is better by more than what surviving a failure of its path is worth.
        """
        done = [point for point in points if point.by_run]
        if not done:
            raise MptuneError("no configuration completed a trial")
        best = self._best(done)
        sound = [point for point in done if (point.failed > 0, point.kept) == (best.failed > 0, best.kept)]
        multipath = [point for point in sound if not point.combination.is_tcp]
        if best.combination.is_tcp and multipath:
            rival = self._best(multipath)
            behind = self.objective.cost(rival.mean) - self.objective.cost(best.mean)
            if behind <= max(self.objective.floor, SURVIVAL * abs(best.mean)):
                best, sound = rival, multipath
        alike = [point for point in sound if not self._is_worse(point, best)]
        return best, min(alike, key=self._simplicity), len(alike)

    def _best(self, points: Sequence[Point]) -> Point:
        """The best mean of those within the limits."""
        return min(points, key=lambda point: (*self._rank(point), point.buffer_bytes, point.combination))

    def _simplicity(self, point: Point) -> tuple[object, ...]:
        """Smaller buffers, MPTCP, all subflows, the usual congestion control, the better objective."""
        one = point.combination
        familiar = one.cc != FAMILIAR_CC
        return (
            point.buffer_bytes,
            one.is_tcp,
            familiar,
            one.pm == "pcdc",
            self.objective.cost(point.mean),
            one,
        )

    def _is_worse(self, point: Point, best: Point) -> bool:
        """True if it is worse for sure, run by run, and by as much as matters."""
        difference = self.objective.cost(point.mean) - self.objective.cost(best.mean)
        if difference <= max(self.objective.floor, REGRET * abs(best.mean)):
            return False
        runs = sorted(point.by_run.keys() & best.by_run.keys())
        if not runs:
            return True
        more = summarise(
            [self.objective.cost(point.by_run[run]) - self.objective.cost(best.by_run[run]) for run in runs]
        )
        return (more.mean if more.low is None else more.low) > 0

    # ---- confirmation ---------------------------------------------------------------------------

    def _confirmed(
        self,
        before: Sequence[Record],
        points: tuple[Point, ...],
        best: Point,
        chosen: Point,
        alike: int,
    ) -> ObjectiveResult:
        """The choice and the default again with new seeds, with a saturated sender, and through an outage."""
        job, options = self.job, self.job.options
        default = job.default
        runs = options.fresh_runs
        chosen, failover, searched = self._failover(points, best, chosen, default, before)
        ours_alone = job.configuration(chosen.combination, chosen.buffer_bytes)
        pair = [with_members(ours_alone, {} if failover is None else failover.members), default]
        fresh = job.measure(pair, "confirm", runs, "confirmation")
        ours, theirs = fresh[:runs], fresh[runs:]
        others = [metric for metric in metrics_of(self.workload) if metric.name != self.objective.name]
        bulk = [one.under(Bulk(duration_ns=options.duration_ns)) for one in pair]
        beside = min(_BESIDE_RUNS, runs)
        saturated = job.measure(bulk, "vary", beside, "throughput beside it")
        cut, outages = self._outage(pair, ours, beside)
        lost = through_an_outage(self.workload)
        losses, rivalled = self._losses(pair, runs)
        shown = baselines.measure(job, ours, runs, metric=self.objective)
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
            limits=(*(limit.text for limit in self.limits), *([NO_HARM] if options.do_no_harm else [])),
            points=points,
            best=best,
            chosen=chosen,
            alike=alike,
            recommended=pair[0],
            default=pair[1],
            subflows=_carrying(job.topology, pair[0], ours),
            figures=tuple(figure(metric, ours, theirs) for metric in (self.objective, *others)),
            throughput=figure(self._alone, saturated[:beside], saturated[beside:]),
            outage=None if cut is None else (cut, figure(lost, outages[:beside], outages[beside:])),
            failover=failover,
            harm=losses,
            baselines=shown,
            warnings=(
                *shown.warnings,
                *self._warnings(before, fresh, ours, theirs, chosen, failover),
                *failures(outages, f"outage ({cut} is cut)"),
            ),
            records=(*before, *searched, *fresh, *saturated, *outages, *rivalled),
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
        assert not isinstance(self.workload, Programs), "an option that is refused"
        nearest: tuple[Point, Failover] | None = None
        records: list[Record] = []
        of_default: dict[tuple[str, ...], Standstill] = {}
        for point in contenders:
            configuration = job.configuration(point.combination, point.buffer_bytes)
            paths = _carrying(job.topology, configuration, [one for one in before if _is_of(one, point)])
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
        multipath = [point for point in points if point.by_run and not point.combination.is_tcp]
        ordered = sorted(
            multipath,
            key=lambda point: (
                point != chosen,
                point.failed > 0,
                point.excess,
                self._is_worse(point, best),
                self._simplicity(point),
            ),
        )
        firsts: dict[object, Point] = {}
        for point in ordered:
            firsts.setdefault((point.combination.pm, point.combination.subflows), point)
        return list(firsts.values())[:_CONTENDERS]

    def _losses(self, pair: Sequence[Configuration], runs: int) -> tuple[tuple[Figure, ...], list[Record]]:
        """What another TCP connection loses beside both, if that was asked for."""
        options = self.job.options
        if not (options.beside_tcp or options.do_no_harm):
            return (), []
        found, records = harm.measure(self.job, pair, runs, "beside another TCP")
        return tuple(map(_loss, found)), records

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
        cut = [msgspec.structs.replace(one, script=script) for one in pair]
        return path, self.job.measure(cut, "vary", runs, "outage")

    def _warnings(
        self,
        before: Sequence[Record],
        fresh: Sequence[Record],
        ours: Sequence[Record],
        theirs: Sequence[Record],
        chosen: Point,
        failover: Failover | None,
    ) -> Iterator[str]:
        yield from failures(before, "screening and sweep")
        yield from failures(fresh, "confirmation")
        if self.job.options.do_no_harm and not chosen.kept:
            yield "No configuration within the limits does no harm to another TCP connection: see its loss."
        for limit in self.limits:
            mean = limit.metric.mean(ours)
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
        if any(limit.violation(limit.metric.mean(theirs) or 0.0) > 0 for limit in self.limits):
            return  # The default is no choice, however good it is otherwise.
        gains = self.objective.gains(ours, theirs)
        gain = summarise(gains) if gains else None
        if gain is not None and gain.high is not None and gain.high < 0:
            base = self.objective.mean(theirs) or 0.0
            if -gain.mean > max(self.objective.floor, REGRET * abs(base)):
                yield "The answer is worse than the default in fresh runs; use the default."

    # ---- measured trials ------------------------------------------------------------------------

    def _points(self, records: Sequence[Record]) -> tuple[Point, ...]:
        """Trials by configuration, in the order of measurement."""
        grouped: dict[tuple[Combination, int], list[Record]] = {}
        for record in records:
            grouped.setdefault((_combination(record), record.buffer_bytes), []).append(record)
        return tuple(self._point(*place, ones) for place, ones in grouped.items())

    def _point(self, combination: Combination, buffer_bytes: int, records: Sequence[Record]) -> Point:
        by_run = {record.run: value for record in records if (value := self.objective.of(record)) is not None}
        excess = 0.0
        for limit in self.limits:
            mean = limit.metric.mean(records)
            excess = max(excess, 1.0 if mean is None else limit.violation(mean))
        return Point(
            combination=combination,
            buffer_bytes=buffer_bytes,
            by_run=by_run,
            kept=excess == 0,
            excess=excess,
            failed=sum(
                self.objective.of(record) is None and record.failed_kind != "overloaded" for record in records
            ),
        )


def _is_of(record: Record, point: Point) -> bool:
    return (_combination(record), record.buffer_bytes) == (point.combination, point.buffer_bytes)


def figure(metric: Metric, ours: Sequence[Record], theirs: Sequence[Record]) -> Figure:
    """A metric of two configurations, run by run."""
    mine, their, gains = metric.values(ours), metric.values(theirs), metric.gains(ours, theirs)
    return Figure(
        name=metric.name,
        unit=metric.unit,
        ours=summarise(mine) if mine else None,
        default=summarise(their) if their else None,
        gain=summarise(gains) if gains else None,
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
        gain=summarise(gains) if gains else None,
    )


def _combination(record: Record) -> Combination:
    """The combination of a trial. PCDC has no set of itself here: every set was chosen."""
    path = str(record.settings.get("initial_path") or "")
    if is_tcp(record.settings):
        return Combination.plain_tcp(path, record.cc)
    return Combination(record.pm, record.cc, tuple(record.settings.get("active", ())), path)


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
