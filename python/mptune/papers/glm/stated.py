"""A model that the user states, fitted to columns of a file: what PROC GLM prints for a MODEL statement.

    model string, file -> fit -> Type I and Type III tests, coefficients, least-squares means,
    predictions with limits, the value that gives a wanted response, with limits

All numbers are in the units of the columns as shown (`Columns.units`). Nothing is chosen here: see `analysis`
for the procedure that finds a model. It prints nothing.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from mptune._text import quoted
from mptune.errors import InputError, one_of
from mptune.papers.glm.formula import Formula, column_of, parse
from mptune.papers.glm.linear import Data, FTest, LinearFit, Mean
from mptune.papers.glm.ranking import holm
from mptune.table import ReadOptions
from mptune.table.columns import Columns, number_of, read_columns, unit_shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mptune.papers.glm.linear import Array

#: Most columns of a model, and most numbers in all of them: they bound time and memory.
_COLUMNS, _NUMBERS = 500, 50_000_000

#: Most decimal digits of a product of numbers: its square must be a number too.
_LARGEST = 140

#: Most rows of one kind that are worked out: combinations of levels that a prediction leaves open.
_ROWS = 200

#: Points at which a curve is looked at before a crossing is found exactly.
_POINTS = 501


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """Request of the user, as written.

    Attributes
    ----------
    model : see `formula`.
    references : "CC=vegas", the level that others are compared with; otherwise the last in the alphabet.
    predictions : "B=20000000,CC=scalable"; a factor that is left out stands for each of its levels.
    inverses : "T=20000000,CC=scalable", where one number column is left out: its value is wanted.
    units : units to show throughputs and buffers in; those of the file without them.
    alpha : limits hold with the probability 1 - alpha.
    target_mbps : another inverse, for every combination of levels.
    """

    model: str
    references: tuple[str, ...] = ()
    predictions: tuple[str, ...] = ()
    inverses: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    alpha: float = 0.05
    target_mbps: float | None = None


class Tested(msgspec.Struct, frozen=True, kw_only=True):
    """Sums of squares of one term, and the F tests of both types."""

    name: str
    squares_one: float
    type_one: FTest
    squares_three: float
    type_three: FTest


class LeastSquaresMean(msgspec.Struct, frozen=True, kw_only=True):
    """Mean of the response at levels of factors, other factors balanced, numbers at their means.

    Attributes
    ----------
    behind : how far below the largest of the same factors; None if either is not determined.
    p : of that difference, with Holm's correction for their number; None for the largest.
    """

    levels: dict[str, str]
    mean: Mean
    behind: float | None
    p: float | None


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """Response at given values.

    Attributes
    ----------
    mean : with confidence limits, of the mean response.
    low, high : prediction limits, of one further observation.
    """

    numbers: dict[str, float]
    levels: dict[str, str]
    mean: Mean
    low: float | None
    high: float | None


class Inverse(msgspec.Struct, frozen=True, kw_only=True):
    """Value of a number column that gives a wanted mean response.

    Attributes
    ----------
    variable, value : the smallest value within the data that reaches it; None if there is none.
    low, high : where the confidence band of the mean response crosses the wanted one; None if it does not
        within the data. The band is inverted, which for a straight line gives Fieller's limits.
    reason : why there is no value; empty with one.
    at_end : even the smallest value in the data reaches it.
    """

    wanted: float
    variable: str
    numbers: dict[str, float]
    levels: dict[str, str]
    value: float | None
    low: float | None
    high: float | None
    reason: str = ""
    at_end: bool = False


class Stated(msgspec.Struct, frozen=True, kw_only=True):
    """The result: see the classes above."""

    statement: Statement
    formula: Formula
    columns: Columns
    fit: LinearFit
    terms: tuple[Tested, ...]
    means: tuple[LeastSquaresMean, ...]
    predictions: tuple[Prediction, ...]
    inverses: tuple[Inverse, ...]
    warnings: tuple[str, ...]

    def unit(self, name: str) -> str:
        """Unit of a column as it is written; empty if it has none."""
        unit = self.columns.units.get(name, "")
        return "byte" if unit == "B" else unit


def fit_stated(path: str, statement: Statement, options: ReadOptions | None = None) -> Stated:
    """Fit a model that is stated, and work out everything that is asked for.

    Raises
    ------
    InputError : a model that does not parse or names no columns; columns that are not numbers, or collinear;
        too few rows; values or levels that do not exist.
    """
    formula = parse(statement.model)
    names = (formula.response, *formula.names())
    columns = read_columns(path, names, options, shown=unit_shown(statement.units))
    data = _data(columns, formula, _pairs(statement.references, "--reference"))
    fit = _fitted(columns, formula, data, statement.alpha)
    fitted = _Worked(columns, formula, fit)
    predictions = [prediction for text in statement.predictions for prediction in fitted.predicted(text)]
    inverses = [inverse for text in statement.inverses for inverse in fitted.solved(text)]
    if statement.target_mbps is not None:
        inverses += fitted.solved_for(statement.target_mbps)
    return Stated(
        statement=statement,
        formula=formula,
        columns=columns,
        fit=fit,
        terms=tuple(_tested(columns.path, fit)),
        means=tuple(fitted.means()),
        predictions=tuple(predictions),
        inverses=tuple(inverses),
        warnings=(*fitted.notes, *_warnings(fit, statement.alpha)),
    )


def _data(columns: Columns, formula: Formula, references: Mapping[str, str]) -> Data:
    """Columns of a model, checked, with its reference levels last."""
    import numpy as np

    response = formula.response
    if response in columns.levels:
        raise InputError("--model", "", f"expected numbers in {response}, found levels")
    factors = [name for name in formula.names() if name in columns.levels]
    for term in formula.terms:
        for name, power in term:
            if column_of(name) in factors and (power > 1 or name != column_of(name)):
                raise InputError(
                    "--model", "", f"expected {column_of(name)} alone: it has levels, not numbers"
                )
            _check_domain(columns, name)
    levels = {}
    for name in factors:
        known = sorted(set(columns.levels[name]))
        if len(known) == 1:
            raise InputError(
                "--model", "", f"expected several levels of {name}, found only {quoted(known[0])}"
            )
        last = _level(name, known, references[name], "--reference") if name in references else known[-1]
        levels[name] = (*(level for level in known if level != last), last)
    for name in references:
        if name not in factors:
            raise InputError(
                "--reference", "", one_of(factors, name) if factors else "expected a factor in --model"
            )
    return Data(
        y=columns.numbers[response],
        numbers={name: values for name, values in columns.numbers.items() if name != response},
        codes={
            name: np.array([levels[name].index(level) for level in columns.levels[name]]) for name in factors
        },
        levels=levels,
    )


def _check_domain(columns: Columns, name: str) -> None:
    """Refuse a logarithm or a root of numbers that have none."""
    column = column_of(name)
    if name == column or column not in columns.numbers:
        return
    least = float(columns.numbers[column].min())
    if least < 0 or (least == 0 and name.startswith("log")):
        wanted = "above 0" if name.startswith("log") else "of at least 0"
        raise InputError(
            "--model", "", f"expected numbers {wanted} for {name}, found {least:g} in {columns.path}"
        )


def _fitted(columns: Columns, formula: Formula, data: Data, alpha: float) -> LinearFit:
    """The fit, if the data are enough for it."""
    import numpy as np

    width = int(formula.intercept) + sum(
        math.prod(len(data.levels[name]) for name, _ in term if name in data.levels) for term in formula.terms
    )
    rows = len(data.y)
    if width > _COLUMNS or width * rows > _NUMBERS:
        raise InputError("--model", "", f"expected at most {_COLUMNS} columns of coefficients, found {width}")
    if not width:
        raise InputError("--model", "", "expected at least one term, or the intercept")
    sizes = [
        sum(
            power * math.log10(max(float(np.abs(data.number(name)).max()), 1.0))
            for name, power in term
            if name not in data.levels
        )
        for term in formula.terms
    ]
    if max(sizes, default=0.0) > _LARGEST:
        raise InputError("--model", "", f"expected smaller numbers, or lower powers, in {columns.path}")
    fit = LinearFit(data, formula.terms, intercept=formula.intercept, alpha=alpha)
    if fit.df_resid < 1:
        expected = f"expected more than {len(fit.kept)} usable rows for this model, found {rows}"
        raise InputError(columns.path, "", expected)
    return fit


def _tested(path: str, fit: LinearFit) -> list[Tested]:
    """Both tests of every term."""
    rows = [
        Tested(
            name=effect.name, squares_one=one[0], type_one=one[1], squares_three=three[0], type_three=three[1]
        )
        for effect, one, three in zip(fit.effects, fit.type_one(), fit.type_three(), strict=True)
    ]
    for row in rows:
        if not row.type_one.df and not row.type_three.df:
            expected = (
                f"expected terms that vary independently, but {row.name} depends on those before it in {path}"
            )
            raise InputError("--model", "", expected)
    return rows


def _warnings(fit: LinearFit, alpha: float) -> list[str]:
    """Doubts about the model."""
    if fit.r_squared is None:
        return ["The response does not vary at all: there is nothing to explain."]
    lack = fit.lack_of_fit()
    if lack is None or lack.p > alpha:
        return []
    return [
        f"The model misses the shape of the data (lack of fit: F({lack.df}, {lack.df_resid}) = {lack.f:.4g}, "
        f"p = {lack.p:.1g}): p values and limits are approximate."
    ]


class _Worked:
    """Means, predictions and inverses of one fit, and what is to be noted about them."""

    def __init__(self, columns: Columns, formula: Formula, fit: LinearFit) -> None:
        self.columns, self.formula, self.fit = columns, formula, fit
        self.notes: list[str] = []
        self._numbers = [name for name in formula.names() if name in fit.data.numbers]

    def means(self) -> list[LeastSquaresMean]:
        """Least-squares means of every factor, and of factors that are crossed in a term."""
        levels = self.fit.data.levels
        groups: list[tuple[str, ...]] = [(factor,) for factor in levels]
        groups += [effect.factors for effect in self.fit.effects if len(effect.factors) > 1]
        found: list[LeastSquaresMean] = []
        for group in dict.fromkeys(groups):
            combinations = list(itertools.product(*(levels[factor] for factor in group)))
            if len(combinations) <= _ROWS:
                found += self._means(
                    [dict(zip(group, combination, strict=True)) for combination in combinations]
                )
        return found

    def predicted(self, text: str) -> list[Prediction]:
        """Predictions of one --predict."""
        numbers, levels = self._given(text, "--predict", self._numbers)
        for name in self._numbers:
            if name not in numbers:
                raise InputError("--predict", "", f"expected a value of {name}, found {quoted(text)}")
        found = []
        for combination in self._combinations(levels, "--predict"):
            self._note_outside(numbers, combination)
            row = self.fit.row(numbers, combination)
            mean = self.fit.mean(row)
            half = self.fit.t_value * math.sqrt(self.fit.mean_square + self.fit.error(row) ** 2)
            if mean.value is None:
                self._note(f"{_named(combination)} is not determined by the data (Non-est).")
            found.append(
                Prediction(
                    numbers=numbers,
                    levels=combination,
                    mean=mean,
                    low=mean.value - half if mean.value is not None and half else None,
                    high=mean.value + half if mean.value is not None and half else None,
                )
            )
        return found

    def solved(self, text: str, option: str = "--solve") -> list[Inverse]:
        """Inverses of one --solve."""
        response = self.formula.response
        numbers, levels = self._given(text, option, [response, *self._numbers])
        if response not in numbers:
            raise InputError(option, "", f"expected a value of {response}, found {quoted(text)}")
        wanted = numbers.pop(response)
        free = [name for name in self._numbers if name not in numbers]
        if len(free) != 1:
            names = ", ".join(self._numbers) or "none"
            expected = f"expected one number column of the model ({names}) without a value, found {len(free)}"
            raise InputError(option, "", f"{expected} in {quoted(text)}")
        found = [
            self._inverse(wanted, free[0], numbers, combination)
            for combination in self._combinations(levels, option)
        ]
        if all(inverse.value is None for inverse in found):
            expected = f"expected a {response} that the model reaches within the data, found {wanted:.10g}"
            raise InputError(option, "", f"{expected} ({found[-1].reason})")
        return found

    def solved_for(self, target_mbps: float) -> list[Inverse]:
        """Inverses of --target."""
        response = self.formula.response
        if self.columns.roles.get(response) != "throughput":
            raise InputError(
                "--target", "", f"expected a throughput before ~ in --model, found {response} (see --solve)"
            )
        return self.solved(f"{response}={target_mbps!r}Mbit/s", "--target")

    def _means(self, combinations: Sequence[dict[str, str]]) -> list[LeastSquaresMean]:
        """Means of one group of factors, compared with the largest."""
        fit = self.fit
        rows = [fit.row({}, combination) for combination in combinations]
        means = [fit.mean(row) for row in rows]
        known = [i for i, mean in enumerate(means) if mean.value is not None]
        for i, mean in enumerate(means):
            if mean.value is None:
                self._note(
                    f"The least-squares mean of {_named(combinations[i])} is not determined (Non-est)."
                )
        best = max(known, key=lambda i: means[i].value or -math.inf, default=None)
        others = [i for i in known if i != best]
        ps: dict[int, float] = {}
        if best is not None and fit.scatter:
            ps = dict(zip(others, holm([self._p(rows[best] - rows[i]) for i in others]), strict=True))
        top = None if best is None else means[best].value
        return [
            LeastSquaresMean(
                levels=combination,
                mean=mean,
                behind=None if mean.value is None or top is None else top - mean.value,
                p=ps.get(i),
            )
            for i, (combination, mean) in enumerate(zip(combinations, means, strict=True))
        ]

    def _p(self, row: "Array") -> float:
        """P of a function of the coefficients being 0."""
        error = self.fit.error(row)
        return self.fit.p_of_t(float(row @ self.fit.coefficients) / error) if error else 1.0

    def _given(self, text: str, option: str, known: Sequence[str]) -> tuple[dict[str, float], dict[str, str]]:
        """Values and levels of one option, by name."""
        numbers: dict[str, float] = {}
        levels: dict[str, str] = {}
        for name, value in _pairs(text.split(","), option).items():
            if name in self.fit.data.levels:
                levels[name] = _level(name, self.fit.data.levels[name], value, option)
            elif name in known:
                try:
                    numbers[name] = number_of(
                        value, self.columns.units.get(name), self.columns.roles.get(name)
                    )
                except ValueError as error:
                    raise InputError(option, name, str(error)) from None
                self._check_function(name, numbers[name], option)
            else:
                raise InputError(option, "", one_of([*known, *self.fit.data.levels], name))
        return numbers, levels

    def _check_function(self, column: str, value: float, option: str) -> None:
        """Refuse a value of which a function in the model has no value."""
        for term in self.formula.terms:
            for name, _ in term:
                if column_of(name) == column != name and (
                    value < 0 or (value == 0 and name.startswith("log"))
                ):
                    raise InputError(option, column, f"expected more than 0 for {name}, found {value:g}")

    def _combinations(self, levels: Mapping[str, str], option: str) -> list[dict[str, str]]:
        """Combinations of levels, all levels where none is given."""
        known = {
            name: (levels[name],) if name in levels else all_ for name, all_ in self.fit.data.levels.items()
        }
        if math.prod(len(names) for names in known.values()) > _ROWS:
            open_ = ", ".join(name for name in known if name not in levels)
            raise InputError(
                option, "", f"expected levels of {open_}: they have more than {_ROWS} combinations"
            )
        return [dict(zip(known, one, strict=True)) for one in itertools.product(*known.values())]

    def _at(self, levels: Mapping[str, str]) -> "NDArray[np.bool_]":
        """The observations at levels, shape (n,)."""
        import numpy as np

        data = self.fit.data
        at = np.ones(len(data.y), dtype=bool)
        for factor, level in levels.items():
            at &= data.codes[factor] == data.levels[factor].index(level)
        return at

    def _range(self, name: str, levels: Mapping[str, str]) -> tuple[float, float]:
        """Smallest and largest value of a number column at levels, or in all data if these never occur."""
        values, at = self.fit.data.numbers[name], self._at(levels)
        inside = values[at] if at.any() else values
        return float(inside.min()), float(inside.max())

    def _note_outside(self, numbers: Mapping[str, float], levels: Mapping[str, str]) -> None:
        """Note values outside the data."""
        if not self._at(levels).any():
            self._note(f"No row has {_named(levels)} together: values there follow from the model alone.")
        for name, value in numbers.items():
            low, high = self._range(name, levels)
            at = f" with {_named(levels)}" if levels else ""
            if not low <= value <= high:
                unit = self.columns.units.get(name, "")
                data = f"{low:.10g} to {high:.10g} {unit}".strip()
                self._note(
                    f"{name} = {value:.10g} is outside the data{at} ({data}): the prediction is extrapolated."
                )

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _inverse(
        self, wanted: float, variable: str, numbers: Mapping[str, float], levels: Mapping[str, str]
    ) -> Inverse:
        """Smallest value within the data at which the mean response reaches the wanted one."""
        import numpy as np

        fit = self.fit
        low, high = self._range(variable, levels)
        self._note_outside(numbers, levels)

        def above(value: float, side: float = 0.0) -> float:
            row = fit.row({**numbers, variable: value}, levels)
            return float(row @ fit.coefficients) + side * fit.t_value * fit.error(row) - wanted

        rows = [
            fit.row({**numbers, variable: float(value)}, levels) for value in np.linspace(low, high, _POINTS)
        ]
        values = np.linspace(low, high, _POINTS)
        rows = [fit.row({**numbers, variable: float(value)}, levels) for value in values]
        nothing = Inverse(
            wanted=wanted,
            variable=variable,
            numbers=dict(numbers),
            levels=dict(levels),
            value=None,
            low=None,
            high=None,
        )
        if not fit.estimable(rows[-1]):
            return msgspec.structs.replace(nothing, reason="not determined by the data (Non-est)")
        means = np.array([row @ fit.coefficients for row in rows]) - wanted
        errors = fit.t_value * np.array([fit.error(row) for row in rows])
        reached = np.flatnonzero(means >= 0)
        if not len(reached):
            top = _peak(values, means)
            reason = f"at most {above(top) + wanted:.10g} with {variable} = {top:.10g}"
            return msgspec.structs.replace(nothing, reason=reason)
        first = int(reached[0])
        value = low if first == 0 else _crossing(above, values[first - 1], values[first])
        # The upper edge of the band reaches the wanted response before the curve, the lower edge after it.
        before = np.flatnonzero((means + errors)[: first + 1] < 0)
        after = np.flatnonzero((means - errors)[first:] >= 0)
        lower = upper = None
        if fit.scatter and len(before):
            at = int(before[-1])
            lower = _crossing(lambda x: above(x, 1.0), values[at], max(values[at + 1], value))
        if fit.scatter and len(after):
            at = first + int(after[0])
            upper = _crossing(lambda x: above(x, -1.0), max(values[at - 1], low) if at else low, values[at])
        return msgspec.structs.replace(nothing, value=float(value), low=lower, high=upper, at_end=first == 0)


def _crossing(function: Callable[[float], float], low: float, high: float) -> float:
    """Zero of a function between two values, to the last digits."""
    from scipy.optimize import brentq

    at_low, at_high = function(float(low)), function(float(high))
    if at_low >= 0 or at_high <= 0:
        return float(low if at_low >= 0 else high)
    return float(brentq(function, float(low), float(high), xtol=1e-14 * max(abs(high), 1.0), rtol=1e-14))


def _peak(values: "Array", means: "Array") -> float:
    """Peak of a curve at evenly spaced values: the vertex of a parabola through the three highest points."""
    top = int(means.argmax())
    if top in (0, len(values) - 1):
        return float(values[top])
    left, middle, right = (float(mean) for mean in means[top - 1 : top + 2])
    bend = left - 2 * middle + right
    step = float(values[top + 1] - values[top])
    return float(values[top]) + (step * (left - right) / (2 * bend) if bend else 0.0)


def _pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    """NAME=VALUE texts, by name."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise InputError(option, "", f"expected NAME=VALUE, found {quoted(text)}")
        if name in pairs:
            raise InputError(option, "", f"expected {name} once, found it twice")
        pairs[name] = value
    return pairs


def _level(factor: str, known: Sequence[str], text: str, option: str) -> str:
    """Level of a factor, whatever its capitalisation."""
    level = next((name for name in known if name.casefold() == text.casefold()), None)
    if level is None:
        raise InputError(option, factor, one_of(known, text))
    return level


def _named(levels: Mapping[str, str]) -> str:
    """Levels as a user writes them."""
    return ",".join(f"{factor}={level}" for factor, level in levels.items())
