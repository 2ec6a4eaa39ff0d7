"""Silence of a connection after a path is cut: one measure for every testbed.

It reads the script and the series; it does not know where they come from.
"""

import itertools
import math
from collections.abc import Sequence

from mptune.trial import BIN_NS, Trial

#: Width of the bins of a trial whose take-over time is measured, nanoseconds.
_FINE_NS = 10_000_000


def bin_ns(trial: Trial) -> int:
    """Width of the bins in which a testbed measures a trial, nanoseconds; `BIN_NS` is a multiple of it."""
    return _FINE_NS if any(action.action == "down" for action in trial.script) else BIN_NS


def coarse(bins: Sequence[int], width_ns: int) -> list[int]:
    """Bins of `BIN_NS` from bins of `width_ns`."""
    fine = BIN_NS // width_ns
    return [sum(bins[first : first + fine]) for first in range(0, len(bins), fine)]


def take_over_ms(trial: Trial, bins: Sequence[int]) -> float | None:
    """Time from the first cut of a path until data arrived in order again, ms; None without a cut.

    Parameters
    ----------
    bins : payload bytes delivered in order, per `bin_ns(trial)`.
    """
    script = sorted(trial.script, key=lambda action: action.at_ns)
    cuts = [index for index, action in enumerate(script) if action.action == "down"]
    if not cuts:
        return None
    width = bin_ns(trial) / 1e9
    until = [action.at_ns / 1e9 for action in script[cuts[0] + 1 :]]
    cut = script[cuts[0]].at_ns / 1e9
    return round(1e3 * silence_s(bins, width, cut, min([len(bins) * width, *until])), 3)


def silence_s(bins: Sequence[int], width_s: float, cut_s: float, until_s: float) -> float:
    """Seconds from a cut to the end of the longest silence that began between it and `until_s`.

    0 if no two consecutive bins stayed empty. A silence that lasts to the last bin ends there.
    """
    first = math.floor(cut_s / width_s)
    silences, at = [], first
    for quiet, run in itertools.groupby(bins[first:], key=lambda size: size == 0):
        length = sum(1 for _ in run)
        if quiet and length > 1 and at * width_s < until_s:
            silences.append((length, at + length))
        at += length
    return max(silences)[1] * width_s - cut_s if silences else 0.0
