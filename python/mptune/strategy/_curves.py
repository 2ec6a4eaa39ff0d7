"""What is believed about the throughput of every arm with every buffer, by draws.

A belief is a number of draws of all curves of `mptune.response.Process` together, which agree with what was
observed as far as its noise allows (Matheron's rule; Wilson et al., Efficiently Sampling Functions from
Gaussian Process Posteriors, ICML 2020). With draws every question is answered by counting, also those about
the best of many.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mptune.response import Arm, Points, Process
from mptune.response.process import MIDDLE

Floats = NDArray[np.float64]

#: Draws of a belief.
DRAWS = 256


class Curves:
    """The belief before any observation, and after some.

    Parameters
    ----------
    arms, buffers : as in `mptune.strategy.Question`; at least one of each.
    """

    def __init__(self, arms: Sequence[Arm], buffers: Sequence[int], seed: int) -> None:
        self._process = Process(arms, buffers)
        self.shape = self._process.shape
        random = np.random.default_rng(seed)
        self._prior = np.full((DRAWS, *self.shape), MIDDLE)
        for similar, covariance in self._process.parts:
            white = random.standard_normal((DRAWS, *self.shape))
            roots = _root(similar), _root(covariance)
            self._prior += np.einsum("ij,djk,lk->dil", roots[0], white, roots[1], optimize=True)
        self._errors = random.standard_normal((DRAWS, *self.shape))
        self._jags = random.standard_normal((DRAWS, *self.shape))

    def draws(self, points: Points) -> Floats:
        """Draws of the throughput, as shares, shape (draws, arms, buffers)."""
        process, at = self._process, (slice(None), points.arm, points.size)
        fitted = process.fit(points)
        missing = points.means - self._prior[at] - self._errors[at] * np.sqrt(fitted.noise)
        drawn = self._prior + process.pulled(points, np.linalg.solve(fitted.within, missing.T))
        # The jags: where it was measured, what the curves miss of that; elsewhere anything.
        levels = drawn.mean(axis=0)
        levels[points.arm, points.size] = points.means
        jagged = fitted.scale * process.jags(levels, np.arange(len(levels))[:, None])
        known = jagged[points.arm, points.size] ** 2 / fitted.noise
        jags = jagged * self._jags
        left = np.sqrt(known * points.variances) * self._jags[at]
        jags[at] = known * (points.means - drawn[at]) + left
        return drawn + jags


def _root(covariance: Floats) -> Floats:
    """Lower triangular root; duplicates make a covariance singular, hence a little on its diagonal."""
    slight = 1e-9 * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    root: Floats = np.linalg.cholesky(covariance + slight)
    return root
