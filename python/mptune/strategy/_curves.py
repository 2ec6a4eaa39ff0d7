"""Belief about the throughput of every arm with every buffer, by draws.

A belief is a number of draws of all curves of `mptune.response.Process` together, which agree with what was
observed as far as its noise allows (Matheron's rule; Wilson et al., Efficiently Sampling Functions from
Gaussian Process Posteriors, ICML 2020). Every hypothesis has as many of them as it is credible. With draws
every question is answered by counting, also those about the best of many.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mptune.response import Arm, Points, Process
from mptune.response.process import Fitted

Floats = NDArray[np.float64]

#: Draws of a belief: the fewer, the larger the grid, for the time that a belief takes.
MOST_DRAWS, LEAST_DRAWS, DRAWN = 256, 128, 2**18

#: Observations used for other configurations too: those of the largest throughputs. It bounds the
#: time that a belief takes.
TELLING = 300


class Drawn(NamedTuple):
    """A belief.

    Attributes
    ----------
    draws : throughputs, as shares, shape (draws, arms, buffers).
    predicted : probability that the prediction, if there is one, is informative; 0 to 1.
    """

    draws: Floats
    predicted: float


class Curves:
    """The belief before any observation, and after some.

    Parameters
    ----------
    arms, buffers : as in `mptune.strategy.Question`; at least one of each.
    predicted : throughputs in any unit, shape (arms, buffers); None where nothing is.
    prior_error : as in `mptune.strategy.Question`.
    """

    def __init__(
        self,
        arms: Sequence[Arm],
        buffers: Sequence[int],
        predicted: Floats | None,
        seed: int,
        prior_error: tuple[float, float] | None = None,
    ) -> None:
        self._process = Process(arms, buffers, predicted, prior_error)
        self.shape = self._process.shape
        self._count = min(MOST_DRAWS, max(LEAST_DRAWS, DRAWN // math.prod(self.shape)))
        random = np.random.default_rng(seed)
        self._parts = []
        for similar, covariance in self._process.independent():
            white = random.standard_normal((self._count, *self.shape))
            self._parts.append(_root(similar) @ white @ _root(covariance).T)
        self._errors = random.standard_normal((self._count, *self.shape))
        self._jags = random.standard_normal((self._count, *self.shape))

    def draws(self, points: Points | None) -> "Drawn":
        """Draws that agree with what was observed."""
        if points is None:
            points = Points(*(np.zeros(0, dtype=int) for _ in range(2)), *(np.zeros(0) for _ in range(2)))
        process, telling = self._process, points.highest(TELLING)
        weights = process.weights(points)
        # Rounded: which draw belongs to which hypothesis has to be the same on every machine.
        ends = np.rint(np.round(np.cumsum(weights), 6) * self._count).astype(int)
        drawn, start = [], 0
        for hypothesis, end in zip(process.hypotheses, map(int, ends), strict=True):
            if end > start:
                drawn.append(
                    self._under(process.fit(telling, hypothesis), points, telling, slice(start, end))
                )
            start = end
        predicted = sum(
            w
            for w, hypothesis in zip(weights, process.hypotheses, strict=True)
            if hypothesis.error is not None
        )
        return Drawn(np.concatenate(drawn), float(np.round(predicted, 6)))

    def _under(self, fitted: Fitted, points: Points, telling: Points, some: slice) -> Floats:
        """Some of the draws, under one hypothesis."""
        process, hypothesis = self._process, fitted.hypothesis
        before = process.combined([part[some] for part in self._parts], hypothesis) + fitted.mean
        at = (slice(None), telling.arm, telling.size)
        missing = telling.means - before[at] - self._errors[some][at] * np.sqrt(fitted.noise)
        pull = np.linalg.solve(fitted.within, missing.T).astype(np.float64, copy=False)
        drawn = before + process.pulled(telling, pull, hypothesis)
        # The jags: where it was measured, what the curves miss of that; elsewhere anything.
        levels = drawn.mean(axis=0)
        levels[points.arm, points.size] = points.means
        rough = process.jags(levels, np.arange(len(levels))[:, None], hypothesis)
        jags = rough * self._jags[some]
        squares = rough[points.arm, points.size] ** 2
        known = squares / (squares + points.variances)
        # An observation that informs about no others is all that is known of its own configuration.
        alone = np.ones(levels.shape, dtype=bool)
        alone[telling.arm, telling.size] = False
        known[alone[points.arm, points.size]] = 1.0
        at = (slice(None), points.arm, points.size)
        jags[at] = (
            known * (points.means - drawn[at]) + np.sqrt(known * points.variances) * self._jags[some][at]
        )
        return drawn + jags


def _root(covariance: Floats) -> Floats:
    """Lower triangular root; duplicates make a covariance singular, hence a little on its diagonal."""
    slight = 1e-9 * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    root: Floats = np.linalg.cholesky(covariance + slight)
    return root
