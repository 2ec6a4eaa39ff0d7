"""One fitted form: its quality, its terms with their errors, its equations and its predictions.

The output of the GLM study's Tables III and IV (R-square, coefficient of variation, root MSE, estimates
with p) with t, F, adjusted R-square, a test for lack of fit, and errors that remain correct if the
scatter differs between configurations (HC3 of MacKinnon and White, 1985). Least squares by
statsmodels. Mbit/s and MiB.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from mptune.errors import InputError
from mptune.papers.glm.design import BUFFER, FORMS, Coding, Design, Term
from mptune.papers.glm.forward import NOTHING, FTest, f_test, forward_inclusion
from mptune.response import t_value
from mptune.response.equation import Equation
from mptune.table import Measurements
from mptune.trial import Combination

if TYPE_CHECKING:
    from mptune.papers.glm.design import Array

#: With a leverage this close to 1, an observation has almost no residual, and HC3 divides by 1 - leverage.
_FULL_LEVERAGE = 1 - 1e-8


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """One coefficient: Mbit/s per power of MiB.

    Attributes
    ----------
    error, t, p : by least squares; None if the fit leaves no scatter.
    low, high : their 95 % interval.
    robust_error, robust_p : with HC3; None if a single observation determines a coefficient.
    """

    name: str
    value: float
    error: float | None
    t: float | None
    p: float | None
    low: float | None
    high: float | None
    robust_error: float | None
    robust_p: float | None


class TermTest(msgspec.Struct, frozen=True, kw_only=True):
    """Partial F test of one term of the model given all others."""

    name: str
    test: FTest


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """Quality of a fit.

    Attributes
    ----------
    r_squared, adjusted : None if the throughput does not vary.
    cv_percent : root MSE as a share of the mean, percent; None for a mean of 0.
    root_mse_mbps : None without a degree of freedom.
    f, p : of the whole model against the mean; None if the model is only the mean.
    lack_of_fit_p : of the form against the means of repeated configurations; None without repetitions.
    """

    n: int
    parameters: int
    mean_mbps: float
    r_squared: float | None
    adjusted: float | None
    root_mse_mbps: float | None
    cv_percent: float | None
    f: float | None
    p: float | None
    lack_of_fit_p: float | None


class FormFit:
    """A form with its terms chosen and its coefficients estimated.

    Attributes
    ----------
    terms, steps : of the forward inclusion.
    """

    def __init__(self, measurements: Measurements, coding: Coding, form: str, alpha: float) -> None:
        from statsmodels.regression.linear_model import OLS

        self.form, self.coding = form, coding
        self.design = Design(measurements, coding, FORMS[form])
        self.terms, self.steps = forward_inclusion(self.design, alpha)
        self.matrix = self.design.matrix(self.terms)
        self._result: Any = OLS(self.design.y, self.design.fitted(self.terms)).fit()
        self._first = self.design.blocks.shape[1]
        self.coefficients: Array = self._result.params[self._first :]
        self.robust_covariance = self._without_blocks(_hc3(self._result)) if self.scatter else None

    @property
    def df_resid(self) -> int:
        """Degrees of freedom left."""
        return len(self.design.y) - int(self._first) - int(self.matrix.shape[1])

    @property
    def covariance(self) -> "Array":
        """Covariance of the coefficients: HC3 if there is one, otherwise by least squares."""
        if self.robust_covariance is not None:
            return self.robust_covariance
        covariance: Array = self._result.cov_params()[self._first :, self._first :]
        return covariance

    @property
    def squares(self) -> float:
        """Sum of squared residuals of the formula, (Mbit/s)^2; 0 if only rounding errors are left."""
        residuals = self.design.y - self.matrix @ self.coefficients
        return self._beyond_rounding(float(residuals @ residuals))

    @property
    def scatter(self) -> float:
        """The same without the luck that runs share; the tests use it."""
        return self._beyond_rounding(float(self._result.ssr))

    def _beyond_rounding(self, squares: float) -> float:
        return squares if squares > NOTHING * float(self.design.y @ self.design.y) else 0.0

    def _without_blocks(self, covariance: "Array | None") -> "Array | None":
        return None if covariance is None else covariance[self._first :, self._first :]

    def quality(self) -> Quality:
        """Quality, with the numbers of the study's Table III."""
        n, parameters = self.matrix.shape
        mean = float(self.design.y.mean())
        total = float(((self.design.y - mean) ** 2).sum())
        r_squared = max(0.0, 1 - self.squares / total) if self.design.y.min() < self.design.y.max() else None
        root_mse = math.sqrt(self.squares / (n - parameters))
        whole = f_test(self.design, [], self.terms) if self.terms else None
        return Quality(
            n=n,
            parameters=parameters,
            mean_mbps=mean,
            r_squared=r_squared,
            adjusted=None if r_squared is None else 1 - (1 - r_squared) * (n - 1) / (n - parameters),
            root_mse_mbps=root_mse,
            cv_percent=100 * root_mse / mean if mean else None,
            f=None if whole is None or math.isinf(whole.f) else whole.f,
            p=None if whole is None else whole.p,
            lack_of_fit_p=self._lack_of_fit(),
        )

    def estimates(self) -> list[Estimate]:
        """Coefficients in the order of the design."""
        robust, quantile = self.robust_covariance, t_value(self.df_resid)
        rows = []
        for i, name in enumerate(self.design.labels(self.terms)):
            value = float(self.coefficients[i])
            error = float(self._result.bse[self._first + i]) if self.scatter else 0.0
            robust_error = None if robust is None else math.sqrt(robust[i, i])
            rows.append(
                Estimate(
                    name=name,
                    value=value,
                    error=error or None,
                    t=value / error if error else None,
                    p=self.p_of_t(value / error) if error else None,
                    low=value - quantile * error if error else None,
                    high=value + quantile * error if error else None,
                    robust_error=robust_error,
                    robust_p=self.p_of_t(value / robust_error) if robust_error else None,
                )
            )
        return rows

    def term_tests(self) -> list[TermTest]:
        """Each term against the model without it."""
        return [
            TermTest(
                name=term.label(self.design.form.regressor),
                test=f_test(self.design, [other for other in self.terms if other != term], [term]),
            )
            for term in self.terms
        ]

    def family_test(self, family: str) -> tuple[FTest, float | None, float]:
        """Test of a factor (or the buffer): all its terms together, in the model or not.

        Returns the partial F test, the p of the same hypothesis with HC3 errors, and the increase of R-square
        by the terms (0 if the throughput does not vary).
        """
        from statsmodels.regression.linear_model import OLS

        whole = self.coding.families(self.design.form)[family]
        dropped = {t for t in self.terms if t.family == family or (family == BUFFER and t.power)}
        others = [term for term in self.terms if term not in dropped]
        tested = [term for term in self.terms if term in dropped] or list(whole)
        if any(term.power for term in tested) and Term(None, 1) not in [*others, *tested]:
            tested = [term for term in tested if not term.power] or tested
        matrix = self.design.fitted([*others, *tested])
        first = self.design.fitted(others).shape[1]
        result: Any = OLS(self.design.y, matrix).fit()
        robust = _hc3(result) if self.scatter else None
        without = float(OLS(self.design.y, matrix[:, :first]).fit().ssr)
        total = float(((self.design.y - self.design.y.mean()) ** 2).sum())
        return (
            f_test(self.design, others, tested),
            None if robust is None else _wald(result, robust, first),
            (without - float(result.ssr)) / total if total else 0.0,
        )

    def predict(self, measurements: Measurements) -> "Array":
        """Predicted throughput of other measurements, Mbit/s.

        Raises
        ------
        InputError : a level (or a factor of the model) that the fit does not know.
        """
        design = Design(measurements, self.coding, self.design.form)
        predicted: Array = design.matrix(self.terms) @ self.coefficients
        return predicted

    def equations(self) -> dict[Combination, Equation]:
        """Throughput over buffer for each measured (path manager, congestion control).

        The key has "" for a factor that is not in the model; one equation holds for all its levels. Other
        factors of the model are at the mean of their levels, all levels with equal weight.
        """
        by = [factor for factor in ("pm", "cc") if any(term.factor == factor for term in self.terms)]
        sizes: dict[Combination, list[float]] = {}
        for row in self.design.measurements.rows:
            pm, cc = (row.levels[factor] if factor in by else "" for factor in ("pm", "cc"))
            sizes.setdefault(Combination(pm, cc), []).append(row.buffer_mib)
        return {
            key: self._equation({factor: getattr(key, factor) for factor in by}, buffers)
            for key, buffers in sorted(sizes.items())
        }

    def contrast(self, levels: Mapping[str, str], x: Sequence[float]) -> "Array":
        """Row of the design at given levels, other factors at the mean of theirs.

        Parameters
        ----------
        x : value of each power of the regressor from 0 up, such as (1, x, x^2).
        """
        import numpy as np

        row = [x[0]]
        for term in self.terms:
            if term.factor is None:
                row.append(x[term.power])
                continue
            known = self.coding.levels[term.factor]
            weight = 1 / len(known)
            shares = [
                weight if term.factor not in levels else float(level == levels[term.factor])
                for level in known[:-1]
            ]
            row += [share * x[term.power] for share in shares]
        return np.array(row)

    def p_of_t(self, t: float) -> float:
        """Two-sided p of Student's t with the residual degrees of freedom."""
        from scipy.special import stdtr

        return float(2 * stdtr(self.df_resid, -abs(t)))

    def _equation(self, levels: Mapping[str, str], buffers: Sequence[float]) -> Equation:
        """Equation at given levels; its domain is the range of buffers measured with them."""
        powers = [self.contrast(levels, [float(i == power) for i in range(3)]) for power in range(3)]
        intercept, linear, quadratic = (float(row @ self.coefficients) for row in powers)
        return Equation(
            intercept=intercept,
            linear=linear,
            quadratic=quadratic,
            domain=(min(buffers), max(buffers)),
            regressor=self.design.form.regressor,
            throughput_unit="Mbit/s",
            buffer_unit="MiB",
        )

    def _lack_of_fit(self) -> float | None:
        """Lack-of-fit test: p-value of residuals larger than the scatter of repeated configurations."""
        from scipy.special import fdtrc

        used = [factor for factor in self.coding.levels if any(t.factor == factor for t in self.terms)]
        groups: dict[tuple[object, ...], list[float]] = {}
        for row in self.design.measurements.rows:
            key = (row.buffer_mib, *(row.levels[factor] for factor in used))
            groups.setdefault(key, []).append(row.throughput_mbps)
        pure_df = len(self.design.y) - len(groups)
        lack_df = len(groups) - self.matrix.shape[1]
        pure = math.fsum((y - math.fsum(ys) / len(ys)) ** 2 for ys in groups.values() for y in ys)
        if pure_df < 1 or lack_df < 1 or pure <= 0:
            return None
        return float(fdtrc(lack_df, pure_df, max(self.squares - pure, 0.0) / lack_df / (pure / pure_df)))


def mean_relative_error(fit: FormFit, measurements: Measurements) -> float:
    """Mean of |predicted - observed| / observed (GLM study section VI).

    Raises
    ------
    InputError : an observed throughput of 0, which has no relative error.
    """
    for row in measurements.rows:
        if not row.throughput_mbps:
            raise InputError(measurements.path, f"row {row.row}, throughput", "expected more than 0, found 0")
    observed = [row.throughput_mbps for row in measurements.rows]
    shares = (abs(p - y) / y for p, y in zip(fit.predict(measurements), observed, strict=True))
    return math.fsum(shares) / len(observed)


def _hc3(result: Any) -> "Array | None":
    """HC3 covariance; None if an observation has full leverage.

    From a QR decomposition: statsmodels' version needs a matrix of observations by observations.
    """
    import numpy as np

    q, r = np.linalg.qr(result.model.exog)
    leverage = (q**2).sum(axis=1)
    if leverage.max() > _FULL_LEVERAGE:
        return None
    scaled = (result.resid / (1 - leverage))[:, None] * q
    covariance: Array = np.linalg.solve(r, np.linalg.solve(r, scaled.T @ scaled).T)
    return covariance


def _wald(result: Any, covariance: "Array", first: int) -> float:
    """Wald F test with a given covariance that the coefficients from `first` on are all 0."""
    import numpy as np
    from scipy.special import fdtrc

    tested = result.params[first:]
    f = float(tested @ np.linalg.solve(covariance[first:, first:], tested)) / len(tested)
    return float(fdtrc(len(tested), result.df_resid, f))
