"""Models that fit each combination independently of the others.

They share the splitting of observations into combinations, and the quality of all curves of a path manager
together. A model adds how one curve follows from one combination.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from mptune.errors import MptuneError
from mptune.response._base import (
    Curve,
    FitQuality,
    Mean,
    Response,
    Sample,
    acceptance_warnings,
    means,
    r_squared,
)
from mptune.trial import Combination

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


class Data(NamedTuple):
    """One combination: its configurations by ascending buffer.

    Attributes
    ----------
    buffers, values : MiB and mean throughput, Mbit/s.
    counts : runs of each configuration.
    squares : squared deviations within all configurations together, (Mbit/s)^2.
    """

    buffers: tuple[float, ...]
    values: "Array"
    counts: tuple[int, ...]
    squares: float

    @property
    def n(self) -> int:
        """Number of observations."""
        return sum(self.counts)

    def residual_squares(self, fitted: "Array") -> float:
        """Squared residuals of all observations from a curve's values at the buffers."""
        import numpy as np

        return float(np.array(self.counts) @ (self.values - fitted) ** 2) + self.squares


class SeparateModel(ABC):
    """A model whose curves are independent of one another."""

    name: str
    min_buffers: int
    is_formula = False

    @abstractmethod
    def curve(self, data: Data, *, with_errors: bool) -> Curve:
        """Fit one combination; with intervals only where they are wanted."""

    def curves(self, configurations: Sequence[Mean]) -> dict[Combination, Curve]:
        """Curve of every combination, without intervals.

        Raises
        ------
        MptuneError : a combination has too few buffer sizes.
        """
        return self._curves(configurations, with_errors=False)

    def fit(self, samples: Sequence[Sample]) -> Response:
        """Fit every combination by itself.

        Raises
        ------
        MptuneError : a combination has too few buffer sizes.
        """
        configurations = means(samples)
        curves = self._curves(configurations, with_errors=True)
        squares = dict.fromkeys((s.combination.pm for s in samples), 0.0)
        for configuration in configurations:
            residual = configuration.value - curves[configuration.combination].predict(
                configuration.buffer_mib
            )
            squares[configuration.combination.pm] += configuration.n * residual**2 + configuration.squares
        observed = {pm: [s.value for s in samples if s.combination.pm == pm] for pm in squares}
        qualities = tuple(
            FitQuality(pm=pm, r_squared=r_squared(squares[pm], ys), p_values={}, n=len(ys))
            for pm, ys in observed.items()
        )
        return Response(
            model=self.name,
            curves=curves,
            qualities=qualities,
            r_squared=r_squared(math.fsum(squares.values()), [s.value for s in samples]),
            warnings=tuple(text for quality in qualities for text in acceptance_warnings(quality)),
        )

    def _curves(self, configurations: Sequence[Mean], *, with_errors: bool) -> dict[Combination, Curve]:
        grouped: dict[Combination, list[Mean]] = {}
        for configuration in configurations:
            grouped.setdefault(configuration.combination, []).append(configuration)
        return {
            combination: self.curve(self._data(combination, ones), with_errors=with_errors)
            for combination, ones in grouped.items()
        }

    def _data(self, combination: Combination, configurations: Sequence[Mean]) -> Data:
        import numpy as np

        if len(configurations) < self.min_buffers:
            raise MptuneError(
                f"{combination.manager}, {combination.cc}: {len(configurations)} buffer sizes with usable "
                f"observations do not determine the {self.name} model; it needs {self.min_buffers}"
            )
        ordered = sorted(configurations, key=lambda mean: mean.buffer_mib)
        return Data(
            buffers=tuple(mean.buffer_mib for mean in ordered),
            values=np.array([point.value for point in ordered]),
            counts=tuple(mean.n for mean in ordered),
            squares=math.fsum(mean.squares for mean in ordered),
        )
