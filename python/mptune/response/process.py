"""The throughput of all combinations over the buffer, as one Gaussian process.

The throughput, as a share of the largest observed, is a sum of curves over the logarithm of the buffer: of
the subflows (combinations with common subflows have similar ones) and of the congestion control, which does
alike on like subflows. None of them has to rise: throughput may collapse with a larger buffer. Each is a
constant plus a curve that bends over some octaves (Matern covariance with nu = 3/2; Rasmussen and Williams,
Gaussian Processes for Machine Learning, 2006, section 4.2.1). What the sum misses are jags: MPTCP's
throughput has them where buffers are short. A prediction, e.g. a simulator's, may stand for the mean.

How much the congestion control matters, how large the jags are and how good the prediction is, only the
observations decide on: these are hypotheses, weighted by the likelihood that each gives them.

Used by `mptune.response.belief`, and by the adaptive strategy for what is not measured yet.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from mptune.trial import Combination

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Indices = NDArray[np.int64]


class Arm(NamedTuple):
    """An arm: a combination, and the subflows that it uses.

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


# Sizes from simulated grids of random and published networks: with these they are likeliest.

#: Curves of the subflows.
SUBFLOWS = Part(0.15, 0.23, 3.0)

#: Curves of the congestion control on these subflows; on any, and of every arm by itself, these shares of it.
CONTROL = Part(0.05, 0.03, 5.0)
ANYWHERE, OWN = 0.6, 0.3

#: Correlation of a connection on several paths with one on a single path, as a share of what they share.
SINGLE = 0.5

#: Standard deviation of all curves of an arm together.
CURVES = math.sqrt(
    SUBFLOWS.level**2 + SUBFLOWS.bend**2 + (1 + ANYWHERE**2 + OWN**2) * (CONTROL.level**2 + CONTROL.bend**2)
)

#: Standard deviation of the jags, of MPTCP and of plain TCP.
ROUGHNESS, TCP_ROUGHNESS = 0.053, 0.005

#: Expected throughput before any observation.
MIDDLE = 0.5


class Hypothesis(NamedTuple):
    """Hyperparameters that observations decide on; factors of the standard deviations above.

    Attributes
    ----------
    control : of what congestion controls have to themselves.
    jags : of the jags.
    error : of all curves, where they are the error of a prediction; None where there is none to follow.
    """

    control: float
    jags: float
    error: float | None = None

    @property
    def curves(self) -> float:
        """Factor of all curves."""
        return 1.0 if self.error is None else self.error


_JAGS = (0.1, 0.3, 1.0, 2.0)
WITHOUT = tuple(Hypothesis(control, jags) for control in (0.3, 1.0, 3.0) for jags in _JAGS)

#: Factors of the curves where the error of a prediction is not known, and the least that is believed of one
#: that is: curves without any error could never be contradicted. Where it is known, the prediction may also
#: be the mean alone, and the curves as uncertain as without one: far off for some arms, it is still better
#: than nothing for the others.
UNKNOWN_ERRORS, LEAST_ERROR, MEAN_ALONE = (0.15, 0.5), 0.05, 1.0

#: Standard normal values within which a half and nine tenths are.
_HALF, _NINE_TENTHS = 0.6745, 1.6449


def with_prediction(within: tuple[float, float] | None = None) -> tuple[Hypothesis, ...]:
    """Hypotheses in which a prediction is the mean, and all curves its error.

    Heavy tails are a mixture of a narrow and a wide normal error: one with the half, one with nine tenths of
    the errors where they are; and one as wide as what is believed without a prediction.

    Parameters
    ----------
    within : shares of the throughput within which a half and nine tenths of its errors lie; None where they
        are not known.
    """
    errors: tuple[float, ...] = UNKNOWN_ERRORS
    if within is not None:
        sizes = within[0] / _HALF, within[1] / _NINE_TENTHS
        # More than a factor of 1 would be less than nothing known.
        errors = *(min(1.0, max(LEAST_ERROR, size / CURVES)) for size in sizes), MEAN_ALONE
    return tuple(Hypothesis(1.0, jags, error) for error in errors for jags in _JAGS)


#: Observations that hypotheses are judged by: those of the largest throughputs, which matter most.
_JUDGING = 150


class Points(NamedTuple):
    """Observed points: indices of arm and buffer, mean throughput as a share, and its variance."""

    arm: "Indices"
    size: "Indices"
    means: "Floats"
    variances: "Floats"

    def highest(self, count: int) -> "Points":
        """Those with the largest means."""
        import numpy as np

        if len(self.means) <= count:
            return self
        highest_ = np.sort(np.argsort(-np.round(self.means, 9), kind="stable")[:count])
        return Points(self.arm[highest_], self.size[highest_], self.means[highest_], self.variances[highest_])


class Fitted(NamedTuple):
    """Fit of the observations under a hypothesis.

    Attributes
    ----------
    mean : expected throughputs before any observation, shape (arms, buffers).
    within : covariance of the observations.
    noise : its part that is not the curves', per point.
    """

    hypothesis: Hypothesis
    mean: "Floats"
    within: "Floats"
    noise: "Floats"


class Process:
    """The belief before any observation, over a grid of arms and buffers.

    Parameters
    ----------
    arms, buffers : at least one of each; buffers ascending, in any unit.
    predicted : throughputs in any unit, shape (arms, buffers); None where nothing is.
    prior_error : as `within` of `with_prediction`.

    Attributes
    ----------
    shape : numbers of arms and of buffers.
    """

    def __init__(
        self,
        arms: Sequence[Arm],
        buffers: Sequence[float],
        predicted: "Floats | None" = None,
        prior_error: tuple[float, float] | None = None,
    ) -> None:
        import numpy as np

        octaves = np.log2(np.array(buffers, dtype=float))
        apart = np.abs(octaves[:, None] - octaves[None, :])
        self.shape = len(arms), len(buffers)
        alike, same = _alike(arms)
        self._subflows, self._control = alike, alike * same + ANYWHERE**2 * same
        self._own = OWN**2 * np.eye(len(arms))
        self._over = _covariance(SUBFLOWS, apart), _covariance(CONTROL, apart)
        self._jagged = np.array([TCP_ROUGHNESS if arm.combination.is_tcp else ROUGHNESS for arm in arms])
        self._predicted = predicted
        self._with = () if predicted is None else with_prediction(prior_error)
        self.hypotheses = WITHOUT + self._with

    def parts(self, hypothesis: Hypothesis) -> "list[tuple[Floats, Floats]]":
        """Covariance between arms and over the buffers, of every curve of the sum."""
        variance = hypothesis.curves**2
        control = hypothesis.control**2 * self._control + self._own
        return [(variance * self._subflows, self._over[0]), (variance * control, self._over[1])]

    def independent(self) -> "list[tuple[Floats, Floats]]":
        """Covariances that `combined` needs draws of."""
        return [
            (self._subflows, self._over[0]),
            (self._control, self._over[1]),
            (self._own, self._over[1]),
        ]

    def combined(self, draws: "Sequence[Floats]", hypothesis: Hypothesis) -> "Floats":
        """Draws of the sum of the curves, from such of `independent`."""
        subflows, control, own = draws
        return hypothesis.curves * (subflows + hypothesis.control * control + own)

    def weights(self, points: Points) -> "Floats":
        """Posterior probability of every hypothesis."""
        import numpy as np

        judging = points.highest(_JUDGING)
        likely = np.array([self._log_likelihood(judging, hypothesis) for hypothesis in self.hypotheses])
        # A prediction is as credible as none before anything was observed.
        before = np.array(
            [1 / len(WITHOUT if hypothesis.error is None else self._with) for hypothesis in self.hypotheses]
        )
        weights = np.exp(np.round(likely - likely.max(), 6)) * before
        shares: Floats = weights / weights.sum()
        return shares

    def likeliest(self, points: Points) -> Hypothesis:
        """The most credible hypothesis."""
        return self.hypotheses[int(self.weights(points).argmax())]

    def fit(self, points: Points, hypothesis: Hypothesis) -> Fitted:
        """Fit the observations under a hypothesis."""
        import numpy as np

        mean: Floats = np.full(self.shape, MIDDLE)
        if hypothesis.error is not None and self._predicted is not None:
            mean = self._predicted * self._level(points)
        within = self.covariance(points.arm, points.size, points.arm, points.size, hypothesis)
        noise = points.variances + self.jags(points.means, points.arm, hypothesis) ** 2
        return Fitted(hypothesis, mean, within + np.diag(noise), noise)

    def covariance(
        self, arm: "Indices", size: "Indices", arm2: "Indices", size2: "Indices", hypothesis: Hypothesis
    ) -> "Floats":
        """Of the curves between two lists of points."""
        import numpy as np

        total: Floats = np.zeros((len(arm), len(arm2)))
        for similar, over_sizes in self.parts(hypothesis):
            total += similar[np.ix_(arm, arm2)] * over_sizes[np.ix_(size, size2)]
        return total

    def pulled(self, points: Points, weights: "Floats", hypothesis: Hypothesis) -> "Floats":
        """Change of the curves by weights of the points; shape (columns of weights, arms, buffers)."""
        import numpy as np

        # By arms that were observed and all buffers, without the matrix of all with all.
        arms, place = np.unique(points.arm, return_inverse=True)
        columns, sizes = weights.shape[1], self.shape[1]
        grid = np.zeros((len(arms), sizes, columns))
        grid[place, points.size] = weights
        change: Floats = np.zeros((self.shape[0], sizes * columns))
        for similar, over_sizes in self.parts(hypothesis):
            change += similar[:, arms] @ (over_sizes @ grid).reshape(len(arms), sizes * columns)
        return np.moveaxis(change.reshape(*self.shape, columns), 2, 0)

    def jags(self, levels: "Floats", arms: "Indices", hypothesis: Hypothesis) -> "Floats":
        """Standard deviation of the jags at these throughputs: less near the top."""
        import numpy as np

        rough: Floats = hypothesis.jags * self._jagged[arms] * np.clip(2 * (1 - levels), 0.2, 1.0)
        return rough

    def _level(self, points: Points) -> float:
        """Factor to multiply a prediction with."""
        assert self._predicted is not None
        there = self._predicted[points.arm, points.size]
        squares = float(there @ there)
        return (
            float(there @ points.means) / squares if squares else 1 / max(float(self._predicted.max()), 1e-9)
        )

    def _log_likelihood(self, points: Points, hypothesis: Hypothesis) -> float:
        """Of the observations, but for a constant."""
        import numpy as np

        fitted = self.fit(points, hypothesis)
        apart = points.means - fitted.mean[points.arm, points.size]
        # The last row of the root of the matrix with a further row is that row over the root of the rest: no
        # system of equations, for which BLAS starts threads that cost more than they bring. The corner only
        # has to be more than the square of what is wanted, which the noise alone bounds.
        corner = 1 + float((apart**2 / fitted.noise).sum())
        bordered = np.block([[fitted.within, apart[:, None]], [apart[None, :], np.array([[corner]])]])
        root = np.linalg.cholesky(bordered)
        white = root[-1, :-1]
        return float(-white @ white / 2 - np.log(np.diag(root)[:-1]).sum())


def _covariance(part: Part, apart: "Floats") -> "Floats":
    """Of one curve between two buffers that are this many octaves apart."""
    import numpy as np

    scaled = np.sqrt(3.0) * apart / part.octaves
    covariance: Floats = part.level**2 + part.bend**2 * (1 + scaled) * np.exp(-scaled)
    return covariance


def _alike(arms: Sequence[Arm]) -> "tuple[Floats, Floats]":
    """Share of subflows that two arms have in common, 0 to 1, and whether they have the same control."""
    import numpy as np

    count = len(arms)
    sets = [arm.active or frozenset([arm.combination.manager]) for arm in arms]
    same, alike = np.zeros((count, count)), np.zeros((count, count))
    for i, arm in enumerate(arms):
        for j, other in enumerate(arms):
            same[i, j] = arm.combination.cc == other.combination.cc
            # Jaccard's index, which is a covariance (Gower 1971). On one path MPTCP does as plain TCP.
            kind = 1.0 if (len(sets[i]) == 1) == (len(sets[j]) == 1) else SINGLE
            alike[i, j] = kind * len(sets[i] & sets[j]) / len(sets[i] | sets[j])
    return alike, same
