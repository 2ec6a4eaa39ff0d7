"""Curves of all combinations together: each helps to know the others, and few buffers are enough.

The mean and the covariance of `mptune.response.process` after what was observed, at the measured buffers and
between them: for measurements that are not the same for all combinations, as those of the adaptive strategy.
A combination with one observation has a curve, with an accordingly wide interval.
"""

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mptune.errors import MptuneError
from mptune.response._base import (
    Curve,
    FitQuality,
    Mean,
    Response,
    Sample,
    acceptance_warnings,
    means,
    r_squared,
)
from mptune.response._polyline import Polyline
from mptune.response.noise import Noise
from mptune.response.process import MIDDLE, Arm, Fitted, Points, Process
from mptune.trial import Combination

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: Knots between two measured buffers, so that no two are further apart than this many octaves.
_APART = 0.25

#: Two-sided 95 % quantile of the normal distribution.
_NORMAL = 1.959964


class Belief:
    """Fits all combinations as one process; see the module docstring."""

    name = "belief"
    min_buffers = 1
    is_formula = False

    def fit(self, samples: Sequence[Sample]) -> Response:
        """Fit everything together.

        Raises
        ------
        MptuneError : nothing was delivered at all.
        """
        configurations = means(samples)
        curves = self._curves(configurations, with_errors=True)
        squares = dict.fromkeys((sample.combination.pm for sample in samples), 0.0)
        for configuration in configurations:
            residual = configuration.value - curves[configuration.combination].predict(
                configuration.buffer_mib
            )
            squares[configuration.combination.pm] += configuration.n * residual**2 + configuration.squares
        observed = {pm: [s.value for s in samples if s.combination.pm == pm] for pm in squares}
        qualities = tuple(
            FitQuality(pm=pm, r_squared=r_squared(squares[pm], ys), p_values={}, n=len(ys))
            for pm, ys in observed.items()
        )
        overall = r_squared(math.fsum(squares.values()), [sample.value for sample in samples])
        return Response(
            model=self.name,
            curves=curves,
            qualities=qualities,
            r_squared=overall,
            # A belief need not follow every observation: R-square accepts nothing here.
            warnings=tuple(text for quality in qualities for text in acceptance_warnings(quality))
            if overall is None
            else (),
        )

    def curves(self, configurations: Sequence[Mean]) -> dict[Combination, Curve]:
        """Curve of every combination, without intervals.

        Raises
        ------
        MptuneError : as `fit`.
        """
        return self._curves(configurations, with_errors=False)

    def _curves(self, configurations: Sequence[Mean], *, with_errors: bool) -> dict[Combination, Curve]:
        import numpy as np

        scale = max(configuration.value for configuration in configurations)
        if scale <= 0:
            raise MptuneError("no observation delivered anything: there is no curve")
        combinations = sorted({configuration.combination for configuration in configurations})
        knots = _knots(sorted({configuration.buffer_mib for configuration in configurations}))
        process = Process(
            [
                Arm(each_combination, frozenset(each_combination.subflows))
                for each_combination in combinations
            ],
            knots,
        )
        points = _points(configurations, combinations, knots, scale)
        fitted = process.fit(points, process.likeliest(points))
        weights = np.linalg.solve(fitted.within, (points.means - MIDDLE)[:, None]).astype(np.float64)
        levels = MIDDLE + process.pulled(points, weights, fitted.hypothesis)[0]
        # At a measured buffer the jag is known as far as the noise allows.
        known = 1 - points.variances / fitted.noise
        levels[points.arm, points.size] += known * (points.means - levels[points.arm, points.size])
        curves: dict[Combination, Curve] = {}
        for arm, combination in enumerate(combinations):
            count = int((points.arm == arm).sum())
            text = f"belief after {count} buffer{'' if count == 1 else 's'}"
            covariance = _covariance(process, points, fitted, arm, levels[arm]) if with_errors else None
            rows = None if covariance is None else (covariance * scale**2).tolist()
            curves[combination] = Polyline(knots, (levels[arm] * scale).tolist(), text, rows, _NORMAL)
        return curves


def _covariance(process: Process, points: Points, fitted: Fitted, arm: int, levels: "Floats") -> "Floats":
    """Of one combination's values at the knots, as shares."""
    import numpy as np

    sizes = np.arange(len(levels))
    arms = np.full(len(levels), arm)
    hypothesis = fitted.hypothesis
    across = process.covariance(arms, sizes, points.arm, points.size, hypothesis)
    jags = process.jags(levels, arms, hypothesis) ** 2
    own = points.arm == arm
    # Observations there inform about the jag too.
    across[points.size[own], np.flatnonzero(own)] += jags[points.size[own]]
    before = process.covariance(arms, sizes, arms, sizes, hypothesis) + np.diag(jags)
    after: Floats = before - across @ np.linalg.solve(fitted.within, across.T)
    return after


def _points(
    configurations: Sequence[Mean], combinations: Sequence[Combination], knots: Sequence[float], scale: float
) -> Points:
    import numpy as np

    arms = {combination: arm for arm, combination in enumerate(combinations)}
    sizes = {knot: size for size, knot in enumerate(knots)}
    shape = len(combinations), len(knots)
    levels, squares, freedom = (np.zeros(shape) for _ in range(3))
    ordered = sorted(configurations, key=lambda mean: (arms[mean.combination], mean.buffer_mib))
    arm = np.array([arms[point.combination] for point in ordered])
    size = np.array([sizes[point.buffer_mib] for point in ordered])
    runs = np.array([point.n for point in ordered])
    levels[arm, size] = [point.value / scale for point in ordered]
    squares[arm, size] = [point.squares / scale**2 for point in ordered]
    freedom[arm, size] = runs - 1
    scatter = Noise(squares, freedom, levels, np.log2(np.array(knots))).between
    return Points(arm, size, levels[arm, size], scatter[arm, size] / runs)


def _knots(buffers: Sequence[float]) -> list[float]:
    """The measured buffers and evenly many octaves between them."""
    knots = [buffers[0]]
    for low, high in itertools.pairwise(buffers):
        steps = max(1, math.ceil(math.log2(high / low) / _APART))
        knots += [low * (high / low) ** (step / steps) for step in range(1, steps)]
        knots.append(high)
    return knots
