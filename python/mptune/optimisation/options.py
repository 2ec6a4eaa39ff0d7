"""Options of the main job: what is swept, how often, and how it is decided.

One declaration of each is its flag, its key in a file and its default (`mptune.options`).
"""

from collections.abc import Iterator
from typing import Annotated, Self

import msgspec

from mptune import units
from mptune.decision import DecisionOptions, too_few_sizes
from mptune.errors import one_of
from mptune.impact import ImpactOptions
from mptune.optimisation.limits import Limit
from mptune.optimisation.papers import BUFFERS, CCS, PMS
from mptune.options import SWITCH, TOGGLE, Kind, Option, choice, confidence, count, rate, share, time
from mptune.options.path_managers import PathManagerOptions
from mptune.options.priors import Learnt, Simulated
from mptune.options.repetition import Every, Lasting, rounds_of, wrong_repetition
from mptune.options.stacks import StackOptions
from mptune.options.trials import (
    Buffers,
    Ccs,
    Duration,
    Family,
    InitialPaths,
    Pms,
    SizeKnown,
    Transfers,
)
from mptune.options.workloads import (
    Connections,
    WorkloadOption,
    impossible,
    on_connections,
    wrong_connections,
)
from mptune.strategy import STRATEGIES
from mptune.testbeds import check_name
from mptune.testbeds.virtual import VirtualTestbed
from mptune.trial import (
    AUTO,
    DEFAULT_FAMILY,
    FIXED,
    SENDER,
    Bulk,
    Described,
    Timed,
    Workload,
    judged,
    workloads_of,
)
from mptune.trial.metrics import NEARLY_ALWAYS, THROUGHPUT, Metric
from mptune.trial.objectives import check_objectives, has, metric_named, metric_of
from mptune.trial.records import LEAST_WINDOWS
from mptune.trial.stacks import flag
from mptune.trial.workloads import TIMED, WRITTEN
from mptune.trial.workloads.messages import GAP
from mptune.trial.workloads.video import STALLED

#: Configuration of a host that was never tuned; measured with the largest buffer of the sweep.
DEFAULT_PM, DEFAULT_CC = "fullmesh", "cubic"

#: Purpose of a size: buffers of both ends, fixed or growing, or the sender's alone; or the best of them.
COMPETE = "compete"
MODES = (COMPETE, SENDER, AUTO, FIXED)

#: Sources of PCDC's sets.
SETS = ("compete", "signs")

#: Runs of each configuration, and of the answer beside the default: of a saturated sender, and of transfers,
#: which are short, and whose 95th percentile depends on the longest of 20 runs or fewer.
RUNS, TRANSFER_RUNS = (9, 9), (20, 40)

#: The same of messages, of which one trial has many.
MESSAGE_RUNS = (10, 20)

#: Runs of the answer beside the default where the strategy has measured it several times already.
FRESH_RUNS = 5

#: The word for confirming the answer on no kernel.
NOWHERE = "none"

#: Runs of impact factors that only propose what competes.
PROPOSING = 4

#: The strategies of `mptune optimise` that are chosen without being named.
_LEARNING, _PAPERS = "adaptive", "grid"

#: Options that ask for the papers' sweep: a response model and a selection of one's own choice.
_OF_GRID = ("model", "selection", "on_grid")

#: Options that decide on throughput; without a meaning for completion times.
_OF_THROUGHPUT = (
    *("duration_ns", "sacrifice", "selection", "model", "on_grid", "resamples", "off_by", "extend"),
    *("confirm_on", "sensitivity"),
    *("every_ns", "for_ns", "strategy", "budget_ns", "certainty", "prior", "learnt_prior"),
)

#: The same of messages, which have a duration and are searched by the same strategies, and whose sets of
#: subflows do not follow from impact factors.
_ALSO_OF_MESSAGES = ("duration_ns", "strategy", "budget_ns", "certainty", "prior")
_NOT_OF_MESSAGES = (*(name for name in _OF_THROUGHPUT if name not in _ALSO_OF_MESSAGES), "sets")

#: Objectives of each workload.
_OF_WORKLOADS = "; ".join(kind.objectives_help for kind in WRITTEN.values())

#: Options of messages alone.
_ONLY_MESSAGES = (
    "at_most_delay_ns",
    "at_most_gap_ns",
    "at_least_bps",
    "at_least_p5_bps",
    "at_most_failover_ns",
    "at_most_stalled",
    "beside_tcp",
    "do_no_harm",
)

#: Objectives of a saturated sender that need its workload by name.
_OF_BULK = {metric.word for metric in Bulk.judged_by.others}

#: Options of pcdc that follow from the impact factors.
_MEASURED = ("active", "standby_order", "rtt_ns")


def _check_confirming(name: str) -> None:
    """Refuse what is neither a testbed in virtual time nor the word for none."""
    if name.partition(":")[0] not in (NOWHERE, VirtualTestbed.name) or name.startswith(f"{NOWHERE}:"):
        raise ValueError(one_of((VirtualTestbed.name, f"{VirtualTestbed.name}:RELEASE", NOWHERE), name))
    if name != NOWHERE:
        check_name(name)


class OptimiseOptions(DecisionOptions, frozen=True, kw_only=True):
    """The sweep, its repetitions, and the rules of the decision.

    Attributes
    ----------
    buffers : bytes, ascending.
    buffer_mode : one of `MODES`.
    family : as in `Trial`.
    initial_paths : a factor like path managers; empty leaves it to the topology and the path manager.
    transfers : bytes; empty asks for throughput, otherwise the answer is one configuration for each size.
    size_known : as in `Trial`; only with transfers.
    runs, confirm_runs : None until `completed`; see `runs_each` and `fresh_runs`.
    every_ns, for_ns : repeat everything at this interval for this long; both None runs it once.
    confirm_on : testbed that confirms the simulator's answer, `NOWHERE`, or None for one that is there.
    shortened_from_ns : duration of trials that a budget made shorter; None where it did not.
    pm_options : of the path managers that are swept, apart from PCDC's sets, which are measured.
    impact : its `buffer_bytes` is the buffer of the withdrawal trials.
    """

    pms: Pms = PMS
    ccs: Ccs = CCS
    buffers: Buffers = BUFFERS
    buffer_mode: Annotated[
        str,
        Option(
            choice(lambda: MODES),
            "sender: the sender's buffer grows up to the size, the receiver's as far as the host lets it; "
            "auto: both grow up to the size; fixed: both have the size, as in the papers; compete: sender, "
            "or fixed where that gives clearly more throughput.",
            key="buffer_mode",
            rare=True,
            alone=True,
        ),
    ] = COMPETE
    family: Family = DEFAULT_FAMILY
    initial_paths: InitialPaths = ()
    transfers: Transfers = ()
    workload: WorkloadOption = None
    connections: Connections = 1
    objective: Annotated[
        str | None,
        Option(
            Kind("METRIC", str.strip, str, check_objectives),
            f"What is to be best of the --workload: {_OF_WORKLOADS}; of all "
            "late:150ms, the share that takes longer. Two (throughput,delay:p99): also what no other "
            "configuration beats in both; throughput is that of a saturated sender. Of a --transfer it is "
            "completion.",
            key="decision.objective",
            unset=", ".join([*(kind.judged_by.metrics[0].word for kind in TIMED.values()), "completion"]),
        ),
    ] = None
    at_most_delay_ns: Annotated[
        int | None,
        Option(
            time(positive=True),
            "Only configurations whose delay, response or page p99 is at most this.",
            key="decision.at_most_delay",
        ),
    ] = None
    at_most_gap_ns: Annotated[
        int | None,
        Option(
            time(positive=True),
            "Only configurations whose longest gap between messages is at most this.",
            key="decision.at_most_gap",
        ),
    ] = None
    at_least_bps: Annotated[
        int | None,
        Option(
            rate(),
            "Only configurations with which a saturated sender reaches this throughput, or the --workload "
            "itself if throughput is a metric of it.",
            key="decision.at_least",
        ),
    ] = None
    at_least_p5_bps: Annotated[
        int | None,
        Option(
            rate(),
            "Only configurations with which the saturated sender of --workload bulk reaches this throughput "
            "in 95 % of the seconds.",
            key="decision.at_least_p5",
        ),
    ] = None
    at_most_failover_ns: Annotated[
        int | None,
        Option(
            time(positive=True),
            "Programs stand still for at most this in 95 % of the cases, whichever path dies: the mildest "
            "timeouts of both hosts that keep it are searched.",
            key="decision.at_most_failover",
        ),
    ] = None
    beside_tcp: Annotated[
        bool,
        Option(
            SWITCH,
            "With --workload, also measure what another TCP connection loses beside the answer, and beside "
            "the default, against what it has beside plain TCP (RFC 6356: do no harm).",
            key="decision.beside_tcp",
            rare=True,
        ),
    ] = False
    do_no_harm: Annotated[
        bool,
        Option(
            SWITCH,
            "With --workload, only configurations beside which another TCP connection does not lose more "
            "than 5 % for sure; --beside-tcp is included.",
            key="decision.do_no_harm",
            rare=True,
        ),
    ] = False
    at_most_stalled: Annotated[
        float | None,
        Option(
            share(),
            "Only configurations that stall the video for at most this share of the time.",
            key="decision.at_most_stalled",
        ),
    ] = None
    size_known: SizeKnown = True
    runs: Annotated[
        int | None,
        Option(
            count(1),
            "Runs of each configuration, each with its own seed.",
            key="trials.runs",
            unset=f"{RUNS[0]}; {TRANSFER_RUNS[0]} with --transfer, {MESSAGE_RUNS[0]} with --workload",
        ),
    ] = None
    duration_ns: Duration = 30_000_000_000
    strategy: Annotated[
        str | None,
        Option(
            choice(lambda: STRATEGIES),
            "adaptive: measure what may still change the answer, --runs times at most; grid: everything, "
            "as in the papers.",
            key="trials.strategy",
            rare=True,
            unset="adaptive; grid with --as-papers, --model, --selection, --on-grid, --transfer, "
            "--do-no-harm, or two objectives",
        ),
    ] = None
    budget_ns: Annotated[
        int | None,
        Option(
            time(positive=True),
            "Time on the testbed for everything: impact factors, sweep, confirmation. In the simulator it is "
            "simulated time, with guests what they really take.",
            key="trials.budget",
            unset="as long as the certainty needs",
        ),
    ] = None
    certainty: Annotated[
        float,
        Option(
            confidence(),
            "End as soon as the answer is this certain, within 2 % of what the sacrifice allows.",
            key="trials.certainty",
        ),
    ] = 0.95
    prior: Simulated = True
    learnt_prior: Learnt = False
    stack: StackOptions = StackOptions()
    pm_options: PathManagerOptions = PathManagerOptions()
    impact: ImpactOptions = ImpactOptions()
    sets: Annotated[
        str,
        Option(
            choice(lambda: SETS),
            "compete: sets of subflows compete throughout; signs: only the set of the impact factors, as in "
            "the papers.",
            key="impact.sets",
            rare=True,
        ),
    ] = "compete"
    off_by: Annotated[
        float,
        Option(
            share(),
            "Rates, delays and losses may be off by this share: the answer must still hold. "
            "0 disables the check.",
            key="decision.off_by",
            rare=True,
        ),
    ] = 0.2
    tcp: Annotated[
        bool,
        Option(
            TOGGLE,
            "Recommend plain TCP on one path where it is clearly faster than MPTCP; if not, it is only "
            "compared with. --off-by 0 does not measure it.",
            key="decision.tcp",
        ),
    ] = True
    extend: Annotated[
        bool,
        Option(
            TOGGLE,
            "Measure beyond the smallest or largest buffer if the optimum is there, and between its "
            "neighbours.",
            key="decision.extend",
            rare=True,
        ),
    ] = True
    confirm_runs: Annotated[
        int | None,
        Option(
            count(1),
            "Runs with new seeds to confirm the answer, and as many of the default.",
            key="decision.confirm_runs",
            rare=True,
            unset=f"{FRESH_RUNS}; {RUNS[1]} with --strategy grid, {TRANSFER_RUNS[1]} with --transfer, "
            f"{MESSAGE_RUNS[1]} with --workload",
        ),
    ] = None
    confirm_on: Annotated[
        str | None,
        Option(
            Kind("NAME", str.strip, str, _check_confirming),
            "Confirm the simulator's answer on a real kernel in virtual time: virtual, virtual:7.3, or none. "
            "Named, it also decides between finalists that the simulator cannot tell apart.",
            key="decision.confirm_on",
            rare=True,
            unset="virtual without such decisions, if a kernel of the stack is built by this version",
        ),
    ] = None
    sensitivity: Annotated[
        bool,
        Option(
            SWITCH,
            "Afterwards vary every assumed value alone, and report those that would change the answer: rates "
            "and delays by --off-by, queues, jitter and loss from half to twice. At most 1452 short trials; "
            "only in the simulator.",
            key="decision.sensitivity",
            rare=True,
        ),
    ] = False
    every_ns: Every = None
    for_ns: Lasting = None
    shortened_from_ns: int | None = None

    @property
    def sent(self) -> Described | None:
        """The workload that was asked for, if it is one with an objective."""
        return None if self.workload is None else self.workload.lasting(self.duration_ns)

    @property
    def objectives(self) -> list[Metric]:
        """The metrics that are to be best, first the one that decides: the workload's own."""
        sent = self.sent
        assert sent is not None
        asked = map(metric_named, (self.objective or metric_of(sent).word).split(","))
        return sorted(asked, key=lambda metric: not has(sent, metric))

    @property
    def limits(self) -> Iterator[Limit]:
        """Limits on times, in ms, on the stalled share, in percent, and on throughput, in Mbit/s."""
        if self.sent is None:
            return
        sent = judged(self.sent)
        slow = sent.judged_by.by_word["p99"] if isinstance(sent, Timed) else GAP
        for metric, most_ns in ((slow, self.at_most_delay_ns), (GAP, self.at_most_gap_ns)):
            if most_ns is not None:
                yield Limit(metric, most_ns / 1e6)
        if self.at_most_stalled is not None:
            yield Limit(STALLED, 100 * self.at_most_stalled)
        if self.at_least_bps is not None:
            yield Limit(THROUGHPUT, self.at_least_bps / 1e6)
        if self.at_least_p5_bps is not None:
            yield Limit(NEARLY_ALWAYS, self.at_least_p5_bps / 1e6)

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """Workloads: a transfer of each size, or a saturated sender."""
        return (self.sent,) if self.sent else workloads_of(self.transfers, self.duration_ns)

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """The model needs enough buffer sizes; options are of path managers that are swept."""
        if not self.size_known and not self.transfers:
            yield "size_known", "expected only with sizes of transfers"
        for wrong in wrong_connections(self.workload, self.connections, self.transfers):
            yield "connections", wrong
        yield from self._conflicts_of_workload()
        if self.workload is not None:
            for field in msgspec.structs.fields(type(self)):
                if field.name in _NOT_OF_MESSAGES and getattr(self, field.name) != field.default:
                    yield field.name, "expected only without --workload: it concerns throughput"
            if self.learns and self.needs_grid:
                yield "strategy", f"expected {_PAPERS} with {self.needs_grid}, found {_LEARNING}"
            yield from self._conflicts_of_grid()
            for name in ("at_most_failover_ns", "beside_tcp"):
                if self.budget_ns is not None and getattr(self, name):
                    yield name, "expected only without a budget: nobody knows how long it takes"
        elif self.transfers:
            for field in msgspec.structs.fields(type(self)):
                if field.name in _OF_THROUGHPUT and getattr(self, field.name) != field.default:
                    yield field.name, "expected only without sizes of transfers: it concerns throughput"
        elif self.learns:
            for name in _OF_GRID:
                if getattr(self, name) != getattr(OptimiseOptions(), name):
                    yield name, f"expected only with --strategy {_PAPERS}: {_LEARNING} has its own"
        else:
            if expected := too_few_sizes(self.model, len(self.buffers)):
                yield "buffers", expected
            yield from self._conflicts_of_grid()
        if self.sensitivity and not self.transfers:
            for name, what in (("budget_ns", "a budget"), ("every_ns", "a repetition")):
                if getattr(self, name) is not None:
                    yield "sensitivity", f"expected only without {what}: it measures more, once, at the end"
            if not self.off_by:
                yield "sensitivity", "expected only with an --off-by above 0: rates and delays vary by it"
        yield from wrong_repetition(self.every_ns, self.for_ns)
        for name, pm in self.pm_options.unused(self.pms):
            yield f"pm_options.{name}", f"expected only with the path manager {pm}"
        for name in _MEASURED:
            if name in self.pm_options.of("pcdc"):
                yield f"pm_options.pcdc.{name}", "expected only in a sweep: the main job measures it"

    def _conflicts_of_grid(self) -> Iterator[tuple[str, str]]:
        """Refuse what only a strategy that learns has."""
        for name in () if self.learns else ("budget_ns", "certainty", "prior", "learnt_prior"):
            if getattr(self, name) != getattr(OptimiseOptions(), name):
                yield name, f"expected only with --strategy {_LEARNING}: {_PAPERS} measures everything"

    def _conflicts_of_workload(self) -> Iterator[tuple[str, str]]:
        """Options of messages for another workload, and the other way round."""
        if self.workload is None:
            for name in _ONLY_MESSAGES:
                if getattr(self, name) not in (None, False):
                    yield name, "expected only with --workload"
            yield from self._conflicts_of_synonym()
            return
        if self.transfers:
            yield "workload", "expected either --workload or sizes of transfers, found both"
        for expected in impossible(self.workload, self.duration_ns):
            yield "workload", expected
        assert self.sent is not None
        kind = judged(self.sent).kind
        if self.at_most_delay_ns is not None and not isinstance(judged(self.sent), Timed):
            yield "at_most_delay_ns", f"expected only with messages, requests or pages, found {kind}"
        first, *second = self.objectives
        if not has(self.sent, first) or any(
            not has(self.sent, metric) and metric != THROUGHPUT for metric in second
        ):
            of_it = f"two metrics of {kind}, or one and throughput" if second else f"a metric of {kind}"
            yield "objective", f"expected {of_it}, found {self.objective}"
        if self.at_most_failover_ns is not None:
            yield from self._conflicts_of_failover()
        if self.at_most_gap_ns is not None and not has(self.sent, GAP):
            yield "at_most_gap_ns", f"expected only with messages, found {kind}"
        if self.at_most_stalled is not None and not has(self.sent, STALLED):
            yield "at_most_stalled", f"expected only with a video, found {kind}"
        yield from self._conflicts_of_seconds(kind)

    def _conflicts_of_seconds(self, kind: str) -> Iterator[tuple[str, str]]:
        """What 95 % of the seconds reach needs a saturated sender, and enough seconds."""
        assert self.sent is not None
        asks = self.at_least_p5_bps is not None
        if asks and not has(self.sent, NEARLY_ALWAYS):
            yield "at_least_p5_bps", f"expected only with bulk, found {kind}"
        least_ns = LEAST_WINDOWS * 1_000_000_000
        if (asks or NEARLY_ALWAYS in self.objectives) and self.duration_ns < least_ns:
            found = units.format_time(self.duration_ns)
            yield "duration_ns", f"expected at least {LEAST_WINDOWS} s with throughput:p5, found {found}"

    def _conflicts_of_synonym(self) -> Iterator[tuple[str, str]]:
        """Without a workload an objective is what is asked for anyway."""
        usual = "completion" if self.transfers else "throughput"
        if self.objective not in (None, usual):
            what = "sizes of transfers" if self.transfers else "a saturated sender"
            is_bulks = not _OF_BULK.isdisjoint((self.objective or "").split(","))
            workload = "--workload bulk" if is_bulks else "--workload"
            yield "objective", f"expected {usual} with {what}, or {workload}, found {self.objective}"

    def _conflicts_of_failover(self) -> Iterator[tuple[str, str]]:
        """Timeouts are searched, unless they were given; for programs that wait."""
        assert self.sent is not None
        if (waits := judged(self.sent).judged_by.outage).unit != "ms":
            yield "at_most_failover_ns", f"expected only with programs that wait, found {waits.name}"
        given = self.stack.given
        for name in ("stale_loss_cnt", "rto_min_us"):
            if name in given:
                yield "at_most_failover_ns", f"expected only without {flag(name)}: it is searched"

    def completed(self) -> Self:
        """Withdrawal trials use the largest buffer, which limits least, and the same base of seeds.

        Many connections are a workload.
        """
        if self.connections > 1 and not self.transfers:
            workload = on_connections(self.workload, self.connections)
            if workload is not self.workload:
                return msgspec.structs.replace(self, workload=workload, connections=1).completed()
        impact = self.impact.beside(self.buffers, self.mode_of_trials, self.family, self.seed)
        proposes = self.learns and self.sets == "compete"
        if proposes and impact.design == "paired" and impact.runs is None:
            impact = msgspec.structs.replace(impact, runs=PROPOSING)
        return msgspec.structs.replace(
            self,
            impact=impact,
            runs=self.runs_each,
            confirm_runs=self.fresh_runs,
            strategy=self.strategy if self.transfers else self.chosen_strategy,
        )

    @property
    def mode_of_trials(self) -> str:
        """The buffers' mode of every trial, as in `Trial`."""
        return AUTO if self.grows_at_sender else self.buffer_mode

    @property
    def grows_at_sender(self) -> bool:
        """True if only the sender's buffer is searched, as long as nothing else was found to be better."""
        return self.buffer_mode in (SENDER, COMPETE)

    @property
    def chosen_strategy(self) -> str:
        """The strategy that was asked for, or the one that goes with the other options."""
        if self.strategy is not None:
            return self.strategy
        if self.workload is not None:
            return _PAPERS if self.needs_grid else _LEARNING
        plain = OptimiseOptions(strategy=_LEARNING)
        papers = self.transfers or any(getattr(self, name) != getattr(plain, name) for name in _OF_GRID)
        return _PAPERS if papers else _LEARNING

    @property
    def needs_grid(self) -> str:
        """What is asked of a workload that only a grid answers; empty for nothing."""
        if "," in (self.objective or ""):
            return "two objectives"
        if self.do_no_harm:
            return "--do-no-harm"
        sent = self.sent
        saturated = self.at_least_bps is not None and sent is not None and not has(sent, THROUGHPUT)
        return "--at-least of another workload than bulk" if saturated else ""

    @property
    def learns(self) -> bool:
        """True if earlier observations decide about later trials."""
        return self.chosen_strategy != _PAPERS

    @property
    def budget_s(self) -> float | None:
        """The budget in seconds."""
        return None if self.budget_ns is None else self.budget_ns / 1e9

    @property
    def rounds(self) -> int:
        """Number of times that everything is measured and decided."""
        return rounds_of(self.every_ns, self.for_ns)

    @property
    def swept_trials(self) -> int:
        """Trials of a round's sweep, at least: other sets of subflows come on top."""
        combinations = len(self.pms) * len(self.ccs) * max(1, len(self.initial_paths))
        return combinations * (1 if self.learns else self.runs_each * len(self.buffers))

    @property
    def _usual_runs(self) -> tuple[int, int]:
        if self.workload is not None:
            return MESSAGE_RUNS
        return TRANSFER_RUNS if self.transfers else RUNS

    @property
    def runs_each(self) -> int:
        """Runs of each configuration."""
        usual, _ = self._usual_runs
        return usual if self.runs is None else self.runs

    @property
    def fresh_runs(self) -> int:
        """Runs with new seeds."""
        _, usual = self._usual_runs
        if self.learns and self.workload is None:
            usual = FRESH_RUNS
        return usual if self.confirm_runs is None else self.confirm_runs
