"""A curve that is the mean of everything: a toy that shows what adding a response model takes.

It assumes that the buffer does not matter. The interval is that of the mean.
"""

from mptune.response._base import Curve, t_value
from mptune.response._polyline import Polyline
from mptune.response._separate import Data, SeparateModel


class Constant(SeparateModel):
    """Fits one level `Polyline` per combination; see the module docstring."""

    name = "constant"
    #: As for every model: one size cannot say that sizes do not matter.
    min_buffers = 2

    def curve(self, data: Data, *, with_errors: bool) -> Curve:
        """Fit one combination."""
        import numpy as np

        mean = float(np.average(data.values, weights=data.counts))
        size, left = len(data.buffers), data.n - 1
        text = f"tp = {mean:.4g}"
        if not with_errors or left < 1:
            return Polyline(data.buffers, [mean] * size, text)
        variance = data.residual_squares(np.full(size, mean)) / left / data.n
        return Polyline(data.buffers, [mean] * size, text, [[variance] * size] * size, t_value(left))
