"""The throughput of all combinations over the buffer, as one Gaussian process.

The throughput, as a share of the largest observed, is a sum of curves over the logarithm of the buffer: one
of the subflows (combinations with common subflows have similar ones), one of the congestion control, and one
of each combination. None of them has to rise: throughput may collapse with a larger buffer. Each is a
constant plus a curve that bends over some octaves (Matern covariance with nu = 3/2; Rasmussen and Williams,
Gaussian Processes for Machine Learning, 2006, section 4.2.1). What the sum misses are jags: MPTCP's
throughput has them where buffers are short. How large they are is learned.

Used by `mptune.response.belief`, and by the adaptive strategy for what is not measured yet.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from mptune.response._base import Combination

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Indices = NDArray[np.int64]


class Arm(NamedTuple):
    """What is compared: a combination, and the subflows that it uses.

    Attributes
    ----------
    active : labels of the paths that carry data; arms with common ones are expected to behave alike. Empty
        where they are not known.
    """

    combination: Combination
    active: frozenset[str] = frozenset()


class Part(NamedTuple):
    """One curve of the sum.

    Attributes
    ----------
    level : standard deviation of its constant, as a share of the largest throughput.
    bend : standard deviation of what changes with the buffer.
    octaves : over which it bends.
    """

    level: float
    bend: float
    octaves: float


#: Per set of subflows; per congestion control; per arm.
SUBFLOWS = Part(0.1, 0.25, 2.5)
CONTROL = Part(0.03, 0.03, 4.0)
OWN = Part(0.06, 0.03, 3.0)

#: Standard deviation of the jags, of MPTCP and of plain TCP.
ROUGHNESS, TCP_ROUGHNESS = 0.05, 0.005

#: They are multiplied by the one of these with which the observations are likeliest.
SCALES = (0.1, 0.3, 1.0, 2.0)

#: Expected throughput before any observation.
MIDDLE = 0.5


class Points(NamedTuple):
    """What was observed: indices of arm and buffer, mean throughput as a share, and the variance of that."""

    arm: "Indices"
    size: "Indices"
    means: "Floats"
    variances: "Floats"


class Fitted(NamedTuple):
    """What the observations say about the process.

    Attributes
    ----------
    within : covariance of the observations.
    noise : its part that is not the curves', per point.
    scale : of the jags.
    """

    within: "Floats"
    noise: "Floats"
    scale: float


class Process:
    """The belief before any observation, over a grid of arms and buffers.

    Parameters
    ----------
    arms, buffers : at least one of each; buffers ascending, in any unit.

    Attributes
    ----------
    shape : numbers of arms and of buffers.
    parts : likeness of the arms and covariance over the buffers, of every curve of the sum.
    """

    def __init__(self, arms: Sequence[Arm], buffers: Sequence[float]) -> None:
        import numpy as np

        octaves = np.log2(np.array(buffers, dtype=float))
        apart = np.abs(octaves[:, None] - octaves[None, :])
        self.shape = len(arms), len(buffers)
        self.parts = [(similar, _covariance(part, apart)) for similar, part in _alike(arms)]
        self._jagged = np.array([TCP_ROUGHNESS if one.combination.is_tcp else ROUGHNESS for one in arms])

    def fit(self, points: Points) -> Fitted:
        """Learn how large the jags are."""
        import numpy as np

        between = self.covariance(points.arm, points.size, points.arm, points.size)
        rough = self.jags(points.means, points.arm)

        def at(scale: float) -> Fitted:
            noise = points.variances + (scale * rough) ** 2
            return Fitted(between + np.diag(noise), noise, scale)

        values = points.means - MIDDLE
        return max(map(at, SCALES), key=lambda one: _log_likelihood(one.within, values))

    def covariance(self, arm: "Indices", size: "Indices", arm2: "Indices", size2: "Indices") -> "Floats":
        """Of the curves between two lists of points."""
        import numpy as np

        total: Floats = np.zeros((len(arm), len(arm2)))
        for similar, over_sizes in self.parts:
            total += similar[np.ix_(arm, arm2)] * over_sizes[np.ix_(size, size2)]
        return total

    def pulled(self, points: Points, weights: "Floats") -> "Floats":
        """How weights of the points move the curves; shape (columns of weights, arms, buffers)."""
        import numpy as np

        change: Floats = np.zeros((weights.shape[1], *self.shape))
        for similar, over_sizes in self.parts:
            # (arms x points) * (points x columns) for each buffer, without the matrix of all with all.
            spread = over_sizes[:, points.size][:, :, None] * weights[None, :, :]
            change += np.einsum("ap,bpd->dab", similar[:, points.arm], spread, optimize=True)
        return change

    def jags(self, levels: "Floats", arms: "Indices") -> "Floats":
        """Standard deviation of the jags at these throughputs, before scaling: less near the top."""
        import numpy as np

        rough: Floats = self._jagged[arms] * np.clip(2 * (1 - levels), 0.2, 1.0)
        return rough


def _log_likelihood(covariance: "Floats", values: "Floats") -> float:
    """Of normal values with mean 0, but for a constant, rounded so that equals are equal on every machine."""
    import numpy as np

    root = np.linalg.cholesky(covariance)
    white = np.linalg.solve(root, values)
    return round(float(-white @ white / 2 - np.log(np.diag(root)).sum()), 6)


def _covariance(part: Part, apart: "Floats") -> "Floats":
    """Of one curve between two buffers that are this many octaves apart."""
    import numpy as np

    scaled = np.sqrt(3.0) * apart / part.octaves
    covariance: Floats = part.level**2 + part.bend**2 * (1 + scaled) * np.exp(-scaled)
    return covariance


def _alike(arms: Sequence[Arm]) -> "list[tuple[Floats, Part]]":
    """How much of each curve two arms have in common, 0 to 1."""
    import numpy as np

    count = len(arms)
    sets = [one.active or frozenset([one.combination.manager]) for one in arms]
    tcp = [one.combination.is_tcp for one in arms]
    control, subflows = np.zeros((count, count)), np.zeros((count, count))
    for i, one in enumerate(arms):
        for j, other in enumerate(arms):
            control[i, j] = one.combination.cc == other.combination.cc
            # Jaccard's index, which is a covariance (Gower 1971); plain TCP has other curves on its path.
            shared = len(sets[i] & sets[j]) / len(sets[i] | sets[j])
            subflows[i, j] = shared if tcp[i] == tcp[j] else 0.5 * shared
    return [(subflows, SUBFLOWS), (control, CONTROL), (np.eye(count), OWN)]
