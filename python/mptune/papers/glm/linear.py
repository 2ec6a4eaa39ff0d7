"""A general linear model with factors, as PROC GLM of SAS has it: coded, fitted, tested, averaged, predicted.

Each effect has a column per combination of its factors' levels, times its number columns. Columns that depend
on those before them get the coefficient 0; with the reference level last, that is the reference level. Sums
of squares, least-squares means and estimability are then those of the SAS/STAT User's Guide ("The GLM
Procedure", "The Four Types of Estimable Functions"). Least squares by statsmodels. It reads no files and
knows no units: see `stated` for models that users write, and `fit` for those found by forward inclusion.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from mptune.papers.glm.formula import FUNCTIONS, Product, column_of, term_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

#: A column depends on those before it if they leave less than this share of its length.
_DEPENDENT = 1e-7

#: With a leverage this close to 1, an observation has almost no residual, and HC3 divides by 1 - leverage.
_FULL_LEVERAGE = 1 - 1e-8

#: Most numbers in a matrix that is worth the time of refining.
_REFINED = 2_000_000

#: Share of a function's largest coefficient that rounding may leave where an estimable one has none.
_ESTIMABLE = 1e-6


#: Squared residuals below this share of the squares are rounding errors: nothing is left to explain. A double
#: leaves about 1e-32.
NOTHING = 1e-27


class FTest(NamedTuple):
    """Partial F test of some terms: `df` and `df_resid` are its degrees of freedom."""

    f: float
    df: int
    df_resid: int
    p: float


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """One coefficient, in units of the response per unit of its column.

    Attributes
    ----------
    error, t, p : by least squares; None if the fit leaves no scatter, and for a coefficient that is 0 because
        its column depends on others (a reference level).
    low, high : confidence limits.
    robust_error, robust_p : with HC3 (MacKinnon and White, 1985), which holds if the scatter differs between
        observations; None if a single observation determines a coefficient.
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


class Mean(msgspec.Struct, frozen=True, kw_only=True):
    """Value of a linear function of the coefficients, such as a least-squares mean.

    Attributes
    ----------
    value : None if the data do not determine it ("Non-est" in SAS).
    error, low, high : standard error and confidence limits; None without scatter.
    """

    value: float | None
    error: float | None
    low: float | None
    high: float | None


class Data(msgspec.Struct, frozen=True, kw_only=True):
    """Data of a fit, all with one value per observation.

    Attributes
    ----------
    y : response, shape (n,).
    numbers : name -> values, shape (n,).
    codes : factor -> index of the level, shape (n,).
    levels : factor -> its levels, the reference last.
    """

    y: "Array"
    numbers: dict[str, "Array"]
    codes: dict[str, "NDArray[np.int64]"]
    levels: dict[str, tuple[str, ...]]

    def number(self, name: str) -> "Array":
        """Values of a number column, or of a function of one such as "log(B)"."""
        values = self.numbers[column_of(name)]
        result: Array = function_of(name)(values)
        return result


def function_of(name: str) -> Any:
    """The function in a name such as "log(B)", for numbers and arrays."""
    import numpy as np

    word = name.partition("(")[0]
    return {"log": np.log, "sqrt": np.sqrt}[word] if "(" in name and word in FUNCTIONS else np.asarray


class _Effect(msgspec.Struct, frozen=True):
    """A term split into its number columns with their powers, and its factors; its columns are `first` on."""

    name: str
    powers: tuple[tuple[str, int], ...]
    factors: tuple[str, ...]
    combinations: tuple[tuple[int, ...], ...]
    first: int

    @property
    def columns(self) -> slice:
        return slice(self.first, self.first + len(self.combinations))

    def contains(self, other: "_Effect") -> bool:
        """True if the other one is a margin of this: the same numbers, and fewer of the same factors."""
        return dict(self.powers) == dict(other.powers) and set(self.factors) > set(other.factors)


class LinearFit:
    """A model fitted by least squares.

    Parameters
    ----------
    terms : products of names in `data`; no factor has a power.
    always : columns that the model has but no statement is about, such as those of blocks, with a mean of 0.
    alpha : limits hold with the probability 1 - alpha.

    Attributes
    ----------
    names : of the columns.
    coefficients : one per column, 0 where a column depends on those before it.
    kept : indices of the others.
    df_resid : degrees of freedom left, at least 0.
    residuals : observed less predicted, shape (n,).
    """

    def __init__(
        self,
        data: Data,
        terms: Sequence[Product],
        *,
        intercept: bool = True,
        always: "Array | None" = None,
        alpha: float = 0.05,
    ) -> None:
        import numpy as np
        from statsmodels.regression.linear_model import OLS

        self.data: Data = data
        self.intercept: bool = intercept
        self.alpha: float = alpha
        self.effects: list[_Effect] = _effects(data, terms, first=int(intercept))
        self.names: list[str] = ["intercept"] * intercept + [
            name for effect in self.effects for name in _column_names(effect, data)
        ]
        n = len(data.y)
        blocks = np.empty((n, 0)) if always is None else always
        self.matrix: Array = np.hstack(
            [np.ones((n, int(intercept))), *(_columns(effect, data) for effect in self.effects)]
        )
        lengths = np.linalg.norm(self.matrix, axis=0)
        self._scale: Array = np.where(lengths > 0, lengths, 1.0)
        scaled = self.matrix / self._scale
        self._blocks = blocks.shape[1]
        self.kept: NDArray[np.int64] = _independent(blocks, scaled)
        self._design = np.hstack([blocks, scaled[:, self.kept]])
        # A mean far from 0 costs digits: 16 of 16 in NIST's most difficult sets.
        self._centre = float(data.y.mean()) if intercept else 0.0
        centred = data.y - self._centre
        result: Any = OLS(centred, self._design).fit(method="qr")
        solution, residuals = _refined(self._design, centred, result.params, result.resid)
        self.residuals: Array = residuals
        self.coefficients: Array = np.zeros(len(self.names))
        self.coefficients[self.kept] = solution[self._blocks :] / self._scale[self.kept]
        if intercept:
            self.coefficients[0] += self._centre
        self.df_resid: int = n - self._design.shape[1]

    @cached_property
    def squares(self) -> float:
        """Sum of squared residuals of the formula; 0 if only rounding errors are left."""
        residuals = self.data.y - self.matrix @ self.coefficients if self._blocks else self.residuals
        return self._beyond_rounding(float(residuals @ residuals))

    @cached_property
    def scatter(self) -> float:
        """The same without what the blocks explain; the tests use it."""
        return self._beyond_rounding(float(self.residuals @ self.residuals))

    @cached_property
    def total(self) -> float:
        """Sum of squares about the mean; about 0 without an intercept."""
        return float(((self.data.y - self._centre) ** 2).sum())

    @property
    def mean_square(self) -> float:
        """Estimated variance of an observation; 0 without a degree of freedom."""
        return self.scatter / self.df_resid if self.df_resid > 0 else 0.0

    @property
    def r_squared(self) -> float | None:
        """Share of the total sum of squares that the formula explains; None if the response does not vary."""
        return max(0.0, 1 - self.squares / self.total) if self.data.y.min() < self.data.y.max() else None

    @property
    def adjusted(self) -> float | None:
        """R-square for the number of coefficients; None without a degree of freedom."""
        n, left = len(self.data.y), len(self.data.y) - len(self.kept)
        if self.r_squared is None or left < 1:
            return None
        return 1 - (1 - self.r_squared) * (n - int(self.intercept)) / left

    @property
    def root_mse(self) -> float | None:
        """Square root of the mean square of the formula's residuals; None without a degree of freedom."""
        left = len(self.data.y) - len(self.kept)
        return math.sqrt(self.squares / left) if left > 0 else None

    @property
    def cv_percent(self) -> float | None:
        """Root MSE as a share of the mean, percent; None for a mean of 0."""
        mean = float(self.data.y.mean())
        return 100 * self.root_mse / mean if mean and self.root_mse is not None else None

    @cached_property
    def t_value(self) -> float:
        """Quantile of Student's t for the limits."""
        from scipy.special import stdtrit

        return float(stdtrit(max(self.df_resid, 1), 1 - self.alpha / 2))

    @cached_property
    def covariance(self) -> "Array":
        """Covariance of the kept coefficients by least squares."""
        return self.mean_square * self._unscaled

    @cached_property
    def robust_covariance(self) -> "Array | None":
        """Covariance of the kept coefficients with HC3; None if an observation has full leverage.

        From a QR decomposition: statsmodels' version needs a matrix of observations by observations.
        """
        import numpy as np

        q, r = np.linalg.qr(self._design)
        leverage = self.leverage
        if not self.scatter or leverage.max() > _FULL_LEVERAGE:
            return None
        scaled = (self.residuals / (1 - leverage))[:, None] * q
        covariance = np.linalg.solve(r, np.linalg.solve(r, scaled.T @ scaled).T)
        return self._without_blocks(covariance)

    @cached_property
    def leverage(self) -> "Array":
        """Share of each observation in its own prediction, shape (n,)."""
        import numpy as np

        leverage: Array = (np.linalg.qr(self._design)[0] ** 2).sum(axis=1)
        return leverage

    @property
    def fitted(self) -> "Array":
        """Predicted response of the observations, shape (n,)."""
        return self.data.y - self.residuals

    def _beyond_rounding(self, squares: float) -> float:
        return squares if squares > NOTHING * float(self.data.y @ self.data.y) else 0.0

    def p_of_t(self, t: float) -> float:
        """Two-sided p of Student's t with the residual degrees of freedom."""
        from scipy.special import stdtr

        return float(2 * stdtr(self.df_resid, -abs(t)))

    def estimates(self) -> list[Estimate]:
        """Coefficients in the order of the columns, those of reference levels too."""
        robust = self.robust_covariance
        place = {int(column): i for i, column in enumerate(self.kept)}
        rows = []
        for column, name in enumerate(self.names):
            value, i = float(self.coefficients[column]), place.get(column)
            error = 0.0 if i is None else math.sqrt(self.covariance[i, i])
            robust_error = None if i is None or robust is None else math.sqrt(robust[i, i])
            rows.append(
                Estimate(
                    name=name,
                    value=value,
                    error=error or None,
                    t=value / error if error else None,
                    p=self.p_of_t(value / error) if error else None,
                    low=value - self.t_value * error if error else None,
                    high=value + self.t_value * error if error else None,
                    robust_error=robust_error,
                    robust_p=self.p_of_t(value / robust_error) if robust_error else None,
                )
            )
        return rows

    def whole(self) -> FTest:
        """F test of the model against its mean (without an intercept, against 0)."""
        return self._f_test(max(self.total - self.squares, 0.0), len(self.kept) - int(self.intercept))

    def type_one(self) -> list[tuple[float, FTest]]:
        """Sum of squares of each effect added to those before it, and its F test."""
        import numpy as np

        q = np.linalg.qr(self._design)[0][:, self._blocks :]
        shares = (q.T @ (self.data.y - self._centre)) ** 2
        found = []
        for effect in self.effects:
            own = [i for i, column in enumerate(self.kept) if column in range(*effect.columns.indices(10**9))]
            squares = float(shares[own].sum())
            found.append((squares, self._f_test(squares, len(own))))
        return found

    def type_three(self) -> list[tuple[float, FTest]]:
        """Sum of squares of each effect adjusted for all others, and its F test.

        The hypothesis has no coefficients outside the effect and those that contain it, and is orthogonal to
        every estimable function of those that contain it alone.
        """
        return [self._type_three(effect) for effect in self.effects]

    def row(self, numbers: Mapping[str, float], levels: Mapping[str, str]) -> "Array":
        """Coefficients of a linear function, shape (columns,): a prediction or a least-squares mean.

        Parameters
        ----------
        numbers : values of number columns; an effect that lacks one gets its mean over the data, as the
            LSMEANS statement does.
        levels : of factors; those that lack get equal weights of all levels.
        """
        import numpy as np

        parts = [np.ones(int(self.intercept))]
        for effect in self.effects:
            share = np.ones(1)
            for factor in effect.factors:
                known = self.data.levels[factor]
                weights = (
                    np.array([float(level == levels[factor]) for level in known])
                    if factor in levels
                    else np.full(len(known), 1 / len(known))
                )
                share = np.kron(share, weights)
            parts.append(self._number(effect, numbers) * share)
        return np.concatenate(parts)

    def estimable(self, row: "Array") -> bool:
        """True if every solution of the normal equations gives a function the same value."""
        import numpy as np

        scaled = row / self._scale
        return bool(
            np.abs(scaled - scaled[self.kept] @ self._relations).max() <= _ESTIMABLE * np.abs(scaled).max()
        )

    def mean(self, row: "Array") -> Mean:
        """Value of a function with its limits."""
        if not self.estimable(row):
            return Mean(value=None, error=None, low=None, high=None)
        value, error = float(row @ self.coefficients), self.error(row)
        half = self.t_value * error
        limits = (value - half, value + half) if error else (None, None)
        return Mean(value=value, error=error or None, low=limits[0], high=limits[1])

    def error(self, row: "Array") -> float:
        """Standard error of a function; 0 without scatter."""
        return math.sqrt(max(float(row[self.kept] @ self.covariance @ row[self.kept]), 0.0))

    def lack_of_fit(self) -> FTest | None:
        """Residuals beyond the scatter of observations with equal columns; None without repetitions."""
        import numpy as np

        _, groups, counts = np.unique(self.matrix, axis=0, return_inverse=True, return_counts=True)
        means = np.bincount(groups.ravel(), self.data.y - self._centre) / counts
        pure = float(((self.data.y - self._centre - means[groups.ravel()]) ** 2).sum())
        pure_df, lack_df = len(self.data.y) - len(counts), len(counts) - len(self.kept)
        if pure_df < 1 or lack_df < 1 or pure <= 0:
            return None
        from scipy.special import fdtrc

        f = max(self.squares - pure, 0.0) / lack_df / (pure / pure_df)
        return FTest(f=f, df=lack_df, df_resid=pure_df, p=float(fdtrc(lack_df, pure_df, f)))

    @cached_property
    def _unscaled(self) -> "Array":
        """Inverse of X'X for the kept columns, in the units of the coefficients."""
        import numpy as np

        inverse = np.linalg.inv(np.linalg.qr(self._design, mode="r"))
        return self._without_blocks(inverse @ inverse.T)

    def _without_blocks(self, covariance: "Array") -> "Array":
        """Part of the kept columns of a covariance of scaled ones, in the units of the coefficients."""
        import numpy as np

        scale = self._scale[self.kept]
        part: Array = covariance[self._blocks :, self._blocks :] / np.outer(scale, scale)
        return part

    @cached_property
    def _relations(self) -> "Array":
        """Every scaled column as a combination of the kept ones, shape (kept, columns)."""
        import numpy as np

        scaled = self.matrix / self._scale
        relations: Array = np.asarray(np.linalg.lstsq(self._design, scaled, rcond=None)[0], dtype=float)
        relations = relations[self._blocks :]
        relations[np.abs(relations) < _DEPENDENT] = 0.0
        relations[:, self.kept] = np.eye(len(self.kept))
        return relations

    def _type_three(self, effect: _Effect) -> tuple[float, FTest]:
        import numpy as np

        own = set(range(*effect.columns.indices(10**9)))
        containing = {
            column
            for other in self.effects
            if other.contains(effect)
            for column in range(*other.columns.indices(10**9))
        }
        outside = [column for column in range(len(self.names)) if column not in own | containing]
        # A function of the coefficients by its entries in the scaled kept columns; the others follow.
        functions = self._relations * self._scale
        every = _null_space(self._relations[:, outside])
        if containing:
            of_those = _null_space(self._relations[:, [*outside, *sorted(own)]])
            inner = (every @ functions) @ (of_those @ functions).T
            scale = np.abs(inner).max(initial=0.0) or 1.0
            every = _null_space(inner / scale) @ every
        if not len(every):
            return 0.0, self._f_test(0.0, 0)
        rows = every * self._scale[self.kept]
        values = rows @ self.coefficients[self.kept]
        squares = float(values @ np.linalg.solve(rows @ self._unscaled @ rows.T, values))
        return squares, self._f_test(squares, len(rows))

    def _number(self, effect: _Effect, numbers: Mapping[str, float]) -> float:
        """Product of an effect's number columns at given values, or its mean over the data."""
        if not effect.powers:
            return 1.0
        if all(column_of(name) in numbers for name, _ in effect.powers):
            return math.prod(
                float(function_of(name)(numbers[column_of(name)])) ** power for name, power in effect.powers
            )
        return float(_product(effect, self.data).mean())

    def _f_test(self, squares: float, df: int) -> FTest:
        """F test of a sum of squares against the residuals."""
        from scipy.special import fdtrc

        if df < 1 or self.df_resid < 1:
            return FTest(f=0.0, df=df, df_resid=max(self.df_resid, 0), p=1.0)
        if not self.mean_square:
            some = squares > NOTHING * self.total
            return FTest(f=math.inf if some else 0.0, df=df, df_resid=self.df_resid, p=0.0 if some else 1.0)
        f = squares / df / self.mean_square
        return FTest(f=f, df=df, df_resid=self.df_resid, p=float(fdtrc(df, self.df_resid, f)))


def _refined(matrix: "Array", y: "Array", solution: "Array", residuals: "Array") -> "tuple[Array, Array]":
    """Least squares with the digits that the data have: iterative refinement of solution and residuals.

    Differences are taken in extended precision (Björck, "Iterative refinement of linear least squares
    solutions I", BIT 7, 1967). Large residuals otherwise cost the square of the condition number.
    """
    import numpy as np
    from scipy.linalg import solve_triangular

    if matrix.size > _REFINED or not matrix.size:
        return solution, residuals
    q, r = np.linalg.qr(matrix)
    exact, beta, rest = (array.astype(np.longdouble) for array in (matrix, solution, residuals))
    for _ in range(2):
        f = (y - rest - exact @ beta).astype(float)
        z = solve_triangular(r, -(exact.T @ rest).astype(float), trans="T")
        step = q.T @ f - z
        beta = beta + solve_triangular(r, step)
        rest = rest + (f - q @ step)
    return beta.astype(float), rest.astype(float)


def _effects(data: Data, terms: Sequence[Product], first: int) -> list[_Effect]:
    """Effects of the terms, and where their columns are."""
    effects = []
    for term in terms:
        factors = tuple(name for name, _ in term if name in data.levels)
        combinations = tuple(itertools.product(*(range(len(data.levels[factor])) for factor in factors)))
        powers = tuple((name, power) for name, power in term if name not in data.levels)
        effects.append(_Effect(term_name(term), powers, factors, combinations, first))
        first += len(combinations)
    return effects


def _column_names(effect: _Effect, data: Data) -> list[str]:
    """Names such as "B:CC=cubic", one per column of an effect."""
    numbers = [name if power == 1 else f"{name}^{power}" for name, power in effect.powers]
    return [
        ":".join(
            [
                *numbers,
                *(
                    f"{factor}={data.levels[factor][i]}"
                    for factor, i in zip(effect.factors, combination, strict=True)
                ),
            ]
        )
        for combination in effect.combinations
    ]


def _product(effect: _Effect, data: Data) -> "Array":
    """Product of an effect's number columns, shape (n,)."""
    import numpy as np

    values: Array = np.ones(len(data.y))
    for name, power in effect.powers:
        values = values * data.number(name) ** power
    return values


def _columns(effect: _Effect, data: Data) -> "Array":
    """Columns of an effect, one per combination of levels."""
    import numpy as np

    values = _product(effect, data)
    cell = np.zeros(len(values), dtype=np.int64)
    for factor in effect.factors:
        cell = cell * len(data.levels[factor]) + data.codes[factor]
    columns = np.zeros((len(values), len(effect.combinations)))
    columns[np.arange(len(values)), cell] = values
    return columns


def _independent(blocks: "Array", scaled: "Array") -> "NDArray[np.int64]":
    """Indices of columns that do not depend on the blocks and the columns before them.

    Gram-Schmidt on a triangle with the same lengths and angles, each column twice.
    """
    import numpy as np

    triangle = np.asarray(np.linalg.qr(np.hstack([blocks, scaled]), mode="r"))
    basis: list[Array] = []
    kept = []
    for i, column in enumerate(triangle.T):
        rest = column
        for _ in range(2):
            for vector in basis:
                rest = rest - (vector @ rest) * vector
        length = float(np.linalg.norm(rest))
        whole = float(np.linalg.norm(column))
        if whole and length > _DEPENDENT * whole:
            basis.append(rest / length)
            if i >= blocks.shape[1]:
                kept.append(i - blocks.shape[1])
    return np.array(kept, dtype=np.int64)


def _null_space(matrix: "Array") -> "Array":
    """Orthonormal rows v with v @ matrix = 0, shape (some, rows of the matrix)."""
    import numpy as np

    if not matrix.shape[1]:
        return np.eye(matrix.shape[0])
    u, singular, _ = np.linalg.svd(matrix)
    rank = int((singular > _DEPENDENT * max(1.0, singular.max(initial=0.0))).sum())
    rows: Array = u[:, rank:].T
    return rows
