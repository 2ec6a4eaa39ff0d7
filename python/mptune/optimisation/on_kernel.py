"""The simulator's answer on a real kernel, in virtual time: whether it holds there, and which finalist does.

A guest (`--testbed virtual`) disturbs nothing and needs nobody's leave, so the simulator's answer is
confirmed there wherever a kernel for guests is built. Where that is asked for by name, the finalists that
the simulator cannot tell apart are decided there too. The search itself stays the simulator's, to the byte.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from mptune import testbeds
from mptune._text import digits
from mptune.decision.confirmation import Confirmation, confirmation_of
from mptune.decision.model_error import OnKernel, gain, shipped
from mptune.decision.revision import moved
from mptune.decision.robustness import REGRET, SURVIVAL, Finalist, finalists, survivor
from mptune.decision.sweep import SweepPoint
from mptune.errors import InputError
from mptune.guest import building, kernels
from mptune.optimisation.candidates import collapsing
from mptune.optimisation.job import Job, failures
from mptune.optimisation.options import FRESH_RUNS, NOWHERE, OptimiseOptions
from mptune.optimisation.rivals import Contest, by_combination
from mptune.runner.planning import plan_run
from mptune.runner.runner import TrialRunner
from mptune.statistics import Summary, summary_of
from mptune.testbeds import Testbed
from mptune.testbeds.virtual import VirtualTestbed
from mptune.trial import Bulk, Combination, Configuration, Record
from mptune.trial.metrics import THROUGHPUT
from mptune.trial.stacks import refusal

#: Fewest runs of a configuration where the answer has fewer: one has no interval, two have one of no use.
_FEWEST_RUNS = 3
#: Most bits of a trial where the kernel was not named, as a guest computes 2 ms for
#: a Mbit; but it lasts this long.
_MOST_BITS = 3e9
_LEAST_NS = 10_000_000_000
#: Finalists that are measured beside the favourite, at most.
_RIVALS = 3


class RunnerUp(msgspec.Struct, frozen=True, kw_only=True):
    """The finalist that comes nearest to the answer.

    Attributes
    ----------
    ahead : by which share the simulator has it ahead of the answer; 0 where it has not.
    throughput : Mbit/s; None where every trial failed.
    gain : over the answer, run by run, Mbit/s; None where no run succeeded with both.
    """

    combination: Combination
    buffer_bytes: int
    ahead: float
    throughput: Summary | None
    gain: Summary | None


class MeasuredOnKernel(msgspec.Struct, frozen=True, kw_only=True):
    """Results of a kernel with the simulator's answer, with the default, and with the runner-up.

    Attributes
    ----------
    testbed, kernel : where, and its release: "virtual:7.3", "Linux 7.3".
    confirmation : of the answer beside the default, there.
    runner_up : None where none comes near.
    finalists : those that were decided there, the answer among them; empty where the simulator decided.
    warnings : sentences for the user.
    """

    testbed: str
    kernel: str
    duration_ns: int
    confirmation: Confirmation
    runner_up: RunnerUp | None = None
    finalists: tuple[Finalist, ...] = ()
    warnings: tuple[str, ...] = ()


def confirming(options: OptimiseOptions, testbed: str) -> Testbed | None:
    """The testbed that confirms what the simulator answers; None where there is none.

    What is not named has to be there as this version of mptune builds it, with the stack that was simulated.

    Parameters
    ----------
    testbed : the name of the one that answers.

    Raises
    ------
    InputError : the kernel that was named is not built, but others are.
    MptuneError : none is built.
    """
    if options.confirm_on == NOWHERE or options.transfers or testbeds.only_stack(testbed) is not None:
        return None
    if options.confirm_on is not None:
        return testbeds.create(options.confirm_on)
    members = msgspec.structs.asdict(options.stack.chosen())
    there = {kernel.release: kernel for kernel in kernels.built() if building.is_current(kernel)}
    for release in sorted(there, key=lambda name: name != kernels.DEFAULT):
        name = f"{VirtualTestbed.name}:{release}"
        if refusal(members, VirtualTestbed.only_stack, name) is None:
            return VirtualTestbed(release)
    return None


@dataclass(frozen=True)
class AskingKernel:
    """The step, on a testbed with a real kernel.

    Attributes
    ----------
    runner : of that testbed.
    points : the sweep that was decided on.
    """

    job: Job
    runner: TrialRunner
    points: Sequence[SweepPoint]

    @property
    def kernel(self) -> str:
        """The release, for sentences."""
        return f"Linux {testbeds.release(self.runner.testbed.name)}"

    # ---- the contest -------------------------------------------------------------------------------

    def decide(self, contest: Contest) -> tuple[Contest, tuple[Finalist, ...]]:
        """The finalists that the simulator cannot tell apart, decided on the kernel; and their trials there.

        The throughput of the answer stays the simulator's.
        """
        open_ = undecided(self.job, contest)
        if not open_:
            return contest, ()
        favourite, decision = contest.decision.optimum.combination, contest.decision
        rivals = [finalist.combination for finalist in open_][:_RIVALS]
        combinations, buffer_bytes = [favourite, *rivals], open_[0].buffer_bytes
        configurations = [self.job.configuration(combination, buffer_bytes) for combination in combinations]
        if self._refused(configurations):
            return contest, ()
        records = self._measure(configurations, "finalists", "finalists")
        if any(record.failed is not None and record.failed_kind != "stalled" for record in records):
            sentences = failures(records, f"finalists' ({self.kernel})")
            return contest.with_trials((), *sentences), ()
        stated = by_combination(combinations, records)
        found = finalists(buffer_bytes, stated, {combination: [] for combination in combinations})
        barred = collapsing(decision, self.points, combinations)
        eligible = [finalist for finalist in found if finalist.combination not in barred]
        chosen = survivor(favourite, stated, eligible, self.job.options.sacrifice)
        if chosen == favourite:
            return contest, found
        gave = {combination: sum(values) / len(values) for combination, values in stated.items()}
        sentence = (
            f"On {self.kernel} {chosen.manager} with {chosen.cc} gave {digits(gave[chosen])} Mbit/s, "
            f"{favourite.manager} with {favourite.cc} {digits(gave[favourite])} with the same buffer: that "
            "decided between them, as the simulator cannot tell."
        )
        contest = contest.with_trials((), sentence)
        return replace(contest, decision=moved(decision, chosen, contest.compared.stated[chosen])), found

    # ---- the confirmation --------------------------------------------------------------------------

    def confirm(
        self, contest: Contest, simulated: Confirmation, decided: tuple[Finalist, ...]
    ) -> MeasuredOnKernel | str:
        """Results of the kernel with the answer; or why it cannot run it, as a sentence.

        Parameters
        ----------
        simulated : the answer beside the default, in the simulator.
        decided : finalists of `decide`.
        """
        rival = runner_up(contest)
        configurations = [simulated.recommended, simulated.default]
        if reason := self._refused(configurations):
            return f"Not confirmed on {self.kernel}: {reason}."
        if rival is not None:
            configuration = self.job.configuration(rival.combination, rival.buffer_bytes)
            if self._refused([configuration]):
                rival = None
            else:
                configurations.append(configuration)
        workload = Bulk(duration_ns=lasting_ns(self.job.options, simulated.mean_mbps))
        records = self._measure(configurations, "guest", f"confirmation on {self.kernel}", workload)
        runs = len(records) // len(configurations)
        ours, theirs, others = (records[i * runs : (i + 1) * runs] for i in range(3))
        confirmation = confirmation_of(simulated.recommended, simulated.default, None, [ours, theirs])
        beside = None if rival is None else _beside(contest, rival, ours, others)
        return MeasuredOnKernel(
            testbed=self.runner.testbed.name,
            kernel=self.kernel,
            duration_ns=workload.duration_ns,
            confirmation=confirmation,
            runner_up=beside,
            finalists=decided,
            warnings=(
                *failures(records, f"{self.kernel} confirmation"),
                *contradictions(self.kernel, simulated, confirmation, beside),
            ),
        )

    def _refused(self, configurations: Sequence[Configuration]) -> str:
        """Why the testbed cannot have one of these; empty if it can."""
        for configuration in configurations:
            planned = plan_run(self.job.topology, configuration, purpose="guest", run=0, base_seed=0)
            try:
                self.runner.testbed.check(planned.trial)
            except InputError as error:
                return str(error)
        return ""

    def _measure(
        self, configurations: Sequence[Configuration], purpose: str, name: str, workload: Bulk | None = None
    ) -> list[Record]:
        """A few runs of each, with a seed and a phase of its own."""
        options = self.job.options
        is_short = workload is not None and workload.duration_ns < options.duration_ns
        runs = _FEWEST_RUNS if is_short else max(_FEWEST_RUNS, min(FRESH_RUNS, options.fresh_runs))
        job = replace(self.job, runner=self.runner)
        return job.measure(configurations, purpose, runs, name, workload=workload)


def lasting_ns(options: OptimiseOptions, mbps: float) -> int:
    """Duration of trials of an answer of `mbps`: that of others, unless they are costly and not asked for."""
    if options.confirm_on or mbps <= 0:
        return options.duration_ns
    seconds = int(_MOST_BITS / (mbps * 1e6))
    return min(options.duration_ns, max(_LEAST_NS, seconds * 1_000_000_000))


def undecided(job: Job, contest: Contest) -> tuple[Finalist, ...]:
    """Finalists that may be better than the answer on a kernel by the simulator's error, the fastest first.

    Those of which the error is not known are not among them.
    """
    stated, favourite = contest.compared.stated, contest.decision.optimum.combination
    rivals = _rivals(contest)
    if favourite not in stated or not rivals:
        return ()
    buffer_bytes = rivals[0].buffer_bytes

    def expected(combination: Combination) -> OnKernel:
        configuration = job.configuration(combination, buffer_bytes)
        planned = plan_run(
            job.topology, configuration, purpose="shortlist", run=0, base_seed=job.options.seed
        )
        return shipped().expected(planned.trial, stated[combination])

    ours = expected(favourite)

    def may_be_better(rival: Finalist) -> bool:
        low = gain(ours, expected(rival.combination)).low_mbps
        return low is not None and low < 0

    return tuple(filter(may_be_better, rivals))


def runner_up(contest: Contest) -> Finalist | None:
    """The fastest other finalist, if its interval overlaps that of the answer."""
    ours, rivals = _favourite(contest), _rivals(contest)
    if ours is None or not rivals:
        return None
    best = rivals[0]
    assert best.throughput is not None  # of those that have one
    low = ours.mean if ours.low is None else ours.low
    high = best.throughput.mean if best.throughput.high is None else best.throughput.high
    return best if high >= low else None


def _rivals(contest: Contest) -> list[Finalist]:
    """The other finalists that have a throughput, the fastest first."""
    favourite = contest.decision.optimum.combination
    measured = [finalist for finalist in contest.finalists if finalist.throughput is not None]
    rivals = [finalist for finalist in measured if finalist.combination != favourite]
    return sorted(rivals, key=lambda rival: (-_mean(rival.throughput), rival.combination))


def _favourite(contest: Contest) -> Summary | None:
    """Result of the answer in the simulator's contest."""
    favourite = contest.decision.optimum.combination
    of_it = (finalist for finalist in contest.finalists if finalist.combination == favourite)
    return next((finalist.throughput for finalist in of_it), None)


def contradictions(
    kernel: str, simulated: Confirmation, measured: Confirmation, beside: RunnerUp | None
) -> list[str]:
    """A warning where a kernel does not bear out what the simulator is sure of; none otherwise."""
    promised, given = simulated.gain, measured.gain
    doubts = []
    is_open = False
    if _is_above(promised) and given is not None and given.low is not None and given.low <= 0:
        assert promised is not None and promised.low is not None and given.high is not None
        # An interval with 0 in it that holds what was promised, too, tells nothing.
        is_open = given.high >= promised.low
        word = "not better than" if given.high <= 0 else "hardly better than"
        if not is_open:
            doubts.append(f"the recommendation is {word} the default{_interval(given)}")
    if beside is not None and _is_above(beside.gain, _conceded(beside) * measured.mean_mbps):
        name = f"{beside.combination.manager} with {beside.combination.cc}"
        doubts.append(f"{name} is faster{_interval(beside.gain)}")
    if not doubts and is_open:
        return [
            f"{measured.runs} runs on {kernel} do not show whether the recommendation is better than the "
            f"default{_interval(given)}: more (--confirm-runs) would."
        ]
    if not doubts:
        return []
    return [
        f"On {kernel} {' and '.join(doubts)}, with 95 % confidence: it contradicts the simulator. "
        "`--testbed virtual` looks for the answer there."
    ]


def _conceded(beside: RunnerUp) -> float:
    """The share by which the runner-up may be faster: what the rules concede, or what was known of it."""
    return max(SURVIVAL if beside.combination.is_tcp else REGRET, beside.ahead + REGRET)


def _beside(contest: Contest, rival: Finalist, ours: Sequence[Record], others: Sequence[Record]) -> RunnerUp:
    known = _mean(_favourite(contest))
    return RunnerUp(
        combination=rival.combination,
        buffer_bytes=rival.buffer_bytes,
        ahead=max(0.0, _mean(rival.throughput) / known - 1) if known else 0.0,
        throughput=summary_of(THROUGHPUT.values(others)),
        gain=summary_of(THROUGHPUT.gains(others, ours)),
    )


def _is_above(gained: Summary | None, least: float = 0.0) -> bool:
    """True if it is above 0 with 95 % confidence, and above `least` on average."""
    return gained is not None and gained.low is not None and gained.low > 0 and gained.mean > least


def _interval(gained: Summary | None) -> str:
    if gained is None or gained.low is None or gained.high is None:
        return ""
    return f" ({digits(gained.low, 3, '+')} to {digits(gained.high, 3, '+')} Mbit/s)"


def _mean(throughput: Summary | None) -> float:
    return 0.0 if throughput is None else throughput.mean
