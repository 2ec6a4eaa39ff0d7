"""From observations to a decision: response model, selection, trade-off, and how sure they are.

The part of the main job that does not care where the observations come from. It measures nothing:
`mptune.optimisation.main_job` brings measurements of its own or of others.
"""

import itertools
import random
from collections.abc import Collection, Sequence
from typing import Annotated

import msgspec

from mptune.decision.selection import READINGS, SACRIFICE, BufferRange, Candidates, Optimum
from mptune.decision.sweep import sweep_points
from mptune.decision.tradeoff import SACRIFICES, FrontPoint, pareto_front
from mptune.decision.uncertainty import Blur, Choice, Resampler, Uncertainty, intervals, summarise_choices
from mptune.options import SWITCH, Option, Options, choice, count, share
from mptune.options.trials import Seed
from mptune.response import FORMULAS, MODELS, Curve, Response, Sample
from mptune.runner.progress import Reporter
from mptune.runner.seeds import seed_for
from mptune.trial import Combination

#: More resamples than anyone wants: a typo.
MAX_RESAMPLES = 100_000


class DecisionOptions(Options, frozen=True, kw_only=True):
    """Options of the decision.

    Attributes
    ----------
    sacrifice : delta of MPCOA Eq. 10, in [0, 1).
    selection, model : names in `mptune.decision.selection.READINGS` and `mptune.response.MODELS`.
    seed : of the resamples.
    """

    sacrifice: Annotated[
        float, Option(share(), "Throughput given up for a smaller buffer.", key="decision.sacrifice")
    ] = SACRIFICE
    selection: Annotated[
        str,
        Option(
            choice(lambda: READINGS, listed=False),
            "robust: within the sacrifice of the best of all, with larger buffers too; global: whatever "
            "larger buffers do; literal: within that of its own maximum.",
            key="decision.selection",
            rare=True,
        ),
    ] = "robust"
    model: Annotated[
        str,
        Option(
            choice(lambda: MODELS),
            "Response model: the paper's is quadratic; auto takes the one that predicts best.",
            key="decision.model",
            rare=True,
        ),
    ] = "auto"
    on_grid: Annotated[
        bool,
        Option(SWITCH, "Recommend only a buffer size that was measured.", key="decision.on_grid", rare=True),
    ] = False
    resamples: Annotated[
        int,
        Option(
            count(0, MAX_RESAMPLES, zero="none"),
            "Resamples of the runs for the intervals of the answer; 0 disables them.",
            key="decision.resamples",
            rare=True,
        ),
    ] = 200
    seed: Seed = 1


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision and its grounds.

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


def _grid(samples: Sequence[Sample], stalled: Collection[tuple[Combination, float]]) -> tuple[float, ...]:
    """Buffers of usable observations, MiB, and those between them at which every run may have stalled."""
    usable = {sample.buffer_mib for sample in samples}
    least, most = min(usable, default=0.0), max(usable, default=0.0)
    return tuple(sorted(usable | {buffer for _, buffer in stalled if least < buffer < most}))


def decide(
    samples: Sequence[Sample],
    options: DecisionOptions,
    *,
    homogeneous: Collection[str] = (),
    stalled: Collection[tuple[Combination, float]] = (),
    reporter: Reporter | None = None,
) -> Decision:
    """Fit, choose, and repeat both on resampled runs.

    Parameters
    ----------
    homogeneous : congestion controls for which PCDC does what FullMesh does.
    stalled : combinations with the buffers (MiB) at which some run of theirs stalled: such a buffer holds no
        throughput, whatever the other runs gave.

    Raises
    ------
    MptuneError : the observations do not determine the model, or it predicts no throughput.
    """
    grid = _grid(samples, stalled)
    response = MODELS[options.model].fit(samples)
    limits = _measured(samples)
    ceilings, floors = _bounds(samples)
    for combination, buffer in stalled:
        ceilings.setdefault(combination, {})[buffer] = 0.0

    def candidates(curves: dict[Combination, Curve]) -> Candidates:
        buffers = BufferRange(grid=grid, on_grid=options.on_grid)
        return Candidates(
            curves, buffers, homogeneous=homogeneous, measured=limits, ceilings=ceilings, floors=floors
        )

    ranked = candidates(response.curves)
    optimum = ranked.best(options.sacrifice, options.selection)
    front = _with_answer(pareto_front(ranked, SACRIFICES, options.selection), options.sacrifice, optimum)
    uncertainty = None
    if options.resamples:
        # A formula that the user named is believed between the measured buffers; a grid has nothing there.
        exact = options.model in FORMULAS or options.on_grid
        blur, shares = Blur(samples, stalled), random.Random(seed_for(options.seed, "between the buffers", 0))

        def choose(curves: dict[Combination, Curve]) -> list[Choice]:
            """The answer, then that to each sacrifice of the front."""
            resampled, share = candidates(curves), shares.random()
            asked = options.sacrifice, *(point.sacrifice for point in front)
            ranked = [resampled.best(sacrifice, options.selection) for sacrifice in asked]
            return [
                Choice(each_optimum, each_optimum.buffer_mib) if exact else blur(each_optimum, share)
                for each_optimum in ranked
            ]

        resampler = Resampler(samples, response, MODELS[response.model])
        with (reporter or Reporter(quiet=True)).phase("resampling", "resamples") as progress:
            resamples = resampler.curves(options.resamples, options.seed, progress)
            choices, *along = zip(*map(choose, resamples), strict=True)
        ends = grid[0], grid[-1]
        uncertainty = summarise_choices(optimum, choices, ends, single_runs=resampler.single_runs)
        front = tuple(
            point.between(*intervals(point.optimum, alternative, ends))
            for point, alternative in zip(front, along, strict=True)
        )
    return Decision(
        options=options,
        buffers=grid,
        response=response,
        optimum=optimum,
        uncertainty=uncertainty,
        front=front,
    )


def _with_answer(front: tuple[FrontPoint, ...], sacrifice: float, optimum: Optimum) -> tuple[FrontPoint, ...]:
    """The front with the point of the chosen sacrifice, which others of the same answer give way to."""
    others = [
        front_point
        for front_point in front
        if front_point.optimum != optimum and front_point.sacrifice != sacrifice
    ]
    chosen = FrontPoint(sacrifice=sacrifice, optimum=optimum)
    return tuple(sorted([*others, chosen], key=lambda point: point.sacrifice))


def too_few_sizes(model: str, sizes: int) -> str | None:
    """Error text for too few buffer sizes, present or to come; None if there are enough.

    Parameters
    ----------
    model : a name in `mptune.response.MODELS`.
    """
    needed = MODELS[model].min_buffers
    return (
        f"expected {needed} sizes at least for the {model} model, found {sizes}" if sizes < needed else None
    )


def _bounds(
    samples: Sequence[Sample],
) -> tuple[dict[Combination, dict[float, float]], dict[Combination, float]]:
    """Ends of the 95 % intervals of the means, Mbit/s; the mean itself where there is one run only.

    The upper ones by combination and buffer (MiB), and the largest lower one of each combination.
    """
    ceilings: dict[Combination, dict[float, float]] = {}
    floors: dict[Combination, float] = {}
    for point in sweep_points(samples):
        summary = point.throughput
        ceilings.setdefault(point.combination, {})[point.buffer_mib] = (
            summary.mean if summary.high is None else summary.high
        )
        low = summary.mean if summary.low is None else summary.low
        floors[point.combination] = max(low, floors.get(point.combination, 0.0))
    return ceilings, floors


def _measured(samples: Sequence[Sample]) -> dict[Combination, tuple[float, float]]:
    """Smallest and largest buffer with a usable observation, MiB, of each combination."""
    ordered = sorted(samples, key=lambda sample: sample.combination)
    limits = {}
    for combination, ones in itertools.groupby(ordered, key=lambda sample: sample.combination):
        buffers = [sample.buffer_mib for sample in ones]
        limits[combination] = min(buffers), max(buffers)
    return limits
