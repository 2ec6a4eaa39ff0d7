"""Throughput that rises and then stays level: `t0 + r (1 - exp(-(bs / b0)^h))`, with a decline if needed.

As long as the buffer is the limit, throughput grows with it; beyond some b0 the network is the limit. A
growth curve of the Weibull type (Ratkowsky, 1983): h = 1 is the exponential approach, larger h a sharper
knee. A decline `- d bs` after the peak (queues that grow with the buffer) is added if it explains
significantly more, at 5 %. Each combination has its own coefficients.

t0, the throughput without a buffer, is not negative: where least squares would make it so, it is 0. Otherwise
a steep enough rise could put a knee anywhere between two measured buffers.

Given b0 and h the rest is linear least squares, so the fit is a search over only these two (variable
projection, Golub and Pereyra, 1973): reliable and fast. The interval is the linear approximation at the
optimum, with b0 treated as estimated and h as known.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from mptune.response._base import MAX_P, Curve, t_value
from mptune.response._separate import Data, SeparateModel

if TYPE_CHECKING:
    from mptune.response._separate import Array

#: Values of h to try: exponential, bell-shaped, and nearly a straight line into a corner.
_SHAPES = (1.0, 2.0, 4.0)

#: Values of b0 to try for each h, before the best is refined.
_SCALES = 40

#: Share of the squared residuals below which refining b0 further gains nothing.
_GAIN = 1e-6

#: b0 must leave the smallest buffer at most 1 - exp(-3) = 95 % of the rise, or there is no rise to see,
#: and the largest at least 1 - exp(-1/2) = 39 %, or it is a straight line.
_MOST, _LEAST = 3.0, 0.5


class Growth(Curve):
    """`t0 + r (1 - exp(-(bs / b0)^h)) - d bs`, Mbit/s over MiB.

    Parameters
    ----------
    linear : t0 (Mbit/s), r (Mbit/s), d (Mbit/s per MiB); t0 and d are not negative.
    b0 : MiB.
    h : shape, no unit.
    covariance : of t0, r, d and log b0, without t0 or d if that is 0; None without a degree of freedom.
    t_value : two-sided quantile of Student's t that goes with it.
    """

    def __init__(
        self,
        linear: tuple[float, float, float],
        b0: float,
        h: float,
        covariance: "Array | None" = None,
        t_value: float = math.nan,
    ) -> None:
        self.t0, self.r, self.d = linear
        self.b0, self.h = b0, h
        self._covariance, self._t_value = covariance, t_value

    def predict(self, buffer_mib: float) -> float:
        """Mean throughput, Mbit/s."""
        return self.t0 - self.r * math.expm1(-((buffer_mib / self.b0) ** self.h)) - self.d * buffer_mib

    def interval(self, buffer_mib: float) -> tuple[float, float] | None:
        """95 % interval of the mean, Mbit/s; None where the data do not determine the curve.

        They do not when only one of the buffers lies on the rise: the linear approximation could then put the
        mean anywhere.
        """
        if self._covariance is None:
            return None
        import numpy as np

        u = (buffer_mib / self.b0) ** self.h
        slopes = [
            *([1.0] if self.t0 else []),
            -math.expm1(-u),
            *([-buffer_mib] if self.d else []),
            -self.r * self.h * u * math.exp(-u),
        ]
        half = self._t_value * math.sqrt(max(float(np.array(slopes) @ self._covariance @ slopes), 0.0))
        if half > abs(self.t0) + abs(self.r):
            return None
        mean = self.predict(buffer_mib)
        return mean - half, mean + half

    def formula(self) -> str:
        """Return the formula, four significant digits."""
        power = "" if self.h == 1 else f"^{self.h:g}"
        rise = f"(1 - exp(-(bs / {self.b0:.4g}){power}))"
        sign = "-" if self.r < 0 else "+"
        decline = f" - {self.d:.4g} bs" if self.d else ""
        return f"tp = {self.t0:.4g} {sign} {abs(self.r):.4g} {rise}{decline}"

    def maximum(self, low: float, high: float) -> tuple[float, float]:
        """An end of the range, or the peak between rise and decline."""
        candidates = [low, high]
        if self.d and self.r > 0:
            candidates.append(min(max(self._peak(high), low), high))
        best = max(candidates, key=lambda bs: (self.predict(bs), -bs))
        return best, self.predict(best)

    def smallest_buffer(self, throughput: float, low: float, high: float) -> float | None:
        """Smallest buffer within [low, high] that reaches a throughput, MiB; None if none does."""
        if self.predict(low) >= throughput:
            return low
        top, height = self.maximum(low, high)
        if height < throughput:
            return None
        if self.d:
            return self.first_reach(self._valley(low, top), top, throughput)
        rest = 1 - (throughput - self.t0) / self.r
        return top if rest <= 0 else min(max(self.b0 * (-math.log(rest)) ** (1 / self.h), low), top)

    def _slope(self, bs: float) -> float:
        """Derivative, Mbit/s per MiB."""
        u = (bs / self.b0) ** self.h
        return float(self.r * self.h * u / bs * math.exp(-u) - self.d)

    def _steepest(self) -> float:
        """Buffer of the steepest rise: the inflection point, or the beginning for h = 1."""
        return float(self.b0 * max(1 - 1 / self.h, 0.0) ** (1 / self.h))

    def _peak(self, high: float) -> float:
        """Buffer where the slope falls to 0 after the steepest point; `high` if not before that."""
        left = max(self._steepest(), 1e-9 * self.b0)
        return _zero(self._slope, left, high) if left < high and self._slope(left) > 0 else min(left, high)

    def _valley(self, low: float, top: float) -> float:
        """A buffer from which the curve only rises until its peak."""
        steepest = self._steepest()
        if not low < steepest < top or self._slope(low) >= 0:
            return low
        return _zero(lambda bs: -self._slope(bs), low, steepest)


class Saturating(SeparateModel):
    """Fits one `Growth` per combination; see the module docstring."""

    name = "saturating"
    #: t0, r and b0; the decline needs one more and is then not considered.
    min_buffers = 3
    is_formula = True

    def curve(self, data: Data, *, with_errors: bool) -> Curve:
        """Fit one combination."""
        level = _search(data, decline=False)
        falling = _search(data, decline=True) if len(data.buffers) > self.min_buffers + 1 else None
        best = falling if falling is not None and _significant(data, level, falling) else level
        if not with_errors:
            return best.growth()
        scatter = best.scatter(data)
        covariance = None if scatter is None else best.covariance(data, scatter[0])
        return best.growth(covariance, math.nan if scatter is None else t_value(scatter[1]))


class _Found(NamedTuple):
    """Least squares at given b0 and h.

    Attributes
    ----------
    t0, r, d : coefficients; t0 and d are 0 where they were not estimated.
    columns : design without weights, shape (buffers, coefficients estimated).
    squares : squared residuals of all observations.
    """

    b0: float
    h: float
    t0: float
    r: float
    d: float
    columns: "Array"
    squares: float

    def growth(self, covariance: "Array | None" = None, t: float = math.nan) -> Growth:
        """Give the curve."""
        return Growth((self.t0, self.r, self.d), self.b0, self.h, covariance, t)

    def scatter(self, data: Data) -> tuple[float, int] | None:
        """Variance of an observation, (Mbit/s)^2, and its degrees of freedom; None where there are none.

        From all residuals, or only from those of the means if the curve significantly misses the means (runs
        at a buffer that the curve misses are all off by the same amount, and count once).
        """
        from scipy.special import fdtrc

        parameters = self.columns.shape[1] + 1
        of_means, of_runs = len(data.buffers) - parameters, data.n - len(data.buffers)
        missed = self.squares - data.squares
        if of_means > 0 and (of_runs < 1 or data.squares <= 0):
            return missed / of_means, of_means
        if of_means > 0 and fdtrc(of_means, of_runs, missed / of_means / (data.squares / of_runs)) <= MAX_P:
            return missed / of_means, of_means
        left = data.n - parameters
        return (self.squares / left, left) if left > 0 else None

    def covariance(self, data: Data, variance: float) -> "Array | None":
        """Covariance of the coefficients and log b0; None where the data do not determine them."""
        import numpy as np

        u = (np.array(data.buffers) / self.b0) ** self.h
        sensitivity = -self.r * self.h * u * np.exp(-u)
        jacobian = np.column_stack([self.columns, sensitivity])
        weighted = jacobian * np.sqrt(np.array(data.counts, dtype=float))[:, None]
        if np.linalg.matrix_rank(weighted) < weighted.shape[1]:
            return None
        covariance: Array = variance * np.linalg.inv(weighted.T @ weighted)
        return covariance


def _search(data: Data, *, decline: bool) -> _Found:
    """Best b0 and h: the best of the grid, its b0 then refined by parabolas through three points each."""
    import numpy as np

    thetas, with_t0, without, to_t0 = _grid(data.buffers, data.counts, decline)
    weighted = np.sqrt(np.array(data.counts, dtype=float)) * data.values
    explained = np.where(
        to_t0 @ weighted >= 0,
        ((with_t0.transpose(0, 2, 1) @ weighted) ** 2).sum(axis=1),
        ((without.transpose(0, 2, 1) @ weighted) ** 2).sum(axis=1),
    )
    b0, h = thetas[int(np.argmax(explained))]
    low, high = (math.log(end) for end in _range_of_b0(data.buffers, h))
    step = (high - low) / (_SCALES - 1)
    best = _solve(data, b0, h, decline=decline)
    for width in (step, step / 4, step / 16, step / 64):
        before, x = best.squares, math.log(best.b0)
        ends = max(x - width, low), min(x + width, high)
        left, right = (_solve(data, math.exp(end), h, decline=decline) for end in ends)
        vertex = _vertex((ends[0], x, ends[1]), (left.squares, before, right.squares))
        peak = [] if vertex is None else [_solve(data, math.exp(vertex), h, decline=decline)]
        best = min([best, left, right, *peak], key=lambda one: one.squares)
        # No gain: the minimum is found. Where t0 becomes 0 the squares have a kink, and it takes longer.
        if best.squares >= before * (1 - _GAIN):
            break
    return best


def _vertex(xs: tuple[float, float, float], ys: tuple[float, float, float]) -> float | None:
    """Lowest point of the parabola through three points, if it has one between them."""
    (a, b, c), (fa, fb, fc) = xs, ys
    left, right = (b - a) * (fb - fc), (b - c) * (fb - fa)
    if left == right:
        return None
    vertex = b - ((b - a) * left - (b - c) * right) / (2 * (left - right))
    return vertex if a < vertex < c else None


def _solve(data: Data, b0: float, h: float, *, decline: bool) -> _Found:
    """Least squares for t0, r (and d), with t0 not negative."""
    import numpy as np

    roots = np.sqrt(np.array(data.counts, dtype=float))

    def estimate(columns: "Array") -> list[float]:
        solution = np.linalg.lstsq(columns * roots[:, None], data.values * roots, rcond=None)[0]
        return [float(coefficient) for coefficient in solution]

    columns = _columns(data.buffers, b0, h, decline)
    coefficients = estimate(columns)
    if coefficients[0] < 0:
        columns = columns[:, 1:]
        coefficients = [0.0, *estimate(columns)]
    squares = data.residual_squares(columns @ coefficients[-columns.shape[1] :])
    t0, r, d = [*coefficients, 0.0][:3]
    return _Found(b0, h, t0, r, d, columns, squares)


@lru_cache(maxsize=256)
def _grid(
    buffers: tuple[float, ...], counts: tuple[int, ...], decline: bool
) -> "tuple[list[tuple[float, float]], Array, Array, Array]":
    """All (b0, h) of the search, each with the effect of its weighted design.

    Orthonormal bases with and without the intercept, and the row that gives t0 from the observations.
    """
    import numpy as np

    roots = np.sqrt(np.array(counts, dtype=float))[:, None]
    thetas = [(float(b0), h) for h in _SHAPES for b0 in np.geomspace(*_range_of_b0(buffers, h), _SCALES)]
    designs = [_columns(buffers, b0, h, decline) * roots for b0, h in thetas]
    with_t0 = np.array([np.linalg.qr(design)[0] for design in designs])
    without = np.array([np.linalg.qr(design[:, 1:])[0] for design in designs])
    to_t0 = np.array([np.linalg.pinv(design)[0] for design in designs])
    return thetas, with_t0, without, to_t0


def _columns(buffers: tuple[float, ...], b0: float, h: float, decline: bool) -> "Array":
    """Design: intercept, rise, and the decline if there is one."""
    import numpy as np

    bs = np.array(buffers)
    rise = -np.expm1(-((bs / b0) ** h))
    return np.column_stack([np.ones_like(bs), rise, *([-bs] if decline else [])])


def _range_of_b0(buffers: tuple[float, ...], h: float) -> tuple[float, float]:
    """Smallest and largest b0 that the buffers can determine."""
    return buffers[0] / _MOST ** (1 / h), buffers[-1] / _LEAST ** (1 / h)


def _significant(data: Data, level: _Found, falling: _Found) -> bool:
    """True if there is a decline that explains more than chance: partial F test over the means.

    Over the means, because otherwise a curve that misses a knee would find a decline significant that only
    bends it back towards the plateau.
    """
    from scipy.special import fdtrc

    left = len(data.buffers) - 5  # t0, r, d, b0 and h
    if left < 1 or falling.d <= 0 or falling.r <= 0:
        return False
    missed = falling.squares - data.squares
    if missed <= 0:
        return level.squares > falling.squares
    return bool(fdtrc(1, left, (level.squares - falling.squares) / (missed / left)) <= MAX_P)


def _zero(function: Callable[[float], float], left: float, right: float) -> float:
    """Downward zero crossing of a function between two points, by bisection; `right` if there is none."""
    if function(right) > 0:
        return right
    for _ in range(60):
        middle = (left + right) / 2
        if function(middle) > 0:
            left = middle
        else:
            right = middle
    return left
