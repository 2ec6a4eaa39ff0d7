"""Common parts of link models: the moments of a drawn course, and random values with published quantiles.

A model draws the course of a link for a while, relative to the link's own rate and delay; after that it
repeats. The same seed draws the same course on every machine.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from random import Random
from statistics import NormalDist
from typing import Final, NamedTuple

from mptune.topology._declared import Effect

SECOND: Final = 10**9
_NORMAL: Final = NormalDist()


class Moment(NamedTuple):
    """A link from a moment on.

    Attributes
    ----------
    at_ns : since the beginning of the course.
    rate : its rate as a multiple of its own; 0 holds packets back.
    delay_ns : in addition to its own delay.
    """

    at_ns: int
    rate: float
    delay_ns: int


class Model(Effect, frozen=True, kw_only=True):
    """Base of the models."""

    def course(self, events: Random, rates: Random) -> Iterator[Moment]:
        """Draw the course of a link, whose mean rate is its own in the long run.

        Parameters
        ----------
        events : of what happens to both directions at once.
        rates : of what is of this direction alone.
        """
        raise NotImplementedError

    @property
    def lasts_ns(self) -> int:
        """Length of a course before it repeats."""
        raise NotImplementedError


def normal(random: Random) -> float:
    """A standard normal value."""
    return _NORMAL.inv_cdf(min(max(random.random(), 2.0**-53), 1 - 2.0**-53))


class Correlated:
    """A standard normal process whose values are correlated by a factor per step (AR(1))."""

    def __init__(self, random: Random, correlation: float) -> None:
        self._random, self._correlation = random, correlation
        self._new = math.sqrt(1 - correlation**2)
        self.value = normal(random)

    def step(self) -> float:
        """The next value."""
        self.value = self._correlation * self.value + self._new * normal(self._random)
        return self.value


class Quantiles:
    """A distribution between published quantiles, linear between them, with the mean 1.

    Parameters
    ----------
    points : shares, increasing from 0 to 1, with their values.
    """

    def __init__(self, *points: tuple[float, float]) -> None:
        shares, values = zip(*points, strict=True)
        pairs = list(pairwise(points))
        mean = sum((high - low) * (at + to) / 2 for (low, at), (high, to) in pairs)
        self._shares = shares
        self._values = tuple(value / mean for value in values)

    def at(self, share: float) -> float:
        """The value that is not exceeded with this probability."""
        number = min(max(bisect_right(self._shares, share), 1), len(self._shares) - 1)
        low, high = self._shares[number - 1], self._shares[number]
        below, above = self._values[number - 1], self._values[number]
        value: float = below + (above - below) * (share - low) / (high - low)
        return value

    def of(self, value: float) -> float:
        """The value that belongs to a standard normal one."""
        return self.at(_NORMAL.cdf(value))


def quantiles(*values: float) -> Quantiles:
    """The distribution with these values at the shares of which the models have figures."""
    return Quantiles(*zip((0, 0.05, 0.25, 0.5, 0.75, 0.95, 1), values, strict=True))


class Outages:
    """Outages that begin at random and last for a geometric number of steps.

    Parameters
    ----------
    begin : probability of beginning in a step without one.
    lasts : mean number of steps.
    """

    def __init__(self, random: Random, begin: float, lasts: float) -> None:
        self._random, self._begin, self._end = random, begin, 1 / lasts
        self._out = random.random() < share_out(begin, lasts)

    def step(self) -> bool:
        """True if nothing passes in the next step."""
        change = self._end if self._out else self._begin
        if self._random.random() < change:
            self._out = not self._out
        return self._out


def share_out(begin: float, lasts: float) -> float:
    """Share of the steps in an outage: p / (p + 1 / L)."""
    return begin / (begin + 1 / lasts)
