"""Design of a general linear model: factors coded against a reference level, terms, columns.

The GLM study's variables (section V-B): the buffer B, dummies of each factor, and their products with
B. One level of a factor is the reference, which has no column: the last in alphabetical order, as in
SAS (Vegas in the study's Table IV). Buffers in MiB, throughputs in Mbit/s. Nothing is fitted here.

If the runs of a file share their seeds, each run is a block: its effect on all configurations alike is luck,
and is excluded from the scatter used by the tests (a randomised block design; common random numbers, Law,
Simulation Modeling and Analysis, section 11.2).
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from mptune._text import quoted
from mptune.errors import InputError, one_of
from mptune.papers.glm.formula import Product
from mptune.papers.glm.linear import Data
from mptune.response.equation import SYMBOLS, X_OF, Regressor
from mptune.table import Measurement, Measurements

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

#: A column depends on the others if removing them leaves less than this share of its length.
_DEPENDENT = 1e-7


class Form(NamedTuple):
    """A candidate form of the model: the regressor x, and its highest power."""

    regressor: Regressor
    powers: int


#: The forms the study tried (section V-B).
FORMS = {
    "linear": Form("buffer", 1),
    "quadratic": Form("buffer", 2),
    "logarithmic": Form("logarithm", 1),
    "square-root": Form("root", 1),
}

#: Name of the family of terms without a factor.
BUFFER = "buffer"


class Term(NamedTuple):
    """A product of a power of x and a factor: one column, or one per level except the reference.

    Attributes
    ----------
    factor : None for a power of x alone.
    power : 0, 1 or 2; 0 is the factor's main effect.
    """

    factor: str | None
    power: int

    @property
    def family(self) -> str:
        """Factor, or the buffer: the subject of a question "does it matter?"."""
        return self.factor or BUFFER

    def product(self, regressor: Regressor) -> Product:
        """The same term as a model string has it."""
        x = SYMBOLS[regressor].format(b="B").replace("ln(", "log(")
        return (*(((x, self.power),) if self.power else ()), *(((self.factor, 1),) if self.factor else ()))

    def label(self, regressor: Regressor, level: str | None = None) -> str:
        """Name such as "B^2", "cc" or "B * cc=cubic"."""
        symbol = SYMBOLS[regressor].format(b="B")
        x = [] if not self.power else [symbol if self.power == 1 else f"{symbol}^{self.power}"]
        named = self.factor if level is None else f"{self.factor}={level}"
        return " * ".join([*x, *([named] if self.factor and named else [])])


class Coding:
    """Factors and their levels in the data.

    Attributes
    ----------
    levels : factor -> its levels, the reference last; only factors that vary.
    """

    def __init__(self, measurements: Measurements, ignore: Sequence[str] = ()) -> None:
        self.levels: dict[str, tuple[str, ...]] = {
            factor: measurements.levels(factor)
            for factor in measurements.factors
            if factor not in ignore and len(measurements.levels(factor)) > 1
        }

    def families(self, form: Form) -> dict[str, list[Term]]:
        """Terms of a form by family: the powers of x, then per factor its main effect and its slope."""
        powers = [Term(None, power) for power in range(1, form.powers + 1)]
        return {BUFFER: powers, **{factor: [Term(factor, 0), Term(factor, 1)] for factor in self.levels}}

    def labels(self, term: Term, form: Form) -> list[str]:
        """Names of a term's columns."""
        if term.factor is None:
            return [term.label(form.regressor)]
        return [term.label(form.regressor, level) for level in self.levels[term.factor][:-1]]

    def dummies(self, factor: str, rows: Sequence[Measurement], path: str) -> "Array":
        """One column per level except the reference.

        Raises
        ------
        InputError : a level that the coding does not know, or the factor is not in the file.
        """
        import numpy as np

        index = {level: i for i, level in enumerate(self.levels[factor])}
        matrix = np.zeros((len(rows), len(index)))
        for i, row in enumerate(rows):
            level = row.levels.get(factor)
            if level not in index:
                raise InputError(path, f"row {row.row}, {factor}", one_of(index, level))
            matrix[i, index[level]] = 1.0
        return matrix[:, :-1]


class Design:
    """Columns of the terms of one form for a set of measurements.

    Attributes
    ----------
    y : observed throughput, Mbit/s, shape (n,).
    """

    def __init__(self, measurements: Measurements, coding: Coding, form: Form) -> None:
        import numpy as np

        self.coding: Coding = coding
        self.form: Form = form
        self.measurements = measurements
        self.y: Array = np.array([row.throughput_mbps for row in measurements.rows])
        self.x: Array = np.array([X_OF[form.regressor](row.buffer_mib) for row in measurements.rows])
        self._dummies: dict[str, Array] = {}

    def columns(self, term: Term) -> "Array":
        """Columns of a term, shape (n, one per level except the reference)."""
        power: Array = self.x[:, None] ** term.power
        if term.factor is None:
            return power
        if term.factor not in self._dummies:
            rows = self.measurements.rows
            self._dummies[term.factor] = self.coding.dummies(term.factor, rows, self.measurements.path)
        product: Array = power * self._dummies[term.factor]
        return product

    @cached_property
    def blocks(self) -> "Array":
        """One column per run except the last, each with a mean of 0; none if runs share nothing."""
        import numpy as np

        rows = self.measurements.rows
        none = np.empty((len(rows), 0))
        if not self.measurements.shared_runs:
            return none
        runs = sorted({row.run or "" for row in rows})
        dummies = np.array([[float(row.run == run) for run in runs[:-1]] for row in rows])
        centred: Array = dummies - dummies.mean(axis=0)
        terms = [term for family in self.coding.families(self.form).values() for term in family]
        whole = np.hstack([centred, self.matrix(terms)])
        return none if whole.shape[0] <= whole.shape[1] or _dependent(whole) else centred

    @cached_property
    def condensed(self) -> "Condensed":
        """The same design with as many rows as columns."""
        import numpy as np

        terms = [term for family in self.coding.families(self.form).values() for term in family]
        always = np.hstack([self.blocks, np.ones((len(self.y), 1))])
        parts = [always, *(self.columns(term) for term in terms), self.y[:, None]]
        triangle = np.linalg.qr(np.hstack(parts), mode="r")
        ends = np.cumsum([part.shape[1] for part in parts])
        always, *columns, y = np.split(triangle, ends[:-1], axis=1)
        return Condensed(always, dict(zip(terms, columns, strict=True)), y[:, 0])

    def matrix(self, terms: Iterable[Term]) -> "Array":
        """Intercept and the columns of the terms, in their order."""
        import numpy as np

        return np.hstack([np.ones((len(self.y), 1)), *(self.columns(term) for term in terms)])

    @cached_property
    def data(self) -> Data:
        """The measurements as a linear model has them, the buffer being B."""
        import numpy as np

        rows, levels = self.measurements.rows, self.coding.levels
        return Data(
            y=self.y,
            numbers={"B": np.array([row.buffer_mib for row in rows])},
            codes={
                factor: np.array([known.index(row.levels[factor]) for row in rows])
                for factor, known in levels.items()
            },
            levels=dict(levels),
        )

    def labels(self, terms: Iterable[Term]) -> list[str]:
        """Names of the columns of `matrix`."""
        return ["intercept", *(label for term in terms for label in self.coding.labels(term, self.form))]


class Condensed(NamedTuple):
    """Columns of all terms of a form and y after a rotation that leaves few rows (QR decomposition).

    A rotation changes no lengths or angles, so the sums of squares of every fit are those of the
    observations. Selecting terms tries hundreds of fits, and needs only these sums.

    Attributes
    ----------
    always : blocks and intercept, which are in every fit.
    """

    always: "Array"
    columns: dict[Term, "Array"]
    y: "Array"

    def matrix(self, terms: Iterable[Term]) -> "Array":
        """Blocks, intercept and the columns of the terms, in their order."""
        import numpy as np

        return np.hstack([self.always, *(self.columns[term] for term in terms)])


def check_design(measurements: Measurements, coding: Coding) -> None:
    """Refuse data whose factors cannot be distinguished, or that are too few for the whole linear model.

    Raises
    ------
    InputError : naming the file, the factor, and the factors it depends on.
    """
    design = Design(measurements, coding, FORMS["linear"])
    for factor, levels in coding.levels.items():
        _check_sizes(measurements, factor, levels)
    terms = [term for family in coding.families(FORMS["linear"]).values() for term in family]
    terms.sort(key=lambda term: (term.factor is not None, term.power))
    for count, term in enumerate(terms, start=1):
        if _dependent(design.matrix(terms[:count])):
            tied = next(
                (
                    each_term
                    for each_term in terms[: count - 1]
                    if _dependent(design.matrix([each_term, term]))
                ),
                None,
            )
            to = "the others together" if tied is None else tied.family
            raise InputError(
                measurements.path,
                term.family,
                f"expected levels that vary independently of {to}, but they depend on it (see --ignore)",
            )
    columns = design.matrix(terms).shape[1]
    if len(design.y) <= columns:
        raise InputError(
            measurements.path,
            "",
            f"expected more than {columns} usable rows for {', '.join([BUFFER, *coding.levels])}, "
            f"found {len(design.y)}",
        )


def _check_sizes(measurements: Measurements, factor: str, levels: Sequence[str]) -> None:
    """A level measured with one buffer size has no slope."""
    for level in levels:
        rows = [row for row in measurements.rows if row.levels[factor] == level]
        if len({row.buffer_mib for row in rows}) == 1:
            raise InputError(
                measurements.path,
                f"row {rows[0].row}, {factor}",
                f"expected at least two buffer sizes for {quoted(level)}, "
                f"found only {rows[0].buffer_mib:.6g} MiB",
            )


def _dependent(matrix: "Array") -> bool:
    """True if a column is a combination of the others."""
    import numpy as np

    if matrix.shape[0] < matrix.shape[1]:
        return False  # too few rows: a different error
    scaled = matrix / np.linalg.norm(matrix, axis=0)
    return bool(np.abs(np.diag(np.linalg.qr(scaled, mode="r"))).min() < _DEPENDENT)
