"""The main job: from a topology to the best configuration, with the evidence (MPCOA, all steps).

    impact factors -> sweep as the strategy asks for it -> decision -> shortlist -> plain TCP -> confirmation

or with the papers' strategy

    impact factors -> sets of subflows -> sweep -> decision (response model, selection) -> shortlist
    -> plain TCP -> confirmation

Where time on the testbed is real or limited there is no shortlist, and plain TCP is part of the confirmation.

Each step has its own module; this one runs them in order. It prints nothing and writes no file: see
`mptune.cli.optimise` and `mptune.result.making`. `mptune.optimisation.measurements` uses measurements made
elsewhere instead of the first three steps, `mptune.optimisation.by_size` asks for completion times instead.
"""

import math
from dataclasses import replace
from functools import partial

import msgspec

from mptune import theory
from mptune.decision import Decision
from mptune.decision.confirmation import Confirmation, verdict
from mptune.decision.model_error import OnKernel, shipped
from mptune.decision.robustness import (
    Finalist,
)
from mptune.decision.selection import Optimum
from mptune.decision.sweep import SweepPoint
from mptune.impact import (
    Impact,
    warnings_of,
)
from mptune.optimisation import baselines, modes, mpcoa
from mptune.optimisation.baselines import Baselines
from mptune.optimisation.budget import Budget, shortened
from mptune.optimisation.candidates import asked
from mptune.optimisation.confirming import Confirming
from mptune.optimisation.impacts import measure_impacts
from mptune.optimisation.job import Job, failures
from mptune.optimisation.learning import learn
from mptune.optimisation.mpcoa import Mpcoa, MpcoaOptions
from mptune.optimisation.on_kernel import AskingKernel, MeasuredOnKernel, undecided
from mptune.optimisation.options import COMPETE, OptimiseOptions
from mptune.optimisation.plain_tcp import PlainTcp
from mptune.optimisation.reached import Reached, telling
from mptune.optimisation.rivals import Contest
from mptune.optimisation.rounds import Answered, Round
from mptune.optimisation.screening import Screened, Screening
from mptune.optimisation.sensitivity import Sensitivity, vary
from mptune.optimisation.shortlist import Shortlist
from mptune.optimisation.sweep import Sweep
from mptune.response import Response
from mptune.runner.planning import plan_run
from mptune.runner.progress import Reporter
from mptune.runner.runner import TrialRunner
from mptune.testbeds import stack_title
from mptune.topology import Topology
from mptune.trial import FIXED, PLAIN_TCP, SENDER, Record
from mptune.trial.metrics import THROUGHPUT


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The answer and its evidence.

    Attributes
    ----------
    name : of the topology, or of the file of measurements.
    stack : whose MPTCP was measured, in words; empty if it is unknown.
    decision : its optimum is the model's prediction; the buffer to use is `buffer_bytes`.
    buffer_bytes : OBS, rounded up to whole KiB.
    buffer_mode, family : of every trial; empty if it is unknown.
    receive_bytes : limit of the receiver's buffer where only the sender's was searched; otherwise None.
    topology : None if only measurements were given.
    impacts : by congestion control; empty when PCDC was not asked for.
    subflows : labels of the subflows that carry data; empty if they are unknown.
    confirmation : None for measurements made elsewhere, which cannot be repeated here.
    reached : how the decision was reached; None for a grid.
    finalists : what the favourite was compared with, plain TCP included; empty without a shortlist.
    traditional : formula -> bytes (`mptune.theory.traditional`); empty without a topology.
    warnings : sentences for the user.
    heed : those that ask for something, the most urgent first, as for whoever reads three of them.
    records : every trial, in the order of measurement.
    rounds : of a campaign that is repeated over time, the last of them with this result; otherwise empty.
    on_kernel, default_on_kernel : what a kernel is expected to give with the answer and with the default
        where both were simulated; None where they were measured on a kernel, or elsewhere.
    measured_on_kernel : what a kernel gave with a simulated answer; None where none was asked.
    undecided : finalists that the simulator cannot tell from its answer on a kernel.
    sensitivity : what the answer hangs on; None where that was not asked for.
    mpcoa : of a run of MPCOA's Algorithm 1; otherwise None.
    baselines : what the hosts do today, and what anybody would do by hand; None without trials.
    """

    name: str
    decision: Decision
    buffer_bytes: int
    points: tuple[SweepPoint, ...]
    warnings: tuple[str, ...]
    topology: Topology | None = None
    stack: str = ""
    buffer_mode: str = ""
    receive_bytes: int | None = None
    family: str = ""
    impacts: tuple[Impact, ...] = ()
    subflows: tuple[str, ...] = ()
    finalists: tuple[Finalist, ...] = ()
    confirmation: Confirmation | None = None
    reached: Reached | None = None
    traditional: dict[str, int] = {}
    records: tuple[Record, ...] = ()
    rounds: tuple[Round, ...] = ()
    on_kernel: OnKernel | None = None
    default_on_kernel: OnKernel | None = None
    measured_on_kernel: MeasuredOnKernel | None = None
    undecided: tuple[Finalist, ...] = ()
    sensitivity: Sensitivity | None = None
    mpcoa: Mpcoa | None = None
    baselines: Baselines | None = None
    heed: tuple[str, ...] = ()

    @property
    def answered(self) -> Answered:
        """The answer, to be compared with that of another round."""
        confirmation = self.confirmation
        return Answered(
            decision=self.decision,
            optimum=self.optimum,
            buffer_bytes=self.buffer_bytes,
            subflows=self.subflows,
            impacts=self.impacts,
            confirmed=None if confirmation is None else confirmation.confirmed,
            gain=None if confirmation is None else confirmation.gain,
        )

    @property
    def mode(self) -> str:
        """Whose buffers it is for, one of `mptune.optimisation.options.MODES`."""
        return self.buffer_mode if self.receive_bytes is None else SENDER

    def beside(self, other: "Result") -> "Result":
        """The same answer, which names what buffers of another mode gave."""
        confirmed = None if other.confirmation is None else other.confirmation.confirmed
        named = modes.sentence(other.mode, other.optimum, other.buffer_bytes, confirmed)
        return msgspec.structs.replace(self, warnings=(*self.warnings, named))

    @property
    def optimum(self) -> Optimum:
        """The optimum as the model predicts it."""
        return self.decision.optimum

    @property
    def response(self) -> Response:
        """The fitted model."""
        return self.decision.response

    @property
    def predicted(self) -> tuple[float, float] | None:
        """95 % interval of the model's mean at the optimum, Mbit/s; None without one."""
        curve = self.response.curves.get(self.optimum.combination)
        if curve is None or not self.is_predicted:
            return None
        return curve.interval(self.optimum.buffer_mib)

    @property
    def is_swept(self) -> bool:
        """True if the optimum's throughput is the sweep's at its buffer."""
        optimum = self.optimum
        here = optimum.combination, optimum.buffer_mib, optimum.throughput_mbps
        return any(
            (point.combination, point.buffer_mib, point.throughput.mean) == here for point in self.points
        )

    @property
    def is_predicted(self) -> bool:
        """True if the optimum's throughput is the model's, not an observation that replaced it."""
        at, value = self.optimum.buffer_mib, self.optimum.throughput_mbps
        curve = self.response.curves.get(self.optimum.combination)
        return curve is not None and math.isclose(curve.predict(at), value, rel_tol=1e-9)


def optimise(
    topology: Topology,
    runner: TrialRunner,
    options: OptimiseOptions,
    *,
    reporter: Reporter | None = None,
    round_: int = 0,
    kernel: TrialRunner | None = None,
) -> Result:
    """Find the best configuration for a topology.

    Parameters
    ----------
    round_ : of a campaign that is repeated over time, from 0; each has its own seeds.
    kernel : where the simulator's answer is confirmed (`mptune.optimisation.on_kernel`); None for nowhere.

    Raises
    ------
    InputError : an invalid option; before anything is measured.
    MptuneError : too many trials failed for an answer.
    Interrupted : Ctrl-C after the first trials of the sweep.
    """
    options.check()
    wanted = partial(_optimise, topology, runner, reporter=reporter, round_=round_, kernel=kernel)
    if options.buffer_mode != COMPETE:
        return wanted(options)
    job = Job.on(topology, runner, modes.in_mode(options, FIXED), reporter, round_)
    if job.is_real or options.budget_ns is not None:
        return wanted(modes.in_mode(options, modes.predicted(topology, options)))
    grown = wanted(modes.in_mode(options, SENDER))
    if not modes.fixed_may_win(job, grown.points, grown.finalists, grown.impacts):
        return grown
    fixed = wanted(modes.in_mode(options, FIXED))
    assert grown.confirmation is not None and fixed.confirmation is not None  # measured here
    if modes.fixed_wins(grown.confirmation, fixed.confirmation, options.sacrifice):
        return fixed.beside(grown)
    return grown.beside(fixed)


def _optimise(
    topology: Topology,
    runner: TrialRunner,
    options: OptimiseOptions,
    *,
    reporter: Reporter | None,
    round_: int,
    kernel: TrialRunner | None,
) -> Result:
    """The answer for buffers of one mode."""
    budget = Budget.on(runner.testbed, topology, options, runner.at_once).fitted()
    options = budget.options
    job = Job.on(topology, runner, options, reporter, round_)
    options = job.options
    impacts = measure_impacts(job, budget.impact)
    job, budget = replace(job, sets=impacts.sets), budget.after(impacts.records)
    screened = Screened()
    if options.learns:
        swept = learn(job, budget, impacts.factors)
    else:
        screened = Screening(job, impacts).run()
        papers = isinstance(options, MpcoaOptions)
        homogeneous = mpcoa.homogeneous(impacts.factors) if papers else impacts.homogeneous
        swept = Sweep(job, homogeneous).run([*asked(options), *screened.staying])
    budget = budget.after((*screened.records, *screened.brief, *swept.records))
    with telling(swept.steps):
        contest = Contest(swept.decision)
        if not job.is_lean:
            contest = Shortlist(job, swept.points, screened.records).run(swept.decision)
        asking = None if kernel is None else AskingKernel(job, kernel, swept.points)
        decided: tuple[Finalist, ...] = ()
        if asking is not None and options.confirm_on is not None:
            contest, decided = asking.decide(contest)
        contest = PlainTcp(job).face(contest)
        budget = budget.after(contest.records)
        beside = budget.fresh_runs
        confirmed = Confirming(job, budget.keeping(beside), swept.points).run(contest)
        contest, confirmation = confirmed.contest, confirmed.confirmation
        ours = confirmation.records[: confirmation.runs]
        shown = baselines.measure(job, ours, min(beside, confirmation.runs))
        queued = confirmation.queueing.get("recommended")
        against_hosts = baselines.verdict(shown, queued, options.sacrifice)
        measured = None if asking is None else asking.confirm(contest, confirmation, decided)
    decision = contest.decision
    memory = job.limit_of(confirmation.recommended.buffer_bytes)
    sensitivity, varied = vary(job, confirmed) if options.sensitivity else (None, [])
    algorithm = None
    if swept.step_six is not None:
        algorithm = Mpcoa(step_six=swept.step_six, traditional=mpcoa.traditional(topology, swept.records))
    expected, default = (None, None) if job.is_real else on_kernel(job, confirmation)
    return Result(
        name=topology.name,
        decision=decision,
        buffer_bytes=confirmation.recommended.buffer_bytes,
        points=swept.points,
        topology=topology,
        stack=stack_title(runner.testbed.name, msgspec.structs.asdict(options.stack.chosen())),
        buffer_mode=options.mode_of_trials,
        receive_bytes=job.receive_bytes,
        family=options.family,
        impacts=impacts.factors,
        subflows=_subflows(topology, confirmation),
        finalists=contest.finalists,
        confirmation=confirmation,
        reached=swept.reached,
        traditional=traditional(topology, algorithm),
        on_kernel=expected,
        default_on_kernel=default,
        baselines=shown,
        measured_on_kernel=measured if isinstance(measured, MeasuredOnKernel) else None,
        undecided=() if job.is_real or decided else undecided(job, contest),
        heed=(
            *against_hosts,
            *_of_kernel(measured, options),
            *verdict(decision, swept.points, confirmation),
            *failures(confirmation.records, "confirmation"),
            *shown.warnings,
            *memory,
            *shortened(options),
            *left_out(topology, prediction=job.wants_prior),
        ),
        warnings=(
            *shortened(options),
            *topology.ruled_out,
            *memory,
            *left_out(topology, prediction=job.wants_prior),
            *warnings_of(impacts.factors),
            *failures(swept.records, "sweep"),
            *decision.response.warnings,
            *contest.sentences,
            *failures(confirmation.records, "confirmation"),
            *shown.warnings,
            *verdict(decision, swept.points, confirmation),
            *against_hosts,
            *_of_kernel(measured, options),
        ),
        records=(
            *impacts.records,
            *screened.records,
            *screened.brief,
            *swept.records,
            *contest.records,
            *confirmation.records,
            *varied,
        ),
        sensitivity=sensitivity,
        mpcoa=algorithm,
    )


def _of_kernel(measured: MeasuredOnKernel | str | None, options: OptimiseOptions) -> tuple[str, ...]:
    """Warnings of the confirmation on a kernel; why there is none is one where it was asked for."""
    if isinstance(measured, MeasuredOnKernel):
        return measured.warnings
    return () if measured is None or options.confirm_on is None else (measured,)


def on_kernel(job: Job, confirmation: Confirmation) -> tuple[OnKernel, OnKernel]:
    """Expected throughput of a kernel with the answer and with the default, from fresh trials."""
    runs = confirmation.runs
    found = []
    for place, configuration in enumerate((confirmation.recommended, confirmation.default)):
        planned = plan_run(
            job.topology,
            configuration,
            purpose="confirm",
            run=0,
            base_seed=job.options.seed,
        )
        simulated = THROUGHPUT.values(confirmation.records[place * runs : (place + 1) * runs])
        found.append(shipped().expected(planned.trial, simulated))
    return found[0], found[1]


def traditional(topology: Topology, algorithm: Mpcoa | None = None) -> dict[str, int]:
    """The traditional buffers, bytes; none where not every rate and RTT is known.

    Parameters
    ----------
    algorithm : its buffer of Table 5, by RTTs and timeouts that were measured, takes the place of the one
        by RTTs without load.
    """
    if topology.missing:
        return {}
    own = None if algorithm is None else algorithm.traditional
    return {**theory.traditional(topology), **({} if own is None else {"table5": own.size_bytes})}


def left_out(topology: Topology, *, prediction: bool = False) -> list[str]:
    """Parts left out because rates or RTTs are unknown, as a sentence.

    Parameters
    ----------
    prediction : whether the simulator would have predicted something.
    """
    if not topology.missing:
        return []
    predicted = " and the simulator's prediction" if prediction else ""
    first, *more = topology.missing
    unknown = f"{first} and {len(more)} more are" if more else f"{first} is"
    measures = f"`mptune probe` measures {'them' if more else 'it'}"
    return [f"The traditional buffers{predicted} are left out: {unknown} not known; {measures}."]


def _subflows(topology: Topology, confirmation: Confirmation) -> tuple[str, ...]:
    """Subflows of the recommended configuration that carry data, in the order of the topology."""
    recommended = confirmation.recommended
    if recommended.protocol == PLAIN_TCP and recommended.initial_path is not None:
        return (recommended.initial_path,)
    left = topology.for_mptcp(recommended.initial_path)
    labels = tuple(path.label for path in left.paths)
    if recommended.active is not None:
        return recommended.active
    if recommended.pm == "fullmesh":
        return labels
    ours = confirmation.records[: confirmation.runs]
    used = {s.path for record in ours if record.failed is None for s in record.subflows if s.active}
    return tuple(label for label in labels if label in used)
