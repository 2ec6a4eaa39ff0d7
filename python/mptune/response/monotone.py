"""A curve that never falls: it assumes only that more buffer gives no less throughput.

Isotonic regression (Barlow et al., 1972) by pooling adjacent violators: buffers at which the means fall
are merged until they do not, with a straight line between the measured buffers. Where throughput levels off
the curve does too, whatever the noise. It cannot follow a declining throughput, and its interval ignores that
the data chose the merging.
"""

import math

from mptune.response._base import Curve, t_value
from mptune.response._polyline import Polyline
from mptune.response._separate import Data, SeparateModel


class Monotone(SeparateModel):
    """Fits one non-decreasing `Polyline` per combination; see the module docstring."""

    name = "monotone"
    #: Two ends.
    min_buffers = 2

    def curve(self, data: Data, *, with_errors: bool) -> Curve:
        """Fit one combination."""
        import numpy as np

        blocks = _pooled(data.values.tolist(), data.counts)
        values = [value for value, _, size in blocks for _ in range(size)]
        text = f"never falling, {len(blocks)} levels"
        left = data.n - len(blocks)
        if not with_errors or left < 1:
            return Polyline(data.buffers, values, text)
        scatter = data.residual_squares(np.array(values)) / left
        block_of = [index for index, (_, _, size) in enumerate(blocks) for _ in range(size)]
        covariance = [[scatter / blocks[i][1] if i == j else 0.0 for j in block_of] for i in block_of]
        return Polyline(data.buffers, values, text, covariance, t_value(left))


def _pooled(values: list[float], counts: tuple[int, ...]) -> list[tuple[float, int, int]]:
    """Blocks of equal value, ascending: value, observations, buffers."""
    blocks: list[tuple[float, int, int]] = []
    for mean, n in zip(values, counts, strict=True):
        value, weight, size = mean, n, 1
        while blocks and blocks[-1][0] >= value:
            before, more, wider = blocks.pop()
            value = math.fsum((before * more, value * weight)) / (more + weight)
            weight, size = weight + more, size + wider
        blocks.append((value, weight, size))
    return blocks
