"""A value of a schedule in figures: how long it is below what, when nothing passes, and how it looks.

The figures are of one period, or of the time up to the last step where the last values hold for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise

#: A value and how long it holds, ns.
Held = tuple[int, int]

_BLOCKS = "▁▂▃▄▅▆▇█"


def held(changes: Sequence[tuple[int, int]], period_ns: int | None) -> list[Held]:
    """Values with their durations from changes, times and values; empty if there is none to speak of."""
    end = changes[-1][0] if period_ns is None else changes[0][0] + period_ns
    return [(value, until - at) for (at, value), (until, _) in pairwise([*changes, (end, 0)])]


def quantile(values: Iterable[Held], share: float) -> int:
    """The value that is not exceeded for this share of the time."""
    ordered = sorted(values)
    left = share * sum(time for _, time in ordered)
    for value, time in ordered:
        left -= time
        if left <= 0:
            return value
    return ordered[-1][0]


def outages(values: Iterable[Held], nothing: int) -> tuple[int, int]:
    """Number and total duration, ns, of the times at which a value lets nothing pass."""
    runs = [
        sum(time for _, time in run) for out, run in groupby(values, lambda held: held[0] == nothing) if out
    ]
    return len(runs), sum(runs)


def blocks(values: Sequence[Held], width: int) -> str:
    """The course of a value as a line of blocks from 0 to its largest mean of a column."""
    total = sum(time for _, time in values)
    sums, at = [0.0] * width, 0
    for value, time in values:
        begin, end = at * width / total, (at + time) * width / total
        for column in range(int(begin), min(width, int(end) + 1)):
            sums[column] += value * max(0.0, min(end, column + 1) - max(begin, column))
        at += time
    most = max(sums)
    return "".join(_BLOCKS[min(7, int(8 * each / most))] if most else _BLOCKS[0] for each in sums)
