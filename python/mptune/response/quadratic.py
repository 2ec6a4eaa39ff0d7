"""MPCOA's own response model: per path manager one parabola per congestion control, all equally curved.

Design of MPCOA Eq. 13-15: one intercept and one slope per congestion control, one quadratic term
shared by all of them, one least-squares fit per path manager. The printed equations contain every
congestion control twice and are not of full rank, so no coefficient has a p-value in them (errata
E11); here the first congestion control is the reference level and the others are differences from
it. The curves are the same.

Every observation enters the fit, not the mean of its configuration: means would hide the spread from R-square
and p-values. Runs with the same index share a seed across configurations, so their errors are not wholly
independent and the p-values are approximate.

A parabola must fall after its maximum. It misfits a throughput that rises and then stays level (errata E13),
which is why an optimum is confirmed by fresh trials.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mptune.errors import MptuneError
from mptune.response._base import (
    Curve,
    FitQuality,
    Mean,
    Response,
    Sample,
    acceptance_warnings,
    r_squared,
    t_value,
)
from mptune.response.equation import Equation, signed
from mptune.trial import Combination

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
        c0, c1, c2 = coefficients
        self.equation = Equation(
            intercept=c0, linear=c1, quadratic=c2, throughput_unit="Mbit/s", buffer_unit="MiB"
        )
        self._covariance = covariance
        self._t_value = t_value

    def predict(self, buffer_mib: float) -> float:
        """Mean throughput, Mbit/s."""
        return self.equation.predict(buffer_mib)

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
        return f"tp = {c0:.4g} {signed(c1)} bs {signed(c2)} bs^2"

    def maximum(self, low: float, high: float) -> tuple[float, float]:
        """Vertex of a concave parabola if it lies within [low, high], or else the better end."""
        return self.equation.maximum(low, high)

    def smallest_buffer(self, throughput: float, low: float, high: float) -> float | None:
        """Inverse in closed form: the crossing on the rising branch, bounded below by `low` (errata E3)."""
        return self.equation.smallest_buffer(throughput, low, high)

    @property
    def coefficients(self) -> tuple[float, float, float]:
        """c0, c1 and c2."""
        return self.equation.intercept, self.equation.linear, self.equation.quadratic


class Quadratic:
    """Fits one `Parabola` per combination; see the module docstring."""

    name = "quadratic"
    #: A parabola has three coefficients.
    min_buffers = 3
    is_formula = True

    def fit(self, samples: Sequence[Sample]) -> Response:
        """Least-squares fit, one per path manager.

        Raises
        ------
        MptuneError : a path manager has fewer than three buffer sizes, or too few observations.
        """
        managers = dict.fromkeys(s.combination.manager for s in samples)
        fits = [_PathManagerFit(manager, samples) for manager in managers]
        return Response(
            model=self.name,
            curves={combination: curve for fit in fits for combination, curve in fit.curves().items()},
            qualities=tuple(fit.quality for fit in fits),
            r_squared=r_squared(math.fsum(fit.squared_residuals for fit in fits), [s.value for s in samples]),
            warnings=tuple(text for fit in fits for text in acceptance_warnings(fit.quality)),
        )

    def curves(self, configurations: Sequence[Mean]) -> dict[Combination, Curve]:
        """Give the curves of `fit` from the means of the configurations.

        Raises
        ------
        MptuneError : as `fit`.
        """
        import numpy as np

        curves_: dict[Combination, Curve] = {}
        for manager in dict.fromkeys(configuration.combination.manager for configuration in configurations):
            ones = [
                configuration
                for configuration in configurations
                if configuration.combination.manager == manager
            ]
            design = _Design(manager, [(mean.combination.cc, mean.buffer_mib) for mean in ones])
            roots = np.sqrt([mean.n for mean in ones])
            observed = roots * [mean.value for mean in ones]
            coefficients = np.linalg.lstsq(design.matrix * roots[:, None], observed, rcond=None)[0]
            for cc in design.ccs:
                c0, c1, c2 = (design.selection(cc) @ coefficients).tolist()
                curves_[ones[0].combination._replace(cc=cc)] = Parabola((c0, c1, c2))
        return curves_


class _Design:
    """Columns of one path manager's fit: the reference congestion control, then the differences from it.

    Attributes
    ----------
    matrix : reference intercept, slope and curvature; intercepts of the others; slopes of the others.
    """

    def __init__(self, pm: str, settings: Sequence[tuple[str, float]]) -> None:
        import numpy as np

        self.ccs = list(dict.fromkeys(cc for cc, _ in settings))
        self.matrix = np.array([self._row(cc, bs) for cc, bs in settings])
        if np.linalg.matrix_rank(self.matrix) < self.matrix.shape[1]:
            raise MptuneError(
                f"{pm}: {len(settings)} usable observations do not determine the quadratic model; it needs "
                f"{self.matrix.shape[1]} of them, three buffer sizes, and two for each congestion control"
            )

    def terms(self) -> list[str]:
        """Names of the columns."""
        reference, *others = self.ccs
        differences = [f"{other} - {reference}" for other in others]
        return [
            f"intercept ({reference})",
            f"bs ({reference})",
            "bs^2",
            *(f"intercept ({difference})" for difference in differences),
            *(f"bs ({difference})" for difference in differences),
        ]

    def selection(self, cc: str) -> "NDArray[np.float64]":
        """Matrix that turns the coefficients into c0, c1 and c2 of a congestion control."""
        import numpy as np

        to_c = np.zeros((3, self.matrix.shape[1]))
        to_c[0, 0] = to_c[1, 1] = to_c[2, 2] = 1.0
        if level := self.ccs.index(cc):
            to_c[0, 2 + level] = to_c[1, 1 + len(self.ccs) + level] = 1.0
        return to_c

    def _row(self, cc: str, bs: float) -> list[float]:
        others = [float(cc == other) for other in self.ccs[1:]]
        return [1.0, bs, bs * bs, *others, *(bs * level for level in others)]


class _PathManagerFit:
    """The fit of one path manager: coefficients, quality, and the resulting curves."""

    def __init__(self, pm: str, samples: Sequence[Sample]) -> None:
        import numpy as np
        from statsmodels.regression.linear_model import OLS

        self.pm = pm
        samples = [sample for sample in samples if sample.combination.manager == pm]
        self._any = samples[0].combination
        self._design = _Design(pm, [(sample.combination.cc, sample.buffer_mib) for sample in samples])
        observed = [sample.value for sample in samples]
        self._result: Any = OLS(np.array(observed), self._design.matrix).fit()
        self.squared_residuals = float(self._result.ssr)
        self.quality = FitQuality(
            pm=pm,
            r_squared=r_squared(self.squared_residuals, observed),
            p_values=self._p_values(),
            n=len(samples),
        )

    def curves(self) -> dict[Combination, Curve]:
        """Parabola of every congestion control."""
        return {self._any._replace(cc=cc): self._parabola(cc) for cc in self._design.ccs}

    def _p_values(self) -> dict[str, float | None]:
        """Two-sided p-value of each term."""
        if not self._result.df_resid:
            return dict.fromkeys(self._design.terms(), None)
        values = [float(p) for p in self._result.pvalues]
        return {t: None if math.isnan(p) else p for t, p in zip(self._design.terms(), values, strict=True)}

    def _parabola(self, cc: str) -> Parabola:
        """The curve of one congestion control: reference plus its difference."""
        to_c = self._design.selection(cc)
        c0, c1, c2 = (to_c @ self._result.params).tolist()
        if not self._result.df_resid:
            return Parabola((c0, c1, c2))
        covariance = (to_c @ self._result.cov_params() @ to_c.T).tolist()
        return Parabola((c0, c1, c2), covariance, t_value(self._result.df_resid))
