"""Best answer, and loss of any other, for every draw of a belief about the curves.

The best answer is the smallest buffer with which some arm comes within the sacrifice of the best throughput
of all (MPCOA Eq. 10), and does not collapse with larger ones. Nothing here is random.
"""

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mptune.strategy._base import ROOM

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

#: With larger buffers the throughput may fall this far below what the sacrifice allows before that counts as
#: a collapse.
COLLAPSE = 0.1

#: Octaves of larger buffers over which the throughput has to hold: all of them, or if nothing can do that,
#: twice the size (the robust reading of `mptune.decision.selection`).
REACHES = (math.inf, 1.0)

#: A buffer this many times the smallest sufficient one has a regret of 1.
LARGER = 1.25

#: Regret of a throughput that misses `ROOM`, and the most that a larger buffer adds: a throughput that
#: misses it by far is worse than any buffer.
SLOWER, MOST = 3.0, 4.0

#: Regret of a scatter between runs as large as the throughput.
UNSTEADY = 1.0


class Answers(NamedTuple):
    """Value of every configuration in every draw.

    Attributes
    ----------
    missing : what its throughput falls short of what the sacrifice allows, as a share; shape (draws, arms,
        buffers).
    regret : of every configuration as the answer, the same shape; 0 for the best.
    arm, size : indices of the best answer, by draw.
    """

    missing: Floats
    regret: Floats
    arm: Indices
    size: Indices

    def choice(self, noise: Floats) -> tuple[int, int]:
        """Arm and buffer with the least expected regret, and of about equals the steadiest.

        Parameters
        ----------
        noise : variance between runs, shape (arms, buffers), in the square of the draws' unit.
        """
        # Rounded: sums of many numbers differ in their last digits from one machine to the other.
        expected = np.round(self.regret.mean(axis=0) + UNSTEADY * np.sqrt(noise), 9)
        arm, size = np.unravel_index(int(np.argmin(expected)), expected.shape)
        return int(arm), int(size)

    def holds(self, arm: int, size: int, room: float) -> float:
        """Probability that a throughput misses what the sacrifice allows by this share at most."""
        missing = self.missing[:, arm, size]
        mean, spread = float(missing.mean()), max(float(missing.std()), 1e-9)
        counted = float((missing <= room).mean())
        # So few draws cannot show a few in a thousand: as if normal.
        return round(min(counted, NormalDist(mean, spread).cdf(room)), 9)

    def room(self, arm: int, size: int, certainty: float) -> float:
        """The share that it misses at most, with this probability."""
        missing = self.missing[:, arm, size]
        mean, spread = float(missing.mean()), max(float(missing.std()), 1e-9)
        counted = float(np.quantile(missing, certainty, method="higher"))
        normal = NormalDist(mean, spread).inv_cdf(certainty)
        return round(min(max(counted, normal, ROOM), 1.0), 9)


def answers(draws: Floats, octaves: Floats, sacrifice: float) -> Answers:
    """Judge every draw by itself.

    Parameters
    ----------
    draws : throughputs, shape (draws, arms, buffers), in any unit.
    octaves : logarithms of the buffers to the base of 2, ascending.
    """
    allowed = (1 - sacrifice) * np.maximum(draws.max(axis=(1, 2)), 1e-9)[:, None, None]
    missing = 1 - draws / allowed
    short = np.full(draws.shape, np.inf)
    for reach in REACHES:
        # Where nothing suffices over the longer reach, the shorter one is looked at.
        unmet = short.min(axis=(1, 2)) > 0
        held = _held(draws[unmet], octaves, reach) / allowed[unmet]
        short[unmet] = np.maximum(np.maximum(missing[unmet], 1 - COLLAPSE - held), 0.0)
    # Where everything collapses, what collapses least is sufficient.
    short -= short.min(axis=(1, 2), keepdims=True)
    size = (short <= 0).any(axis=1).argmax(axis=1)
    arm = np.take_along_axis(short, size[:, None, None], axis=2)[:, :, 0].argmin(axis=1)
    larger = np.maximum(octaves - octaves[size][:, None], 0.0) / math.log2(LARGER)
    regret = SLOWER * short / ROOM + np.minimum(larger, MOST)[:, None, :]
    return Answers(missing, regret, arm, size)


def _held(draws: Floats, octaves: Floats, reach: float) -> Floats:
    """The least throughput from each buffer on, over this many octaves."""
    if math.isinf(reach):
        return np.minimum.accumulate(draws[:, :, ::-1], axis=2)[:, :, ::-1]
    held = draws.copy()
    for shift in range(1, len(octaves)):
        # A little more: sizes are whole KiB.
        within = octaves[shift:] <= octaves[:-shift] + reach + 0.01
        if not within.any():
            break
        larger = np.where(within, draws[:, :, shift:], np.inf)
        np.minimum(held[:, :, :-shift], larger, out=held[:, :, :-shift])
    return held
