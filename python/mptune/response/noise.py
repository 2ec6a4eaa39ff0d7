"""Scatter of the runs of one configuration, learned from all that have several.

Near its plateau a connection repeats itself within a percent; where it collapses now and then, runs differ by
a factor. So configurations share what they know about their scatter with those of a like throughput, and an
arm with its neighbours in the buffer.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: Standard deviation between runs before any was seen, as a share of the largest throughput, and how many
#: observations that weighs.
FIRST, FIRST_WEIGHT = 0.03, 2.0

#: Throughputs that differ by this share of the largest have little in common, nor have buffers of one arm so
#: many octaves apart.
_NEAR, _OCTAVES = 0.15, 1.0

#: Weight of the same arm, relative to another one of a similar throughput.
_OWN_ARM = 3.0

#: Weight of the others' scatter against a configuration's own, in observations.
_OTHERS_WEIGHT = 3.0


#: Configurations that others learn from, at most.
_INFORMANTS = 150


class Noise:
    """The scatter of observed configurations, and what it leads to expect of all.

    Parameters
    ----------
    squares, freedom : of every configuration, shape (arms, buffers): sum of squares of the deviations from
        the mean, and how many runs there are beyond the first; 0 for those that were not observed.
    levels : throughputs, as shares of the largest, the same shape.
    octaves : logarithms of the buffers.

    Attributes
    ----------
    between : variance between runs, the same shape.
    """

    def __init__(self, squares: "Floats", freedom: "Floats", levels: "Floats", octaves: "Floats") -> None:
        import numpy as np

        arms, sizes = np.nonzero(freedom)
        # Of many the fastest: time and memory stay bounded.
        highest = np.argsort(-np.round(levels[arms, sizes], 9), kind="stable")[:_INFORMANTS]
        arms, sizes = arms[np.sort(highest)], sizes[np.sort(highest)]
        near = np.exp(-(((octaves[:, None] - octaves[sizes]) / _OCTAVES) ** 2) / 2)
        alike = np.exp(-(((levels[:, :, None] - levels[arms, sizes]) / _NEAR) ** 2) / 2)
        same = np.arange(len(levels))[:, None, None] == arms
        weight = alike + _OWN_ARM * same * near
        own = np.zeros_like(weight)
        # What a configuration knows itself comes last, with a weight of its own.
        own[arms, sizes, np.arange(len(arms))] = 1.0
        weight = np.where(own > 0, 0.0, weight)
        expected = (FIRST_WEIGHT * FIRST**2 + weight @ squares[arms, sizes]) / (
            FIRST_WEIGHT + weight @ freedom[arms, sizes]
        )
        self.between = (_OTHERS_WEIGHT * expected + squares) / (_OTHERS_WEIGHT + freedom)
