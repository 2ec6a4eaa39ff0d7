"""Uncertainty of an optimum: the runs are resampled, the models refitted and the choice repeated.

The bootstrap of Efron (1979) within each configuration: as many runs as there were, drawn from them
with replacement. Deviations from the mean are stretched by sqrt(n / (n - 1)), since a sample of n runs
scatters about its own mean by that much less than about the true one. A configuration with a single run
shows no scatter; its draws are the fitted curve plus a residual of its combination.

The interval of the throughput is the basic one, 2 estimate - quantiles (Davison and Hinkley, 1997,
section 5.2), not the quantiles themselves: the best of many estimates is an optimistic one, and the best
of many resampled estimates is so twice. In simulations of four noisy curves the quantiles held the true
throughput in about half of the cases instead of 95 %, the basic interval in 93 to 97 %. It may lie below
the estimate. The buffer jumps when another combination wins, and what lies on the far side of a jump
must not be mirrored: its interval reaches over both, and is the wider for it. The monotone model is the
exception: its intervals are too narrow (the bootstrap is inconsistent for isotonic regression).

What is resampled is the noise between runs. The model is not chosen anew. Its values between two measured
buffers is an assumption, unless the user named a formula: the buffer of every resample is therefore drawn
from the whole gap in which it lies, any size in it being as likely (`Blur`). Without any noise the interval
is that gap but for 5 % of it.

Runs of one number share their seed, and so their luck. What a run adds in all configurations alike is drawn
once for all of them, and only the rest for each by itself: luck that two combinations share does not make
one win over the other, and does not cancel out over the buffers of a curve. Where runs share nothing, their
common part is next to nothing, and everything is drawn independently.
"""

import bisect
import math
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from mptune.decision.selection import Optimum
from mptune.response import Curve, Mean, Response, ResponseModel, Sample
from mptune.runner.running import Advance
from mptune.runner.seeds import seed_for
from mptune.statistics import CONFIDENCE, quantile
from mptune.trial import Combination

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

Interval = tuple[float, float]


class Uncertainty(msgspec.Struct, frozen=True, kw_only=True):
    """Dependence of the choice on the luck of the runs.

    Attributes
    ----------
    obs_mib, otp_mbps : 95 % intervals of the chosen buffer and of the throughput there, whichever
        combination was chosen.
    wins : share of the resamples in which each combination was chosen, most often first.
    single_runs : configurations had a single run, and residuals stood in for their scatter.
    """

    resamples: int
    obs_mib: Interval
    otp_mbps: Interval
    wins: dict[Combination, float]
    single_runs: bool


class Choice(NamedTuple):
    """The choice in one resample.

    Attributes
    ----------
    optimum : the choice by the model.
    buffer_mib : its buffer, or another one that the observations do not distinguish from it (`Blur`).
    """

    optimum: Optimum
    buffer_mib: float


def summarise_choices(
    optimum: Optimum, choices: Sequence[Choice], buffers: tuple[float, float], *, single_runs: bool
) -> Uncertainty:
    """Uncertainty of an optimum from what was chosen in each resample.

    Parameters
    ----------
    buffers : smallest and largest buffer an answer may have, MiB.
    """
    obs_mib, otp_mbps = intervals(optimum, choices, buffers)
    counts: dict[Combination, int] = {}
    for choice, _ in choices:
        counts[choice.combination] = counts.get(choice.combination, 0) + 1
    order = sorted(counts, key=lambda key: (-counts[key], key))
    return Uncertainty(
        resamples=len(choices),
        obs_mib=obs_mib,
        otp_mbps=otp_mbps,
        wins={key: counts[key] / len(choices) for key in order},
        single_runs=single_runs,
    )


def intervals(
    optimum: Optimum, choices: Sequence[Choice], buffers: tuple[float, float]
) -> tuple[Interval, Interval]:
    """95 % intervals of buffer (MiB, within the range it may have) and throughput (Mbit/s, not negative)."""
    lower, upper = _quantiles([choice.buffer_mib for choice in choices])
    mirrored = _mirrored(optimum.buffer_mib, _quantiles([choice.optimum.buffer_mib for choice in choices]))
    ends = min(lower, mirrored[0]), max(upper, mirrored[1])
    throughputs = _quantiles([choice.optimum.throughput_mbps for choice in choices])
    low, high = _mirrored(optimum.throughput_mbps, throughputs)
    return (max(ends[0], buffers[0]), min(ends[1], buffers[1])), (max(low, 0.0), max(high, 0.0))


def gap(sizes: Sequence[float], chosen: float) -> tuple[float, float]:
    """The measured buffers (ascending) on both sides of a chosen one; the same one twice at the smallest.

    A chosen one that was measured is the upper of the two: it suffices where the one before it does not.
    """
    above = min(bisect.bisect_left(sizes, chosen * (1 - 1e-9)), len(sizes) - 1)
    return sizes[max(above - 1, 0)], sizes[above]


class Blur:
    """Moves a chosen buffer to a random place between the measured ones beside it.

    Parameters
    ----------
    samples : the observations; each combination has its own measured buffers.
    stalled : combinations and buffers (MiB) that were measured and hold no throughput.
    """

    def __init__(
        self, samples: Sequence[Sample], stalled: Collection[tuple[Combination, float]] = ()
    ) -> None:
        sizes: dict[Combination, set[float]] = {}
        for combination, buffer_mib in (
            *((sample.combination, sample.buffer_mib) for sample in samples),
            *stalled,
        ):
            sizes.setdefault(combination, set()).add(buffer_mib)
        self._sizes = {combination: sorted(ones) for combination, ones in sizes.items()}

    def __call__(self, chosen: Optimum, share: float) -> Choice:
        """The choice, with the buffer that lies this share of the way through the gap of its own buffer."""
        low, high = gap(self._sizes[chosen.combination], chosen.buffer_mib)
        return Choice(chosen, low * (high / low) ** share)


def _quantiles(values: Sequence[float]) -> Interval:
    """Percentile interval."""
    ordered = sorted(values)
    tail = (1 - CONFIDENCE) / 2
    return quantile(ordered, tail), quantile(ordered, 1 - tail)


def _mirrored(estimate: float, percentile: Interval) -> Interval:
    """Basic interval: the percentile one mirrored at the estimate."""
    return 2 * estimate - percentile[1], 2 * estimate - percentile[0]


class Resampler:
    """Draws configurations as they might have been measured, and refits the model to them.

    Parameters
    ----------
    samples : the observations.
    response : the model fitted to them; its curves give the residuals of single runs.
    model : the model itself.
    """

    def __init__(self, samples: Sequence[Sample], response: Response, model: ResponseModel) -> None:
        grouped: dict[tuple[Combination, float], list[Sample]] = {}
        for sample in samples:
            grouped.setdefault((sample.combination, sample.buffer_mib), []).append(sample)
        self._keys = list(grouped)
        self._values = [[each_sample.value for each_sample in ones] for ones in grouped.values()]
        self._runs = [[each_sample.run for each_sample in ones] for ones in grouped.values()]
        self._model = model
        self._curves = response.curves
        self.single_runs = any(len(values) == 1 for values in self._values)

    def curves(
        self, resamples: int, seed: int, progress: Advance | None = None
    ) -> Iterator[dict[Combination, Curve]]:
        """Curves of every resample; the same seed gives the same ones."""
        import numpy as np

        rng = np.random.default_rng(seed_for(seed, "resampling", 0))
        means, squares = self._draw(resamples, rng)
        counts = [len(values) for values in self._values]
        for index in range(resamples):
            rows = zip(self._keys, means[index].tolist(), counts, squares[index].tolist(), strict=True)
            yield self._model.curves([Mean(*key, mean, n, square) for key, mean, n, square in rows])
            if progress is not None:
                progress(index + 1, resamples)

    def _draw(self, resamples: int, rng: "np.random.Generator") -> "tuple[Array, Array]":
        """Means and squared deviations of every configuration, shape (resamples, configurations)."""
        import numpy as np

        means = np.empty((resamples, len(self._values)))
        squares = np.zeros_like(means)
        own, shared = self._deviations()
        runs = np.array(list(shared.values()))
        together = runs[rng.integers(len(runs), size=(resamples, len(runs)))] if len(runs) else None
        for n in sorted({len(values) for values in self._values}):
            where = [i for i, values in enumerate(self._values) if len(values) == n]
            if n == 1:
                means[:, where] = self._single(where, resamples, rng)
                continue
            centre = np.array([self._values[i] for i in where]).mean(axis=1)
            deviations = np.array([own[i] for i in where])
            picks = rng.integers(n, size=(resamples, *deviations.shape))
            drawn = np.take_along_axis(np.broadcast_to(deviations, picks.shape), picks, axis=2)
            for column, i in enumerate(where):
                if together is not None and _distinct(self._runs[i]):
                    drawn[:, column] += together[:, :n]
            shift = drawn.mean(axis=2)
            means[:, where] = centre + shift
            squares[:, where] = ((drawn - shift[:, :, None]) ** 2).sum(axis=2)
        return means, squares

    def _deviations(self) -> "tuple[dict[int, Array], dict[int, float]]":
        """Deviations of the runs from the mean: each configuration's own part, and by run the shared part.

        Stretched. A configuration of several runs of one number shares nothing.
        """
        import numpy as np

        whole = {i: np.array(ys) - np.mean(ys) for i, ys in enumerate(self._values) if len(ys) > 1}
        by_run: dict[int, list[float]] = {}
        for i in whole:
            for run, deviation in zip(self._runs[i], whole[i], strict=True):
                if _distinct(self._runs[i]):
                    by_run.setdefault(run, []).append(float(deviation))
        shared = {run: math.fsum(ones) / len(ones) for run, ones in sorted(by_run.items())}
        own = {}
        for i, deviations in whole.items():
            if _distinct(self._runs[i]):
                deviations = deviations - np.array([shared[run] for run in self._runs[i]])
            own[i] = (deviations - deviations.mean()) * _stretch(len(deviations))
        middle = math.fsum(shared.values()) / max(len(shared), 1)
        return own, {run: (number - middle) * _stretch(len(shared)) for run, number in shared.items()}

    def _single(self, where: Sequence[int], resamples: int, rng: "np.random.Generator") -> "Array":
        """Draws of the configurations with one run: their curve plus a residual of their combination."""
        import numpy as np

        fitted = [self._curves[self._keys[i][0]].predict(self._keys[i][1]) for i in where]
        residuals: dict[Combination, list[float]] = {}
        for i, mean in zip(where, fitted, strict=True):
            residuals.setdefault(self._keys[i][0], []).append(self._values[i][0] - mean)
        draws = np.empty((resamples, len(where)))
        for column, (i, mean) in enumerate(zip(where, fitted, strict=True)):
            draws[:, column] = mean + rng.choice(np.array(residuals[self._keys[i][0]]), size=resamples)
        return draws


def _distinct(runs: Sequence[int]) -> bool:
    return len(set(runs)) == len(runs)


def _stretch(n: int) -> float:
    """By how much less a sample of n scatters about its own mean than about the true one."""
    return math.sqrt(n / (n - 1))
