"""What is believed about the throughput of every arm with every buffer: a Gaussian process, by draws.

The throughput, as a share of the largest observed, is a sum of curves over the logarithm of the buffer: one
of the subflows (arms with common subflows have similar ones), one of the congestion control, and one of each
arm. None of them has to rise: throughput may collapse with a larger buffer. Each is a constant plus a curve
that bends over some octaves (Matern covariance with nu = 3/2; Rasmussen and Williams, Gaussian Processes for
Machine Learning, 2006, section 4.2.1).

A belief is a number of draws of all curves together, which agree with what was observed as far as its noise
allows (Matheron's rule; Wilson et al., Efficiently Sampling Functions from Gaussian Process Posteriors, ICML
2020). With draws every question is answered by counting, also those about the best of many.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mptune.strategy._base import Arm

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

#: Draws of a belief.
DRAWS = 256

#: Standard deviation of what the sum of curves misses, of MPTCP and of plain TCP: what one buffer does not
#: tell about its neighbours. MPTCP's throughput is jagged where buffers are short.
ROUGHNESS, TCP_ROUGHNESS = 0.05, 0.005

#: They are multiplied by the one of these with which the observations are likeliest.
SCALES = (0.1, 0.3, 1.0, 2.0)

#: Expected throughput before any observation.
_MIDDLE = 0.5


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


class Curves:
    """The belief before any observation, and after some.

    Parameters
    ----------
    arms, buffers : as in `mptune.strategy.Question`; at least one of each.
    """

    def __init__(self, arms: Sequence[Arm], buffers: Sequence[int], seed: int) -> None:
        octaves = np.log2(np.array(buffers, dtype=float))
        apart = np.abs(octaves[:, None] - octaves[None, :])
        alike = _alike(arms)
        self.shape = len(arms), len(buffers)
        self._jagged = np.array([TCP_ROUGHNESS if one.combination.is_tcp else ROUGHNESS for one in arms])
        self._parts = [(similar, _covariance(part, apart)) for similar, part in alike]
        random = np.random.default_rng(seed)
        self._prior = np.full((DRAWS, *self.shape), _MIDDLE)
        for similar, covariance in self._parts:
            white = random.standard_normal((DRAWS, *self.shape))
            self._prior += np.einsum(
                "ij,djk,lk->dil", _root(similar), white, _root(covariance), optimize=True
            )
        self._errors = random.standard_normal((DRAWS, *self.shape))
        self._jags = random.standard_normal((DRAWS, *self.shape))

    def draws(self, arm: Indices, size: Indices, means: Floats, variances: Floats) -> Floats:
        """Draws of the throughput, shape (draws, arms, buffers).

        Parameters
        ----------
        arm, size, means, variances : of every point that was observed: its indices, its mean throughput, and
            the variance of that.
        """
        between = self._between(arm, size, arm, size)
        rough = self._rough(means, arm)
        likely = [
            (_log_likelihood(between + np.diag(variances + (scale * rough) ** 2), means - _MIDDLE), scale)
            for scale in SCALES
        ]
        scale = max(likely)[1]
        noise = variances + (scale * rough) ** 2
        errors = self._errors[:, arm, size] * np.sqrt(noise)
        missing = means - self._prior[:, arm, size] - errors
        weights = np.linalg.solve(between + np.diag(noise), missing.T)
        drawn = self._prior.copy()
        for similar, covariance in self._parts:
            # (arms x points) * (points x draws) for each buffer, without the matrix of all with all.
            spread = covariance[:, size][:, :, None] * weights[None, :, :]
            drawn += np.einsum("ap,bpd->dab", similar[:, arm], spread, optimize=True)
        # The jags: where it was measured, what the curves miss of that; elsewhere anything.
        levels = drawn.mean(axis=0)
        levels[arm, size] = means
        jagged = scale * self._rough(levels, np.arange(len(levels))[:, None])
        jags = jagged * self._jags
        known = jagged[arm, size] ** 2 / (jagged[arm, size] ** 2 + variances)
        left = np.sqrt(known * variances) * self._jags[:, arm, size]
        jags[:, arm, size] = known * (means - drawn[:, arm, size]) + left
        return drawn + jags

    def _rough(self, levels: Floats, arms: Indices) -> Floats:
        """Standard deviation of the jags at these throughputs: there are fewer near the top."""
        rough: Floats = self._jagged[arms] * np.clip(2 * (1 - levels), 0.2, 1.0)
        return rough

    def _between(self, arm: Indices, size: Indices, arm2: Indices, size2: Indices) -> Floats:
        pairs = (
            similar[np.ix_(arm, arm2)] * covariance[np.ix_(size, size2)]
            for similar, covariance in self._parts
        )
        total: Floats = sum(pairs, np.zeros((len(arm), len(arm2))))
        return total


def _log_likelihood(covariance: Floats, values: Floats) -> float:
    """Of normal values with mean 0, but for a constant, rounded so that equals are equal on every machine."""
    root = np.linalg.cholesky(covariance)
    white = np.linalg.solve(root, values)
    return round(float(-white @ white / 2 - np.log(np.diag(root)).sum()), 6)


def _covariance(part: Part, apart: Floats) -> Floats:
    """Of one curve between two buffers that are this many octaves apart."""
    scaled = np.sqrt(3.0) * apart / part.octaves
    covariance: Floats = part.level**2 + part.bend**2 * (1 + scaled) * np.exp(-scaled)
    return covariance


def _alike(arms: Sequence[Arm]) -> list[tuple[Floats, Part]]:
    """How much of each curve two arms have in common, 0 to 1."""
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


def _root(covariance: Floats) -> Floats:
    """Lower triangular root; duplicates make a covariance singular, hence a little on its diagonal."""
    slight = 1e-9 * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    root: Floats = np.linalg.cholesky(covariance + slight)
    return root
