"""The main job: from a topology to the best configuration, with the evidence (MPCOA, all steps).

    impact factors -> optional sets -> sweep -> decision (response model, selection) -> confirmation

Each step is a module of its own; this one puts them in a row. It prints nothing and writes no file: see
`mptune.cli.optimise` and `mptune.report.documents`. With measurements of others in place of the first
three steps it is `mptune.optimise_from`.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from mptune import testbeds, theory
from mptune.campaign.bench import Bench
from mptune.campaign.grid import MIB
from mptune.campaign.planning import Configuration, plan
from mptune.campaign.progress import Reporter
from mptune.campaign.records import Record
from mptune.confirm import Confirmation, confirm, verdict
from mptune.decision import Decision, DecisionOptions, check_decision, decide
from mptune.errors import InputError
from mptune.impact import Impact, ImpactOptions, SubflowSets, measure_impact
from mptune.response import Combination, Response, Sample
from mptune.selection import Optimum
from mptune.sweep import SweepPoint, sweep_points, sweep_samples
from mptune.topology import Topology

#: OBS is rounded up to whole multiples of this before it is confirmed: nobody sets single bytes.
BUFFER_STEP = 1024

#: What a host does that was never tuned; measured with the largest buffer of the sweep.
DEFAULT_PM, DEFAULT_CC = "fullmesh", "cubic"


class OptimiseOptions(DecisionOptions, frozen=True, kw_only=True):
    """What to sweep, how often, and how to decide.

    Attributes
    ----------
    buffers : bytes, ascending.
    impact : its `buffer_bytes` is the buffer of the withdrawal trials.
    """

    pms: tuple[str, ...]
    ccs: tuple[str, ...]
    buffers: tuple[int, ...]
    runs: int
    duration_ns: int
    impact: ImpactOptions
    confirm_runs: int


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The answer and all that it rests on.

    Attributes
    ----------
    name : of the topology, or of the file of measurements.
    decision : its optimum is as the model predicts it; the buffer to use is `buffer_bytes`.
    buffer_bytes : OBS, rounded up to whole KiB.
    topology : None where only measurements were given.
    impacts : by congestion control; empty when PCDC was not asked for.
    subflows : labels of the subflows that carry data; empty where nothing is known of them.
    confirmation : None for measurements of others, which cannot be repeated here.
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
    bench: Bench,
    options: OptimiseOptions,
    *,
    reporter: Reporter | None = None,
) -> Result:
    """Find the best configuration for a topology.

    Raises
    ------
    InputError : an option that cannot be; before anything is measured.
    MptuneError : so many trials failed that there is no answer.
    """
    check_options(options)
    job = _Job(topology, bench, options, reporter or Reporter(quiet=True))
    impacts, impact_records = job.impacts()
    sets = {impact.cc: impact.sets for impact in impacts}
    swept = job.sweep(sets)
    samples = sweep_samples(swept)
    homogeneous = {cc for cc, one in sets.items() if len(one.optional) == len(topology.paths)}
    decision = decide(samples, options, homogeneous=homogeneous, reporter=job.reporter)
    confirmation = job.confirm(decision.optimum, sets)
    return Result(
        name=topology.name,
        decision=decision,
        buffer_bytes=confirmation.recommended.buffer_bytes,
        points=sweep_points(samples),
        topology=topology,
        impacts=tuple(impacts),
        subflows=_subflows(topology, confirmation),
        confirmation=confirmation,
        traditional=theory.traditional(topology),
        warnings=(
            *(text for impact in impacts for text in impact.warnings),
            *_failures(swept, "sweep"),
            *decision.response.warnings,
            *_failures(confirmation.records, "confirmation"),
            *judge(samples, decision, confirmation),
        ),
        records=(*impact_records, *swept, *confirmation.records),
    )


class _Job(NamedTuple):
    """The steps that measure or decide, with what all of them need."""

    topology: Topology
    bench: Bench
    options: OptimiseOptions
    reporter: Reporter

    def impacts(self) -> tuple[list[Impact], list[Record]]:
        """Impact factors of every congestion control, if PCDC is to be told of them."""
        if "pcdc" not in self.options.pms:
            return [], []
        with self.reporter.phase("impact factors") as progress:
            return measure_impact(
                self.topology,
                self.bench,
                self.options.ccs,
                self.options.impact,
                progress=progress,
            )

    def sweep(self, sets: Mapping[str, SubflowSets]) -> list[Record]:
        """Every path manager with every congestion control and every buffer."""
        options = self.options
        planned = plan(
            self.topology,
            [
                _configuration(pm, cc, size, sets)
                for pm, cc, size in itertools.product(options.pms, options.ccs, options.buffers)
            ],
            purpose="sweep",
            runs=options.runs,
            duration_ns=options.duration_ns,
            base_seed=options.seed,
        )
        with self.reporter.phase("sweep") as progress:
            return self.bench.measure(planned, progress=progress)

    def confirm(self, optimum: Optimum, sets: Mapping[str, SubflowSets]) -> Confirmation:
        """Fresh trials of the optimum and of the default."""
        options = self.options
        with self.reporter.phase("confirmation") as progress:
            return confirm(
                self.topology,
                self.bench,
                _configuration(optimum.pm, optimum.cc, whole_buffer(optimum.buffer_mib), sets),
                _configuration(DEFAULT_PM, DEFAULT_CC, options.buffers[-1], sets),
                runs=options.confirm_runs,
                duration_ns=options.duration_ns,
                base_seed=options.seed,
                progress=progress,
            )


def check_options(options: OptimiseOptions) -> None:
    """Refuse what cannot be, before anything is measured.

    Raises
    ------
    InputError : naming the option.
    """
    _check_names("--pm", options.pms, testbeds.names("path_managers"))
    _check_names("--cc", options.ccs, testbeds.names("congestion_controls"))
    check_decision(options, len(options.buffers), "--buffers")
    for option, number in (
        ("--runs", options.runs),
        ("--impact-runs", options.impact.runs),
        ("--confirm-runs", options.confirm_runs),
        ("--duration", options.duration_ns),
    ):
        if number < 1:
            raise InputError(option, "", f"expected more than 0, found {number}")


def _check_names(option: str, found: Sequence[str], known: Sequence[str] | Mapping[str, object]) -> None:
    """Every name must be a known one, and there must be one."""
    for name in found or [""]:
        if name not in known:
            raise InputError(option, "", f"expected one of {', '.join(known)}, found {name!r}")


def _configuration(pm: str, cc: str, size: int, sets: Mapping[str, SubflowSets]) -> Configuration:
    """PCDC is told the sets of its congestion control; the others choose for themselves."""
    if pm != "pcdc":
        return Configuration(pm=pm, cc=cc, buffer_bytes=size)
    return Configuration(
        pm=pm, cc=cc, buffer_bytes=size, active=sets[cc].optional, standby_order=sets[cc].standby
    )


def whole_buffer(mib: float) -> int:
    """Bytes of a buffer, rounded up to whole `BUFFER_STEP`s (a millionth of a step is rounding error)."""
    return BUFFER_STEP * math.ceil(mib * MIB / BUFFER_STEP - 1e-6)


def judge(samples: Sequence[Sample], decision: Decision, confirmation: Confirmation | None) -> list[str]:
    """What the observations do not bear out of a decision."""
    return verdict(
        sweep_points(samples),
        decision.optimum,
        confirmation,
        sacrifice=decision.options.sacrifice,
        reading=decision.options.selection,
    )


def _failures(records: Sequence[Record], name: str) -> list[str]:
    """A sentence about the trials that are left out."""
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
