"""From observations to a decision: response model, selection, trade-off, and how sure they are.

The part of the main job that does not care where the observations come from. It measures nothing:
`mptune.optimise` brings measurements of its own or of others.
"""

import itertools
from collections.abc import Collection, Sequence

import msgspec

from mptune.campaign.progress import Reporter
from mptune.errors import InputError
from mptune.response import MODELS, Combination, Curve, Response, Sample
from mptune.selection import READINGS, BufferRange, Candidates, Optimum
from mptune.tradeoff import SACRIFICES, FrontPoint, pareto_front
from mptune.uncertainty import Resampler, Uncertainty, intervals, summarise_choices

#: Resamples beyond this are a slip of the pen.
MAX_RESAMPLES = 100_000


class DecisionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to decide.

    Attributes
    ----------
    sacrifice : delta of MPCOA Eq. 10, in [0, 1).
    selection, model : names in `mptune.selection.READINGS` and `mptune.response.MODELS`.
    on_grid : restrict the answer to the measured buffers.
    resamples : for the intervals; 0 for none.
    seed : of the resamples.
    """

    sacrifice: float = 0.07
    selection: str = "global"
    model: str = "auto"
    on_grid: bool = False
    resamples: int = 200
    seed: int = 1


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided, and on what grounds.

    Attributes
    ----------
    buffers : measured sizes, MiB, ascending.
    uncertainty : None without resampling.
    front : Pareto front of throughput and buffer, by falling throughput.
    """

    options: DecisionOptions
    buffers: tuple[float, ...]
    response: Response
    optimum: Optimum
    uncertainty: Uncertainty | None
    front: tuple[FrontPoint, ...]


def decide(
    samples: Sequence[Sample],
    options: DecisionOptions,
    *,
    homogeneous: Collection[str] = (),
    reporter: Reporter | None = None,
) -> Decision:
    """Fit, choose, and repeat both on resampled runs.

    Parameters
    ----------
    homogeneous : congestion controls for which PCDC does what FullMesh does.

    Raises
    ------
    MptuneError : the observations do not determine the model, or it predicts no throughput.
    """
    grid = tuple(sorted({sample.buffer_mib for sample in samples}))
    response = MODELS[options.model].fit(samples)
    limits = _measured(samples)
    chosen = options.sacrifice, options.selection

    def candidates(curves: dict[Combination, Curve]) -> Candidates:
        buffers = BufferRange(grid=grid, on_grid=options.on_grid)
        return Candidates(curves, buffers, homogeneous=homogeneous, measured=limits)

    found = candidates(response.curves)
    optimum = found.best(*chosen)
    front = pareto_front(found, (*SACRIFICES, options.sacrifice))
    uncertainty = None
    if options.resamples:
        resampler = Resampler(samples, response, MODELS[response.model])
        choices: list[Optimum] = []
        along: list[list[Optimum]] = []
        with (reporter or Reporter(quiet=True)).phase("resampling", "resamples") as progress:
            for curves in resampler.curves(options.resamples, options.seed, progress):
                again = candidates(curves)
                choices.append(again.best(*chosen))
                along.append([again.best(point.sacrifice) for point in front])
        ends = grid[0], grid[-1]
        uncertainty = summarise_choices(optimum, choices, ends, single_runs=resampler.single_runs)
        front = _with_intervals(front, along, ends)
    return Decision(
        options=options,
        buffers=grid,
        response=response,
        optimum=optimum,
        uncertainty=uncertainty,
        front=front,
    )


def check_decision(options: DecisionOptions, sizes: int, where: str) -> None:
    """Refuse what cannot be decided so.

    Parameters
    ----------
    sizes : number of buffer sizes there are or will be.
    where : option or file that they come from.

    Raises
    ------
    InputError : naming the option.
    """
    for option, name, known in (
        ("--selection", options.selection, tuple(READINGS)),
        ("--model", options.model, tuple(MODELS)),
    ):
        if name not in known:
            raise InputError(option, "", f"expected one of {', '.join(known)}, found {name!r}")
    needed = MODELS[options.model].min_buffers
    if sizes < needed:
        raise InputError(
            where, "", f"expected {needed} sizes at least for the {options.model} model, found {sizes}"
        )
    if not 0 <= options.sacrifice < 1:
        raise InputError("--sacrifice", "", f"expected a share in [0, 1), found {options.sacrifice}")
    if not 0 <= options.resamples <= MAX_RESAMPLES:
        raise InputError(
            "--resamples", "", f"expected 0 (none) to {MAX_RESAMPLES}, found {options.resamples}"
        )


def _measured(samples: Sequence[Sample]) -> dict[Combination, tuple[float, float]]:
    """Smallest and largest buffer with a usable observation, MiB, of each combination."""
    ordered = sorted(samples, key=lambda sample: sample.combination)
    limits = {}
    for combination, ones in itertools.groupby(ordered, key=lambda sample: sample.combination):
        buffers = [sample.buffer_mib for sample in ones]
        limits[combination] = min(buffers), max(buffers)
    return limits


def _with_intervals(
    front: Sequence[FrontPoint], along: Sequence[Sequence[Optimum]], ends: tuple[float, float]
) -> tuple[FrontPoint, ...]:
    """The front with the intervals of what was chosen at each of its sacrifices."""
    found = []
    for point, choices in zip(front, zip(*along, strict=True), strict=True):
        buffer, throughput = intervals(point.optimum, choices, ends)
        found.append(msgspec.structs.replace(point, buffer_interval=buffer, throughput_interval=throughput))
    return tuple(found)
