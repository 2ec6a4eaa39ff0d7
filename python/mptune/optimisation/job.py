"""The steps of the main job: each measures something, or decides from what was measured.

`main_job` runs them in order; `by_size` and `practical` use some of them for other questions. `candidates`
and `plain_tcp` have what is worth measuring.
"""

import bisect
import itertools
import math
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from mptune.decision import Decision, decide
from mptune.decision.confirmation import Confirmation, confirm, turned
from mptune.decision.robustness import (
    Finalist,
    change,
    finalists,
    is_beaten,
    survivor,
    without_mptcp,
)
from mptune.decision.selection import Optimum, whole_buffer
from mptune.decision.sweep import SweepPoint, named, stalls, sweep_samples
from mptune.decision.tradeoff import FrontPoint
from mptune.impact import (
    Impact,
    ImpactOptions,
    SubflowSets,
    candidates,
    measure_impact,
    run_ns,
)
from mptune.optimisation import plain_tcp
from mptune.optimisation.candidates import (
    SCREEN_RUNS,
    again,
    between,
    beyond,
    brief_ns,
    collapsing,
    larger,
    missed,
    next_larger,
    peaks,
    rivals,
    screen_buffers,
    screened,
    wanted,
)
from mptune.optimisation.options import (
    CONFIRM_SHARE,
    DEFAULT_CC,
    DEFAULT_PM,
    IMPACT_SHARE,
    OptimiseOptions,
)
from mptune.optimisation.set_search import SetSearch
from mptune.options import Place, by_flag, error_about, written
from mptune.options.trials import (
    USUAL_PMS,
)
from mptune.runner.planning import plan_trials
from mptune.runner.progress import Reporter
from mptune.runner.runner import TrialRunner
from mptune.runner.running import Advance
from mptune.statistics import summarise
from mptune.testbeds import only_stack
from mptune.theory import traditional
from mptune.topology import Topology, perturbed
from mptune.trial import BIN_NS, Bulk, Combination, Configuration, Record, Transfer, Workload
from mptune.units import MIB, format_time

#: Windows of impact factors are not made shorter than this to fit a budget, nanoseconds.
_SHORTEST_WINDOW_NS = 1_000_000_000

#: Buffers of impact factors hold no more than the network carries in this share of a window: what is queued
#: on a subflow when it is withdrawn is still sent.
_QUEUED_SHARE = 0.25

#: How often the sweep is extended beyond its smallest or largest buffer.
EXTENSIONS = 3

#: How often buffers around the optimum are added: another one may be it afterwards.
REFINEMENTS = 3

#: How often the buffer is enlarged because fresh trials miss the target.
ENLARGEMENTS = 3

#: Networks that are not quite as stated.
OTHER_NETWORKS = 8


#: Throughputs of combinations, Mbit/s, in the same order in all of them; 0 for a failed trial.
Throughputs = Mapping[Combination, list[float]]


class Screening(NamedTuple):
    """What the screening of sets gave.

    Attributes
    ----------
    records : its trials, which last as long as all others.
    brief : the short ones of the search.
    staying : what is worth a sweep.
    """

    records: tuple[Record, ...] = ()
    brief: tuple[Record, ...] = ()
    staying: tuple[Combination, ...] = ()


class Contest(NamedTuple):
    """What the shortlist led to: the decision, changed if another finalist was better, and why.

    Attributes
    ----------
    stated, others : throughputs of the finalists, as in `mptune.decision.robustness.finalists`.
    opponent : the best plain TCP, or the best MPTCP where plain TCP is the answer; None where none was tried.
    """

    decision: Decision
    finalists: tuple[Finalist, ...] = ()
    sentences: tuple[str, ...] = ()
    records: tuple[Record, ...] = ()
    stated: Throughputs = MappingProxyType({})
    others: Throughputs = MappingProxyType({})
    opponent: Combination | None = None


class Job(NamedTuple):
    """The steps that measure or decide, with their common parameters.

    Attributes
    ----------
    round_ : of a campaign that is repeated over time.
    transfer : what is asked for is its completion; None asks for the throughput of a saturated sender.
    """

    topology: Topology
    runner: TrialRunner
    options: OptimiseOptions
    reporter: Reporter
    round_: int = 0
    transfer: Transfer | None = None

    def of_size(self, transfer_bytes: int) -> "Job":
        """The same job for transfers of one size."""
        return self._replace(transfer=Transfer(bytes=transfer_bytes))

    @property
    def mptcp(self) -> Topology:
        """The network that is left to MPTCP; plain TCP has all of it."""
        return self.topology.for_mptcp()

    def phase(self, name: str) -> AbstractContextManager[Advance | None]:
        """The progress of a phase, with the round where there are several."""
        prefix = f"round {self.round_ + 1}, " if self.options.every_ns else ""
        return self.reporter.phase(f"{prefix}{name}")

    # ---- time on the testbed -----------------------------------------------------------------------

    def trial_s(self, duration_ns: int) -> float:
        """Seconds that a trial of this length takes on the testbed, with its set-up."""
        return duration_ns / 1e9 + self.set_up_s

    @property
    def set_up_s(self) -> float:
        """Seconds that a trial takes beside its duration."""
        return self.runner.testbed.set_up_s

    def seconds(self, record: Record) -> float:
        """Seconds that a trial took on the testbed, once for every time it was repeated."""
        lasted_s = record.settings["duration_ns"] / 1e9 if record.duration_s is None else record.duration_s
        return (1 + record.repeated) * (lasted_s + self.set_up_s)

    @property
    def is_real(self) -> bool:
        """Whether time passes while a trial runs; a simulated network begins anew in every trial."""
        return only_stack(self.runner.testbed.name) is not None

    @property
    def is_lean(self) -> bool:
        """Whether only trials that the answer needs are done: where time is real, or limited."""
        options = self.options
        return options.learns and (options.budget_ns is not None or self.is_real)

    @property
    def has_prior(self) -> bool:
        """Whether the simulator tells the strategy where to look first.

        Not where it is the testbed, nor where it does not know the network.
        """
        return self.wants_prior and not self.topology.missing

    @property
    def wants_prior(self) -> bool:
        """Whether the simulator would tell it, if it knew the network."""
        return self.options.learns and self.options.prior and self.is_real

    @property
    def fresh_runs(self) -> int:
        """Runs with new seeds: as many as asked for, but no more than the budget's share for them has."""
        wanted, budget_s = self.options.fresh_runs, self.options.budget_s
        if budget_s is None:
            return wanted
        # The answer, the default, and plain TCP.
        each_s = 3 * self.trial_s(self.options.duration_ns)
        return max(1, min(wanted, int(CONFIRM_SHARE * budget_s / each_s)))

    @property
    def reserved_s(self) -> float:
        """Seconds that are kept for the confirmation and for plain TCP."""
        options = self.options
        screen_s = len(self.topology.paths) * self.trial_s(brief_ns(options.duration_ns))
        return 3 * self.fresh_runs * self.trial_s(options.duration_ns) + (screen_s if options.off_by else 0.0)

    def check_budget(self, place: Place = by_flag) -> None:
        """Refuse a budget in which not every candidate can be tried once.

        Raises
        ------
        InputError : saying how much makes sense, and the longest trials for which it is enough.
        """
        options = self.options
        if options.budget_s is None or options.budget_s >= self._least_s:
            return
        least, found = format_time(math.ceil(self._least_s) * 10**9), format_time(options.budget_ns or 0)
        each = f"for a trial of {format_time(options.duration_ns)} of each of {len(self.asked())} candidates"
        fitting, helps = self._fitting_ns, "fewer candidates take less"
        if fitting is not None:
            helps = f"{written(type(options), 'duration_ns', fitting, place)} fits"
        expected = f"expected at least {least}, {each} and to confirm the answer, found {found}; {helps}"
        raise error_about(type(options), ("budget_ns",), expected, place)

    @property
    def _least_s(self) -> float:
        """Seconds for one trial of every candidate, the shortest impact factors and the confirmation."""
        options, least_s = self.options, 0.0
        if "pcdc" in options.pms:
            shortest = msgspec.structs.replace(options.impact, runs=1, window_ns=_SHORTEST_WINDOW_NS)
            least_s = impact_seconds(self.topology, options.ccs, shortest)
        return least_s + len(self.asked()) * self.trial_s(options.duration_ns) + self.reserved_s

    @property
    def _fitting_ns(self) -> int | None:
        """The longest duration of trials, in whole seconds, for which the budget is enough."""
        budget_s = self.options.budget_s or 0.0
        for seconds in range(self.options.duration_ns // 10**9, 0, -1):
            shorter = msgspec.structs.replace(self.options, duration_ns=seconds * 10**9)
            if self._replace(options=shorter)._least_s <= budget_s:
                return seconds * 10**9
        return None

    @property
    def impact_options(self) -> ImpactOptions:
        """Options of the impact factors: as many and as long runs as the budget's share for them has."""
        impact, budget_s = self.options.impact, self.options.budget_s
        if budget_s is None or "pcdc" not in self.options.pms:
            return impact
        run_s = impact_seconds(self.topology, self.options.ccs, impact)
        runs = max(1, min(impact.most_runs, int(IMPACT_SHARE * budget_s / run_s)))
        part = min(1.0, IMPACT_SHARE * budget_s / run_s)
        window_ns = max(_SHORTEST_WINDOW_NS, int(part * impact.length_ns / BIN_NS) * BIN_NS)
        window_ns = min(window_ns, impact.length_ns)
        buffer_bytes = min(impact.buffer_bytes, _drained(self.topology, _QUEUED_SHARE * window_ns))
        return msgspec.structs.replace(impact, runs=runs, window_ns=window_ns, buffer_bytes=buffer_bytes)

    # ---- steps -------------------------------------------------------------------------------------

    def impacts(self) -> tuple[list[Impact], list[Record]]:
        """Impact factors of every congestion control, if PCDC needs them."""
        if "pcdc" not in self.options.pms:
            return [], []
        with self.phase("impact factors") as progress:
            return measure_impact(
                self.topology,
                self.runner,
                self.options.ccs,
                self.impact_options,
                stack=self.options.stack.chosen(),
                round_=self.round_,
                progress=progress,
            )

    @property
    def initial_paths(self) -> tuple[str, ...]:
        """Every initial path; an empty one leaves it to the topology and the path manager."""
        return self.options.initial_paths or ("",)

    def asked(self) -> list[Combination]:
        """Every path manager with every congestion control and initial path."""
        options = self.options
        return [
            Combination(pm, cc, (), path)
            for pm, cc, path in itertools.product(options.pms, options.ccs, self.initial_paths)
        ]

    @property
    def sets_compete(self) -> bool:
        """Whether PCDC may have other sets than its own."""
        options = self.options
        return options.sets == "compete" and "pcdc" in options.pms and len(self.mptcp.paths) > 1

    def competing(self, impacts: Sequence[Impact]) -> list[Combination]:
        """Other sets of subflows for PCDC that might be better, from every initial path."""
        if not self.sets_compete:
            return []
        return [
            Combination("pcdc", impact.cc, candidate.optional, path)
            for impact in impacts
            for candidate in candidates(impact, self.mptcp)
            if candidate.optional != impact.sets.optional and len(candidate.optional) < len(self.mptcp.paths)
            for path in self.initial_paths
        ]

    def screen(self, impacts: Sequence[Impact], sets: Mapping[str, SubflowSets]) -> Screening:
        """Other sets of subflows for PCDC that are worth a sweep, and the trials that say so."""
        competing = self.competing(impacts)
        if not self.sets_compete:
            return Screening()
        asked, optional = self.asked(), optional_sets(sets)
        records = self._screening([*asked, *competing], sets, "screening")
        found = named(records, optional)
        further, brief = self._further(peaks(found), sets)
        more = self._screening(further, sets, "found sets") if further else []
        found += named(more, optional)
        staying = screened(found, self.options.sacrifice, asked)
        return Screening((*records, *more), tuple(brief), tuple(staying))

    def _further(
        self, screened: Mapping[Combination, float], sets: Mapping[str, SubflowSets]
    ) -> tuple[list[Combination], list[Record]]:
        """Sets that nothing proposed, found by single short trials, and these."""
        options, optional = self.options, optional_sets(sets)
        search = SetSearch(self.mptcp, options.ccs, optional, mesh="fullmesh" in options.pms)
        search.start(screened)
        records: list[Record] = []
        while asked := search.ask():
            given = self._screening(asked, sets, "search of sets", brief=True)
            search.tell(peaks(named(given, optional)))
            records += given
        return search.found(screened), records

    def _screening(
        self,
        ones: Sequence[Combination],
        sets: Mapping[str, SubflowSets],
        name: str,
        *,
        brief: bool = False,
    ) -> list[Record]:
        """Trials of combinations with the buffers of a screening; brief ones are single and short."""
        options = self.options
        return self.measure(
            [
                self.configuration(combination, size, sets)
                for combination in ones
                for size in screen_buffers(options.buffers)
            ],
            "search" if brief else "screen",
            1 if brief else min(options.runs_each, SCREEN_RUNS),
            name,
            workload=Bulk(duration_ns=brief_ns(options.duration_ns)) if brief else None,
        )

    def decide(
        self,
        combinations: Sequence[Combination],
        sets: Mapping[str, SubflowSets],
        homogeneous: Collection[str],
    ) -> tuple[list[Record], Decision]:
        """Sweep and decide; while the optimum is at an end of the buffers, beyond it; then around it."""
        options, optional = self.options, optional_sets(sets)
        swept: list[Record] = []
        measured: dict[Combination, list[int]] = {}

        def sweep(ones: Sequence[Combination], sizes: Sequence[int], name: str) -> None:
            new = [
                (combination, size)
                for combination in ones
                for size in sizes
                if size not in measured.get(combination, ())
            ]
            for pair, size in new:
                bisect.insort(measured.setdefault(pair, []), size)
            configurations = [self.configuration(pair, size, sets) for pair, size in new]
            swept.extend(self.measure(configurations, "sweep", options.runs_each, name))

        def found(resamples: int) -> Decision:
            return decide(
                sweep_samples(swept, optional),
                msgspec.structs.replace(options, resamples=resamples),
                homogeneous=homogeneous,
                stalled=stalls(swept, optional),
                reporter=self.reporter,
            )

        sweep(combinations, options.buffers, "sweep")
        extensions, refinements = EXTENSIONS, REFINEMENTS
        while options.extend and not options.on_grid:
            decision = found(0)
            near, sizes = beyond(decision, measured) if extensions else ([], [])
            name, extensions = "beyond the ends", extensions - 1
            if not sizes and refinements:
                near, sizes = between(decision, measured)
                name, extensions, refinements = "around the optimum", extensions + 1, refinements - 1
            if not sizes:
                break
            sweep(near, sizes, name)
        return swept, found(options.resamples)

    def settle(
        self,
        decision: Decision,
        points: Sequence[SweepPoint],
        sets: Mapping[str, SubflowSets],
        screening: Sequence[Record],
    ) -> Contest:
        """The shortlist; again with a larger measured buffer as long as fresh trials miss the target."""
        contest = self.shortlist(decision, points, sets, screening)
        records, sentences = contest.records, contest.sentences
        target = wanted(decision, points)
        for _ in range(ENLARGEMENTS):
            size = larger(contest.decision, contest.finalists, points, target)
            if size is None:
                break
            contest = self.shortlist(_enlarged(contest.decision, size, points), points, sets, screening)
            records, sentences = records + contest.records, sentences + contest.sentences
        fresh = contest.stated.get(contest.decision.optimum.combination, ())
        return contest._replace(
            decision=_tried(contest.decision, fresh), records=records, sentences=sentences
        )

    def shortlist(
        self,
        decision: Decision,
        points: Sequence[SweepPoint],
        sets: Mapping[str, SubflowSets],
        screening: Sequence[Record],
    ) -> Contest:
        """Fresh trials of the favourite and of what might be better with the same buffer."""
        options, favourite, optional = self.options, decision.optimum.combination, optional_sets(sets)
        size = whole_buffer(decision.optimum.buffer_mib)
        default = Combination(DEFAULT_PM, DEFAULT_CC, (), favourite.initial_path)
        ones = rivals(decision, self.mptcp, options.pms, default, optional)
        ones += again(named(screening, optional), ones, size, self.mptcp, optional)
        familiar = favourite._replace(cc=DEFAULT_CC)
        if DEFAULT_CC in options.ccs and familiar not in ones:
            ones.append(familiar)
        if not options.off_by or (len(ones) < 2 and not options.tcp):
            return Contest(decision)
        stated, others, records = self.compare(ones, size, sets)
        found = finalists(size, stated, others)
        barred = collapsing(decision, points, ones)
        eligible = [finalist for finalist in found if finalist.combination not in barred]
        chosen = survivor(favourite, stated, eligible, options.sacrifice)
        contest = Contest(decision, found, (), tuple(records), stated, others)
        if chosen == favourite:
            return contest
        return contest._replace(
            decision=_moved(decision, chosen, stated[chosen]),
            sentences=(change(favourite, chosen, found, options.off_by),),
        )

    def compare(
        self, ones: Sequence[Combination], size: int, sets: Mapping[str, SubflowSets]
    ) -> tuple[dict[Combination, list[float]], dict[Combination, list[float]], list[Record]]:
        """Throughputs in the network as stated and in others, with the same seeds for all; and the trials."""
        options = self.options
        configurations = [self.configuration(combination, size, sets) for combination in ones]
        records = self.measure(configurations, "shortlist", options.fresh_runs, "shortlist")
        stated = _by_combination(ones, records)
        others: dict[Combination, list[float]] = {combination: [] for combination in ones}
        for number in range(0 if self.is_real else OTHER_NETWORKS):
            other = perturbed(self.topology, options.off_by, number)
            more = self.measure(configurations, "shortlist", 1, f"network {number + 1} off by", other)
            records += more
            for entry, values in _by_combination(ones, more).items():
                others[entry] += values
        return stated, others, records

    def face_tcp(self, contest: Contest, sets: Mapping[str, SubflowSets]) -> Contest:
        """The outcome of the shortlist beside plain TCP on the fastest paths, with the same buffer."""
        options, decision = self.options, contest.decision
        if not options.off_by:
            return contest
        if self.is_lean:
            return self._opponent(contest, sets)
        mptcp, size = decision.optimum.combination, whole_buffer(decision.optimum.buffer_mib)
        fast, records = self.screen_tcp((mptcp.cc, DEFAULT_CC), size, sets)
        contest = _screened(contest, fast, records)
        if not (options.tcp and fast):
            return contest._replace(opponent=next(iter(fast), None))
        stated, others, records = self.compare(fast, size, sets)
        tcp = max(fast, key=lambda one: sum(stated[one]))
        both = {**contest.stated, **stated}, {**contest.others, **others}
        found = finalists(size, *both)
        contest = contest._replace(records=contest.records + tuple(records), finalists=found, opponent=tcp)
        if not is_beaten(mptcp, tcp, both[0], found, options.sacrifice):
            return contest
        return contest._replace(
            decision=_moved(decision, tcp, stated[tcp]),
            sentences=(*contest.sentences, without_mptcp(mptcp, tcp, found)),
            opponent=mptcp,
        )

    def _opponent(self, contest: Contest, sets: Mapping[str, SubflowSets]) -> Contest:
        """The outcome with the plain TCP that the confirmation compares it with: the fastest in one look."""
        optimum = contest.decision.optimum
        fast, records = self.screen_tcp((optimum.cc,), whole_buffer(optimum.buffer_mib), sets, runs=1)
        return _screened(contest, fast, records)._replace(opponent=next(iter(fast), None))

    def screen_tcp(
        self, ccs: Sequence[str], size: int, sets: Mapping[str, SubflowSets], *, runs: int = SCREEN_RUNS
    ) -> tuple[list[Combination], list[Record]]:
        """The fastest plain TCP by short trials on every path, and these."""
        every = plain_tcp.everywhere(self.topology, ccs)
        records = self.measure(
            [self.configuration(combination, size, sets) for combination in every],
            "screen",
            runs,
            "plain TCP",
            workload=Bulk(duration_ns=brief_ns(self.options.duration_ns)),
        )
        return plain_tcp.fastest(_by_combination(every, records)), records

    def configuration(self, one: Combination, size: int, sets: Mapping[str, SubflowSets]) -> Configuration:
        """A configuration of the stack that was asked for; a chosen set of subflows is PCDC's."""
        options, told = self.options, self.options.pm_options.of(one.pm)
        common: dict[str, Any] = {
            "stack": options.stack.chosen(),
            "buffer_mode": options.buffer_mode,
            "family": options.family,
            "initial_path": one.initial_path or None,
            "workload": self.transfer or Bulk(duration_ns=self.options.duration_ns),
        }
        if one.is_tcp:
            (path,) = one.subflows
            stack = options.stack.chosen(protocol=one.pm)
            common |= {"protocol": one.pm, "initial_path": path, "stack": stack}
            return configuration(USUAL_PMS[one.pm], one.cc, size, {}, **common)
        if not one.subflows:
            return configuration(one.pm, one.cc, size, sets, pm_options=told, **common)
        order = [*(sets[one.cc].optional if one.cc in sets else ()), *(p.label for p in self.mptcp.paths)]
        standby = tuple(label for label in dict.fromkeys(order) if label not in one.subflows)
        pm_options = {**told, "active": one.subflows, **({"standby_order": standby} if standby else {})}
        if one.cc in sets and self.transfer is not None:
            pm_options |= {"rtt_ns": sets[one.cc].rtt_ns}
        return configuration(one.pm, one.cc, size, {}, pm_options=pm_options, **common)

    def measure(
        self,
        configurations: Sequence[Configuration],
        purpose: str,
        runs: int,
        name: str,
        topology: Topology | None = None,
        workload: Workload | None = None,
    ) -> list[Record]:
        """Trials of every configuration, configuration by configuration, run by run."""
        planned = plan_trials(
            topology or self.topology,
            configurations if workload is None else [asked.under(workload) for asked in configurations],
            purpose=purpose,
            runs=runs,
            base_seed=self.options.seed,
            round_=self.round_,
        )
        with self.phase(name) as progress:
            return self.runner.measure(planned, progress=progress)

    def confirm(
        self,
        contest: Contest,
        sets: Mapping[str, SubflowSets],
        points: Sequence[SweepPoint],
        before: Sequence[Record],
    ) -> tuple[Contest, Confirmation]:
        """Trials of the optimum, of the default, and of its opponent across protocols, with new seeds.

        Where there was no time for a shortlist, they also decide whether plain TCP is the better answer, and
        whether the buffer is to be enlarged. What is left of a budget goes into more runs.

        Parameters
        ----------
        points : the sweep that was decided on.
        before : all trials so far but those of the contest.
        """
        spent_s = math.fsum(map(self.seconds, (*before, *contest.records)))
        target = wanted(contest.decision, points)
        confirmation = self._confirmed(contest, sets, target, spent_s)
        if not self.is_lean:
            return contest, confirmation
        for _ in range(ENLARGEMENTS):
            size = next_larger(contest.decision, points, target)
            spent_s += math.fsum(map(self.seconds, confirmation.records))
            runs = self._affordable(spent_s, len(confirmation.records) // confirmation.runs)
            if size is None or not runs or not confirmation.misses(target):
                break
            again = contest._replace(decision=_enlarged(contest.decision, size, points))
            other = self._confirmed(again, sets, target, spent_s, min(runs, self.fresh_runs))
            if other.mean_mbps <= confirmation.mean_mbps:
                contest = contest._replace(records=contest.records + other.records)
                break
            records = contest.records + confirmation.records
            sentences = (*contest.sentences, missed(confirmation, other, target))
            contest = again._replace(records=records, sentences=sentences)
            confirmation = other
        return self._without_mptcp(contest, confirmation)

    def _affordable(self, spent_s: float, count: int) -> int:
        """How many runs of so many configurations are left of the budget; without one as many as usual."""
        budget_s = self.options.budget_s
        if budget_s is None:
            return self.fresh_runs
        return max(0, int((budget_s - spent_s) / (count * self.trial_s(self.options.duration_ns))))

    def _confirmed(
        self,
        contest: Contest,
        sets: Mapping[str, SubflowSets],
        target: float,
        spent_s: float,
        runs: int | None = None,
    ) -> Confirmation:
        """Trials of the optimum and of what it is compared with."""
        options, optimum, other = self.options, contest.decision.optimum, contest.opponent
        size = whole_buffer(optimum.buffer_mib)

        def more(so_far: Confirmation) -> bool:
            """Whether the budget has time for another run, and there is a use for it."""
            if options.budget_s is None or so_far.is_tight or so_far.misses(target):
                return False
            now_s = spent_s + math.fsum(map(self.seconds, so_far.records))
            return self._affordable(now_s, len(so_far.records) // so_far.runs) > 0

        default = Combination(DEFAULT_PM, DEFAULT_CC)
        with self.phase("confirmation") as progress:
            return confirm(
                self.topology,
                self.runner,
                self.configuration(optimum.combination, size, sets),
                self.configuration(default, options.buffers[-1], sets),
                other=None if other is None else self.configuration(other, size, sets),
                runs=runs or self.fresh_runs,
                base_seed=options.seed,
                round_=self.round_,
                progress=progress,
                more=more,
            )

    def _without_mptcp(self, contest: Contest, confirmation: Confirmation) -> tuple[Contest, Confirmation]:
        """The answer, or plain TCP where the confirmation found it clearly faster."""
        options, mptcp, tcp = self.options, contest.decision.optimum.combination, contest.opponent
        if tcp is None or not options.tcp:
            return contest, confirmation
        runs = confirmation.runs
        values = [record.throughput_mbps or 0.0 for record in confirmation.records]
        stated = {mptcp: values[:runs], tcp: values[2 * runs :]}
        found = finalists(confirmation.recommended.buffer_bytes, stated, {mptcp: [], tcp: []})
        contest = contest._replace(finalists=found, stated=stated)
        if not is_beaten(mptcp, tcp, stated, found, options.sacrifice):
            return contest, confirmation
        contest = contest._replace(
            decision=_moved(contest.decision, tcp, stated[tcp]),
            sentences=(*contest.sentences, without_mptcp(mptcp, tcp, found)),
            opponent=mptcp,
        )
        return contest, turned(confirmation)


def _screened(contest: Contest, fast: Sequence[Combination], records: Sequence[Record]) -> Contest:
    """The contest with short trials of plain TCP; it says so if none of them gave anything."""
    said = () if fast or not records else (plain_tcp.none_of(records),)
    return contest._replace(records=contest.records + tuple(records), sentences=(*contest.sentences, *said))


def impact_seconds(topology: Topology, ccs: Sequence[str], options: ImpactOptions) -> float:
    """Seconds on the testbed of one run of the impact factors of every congestion control."""
    return len(ccs) * run_ns(topology, options) / 1e9


def optional_sets(sets: Mapping[str, SubflowSets]) -> dict[str, tuple[str, ...]]:
    """The set that PCDC has of itself, by congestion control."""
    return {cc: subflow_sets.optional for cc, subflow_sets in sets.items()}


def _by_combination(ones: Sequence[Combination], records: Sequence[Record]) -> dict[Combination, list[float]]:
    """Throughputs of trials in the order of `ones`, equally many of each; 0 for a failed one, Mbit/s."""
    runs = len(records) // len(ones)
    values = [record.throughput_mbps or 0.0 for record in records]
    return {combination: values[i * runs : (i + 1) * runs] for i, combination in enumerate(ones)}


def _enlarged(decision: Decision, size_mib: float, points: Sequence[SweepPoint]) -> Decision:
    """The decision with a larger buffer that was measured: the observation there is what to expect."""
    combination = decision.optimum.combination
    (point,) = (
        sweep_point
        for sweep_point in points
        if (sweep_point.combination, sweep_point.buffer_mib) == (combination, size_mib)
    )
    optimum = msgspec.structs.replace(
        decision.optimum, buffer_mib=size_mib, throughput_mbps=point.throughput.mean
    )
    uncertainty = decision.uncertainty
    if uncertainty is not None:
        low, high = uncertainty.obs_mib
        least, most = uncertainty.otp_mbps
        seen = [one for one in (point.throughput.low, point.throughput.high) if one is not None]
        uncertainty = msgspec.structs.replace(
            uncertainty, obs_mib=(low, max(high, size_mib)), otp_mbps=(min(least, *seen), max(most, *seen))
        )
    return msgspec.structs.replace(answering(decision, optimum), uncertainty=uncertainty)


def answering(decision: Decision, optimum: Optimum) -> Decision:
    """The decision with another optimum, in its front too."""
    answer = FrontPoint(sacrifice=decision.options.sacrifice, optimum=optimum)
    front = tuple(answer if point.sacrifice == answer.sacrifice else point for point in decision.front)
    return msgspec.structs.replace(decision, optimum=optimum, front=front)


def _tried(decision: Decision, values: Sequence[float]) -> Decision:
    """The decision after fresh trials of its optimum: the interval of its throughput holds theirs too.

    The resamples know the noise between runs, but not what the model assumes between two measured buffers.
    """
    uncertainty, fresh = decision.uncertainty, summarise(values) if values else None
    if uncertainty is None or fresh is None or fresh.low is None or fresh.high is None:
        return decision
    low, high = uncertainty.otp_mbps
    wider = (min(low, max(fresh.low, 0.0)), max(high, fresh.high))
    return msgspec.structs.replace(decision, uncertainty=msgspec.structs.replace(uncertainty, otp_mbps=wider))


def _moved(decision: Decision, chosen: Combination, values: Sequence[float]) -> Decision:
    """The decision with another combination and the same buffer: what fresh trials of it gave is expected."""
    throughput = summarise(values)
    optimum = msgspec.structs.replace(decision.optimum, **chosen._asdict(), throughput_mbps=throughput.mean)
    uncertainty = decision.uncertainty
    if uncertainty is not None and throughput.low is not None and throughput.high is not None:
        uncertainty = msgspec.structs.replace(
            uncertainty, otp_mbps=(max(throughput.low, 0.0), throughput.high)
        )
    return msgspec.structs.replace(answering(decision, optimum), uncertainty=uncertainty)


def configuration(
    pm: str,
    cc: str,
    size: int,
    sets: Mapping[str, SubflowSets],
    *,
    pm_options: Mapping[str, Any] | None = None,
    workload: Workload,
    **others: Any,
) -> Configuration:
    """PCDC gets the sets of its congestion control, if any, beside the options that were given.

    It gets the RTTs too where there is a transfer: a saturated sender takes the whole optional set, in
    whatever order.
    """
    options = dict(pm_options or {})
    if pm == "pcdc" and cc in sets:
        told = sets[cc]
        rtt_ns = told.rtt_ns if isinstance(workload, Transfer) else None
        measured = {"active": told.optional, "standby_order": told.standby, "rtt_ns": rtt_ns}
        options |= {name: value for name, value in measured.items() if value}
    return Configuration(pm=pm, cc=cc, buffer_bytes=size, pm_options=options, workload=workload, **others)


def failures(records: Sequence[Record], name: str) -> list[str]:
    """A sentence about failed trials, which are left out."""
    failed = [record for record in records if record.failed is not None]
    if not failed:
        return []
    first = failed[0]
    return [
        f"{len(failed)} of {len(records)} {name} trials failed and are left out (first: "
        f"{first.manager}/{first.cc} with {first.buffer_bytes / MIB:.4g} MiB: {first.failed})."
    ]


def _drained(topology: Topology, time_ns: float) -> int:
    """The largest buffer that a network empties in this time, but no less than it needs (Eq. 1), bytes."""
    if topology.missing:
        return sys.maxsize
    senders = {path.local.abbr: path.local.up_bps for path in topology.paths}
    receivers = {path.remote.abbr: path.remote.down_bps for path in topology.paths}
    rate_bps = min(sum(senders.values()), sum(receivers.values()))
    return max(int(rate_bps * time_ns / 8e9), traditional(topology)["eq1"])
