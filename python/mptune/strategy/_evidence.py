"""Evidence of all trials of a configuration, and its distance from the configuration's true mean.

Runs scatter, and the network may have changed in the meantime. What comes out is as large as the grid,
however many trials there were.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mptune.response import Points
from mptune.response.noise import FIRST, FIRST_WEIGHT, Noise
from mptune.strategy._base import Drift, Told

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]

#: A change of the network shows from so many standard errors and such a share of the throughput on. It is
#: looked for at so many moments, and in configurations with at least this share of the largest throughput.
SHOWN, LEAST, MOMENTS, FAST = 5.0, 0.03, 8, 0.5


#: Fast arms are measured again at least every so many trials.
AGAIN = 20


class Evidence(NamedTuple):
    """Throughputs are shares of the largest observed mean; arrays have the shape (arms, buffers).

    Attributes
    ----------
    scale : the largest observed mean, Mbit/s.
    points : one for every configuration with a result.
    squares, freedom : as for `mptune.response.noise.Noise`.
    drift : how the network changed; None if nothing shows.
    overdue : what was measured only long ago, if nothing was measured again for long; where times are known.
    """

    scale: float
    points: Points
    squares: Floats
    freedom: Floats
    drift: Drift | None
    overdue: Flags

    def noise(self, levels: Floats, octaves: Floats) -> Floats:
        """Variance between runs, where these throughputs are expected."""
        levels = levels.copy()
        levels[self.points.arm, self.points.size] = self.points.means
        return Noise(self.squares, self.freedom, levels, octaves).between


def gathered(trials: Sequence[Told], shape: tuple[int, int], octaves: Floats) -> Evidence:
    """Combine trials; at least one has a result. The order of the trials is that of the sums."""
    ones = [trial for trial in trials if trial.value is not None]
    cell = np.array([message.ask.arm * shape[1] + message.ask.size for message in ones])
    at_s = np.array([np.nan if message.at_s is None else message.at_s for message in ones], dtype=float)
    values = np.array([message.value for message in ones], dtype=float)

    def total(per_trial: Floats) -> Floats:
        return np.bincount(cell, per_trial, shape[0] * shape[1]).astype(np.float64, copy=False)

    runs = total(np.ones(len(ones)))
    levels = total(values) / np.maximum(runs, 1)
    scale = max(float(levels.max()), 1e-9)
    values, levels = values / scale, levels / scale

    drift = _drift(cell, values, levels, at_s)
    is_old = np.zeros(len(ones), dtype=bool) if drift is None else ~(at_s > drift.at_s)
    squares, freedom = (total(ones).reshape(shape) for ones in _within(cell * 2 + is_old, values))
    noise = Noise(squares, freedom, levels.reshape(shape), octaves).between.ravel()
    if drift is not None:
        # What the change may have done to an old trial is as uncertain as its scatter.
        weight = np.where(is_old, (noise / (noise + (drift.change * levels) ** 2))[cell], 1.0)
        runs = total(weight)
        levels = total(weight * values) / np.maximum(runs, 1e-9)
    seen = np.flatnonzero(runs)
    points = Points(seen // shape[1], seen % shape[1], levels[seen], (noise / np.maximum(runs, 1e-9))[seen])
    overdue = _overdue(cell, at_s, len(levels)).reshape(shape)
    return Evidence(scale, points, squares, freedom, drift, overdue)


def _within(group: Indices, values: Floats) -> tuple[Floats, Floats]:
    """Of every trial its share of the sum of squares within its group, and of what that is divided by."""
    _, place, runs = np.unique(group, return_inverse=True, return_counts=True)
    means = np.bincount(place, values) / runs
    return (values - means[place]) ** 2, 1 - 1 / runs[place]


def _drift(cell: Indices, values: Floats, levels: Floats, at_s: Floats) -> Drift | None:
    """The clearest change of configurations that were measured before and after, if it is clear."""
    timed = np.isfinite(at_s) & (levels[cell] >= FAST)
    if timed.sum() < 4:
        return None
    cell, at_s = cell[timed], at_s[timed]
    shares = values[timed] / levels[cell]
    candidates: list[tuple[float, Drift]] = []
    for moment in np.quantile(at_s, np.arange(1, MOMENTS) / MOMENTS, method="lower"):
        after = at_s > moment
        squares, freedom = _within(cell * 2 + after, shares)
        noise = (FIRST_WEIGHT * FIRST**2 + squares.sum()) / (FIRST_WEIGHT + freedom.sum())
        before, later = (np.bincount(cell[side], minlength=len(levels)) for side in (~after, after))
        both = np.flatnonzero((before > 0) & (later > 0))
        sums = (np.bincount(cell[side], shares[side], len(levels)) for side in (~after, after))
        old, new = (amounts[both] / runs[both] for amounts, runs in zip(sums, (before, later), strict=True))
        known = 1 / (1 / before[both] + 1 / later[both])
        changes = new / np.maximum(old, 1e-9) - 1
        if len(both) < 2:
            continue
        # Without the strongest evidence: it may have stalled.
        loudest = int(np.argmax(np.round(np.abs(changes) * np.sqrt(known), 9)))
        known[loudest] = 0.0
        change = float(known @ changes / known.sum())
        errors = abs(change) * float(np.sqrt(known.sum() / noise))
        if errors >= SHOWN and abs(change) >= LEAST:
            candidates.append((round(errors, 6), Drift(change=round(change, 6), at_s=float(moment))))
    return max(candidates, key=lambda row: row[0])[1] if candidates else None


def _overdue(cell: Indices, at_s: Floats, cells: int) -> Flags:
    """As `Evidence.overdue`, by cell."""
    order = np.lexsort((cell, at_s))[: int(np.isfinite(at_s).sum())]
    done = cell[order]
    last = np.full(cells, len(done))
    last[done] = np.arange(len(done))
    overdue: Flags = len(done) - last > AGAIN
    for number in range(max(0, len(done) - AGAIN), len(done)):
        earlier = np.flatnonzero(done[:number] == done[number])
        if len(earlier) and number - earlier[-1] > AGAIN:
            overdue[:] = False
    return overdue
