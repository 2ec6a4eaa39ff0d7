"""Interface of response models: throughput as a function of buffer, path manager, congestion control.

MPCOA's f5 (Eq. 8) as an interface. A model is fitted to observations and answers four questions per
(path manager, congestion control): what throughput at this buffer, with what uncertainty, where is
the maximum, which is the smallest buffer for a wanted throughput. It chooses nothing:
`mptune.decision.selection` does. A new model is one file beside this one and one line in `mptune.response`.

Buffers are in MiB and throughputs in Mbit/s throughout, as in the papers' formulas.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from mptune.statistics import CONFIDENCE
from mptune.trial import Combination

#: MPCOA's acceptance of a fit (section 3, step 6).
MIN_R_SQUARED = 0.90
MAX_P = 0.05


class Sample(NamedTuple):
    """One observation: the input of a fit. Failed trials never become one.

    Attributes
    ----------
    value : throughput, Mbit/s, or the worth of another metric (`mptune.trial.metrics`).
    run : number of the run; runs with the same number were measured under the same conditions (the same seed,
    the same hour). A fit ignores it; a comparison keeps such runs together.
    """

    combination: Combination
    buffer_mib: float
    value: float
    run: int = 0


class Mean(NamedTuple):
    """A configuration over its runs: all that least squares needs to know about it.

    Attributes
    ----------
    n : number of runs.
    squares : sum of the squared deviations of the runs from their mean, (Mbit/s)^2.
    """

    combination: Combination
    buffer_mib: float
    value: float
    n: int
    squares: float


def means(samples: Sequence[Sample]) -> list[Mean]:
    """Configurations in the order of their first sample."""
    grouped: dict[tuple[Combination, float], list[float]] = {}
    for sample in samples:
        grouped.setdefault((sample.combination, sample.buffer_mib), []).append(sample.value)
    result = []
    for (combination, buffer), values in grouped.items():
        mean = math.fsum(values) / len(values)
        squares = math.fsum((value - mean) ** 2 for value in values)
        result.append(Mean(combination, buffer, mean, len(values), squares))
    return result


class FitQuality(msgspec.Struct, frozen=True, kw_only=True):
    """Quality of fit of one path manager's curves.

    Attributes
    ----------
    r_squared : share of the variance explained; None when the observations do not vary at all.
    p_values : term -> p-value; empty for models without terms, None where no degree of freedom is left.
    n : number of observations.
    """

    pm: str
    r_squared: float | None
    p_values: dict[str, float | None]
    n: int


class Curve(ABC):
    """Fitted throughput over buffer for one combination.

    A subclass gives `predict`, `interval` and `formula`. Maximum and inverse are found by search
    here, and overridden where a closed form exists.
    """

    #: Points of the search. It misses features narrower than a thousandth of the range.
    _POINTS = 1001

    @abstractmethod
    def predict(self, buffer_mib: float) -> float:
        """Mean throughput at a buffer, Mbit/s."""

    @abstractmethod
    def interval(self, buffer_mib: float) -> tuple[float, float] | None:
        """95 % interval of that mean, Mbit/s; None where the data do not give one."""

    @abstractmethod
    def formula(self) -> str:
        """The curve as text, `tp` in Mbit/s and `bs` in MiB."""

    def maximum(self, low: float, high: float) -> tuple[float, float]:
        """Buffer (MiB) and value (Mbit/s) of the maximum within [low, high]; the smallest such buffer."""
        points = self._points(low, high)
        best = max(range(len(points)), key=lambda i: (self.predict(points[i]), -i))
        left, right = points[max(best - 1, 0)], points[min(best + 1, len(points) - 1)]
        buffer = self._climb(left, right)
        return max([(points[best], self.predict(points[best])), (buffer, self.predict(buffer))], key=_height)

    def smallest_buffer(self, throughput: float, low: float, high: float) -> float | None:
        """Smallest buffer within [low, high] that reaches a throughput, MiB; None if none does."""
        previous = low
        for point in sorted([*self._points(low, high), self.maximum(low, high)[0]]):
            if self.predict(point) >= throughput:
                return self.first_reach(previous, point, throughput)
            previous = point
        return None

    def _points(self, low: float, high: float) -> list[float]:
        """Search points from low to high, both ends included."""
        step = (high - low) / (self._POINTS - 1)
        return [low + i * step for i in range(self._POINTS - 1)] + [high]

    def _climb(self, left: float, right: float) -> float:
        """Argument of the maximum of a stretch with one peak, by ternary search."""
        for _ in range(60):
            third = (right - left) / 3
            if self.predict(left + third) >= self.predict(right - third):
                right -= third
            else:
                left += third
        return left

    def first_reach(self, below: float, reached: float, throughput: float) -> float:
        """Smallest buffer between two at which the curve reaches a throughput; the second if none does."""
        if self.predict(below) >= throughput:
            return below
        for _ in range(60):
            middle = (below + reached) / 2
            if self.predict(middle) >= throughput:
                reached = middle
            else:
                below = middle
        return reached


def _height(point: tuple[float, float]) -> tuple[float, float]:
    """Order of candidate maxima: the higher, then the smaller buffer."""
    return point[1], -point[0]


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """A fitted model: one curve per combination, and how far to trust them.

    Attributes
    ----------
    model : the curves' model, by its name in `mptune.response.MODELS`.
    comparison : the models that were compared to choose it; empty when it was requested by name.
    r_squared : over all observations and path managers together; None as in `FitQuality`.
    warnings : sentences for the user, empty when every acceptance threshold is met.
    """

    model: str
    curves: dict[Combination, Curve]
    qualities: tuple[FitQuality, ...]
    r_squared: float | None
    warnings: tuple[str, ...]
    comparison: tuple["ModelError", ...] = ()


class ModelError(msgspec.Struct, frozen=True, kw_only=True):
    """Prediction error of a model on observations held out of its fit.

    Attributes
    ----------
    rms_mbps : root mean squared error of the held-out observations, Mbit/s; None where the model could
        not be fitted without them.
    by_pm : path manager -> the same for its observations only.
    """

    model: str
    rms_mbps: float | None
    by_pm: dict[str, float]


def acceptance_warnings(quality: FitQuality) -> list[str]:
    """Sentences for what fails MPCOA's acceptance (section 3, step 6); the fit is used anyway.

    The paper requires both and then uses a fit with R-square 0.80 (errata E10): a failure is reported, and
    decides nothing.
    """
    warnings = []
    if quality.r_squared is None:
        warnings.append(f"{quality.pm}: the throughput does not vary at all, so R-square is undefined.")
    elif quality.r_squared < MIN_R_SQUARED:
        warnings.append(
            f"{quality.pm}: R-square is {quality.r_squared:.2f}, below {MIN_R_SQUARED:.2f}: "
            "the curve explains the observations only in part."
        )
    if any(p is None for p in quality.p_values.values()):
        warnings.append(f"{quality.pm}: no p-values, the observations leave no scatter; use more runs.")
    weak = [f"{term} (p = {p:.2g})" for term, p in quality.p_values.items() if p is not None and p > MAX_P]
    if weak:
        warnings.append(f"{quality.pm}: not significant at {MAX_P}: {', '.join(weak)}.")
    return warnings


class ResponseModel(Protocol):
    """A kind of response curve that can be fitted."""

    #: Its key in `mptune.response.MODELS`.
    name: str
    #: Fewest distinct buffer sizes it needs.
    min_buffers: int
    #: True if it is one formula over all buffers; otherwise it follows the observations.
    is_formula: bool

    def fit(self, samples: Sequence[Sample]) -> Response:
        """Fit the model to observations.

        Raises
        ------
        MptuneError : the observations cannot determine the model (which, and what is missing).
        """
        ...

    def curves(self, configurations: Sequence[Mean]) -> dict[Combination, Curve]:
        """Give only the curves of `fit`, without intervals: fast enough to repeat hundreds of times.

        Raises
        ------
        MptuneError : as `fit`.
        """
        ...


def r_squared(squared_residuals: float, observed: Sequence[float]) -> float | None:
    """Share of the variance explained; None when there is no variance."""
    mean = math.fsum(observed) / len(observed)
    total = math.fsum((value - mean) ** 2 for value in observed)
    if min(observed) == max(observed) or not total:
        return None
    return 1.0 - squared_residuals / total


def t_value(degrees: float) -> float:
    """Two-sided 95 % quantile of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 + CONFIDENCE / 2))
