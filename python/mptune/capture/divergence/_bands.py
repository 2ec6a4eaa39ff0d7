"""The runs of one side on one grid, and the band between them: how far chance alone drives them apart.

A band may be widened in time, so that the same thing a little earlier or later is no difference.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from mptune.capture import Recording
from mptune.capture.series import STEP_S, Curves, Subflow, curves

Array = Any

#: Compared quantities of each subflow, in the order in which a cause shows; and of the connection.
OF_SUBFLOWS = ("assigned", "inflight", "rtt", "delivered")
OF_CONNECTION = ("in_order",)
#: Quantities that only grow.
SUMS = ("assigned", "delivered", "in_order")
#: The shortest time over which sums are compared, seconds.
_RECENT_S = 0.1


class Side(msgspec.Struct, kw_only=True):
    """All runs of a recording as curves.

    Attributes
    ----------
    name : what the side is called, "kernel" or the name of a file.
    runs : one or more, on the same grid.
    """

    name: str
    recording: Recording
    runs: list[Curves]

    @property
    def subflows(self) -> tuple[str, ...]:
        """Names of the subflows of any run, in order of appearance."""
        return tuple(dict.fromkeys(name for run in self.runs for name in run.subflows))

    def values(self, subflow: str, quantity: str) -> Array:
        """A quantity of all runs, one row each; 0 where a run does not have the subflow."""
        import numpy as np

        if not subflow:
            return np.stack([getattr(run, quantity) for run in self.runs])
        missing = np.zeros(len(self.runs[0].times))
        return np.stack(
            [
                getattr(run.subflows[subflow], quantity) if subflow in run.subflows else missing
                for run in self.runs
            ]
        )

    def lately(self, subflow: str, quantity: str) -> Array:
        """The same, of a sum the part of the last while: a difference of long ago is none of now."""
        import numpy as np

        rows = self.values(subflow, quantity)
        if quantity not in SUMS:
            return rows
        steps = round(self.recent_s(subflow) / STEP_S)
        return rows - np.pad(rows, ((0, 0), (steps, 0)))[:, : rows.shape[1]]

    def recent_s(self, subflow: str) -> float:
        """Length of a short while, seconds: two RTTs or more."""
        return max(_RECENT_S, 2 * self.rtt_s(subflow))

    def rtt_s(self, subflow: str) -> float:
        """RTT of a subflow's path without queues, seconds; of the connection the longest."""
        about = self.recording.about
        label = subflow.partition(" #")[0]
        if label in about.paths:
            return about.base_rtt_ns[about.paths.index(label)] / 1e9
        return max(about.base_rtt_ns) / 1e9

    def of(self, subflow: str) -> list[Subflow]:
        """The subflow in each run that has it."""
        return [run.subflows[subflow] for run in self.runs if subflow in run.subflows]


def side(name: str, recording: Recording, until_s: float) -> Side:
    """A recording's runs on a grid that ends there."""
    paths = recording.about.paths
    return Side(name=name, recording=recording, runs=[curves(run, paths, until_s) for run in recording.runs])


class Band(NamedTuple):
    """Least and largest values over time."""

    low: Array
    high: Array

    def distance(self, other: Band) -> Array:
        """Distance between two bands; 0 where they touch."""
        import numpy as np

        return np.maximum(np.maximum(self.low - other.high, other.low - self.high), 0.0)


def band(rows: Array, lag_s: float) -> Band:
    """Band of some runs, widened by a time in both directions."""
    import numpy as np

    reach = round(lag_s / STEP_S)
    with np.errstate(invalid="ignore"):
        low, high = np.fmin.reduce(rows, axis=0), np.fmax.reduce(rows, axis=0)
    return Band(-_largest(-low, reach), _largest(high, reach))


def _largest(values: Array, reach: int) -> Array:
    """Largest value within this many steps; NaN only where all are."""
    import numpy as np

    if not reach:
        return values
    padded = np.pad(values, reach, constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1)
    return np.fmax.reduce(windows, axis=1)


def chance(rows: Array, lag_s: float, memory_s: float) -> Array:
    """Largest distance of one side's runs from the band of the others, within a time before.

    Later differences prove nothing about now. A single run shows no chance: it is 0.
    """
    import numpy as np

    worst = np.zeros(rows.shape[1])
    if len(rows) > 1:
        for number in range(len(rows)):
            others = band(np.delete(rows, number, axis=0), lag_s)
            own = band(rows[number : number + 1], 0.0)
            worst = np.fmax(worst, others.distance(own))
    reach = round(memory_s / STEP_S)
    return _largest(np.pad(worst, (reach, 0)), reach)[: len(worst)]
