"""One fitted form: its quality, its terms with their errors, its equations and its predictions.

The output of the GLM study's Tables III and IV (R-square, coefficient of variation, root MSE, estimates
with p) with t, F, adjusted R-square, a test for lack of fit, and errors that remain correct if the
scatter differs between configurations (HC3). Least squares are those of `linear`. Mbit/s and MiB.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from mptune.errors import InputError
from mptune.papers.glm.design import BUFFER, FORMS, Coding, Design, Term
from mptune.papers.glm.formula import Formula
from mptune.papers.glm.forward import f_test, forward_inclusion
from mptune.papers.glm.linear import Estimate, FTest, LinearFit
from mptune.response.equation import Equation
from mptune.table import Measurements
from mptune.trial import Combination

if TYPE_CHECKING:
    from mptune.papers.glm.design import Array
    from mptune.papers.glm.forward import Step


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
        self.form: str = form
        self.coding: Coding = coding
        self.design: Design = Design(measurements, coding, FORMS[form])
        terms, steps = forward_inclusion(self.design, alpha)
        self.terms: list[Term] = terms
        self.steps: list[Step] = steps
        self.matrix: Array = self.design.matrix(self.terms)
        self.linear: LinearFit = self._fitted(self.terms)
        self.coefficients: Array = self.linear.coefficients[self.linear.kept]

    @property
    def formula(self) -> Formula:
        """The model as a user can state it."""
        symbols = {"cc": "CC", "pm": "PM"}
        regressor = self.design.form.regressor
        return Formula(
            response="T",
            terms=tuple(
                tuple((symbols.get(name, name), power) for name, power in term.product(regressor))
                for term in self.terms
            ),
        )

    @property
    def covariance(self) -> "Array":
        """Covariance of the coefficients: HC3 if there is one, otherwise by least squares."""
        robust = self.linear.robust_covariance
        return self.linear.covariance if robust is None else robust

    def quality(self) -> Quality:
        """Quality, with the numbers of the study's Table III."""
        linear = self.linear
        n, parameters = self.matrix.shape
        whole = f_test(self.design, [], self.terms) if self.terms else None
        lack = linear.lack_of_fit()
        return Quality(
            n=n,
            parameters=parameters,
            mean_mbps=float(self.design.y.mean()),
            r_squared=linear.r_squared,
            adjusted=linear.adjusted,
            root_mse_mbps=linear.root_mse,
            cv_percent=linear.cv_percent,
            f=None if whole is None or math.isinf(whole.f) else whole.f,
            p=None if whole is None else whole.p,
            lack_of_fit_p=None if lack is None else lack.p,
        )

    def estimates(self) -> list[Estimate]:
        """Coefficients in the order of the design, without those of reference levels; 95 % limits."""
        labels = self.design.labels(self.terms)
        estimates = self.linear.estimates()
        return [
            msgspec.structs.replace(estimates[column], name=label)
            for column, label in zip(self.linear.kept, labels, strict=True)
        ]

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
        whole = self.coding.families(self.design.form)[family]
        dropped = {t for t in self.terms if t.family == family or (family == BUFFER and t.power)}
        others = [term for term in self.terms if term not in dropped]
        tested = [term for term in self.terms if term in dropped] or list(whole)
        if any(term.power for term in tested) and Term(None, 1) not in [*others, *tested]:
            tested = [term for term in tested if not term.power] or tested
        fit, without = self._fitted([*others, *tested]), self._fitted(others)
        robust = fit.robust_covariance if self.linear.scatter else None
        return (
            f_test(self.design, others, tested),
            None if robust is None else _wald(fit, robust, len(without.kept)),
            (without.scatter - fit.scatter) / fit.total if fit.total else 0.0,
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

    def _fitted(self, terms: Sequence[Term]) -> LinearFit:
        """Terms fitted to the data, beside the blocks."""
        products = [term.product(self.design.form.regressor) for term in terms]
        return LinearFit(self.design.data, products, always=self.design.blocks)


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


def _wald(fit: LinearFit, covariance: "Array", first: int) -> float:
    """Wald F test with a given covariance that the kept coefficients from `first` on are all 0."""
    import numpy as np
    from scipy.special import fdtrc

    tested = fit.coefficients[fit.kept][first:]
    f = float(tested @ np.linalg.solve(covariance[first:, first:], tested)) / len(tested)
    return float(fdtrc(len(tested), fit.df_resid, f))
