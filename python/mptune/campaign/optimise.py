"""The main job: from a topology to the best configuration, with the evidence (MPCOA, all steps).

    impact factors -> optional sets -> sweep -> decision (response model, selection) -> confirmation

Each step has its own module; this one runs them in order. It prints nothing and writes no file: see
`mptune.cli.optimise` and `mptune.campaign.documents`. `mptune.campaign.optimise_from` uses measurements made
elsewhere instead of the first three steps.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, Self

import msgspec

from mptune import theory
from mptune.campaign.papers import BUFFERS, CCS, PMS
from mptune.decision import Decision, DecisionOptions, decide, too_few_sizes
from mptune.decision.confirmation import Confirmation, confirm, verdict
from mptune.decision.selection import Optimum
from mptune.decision.sweep import SweepPoint, sweep_points, sweep_samples
from mptune.impact import Impact, ImpactOptions, SubflowSets, measure_impact
from mptune.measuring.planning import Configuration, plan_trials
from mptune.measuring.progress import Reporter
from mptune.measuring.records import Record
from mptune.measuring.runner import TrialRunner
from mptune.options import Option, count
from mptune.options.stacks import StackOptions
from mptune.options.trials import BufferMode, Buffers, Ccs, Duration, Pms, Runs
from mptune.response import Combination, Response
from mptune.testbeds import FIXED, stack_title
from mptune.topology import Topology
from mptune.units import MIB

#: OBS is rounded up to whole multiples of this, bytes, before it is confirmed.
BUFFER_STEP = 1024

#: Configuration of a host that was never tuned; measured with the largest buffer of the sweep.
DEFAULT_PM, DEFAULT_CC = "fullmesh", "cubic"


class OptimiseOptions(DecisionOptions, frozen=True, kw_only=True):
    """What to sweep, how often, and how to decide.

    Attributes
    ----------
    buffers : bytes, ascending.
    buffer_mode : as in `Trial`.
    impact : its `buffer_bytes` is the buffer of the withdrawal trials.
    """

    pms: Pms = PMS
    ccs: Ccs = CCS
    buffers: Buffers = BUFFERS
    buffer_mode: BufferMode = FIXED
    runs: Runs = 9
    duration_ns: Duration = 30_000_000_000
    stack: StackOptions = StackOptions()
    impact: ImpactOptions = ImpactOptions()
    confirm_runs: Annotated[
        int,
        Option(
            count(1),
            "Runs with new seeds to confirm the answer, and as many of the default.",
            key="decision.confirm_runs",
        ),
    ] = 9

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """The model needs enough buffer sizes."""
        if expected := too_few_sizes(self.model, len(self.buffers)):
            yield "buffers", expected

    def completed(self) -> Self:
        """Withdrawal trials use the largest buffer, which limits least, and the same base of seeds."""
        impact = withdrawals(self.impact, self.buffers, self.buffer_mode, self.seed)
        return msgspec.structs.replace(self, impact=impact)


def withdrawals(options: ImpactOptions, buffers: Sequence[int], mode: str, seed: int) -> ImpactOptions:
    """Options of the withdrawal trials before a sweep: its largest buffer, its mode, and its seed."""
    largest = max(buffers, default=options.buffer_bytes)
    return msgspec.structs.replace(options, buffer_bytes=largest, buffer_mode=mode, seed=seed)


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The answer and its evidence.

    Attributes
    ----------
    name : of the topology, or of the file of measurements.
    stack : whose MPTCP was measured, in words; empty if it is unknown.
    decision : its optimum is the model's prediction; the buffer to use is `buffer_bytes`.
    buffer_bytes : OBS, rounded up to whole KiB.
    buffer_mode : of every trial; empty if it is unknown.
    topology : None if only measurements were given.
    impacts : by congestion control; empty when PCDC was not asked for.
    subflows : labels of the subflows that carry data; empty if they are unknown.
    confirmation : None for measurements made elsewhere, which cannot be repeated here.
    traditional : formula -> bytes (`mptune.theory.traditional`); empty without a topology.
    warnings : sentences for the user.
    records : every trial, in the order of measurement.
    """

    name: str
    decision: Decision
    buffer_bytes: int
    points: tuple[SweepPoint, ...]
    warnings: tuple[str, ...]
    topology: Topology | None = None
    stack: str = ""
    buffer_mode: str = ""
    impacts: tuple[Impact, ...] = ()
    subflows: tuple[str, ...] = ()
    confirmation: Confirmation | None = None
    traditional: dict[str, int] = {}
    records: tuple[Record, ...] = ()

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
        curve = self.response.curves[Combination(self.optimum.pm, self.optimum.cc)]
        return curve.interval(self.optimum.buffer_mib)


def optimise(
    topology: Topology,
    runner: TrialRunner,
    options: OptimiseOptions,
    *,
    reporter: Reporter | None = None,
) -> Result:
    """Find the best configuration for a topology.

    Raises
    ------
    InputError : an invalid option; before anything is measured.
    MptuneError : too many trials failed for an answer.
    """
    options.check()
    job = _Job(topology, runner, options, reporter or Reporter(quiet=True))
    impacts, impact_records = job.impacts()
    sets = {impact.cc: impact.sets for impact in impacts}
    swept = job.sweep(sets)
    samples = sweep_samples(swept)
    points = sweep_points(samples)
    homogeneous = {cc for cc, one in sets.items() if len(one.optional) == len(topology.paths)}
    decision = decide(samples, options, homogeneous=homogeneous, reporter=job.reporter)
    confirmation = job.confirm(decision.optimum, sets)
    return Result(
        name=topology.name,
        decision=decision,
        buffer_bytes=confirmation.recommended.buffer_bytes,
        points=points,
        topology=topology,
        stack=stack_title(runner.testbed.name, msgspec.structs.asdict(options.stack.chosen())),
        buffer_mode=options.buffer_mode,
        impacts=tuple(impacts),
        subflows=_subflows(topology, confirmation),
        confirmation=confirmation,
        traditional=theory.traditional(topology),
        warnings=(
            *(text for impact in impacts for text in impact.warnings),
            *_failures(swept, "sweep"),
            *decision.response.warnings,
            *_failures(confirmation.records, "confirmation"),
            *verdict(decision, points, confirmation),
        ),
        records=(*impact_records, *swept, *confirmation.records),
    )


class _Job(NamedTuple):
    """The steps that measure or decide, with their common parameters."""

    topology: Topology
    runner: TrialRunner
    options: OptimiseOptions
    reporter: Reporter

    def impacts(self) -> tuple[list[Impact], list[Record]]:
        """Impact factors of every congestion control, if PCDC needs them."""
        if "pcdc" not in self.options.pms:
            return [], []
        with self.reporter.phase("impact factors") as progress:
            return measure_impact(
                self.topology,
                self.runner,
                self.options.ccs,
                self.options.impact,
                stack=self.options.stack.chosen(),
                progress=progress,
            )

    def sweep(self, sets: Mapping[str, SubflowSets]) -> list[Record]:
        """Every path manager with every congestion control and every buffer."""
        options = self.options
        planned = plan_trials(
            self.topology,
            [
                self.configuration(pm, cc, size, sets)
                for pm, cc, size in itertools.product(options.pms, options.ccs, options.buffers)
            ],
            purpose="sweep",
            runs=options.runs,
            duration_ns=options.duration_ns,
            base_seed=options.seed,
        )
        with self.reporter.phase("sweep") as progress:
            return self.runner.measure(planned, progress=progress)

    def configuration(self, pm: str, cc: str, size: int, sets: Mapping[str, SubflowSets]) -> Configuration:
        """A configuration of the stack that was asked for."""
        options = self.options
        return configuration(
            pm, cc, size, sets, stack=options.stack.chosen(), buffer_mode=options.buffer_mode
        )

    def confirm(self, optimum: Optimum, sets: Mapping[str, SubflowSets]) -> Confirmation:
        """Trials of the optimum and of the default with new seeds."""
        options = self.options
        with self.reporter.phase("confirmation") as progress:
            return confirm(
                self.topology,
                self.runner,
                self.configuration(optimum.pm, optimum.cc, whole_buffer(optimum.buffer_mib), sets),
                self.configuration(DEFAULT_PM, DEFAULT_CC, options.buffers[-1], sets),
                runs=options.confirm_runs,
                duration_ns=options.duration_ns,
                base_seed=options.seed,
                progress=progress,
            )


def configuration(
    pm: str,
    cc: str,
    size: int,
    sets: Mapping[str, SubflowSets],
    *,
    pm_options: Mapping[str, Any] | None = None,
    transfer_bytes: int | None = None,
    **others: Any,
) -> Configuration:
    """PCDC gets the sets of its congestion control, if any, beside the options that were given.

    It gets the RTTs too where there is a transfer: a saturated sender takes the whole optional set, in
    whatever order.
    """
    options = dict(pm_options or {})
    if pm == "pcdc" and cc in sets:
        told = sets[cc]
        rtt_ns = None if transfer_bytes is None else told.rtt_ns
        measured = {"active": told.optional, "standby_order": told.standby, "rtt_ns": rtt_ns}
        options |= {name: value for name, value in measured.items() if value}
    return Configuration(
        pm=pm, cc=cc, buffer_bytes=size, pm_options=options, transfer_bytes=transfer_bytes, **others
    )


def whole_buffer(mib: float) -> int:
    """Bytes of a buffer, rounded up to whole `BUFFER_STEP`s (a millionth of a step is rounding error)."""
    return BUFFER_STEP * math.ceil(mib * MIB / BUFFER_STEP - 1e-6)


def _failures(records: Sequence[Record], name: str) -> list[str]:
    """A sentence about failed trials, which are left out."""
    failed = [one for one in records if one.failed is not None]
    if not failed:
        return []
    first = failed[0]
    return [
        f"{len(failed)} of {len(records)} {name} trials failed and are left out (first: "
        f"{first.pm}/{first.cc} with {first.buffer_bytes / MIB:.4g} MiB: {first.failed})."
    ]


def _subflows(topology: Topology, confirmation: Confirmation) -> tuple[str, ...]:
    """Subflows of the recommended configuration that carry data, in the order of the topology."""
    recommended = confirmation.recommended
    labels = tuple(path.label for path in topology.paths)
    if recommended.active is not None:
        return recommended.active
    if recommended.pm == "fullmesh":
        return labels
    used = {s.path for s in confirmation.records[0].subflows if s.active}
    return tuple(label for label in labels if label in used)
