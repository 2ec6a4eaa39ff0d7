"""The main job: from a topology to the best configuration, with the evidence (MPCOA, all steps).

    impact factors -> optional sets -> sweep -> response model -> selection -> confirmation

Each step is a module of its own; this one puts them in a row. It prints nothing and writes no file:
see `mptune.cli.optimise` and `mptune.campaign.directory`.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from mptune import testbeds, theory
from mptune.campaign.grid import MIB
from mptune.campaign.planning import Configuration, plan
from mptune.campaign.progress import Reporter
from mptune.campaign.records import Record, measure
from mptune.confirm import Confirmation, confirm, verdict
from mptune.errors import InputError
from mptune.impact import Impact, ImpactOptions, SubflowSets, measure_impact
from mptune.response import MODELS, Combination, Response
from mptune.selection import READINGS, BufferRange, Optimum, select
from mptune.sweep import SweepPoint, sweep_points, sweep_samples
from mptune.testbeds import Testbed
from mptune.topology import Topology

#: OBS is rounded up to whole multiples of this before it is confirmed: nobody sets single bytes.
BUFFER_STEP = 1024

#: What a host does that was never tuned; measured with the largest buffer of the sweep.
DEFAULT_PM, DEFAULT_CC = "fullmesh", "cubic"


class OptimiseOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to sweep, how often, and how to decide.

    Attributes
    ----------
    buffers : bytes, ascending.
    sacrifice : delta of MPCOA Eq. 10, in [0, 1).
    selection, model : names in `mptune.selection.READINGS` and `mptune.response.MODELS`.
    on_grid : restrict the answer to the swept buffers.
    impact : its `buffer_bytes` is the buffer of the withdrawal trials.
    """

    pms: tuple[str, ...]
    ccs: tuple[str, ...]
    buffers: tuple[int, ...]
    runs: int
    duration_ns: int
    impact: ImpactOptions
    confirm_runs: int
    sacrifice: float = 0.07
    selection: str = "global"
    model: str = "quadratic"
    on_grid: bool = False
    seed: int = 1


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The answer and all that it rests on.

    Attributes
    ----------
    impacts : by congestion control; empty when PCDC was not asked for.
    optimum : as the model predicts it; the buffer in use is that of `confirmation.recommended`.
    subflows : labels of the subflows that carry data.
    predicted : 95 % interval of the model's mean at the optimum, Mbit/s; None without one.
    traditional : formula -> bytes (`mptune.theory.traditional`).
    warnings : sentences for the user.
    records : every trial, in the order of measurement.
    """

    topology: Topology
    options: OptimiseOptions
    impacts: tuple[Impact, ...]
    points: tuple[SweepPoint, ...]
    response: Response
    optimum: Optimum
    subflows: tuple[str, ...]
    predicted: tuple[float, float] | None
    confirmation: Confirmation
    traditional: dict[str, int]
    warnings: tuple[str, ...]
    records: tuple[Record, ...]


def optimise(
    topology: Topology,
    testbed: Testbed,
    options: OptimiseOptions,
    *,
    workers: int | None = None,
    reporter: Reporter | None = None,
) -> Result:
    """Find the best configuration for a topology.

    Raises
    ------
    InputError : an option that cannot be; before anything is measured.
    MptuneError : so many trials failed that there is no answer.
    """
    check_options(options)
    job = _Job(topology, testbed, options, workers, reporter or Reporter(quiet=True))
    impacts, impact_records = job.impacts()
    sets = {impact.cc: impact.sets for impact in impacts}
    swept = job.sweep(sets)
    points = sweep_points(swept)
    response = MODELS[options.model].fit(sweep_samples(swept))
    optimum = job.select(response, sets)
    confirmation = job.confirm(optimum, sets)
    return Result(
        topology=topology,
        options=options,
        impacts=tuple(impacts),
        points=points,
        response=response,
        optimum=optimum,
        subflows=_subflows(topology, confirmation),
        predicted=response.curves[Combination(optimum.pm, optimum.cc)].interval(optimum.buffer_mib),
        confirmation=confirmation,
        traditional=theory.traditional(topology),
        warnings=(
            *(text for impact in impacts for text in impact.warnings),
            *_failures(swept, "sweep"),
            *response.warnings,
            *_failures(confirmation.records, "confirmation"),
            *verdict(points, optimum, confirmation, sacrifice=options.sacrifice, reading=options.selection),
        ),
        records=(*impact_records, *swept, *confirmation.records),
    )


class _Job(NamedTuple):
    """The steps that measure or decide, with what all of them need."""

    topology: Topology
    testbed: Testbed
    options: OptimiseOptions
    workers: int | None
    reporter: Reporter

    def impacts(self) -> tuple[list[Impact], list[Record]]:
        """Impact factors of every congestion control, if PCDC is to be told of them."""
        if "pcdc" not in self.options.pms:
            return [], []
        with self.reporter.phase("impact factors") as progress:
            return measure_impact(
                self.topology,
                self.testbed,
                self.options.ccs,
                self.options.impact,
                workers=self.workers,
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
            return measure(self.testbed, planned, workers=self.workers, progress=progress)

    def select(self, response: Response, sets: Mapping[str, SubflowSets]) -> Optimum:
        """MPCOA's decision on the fitted curves."""
        return select(
            response.curves,
            BufferRange(
                grid=tuple(size / MIB for size in self.options.buffers), on_grid=self.options.on_grid
            ),
            sacrifice=self.options.sacrifice,
            reading=self.options.selection,
            homogeneous={cc for cc, one in sets.items() if len(one.optional) == len(self.topology.paths)},
        )

    def confirm(self, optimum: Optimum, sets: Mapping[str, SubflowSets]) -> Confirmation:
        """Fresh trials of the optimum and of the default."""
        options = self.options
        with self.reporter.phase("confirmation") as progress:
            return confirm(
                self.topology,
                self.testbed,
                _configuration(optimum.pm, optimum.cc, _whole_buffer(optimum.buffer_mib), sets),
                _configuration(DEFAULT_PM, DEFAULT_CC, options.buffers[-1], sets),
                runs=options.confirm_runs,
                duration_ns=options.duration_ns,
                base_seed=options.seed,
                workers=self.workers,
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
    _check_names("--selection", [options.selection], READINGS)
    _check_names("--model", [options.model], MODELS)
    needed = MODELS[options.model].min_buffers
    if len(options.buffers) < needed:
        raise InputError(
            "--buffers",
            "",
            f"expected {needed} sizes at least for the {options.model} model, found {len(options.buffers)}",
        )
    if not 0 <= options.sacrifice < 1:
        raise InputError("--sacrifice", "", f"expected a share in [0, 1), found {options.sacrifice}")
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


def _whole_buffer(mib: float) -> int:
    """Bytes of a buffer, rounded up to whole `BUFFER_STEP`s (a millionth of a step is rounding error)."""
    return BUFFER_STEP * math.ceil(mib * MIB / BUFFER_STEP - 1e-6)


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
