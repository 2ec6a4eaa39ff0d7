"""A curve through values at the measured buffers, joined by straight lines.

Used by models without a formula. The lines are straight because a smoother interpolation overshoots at a knee
and would promise throughput that nothing measured. The curve is level beyond the ends.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence

from mptune.response._base import Curve


class Polyline(Curve):
    """Values at knots, with the covariance of those values.

    Parameters
    ----------
    knots : buffers, MiB, ascending.
    values : throughput at each, Mbit/s.
    description : the text of `formula`.
    covariance : of the values, row by row, (Mbit/s)^2; None where the fit leaves no degree of freedom.
    t_value : two-sided quantile of Student's t that goes with it.
    """

    def __init__(
        self,
        knots: Sequence[float],
        values: Sequence[float],
        description: str,
        covariance: Sequence[Sequence[float]] | None = None,
        t_value: float = math.nan,
    ) -> None:
        self.knots, self.values = list(knots), list(values)
        self._description = description
        self._covariance, self._t_value = covariance, t_value

    def predict(self, buffer_mib: float) -> float:
        """Mean throughput, Mbit/s."""
        i, share = self._place(buffer_mib)
        left, right = self.values[i], self.values[min(i + 1, len(self.values) - 1)]
        return left + share * (right - left)

    def interval(self, buffer_mib: float) -> tuple[float, float] | None:
        """95 % interval of the mean, Mbit/s."""
        if self._covariance is None:
            return None
        i, share = self._place(buffer_mib)
        j = min(i + 1, len(self.values) - 1)
        c = self._covariance
        variance = (1 - share) ** 2 * c[i][i] + share**2 * c[j][j] + 2 * share * (1 - share) * c[i][j]
        half = self._t_value * math.sqrt(max(variance, 0.0))
        mean = self.predict(buffer_mib)
        return mean - half, mean + half

    def formula(self) -> str:
        """Return what the curve is, as there is no formula."""
        return self._description

    def maximum(self, low: float, high: float) -> tuple[float, float]:
        """Highest knot or end within [low, high]; the smallest buffer of equal ones."""
        return max(self._corners(low, high), key=lambda point: (point[1], -point[0]))

    def smallest_buffer(self, throughput: float, low: float, high: float) -> float | None:
        """Smallest buffer in [low, high] that reaches a throughput, MiB; None if there is none."""
        previous: tuple[float, float] | None = None
        for buffer, value in self._corners(low, high):
            if value >= throughput:
                if previous is None:
                    return buffer
                share = (throughput - previous[1]) / (value - previous[1])
                return min(previous[0] + share * (buffer - previous[0]), buffer)
            previous = buffer, value
        return None

    def _place(self, buffer_mib: float) -> tuple[int, float]:
        """Index of the knot to the left, and the share of the way to the next."""
        if buffer_mib <= self.knots[0]:
            return 0, 0.0
        if buffer_mib >= self.knots[-1]:
            return len(self.knots) - 1, 0.0
        right = bisect_left(self.knots, buffer_mib)
        left, width = self.knots[right - 1], self.knots[right] - self.knots[right - 1]
        return right - 1, (buffer_mib - left) / width

    def _corners(self, low: float, high: float) -> list[tuple[float, float]]:
        """Ends of the range and the knots between them, ascending."""
        inner = [(b, v) for b, v in zip(self.knots, self.values, strict=True) if low < b < high]
        return [(low, self.predict(low)), *inner, (high, self.predict(high))]
