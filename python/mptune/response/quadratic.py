"""MPCOA's own response model: per path manager one parabola per congestion control, equally curved.

Design of MPCOA Eq. 13-15: one intercept and one slope per congestion control, one quadratic term
shared by all of them, one least-squares fit per path manager. The printed equations contain every
congestion control twice and are not of full rank, so no coefficient has a p-value in them (errata
E11); here the first congestion control is the reference level and the others are differences from
it. The curves are the same.

Every observation enters the fit, not the mean of its configuration: the means would hide the spread
from R-square and p-values. Runs with the same index share a seed across configurations, so their
errors are not wholly independent and the p-values are approximate.

A parabola must fall again behind its maximum. A throughput that rises and then stays level is
misfitted by it (errata E13), which is why an optimum is confirmed by fresh trials.
"""

import math
from collections.abc import Sequence
from typing import Any

from mptune.errors import MptuneError
from mptune.response._base import Combination, Curve, FitQuality, Response, Sample, acceptance_warnings
from mptune.statistics import CONFIDENCE


class Parabola(Curve):
    """`c0 + c1 bs + c2 bs^2`, Mbit/s over MiB, with the covariance of its three coefficients.

    Parameters
    ----------
    coefficients : c0 (Mbit/s), c1 (Mbit/s per MiB), c2 (Mbit/s per MiB^2).
    covariance : of the three, row by row; None where the fit leaves no degree of freedom.
    t_value : two-sided quantile of Student's t that goes with it.
    """

    def __init__(
        self,
        coefficients: tuple[float, float, float],
        covariance: Sequence[Sequence[float]] | None = None,
        t_value: float = math.nan,
    ) -> None:
        self.coefficients = coefficients
        self._covariance = covariance
        self._t_value = t_value

    def predict(self, buffer_mib: float) -> float:
        """Mean throughput, Mbit/s."""
        c0, c1, c2 = self.coefficients
        return c0 + (c1 + c2 * buffer_mib) * buffer_mib

    def interval(self, buffer_mib: float) -> tuple[float, float] | None:
        """95 % interval of the mean, Mbit/s."""
        if self._covariance is None:
            return None
        x = (1.0, buffer_mib, buffer_mib**2)
        variance = math.fsum(a * b * self._covariance[i][j] for i, a in enumerate(x) for j, b in enumerate(x))
        half = self._t_value * math.sqrt(max(variance, 0.0))
        mean = self.predict(buffer_mib)
        return mean - half, mean + half

    def formula(self) -> str:
        """Return the formula in the notation of MPCOA Table 4, four significant digits."""
        c0, c1, c2 = self.coefficients
        return f"tp = {c0:.4g} {_signed(c1)} bs {_signed(c2)} bs^2"

    def maximum(self, low: float, high: float) -> tuple[float, float]:
        """Vertex of a concave parabola if it lies within [low, high], or else the better end."""
        _, c1, c2 = self.coefficients
        candidates = [low, high]
        if c2 < 0:
            candidates.append(min(max(-c1 / (2 * c2), low), high))
        best = max(candidates, key=lambda bs: (self.predict(bs), -bs))
        return best, self.predict(best)

    def smallest_buffer(self, wanted: float, low: float, high: float) -> float | None:
        """Inverse in closed form: the crossing on the rising branch, bounded below by `low` (errata E3)."""
        if self.predict(low) >= wanted:
            return low
        top, height = self.maximum(low, high)
        if height < wanted:
            return None
        rising = self._rising_crossing(wanted)
        return top if rising is None else min(max(rising, low), top)

    def _rising_crossing(self, wanted: float) -> float | None:
        """Buffer at which the parabola crosses `wanted` upwards (for a concave one the smaller root).

        There its slope is the square root of the discriminant; dividing by `slope + c1` instead of
        `2 c2` keeps the digits when c2 is tiny, and holds for a straight line as well.
        """
        c0, c1, c2 = self.coefficients
        discriminant = c1 * c1 - 4 * c2 * (c0 - wanted)
        slope = math.sqrt(max(discriminant, 0.0))
        if c1 + slope > 0:
            return 2 * (wanted - c0) / (c1 + slope)
        return (slope - c1) / (2 * c2) if c2 > 0 else None


class Quadratic:
    """Fits one `Parabola` per combination; see the module's text."""

    #: A parabola has three coefficients.
    min_buffers = 3

    def fit(self, samples: Sequence[Sample]) -> Response:
        """Least-squares fit, one per path manager.

        Raises
        ------
        MptuneError : a path manager has fewer than three buffer sizes, or too few observations.
        """
        fits = [_PathManagerFit(pm, samples) for pm in dict.fromkeys(s.combination.pm for s in samples)]
        return Response(
            curves={combination: curve for fit in fits for combination, curve in fit.curves().items()},
            qualities=tuple(fit.quality for fit in fits),
            r_squared=_r_squared(
                math.fsum(fit.squared_residuals for fit in fits), [s.throughput_mbps for s in samples]
            ),
            warnings=tuple(text for fit in fits for text in acceptance_warnings(fit.quality)),
        )


class _PathManagerFit:
    """The fit of one path manager: design, coefficients, quality, and the curves cut out of it."""

    def __init__(self, pm: str, samples: Sequence[Sample]) -> None:
        import numpy as np
        from statsmodels.regression.linear_model import OLS

        self.pm = pm
        samples = [sample for sample in samples if sample.combination.pm == pm]
        self.ccs = list(dict.fromkeys(sample.combination.cc for sample in samples))
        design = np.array([self._row(sample.combination.cc, sample.buffer_mib) for sample in samples])
        observed = [sample.throughput_mbps for sample in samples]
        if np.linalg.matrix_rank(design) < design.shape[1]:
            raise MptuneError(
                f"{pm}: {len(samples)} usable observations do not determine the quadratic model; it needs "
                f"{design.shape[1]} of them, three buffer sizes, and two for each congestion control"
            )
        self._result: Any = OLS(np.array(observed), design).fit()
        self.squared_residuals = float(self._result.ssr)
        self.quality = FitQuality(
            pm=pm,
            r_squared=_r_squared(self.squared_residuals, observed),
            p_values=self._p_values(),
            n=len(samples),
        )

    def curves(self) -> dict[Combination, Curve]:
        """Parabola of every congestion control."""
        return {Combination(self.pm, cc): self._parabola(cc) for cc in self.ccs}

    def _row(self, cc: str, bs: float) -> list[float]:
        """One row of the design: reference intercept, slope and curvature, then the differences."""
        others = [float(cc == other) for other in self.ccs[1:]]
        return [1.0, bs, bs * bs, *others, *(bs * level for level in others)]

    def _terms(self) -> list[str]:
        """Names of the columns of `_row`."""
        reference, *others = self.ccs
        differences = [f"{other} - {reference}" for other in others]
        return [
            f"intercept ({reference})",
            f"bs ({reference})",
            "bs^2",
            *(f"intercept ({difference})" for difference in differences),
            *(f"bs ({difference})" for difference in differences),
        ]

    def _p_values(self) -> dict[str, float | None]:
        """Two-sided p-value of each term."""
        if not self._result.df_resid:
            return dict.fromkeys(self._terms(), None)
        values = [float(p) for p in self._result.pvalues]
        return {t: None if math.isnan(p) else p for t, p in zip(self._terms(), values, strict=True)}

    def _parabola(self, cc: str) -> Parabola:
        """The curve of one congestion control: reference plus its difference."""
        import numpy as np
        from scipy.special import stdtrit

        to_c = np.zeros((3, len(self._result.params)))
        to_c[0, 0] = to_c[1, 1] = to_c[2, 2] = 1.0
        if level := self.ccs.index(cc):
            to_c[0, 2 + level] = to_c[1, 1 + len(self.ccs) + level] = 1.0
        c0, c1, c2 = (to_c @ self._result.params).tolist()
        if not self._result.df_resid:
            return Parabola((c0, c1, c2))
        covariance = (to_c @ self._result.cov_params() @ to_c.T).tolist()
        t_value = float(stdtrit(self._result.df_resid, 0.5 + CONFIDENCE / 2))
        return Parabola((c0, c1, c2), covariance, t_value)


def _r_squared(squared_residuals: float, observed: Sequence[float]) -> float | None:
    """Share of the variance explained; None when there is no variance."""
    if min(observed) == max(observed):
        return None
    mean = math.fsum(observed) / len(observed)
    return 1.0 - squared_residuals / math.fsum((value - mean) ** 2 for value in observed)


def _signed(coefficient: float) -> str:
    """Coefficient with its sign set apart, as a formula has it."""
    return f"{'-' if coefficient < 0 else '+'} {abs(coefficient):.4g}"
