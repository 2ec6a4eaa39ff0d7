"""Ranges of bytes in order of time: how much of each was there for the first time, and who was first."""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

Array = Any


class Coverage(NamedTuple):
    """Of ranges in order of time.

    Attributes
    ----------
    fresh : bytes of each that no earlier one had.
    owner : number of the range that was the first to have its first byte.
    """

    fresh: Array
    owner: Array

    @property
    def total(self) -> int:
        """Bytes that at least one has."""
        return int(self.fresh.sum())


def coverage(starts: Array, ends: Array) -> Coverage:
    """First cover of each range's bytes; an empty range covers nothing."""
    import numpy as np

    if not len(starts):
        return Coverage(np.zeros(0, "i8"), np.zeros(0, "i8"))
    order = np.lexsort((np.arange(len(starts)), starts))
    low, high = starts[order], ends[order]
    first = np.concatenate([[True], low[1:] != low[:-1]])
    group = np.cumsum(first) - 1
    begin, end = low[first], high[first]
    # Segments are usually sent again as they were: then every range is one of disjoint ones.
    if (high == end[group]).all() and (end[:-1] <= begin[1:]).all():
        fresh, owner = np.zeros(len(starts), "i8"), np.empty(len(starts), "i8")
        fresh[order[first]] = end - begin
        owner[order] = order[first][group]
        return Coverage(fresh, owner)
    return _swept(starts, ends)


def _swept(starts: Array, ends: Array) -> Coverage:
    """The same for any ranges: from left to right, of those that cover a place the earliest has it."""
    import numpy as np

    fresh, owner = [0] * len(starts), list(range(len(starts)))
    order = np.argsort(starts, kind="stable").tolist()
    edges = np.unique(np.concatenate([starts, ends])).tolist()
    low, high = starts.tolist(), ends.tolist()
    covering: list[int] = []
    place = 0
    for index, edge in enumerate(edges):
        begins = place
        while place < len(order) and low[order[place]] == edge:
            heapq.heappush(covering, order[place])
            place += 1
        while covering and high[covering[0]] <= edge:
            heapq.heappop(covering)
        if not covering:
            continue
        for number in order[begins:place]:
            owner[number] = covering[0]
        if index + 1 < len(edges):
            fresh[covering[0]] += edges[index + 1] - edge
    return Coverage(np.array(fresh, "i8"), np.array(owner, "i8"))


def in_order(starts: Array, ends: Array) -> int:
    """Bytes from 0 on without a hole."""
    import numpy as np

    order = np.argsort(starts, kind="stable")
    low, high = starts[order], np.maximum.accumulate(ends[order]) if len(ends) else ends
    if not len(low) or low[0] > 0:
        return 0
    holes = np.flatnonzero(low[1:] > high[:-1])
    return int(high[holes[0]] if len(holes) else high[-1])


def unwrapped(numbers: Array, base: int) -> Array:
    """Positions of numbers of 32 bits from a base on; each is less than 2^31 away from the one before."""
    import numpy as np

    if not len(numbers):
        return np.zeros(0, "i8")
    relative = (numbers.astype("i8") - base) & 0xFFFFFFFF
    steps = np.diff(relative, prepend=0) + 2**31 & 0xFFFFFFFF
    return np.cumsum(steps - 2**31)
