"""A curve that follows the observations without a formula, as smoothly as they allow.

The values of a natural cubic smoothing spline (Green and Silverman, 1994, chapter 2) at the measured
buffers, with a straight line between them. Its roughness is measured over the logarithm of the buffer:
throughput changes fast at small buffers and hardly at large ones. Generalised cross-validation (Craven and
Wahba, 1979) over all observations decides the smoothness of each combination, so the scatter between runs
separates noise from shape.

It assumes nothing, so it also follows a dip or a decline; it needs as many buffer sizes as the shape has
turns. Its interval is Nychka's (1988), correct on average over the buffers and too narrow at a sharp knee.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from mptune.response._base import Curve, t_value
from mptune.response._polyline import Polyline
from mptune.response._separate import Data, SeparateModel

if TYPE_CHECKING:
    from mptune.response._separate import Array

#: Steps of the search for the smoothness, from "through every mean" to "a straight line in log buffer".
_STEPS = 80

#: With fewer degrees of freedom than this the scatter is unknown.
_MIN_DEGREES = 0.5


class _Basis(NamedTuple):
    """Smoother of one grid, in the directions in which it multiplies by a factor.

    Attributes
    ----------
    vectors : orthonormal columns.
    roots : square root of the number of runs at each buffer.
    shrinkage : factor of each direction, shape (_STEPS, buffers); a row per smoothness.
    """

    vectors: "Array"
    roots: "Array"
    shrinkage: "Array"


class Smooth(SeparateModel):
    """Fits one smoothing `Polyline` per combination; see the module docstring."""

    name = "smooth"
    #: Two ends; with only these it is the straight line.
    min_buffers = 2

    def curve(self, data: Data, *, with_errors: bool) -> Curve:
        """Fit one combination."""
        import numpy as np

        basis = _basis(data.buffers, data.counts)
        z = basis.vectors.T @ (basis.roots * data.values)
        squares = ((1 - basis.shrinkage) ** 2) @ z**2 + data.squares
        effective = basis.shrinkage.sum(axis=1)
        left = data.n - effective
        with np.errstate(divide="ignore", invalid="ignore"):
            scores = np.where(left > _MIN_DEGREES, squares / left**2, np.inf)
        best = int(np.argmin(scores)) if np.isfinite(scores).any() else len(scores) - 1
        shrinkage = basis.shrinkage[best]
        values = (basis.vectors @ (shrinkage * z)) / basis.roots
        text = f"smooth, {effective[best]:.1f} degrees of freedom"
        if not with_errors or left[best] <= _MIN_DEGREES:
            return Polyline(data.buffers, values.tolist(), text)
        directions = basis.vectors / basis.roots[:, None]
        covariance = squares[best] / left[best] * (directions * shrinkage) @ directions.T
        return Polyline(data.buffers, values.tolist(), text, covariance.tolist(), t_value(float(left[best])))


@lru_cache(maxsize=256)
def _basis(buffers: tuple[float, ...], counts: tuple[int, ...]) -> _Basis:
    """Decompose the smoother of a grid (Demmler and Reinsch, 1975)."""
    import numpy as np

    roots = np.sqrt(np.array(counts, dtype=float))
    roughness = _roughness(np.log(np.array(buffers))) / np.outer(roots, roots)
    penalties, vectors = np.linalg.eigh(roughness)
    # A straight line has no roughness, except for rounding; smoothing acts on the others.
    penalties[: min(2, len(buffers))] = 0.0
    rough = penalties[2:] if len(buffers) > 2 else np.ones(1)
    weights = np.geomspace(1e-4 / rough[-1], 1e4 / rough[0], _STEPS)
    return _Basis(vectors, roots, 1 / (1 + np.outer(weights, penalties)))


def _roughness(x: "Array") -> "Array":
    """Matrix K with f K f the integrated squared second derivative of the natural cubic spline through f."""
    import numpy as np

    gaps = np.diff(x)
    inner = len(x) - 2
    if inner < 1:
        return np.zeros((len(x), len(x)))
    q, r = np.zeros((len(x), inner)), np.zeros((inner, inner))
    for j in range(inner):
        q[j : j + 3, j] = 1 / gaps[j], -1 / gaps[j] - 1 / gaps[j + 1], 1 / gaps[j + 1]
        r[j, j] = (gaps[j] + gaps[j + 1]) / 3
        if j + 1 < inner:
            r[j, j + 1] = r[j + 1, j] = gaps[j + 1] / 6
    roughness: Array = q @ np.linalg.solve(r, q.T)
    return roughness
