"""5G on the move: a rate that wanders by the second, and outages where cells end or hand over badly.

The process is fitted to the sets of figure 1 of Hu et al., "LEO Satellite vs. Cellular Networks" (CoNEXT
2023): drives of 10 hours with each of three carriers of the US, on 5G and LTE, a rate every second. A
copula of two Gaussian processes, one that lasts for minutes and one for seconds, has the sets' quantiles
and autocorrelation; outages (below 1 Mbit/s) have their number and mean duration. What a handover does
within a second is not in the sets, nor is a delay.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random
from typing import Annotated, Final, NamedTuple

from mptune.topology._declared import Parameter
from mptune.topology._kinds import choice
from mptune.topology.models._process import (
    SECOND,
    Correlated,
    Model,
    Moment,
    Outages,
    Quantiles,
    quantiles,
    share_out,
)

_LASTS_S: Final = 600
#: Part of the variance that lasts for minutes, and correlation of either part after a second.
_SLOW: Final = 0.8
_SLOW_CORRELATION: Final = 0.9945
_FAST_CORRELATION: Final = 0.8


class Carrier(NamedTuple):
    """Figures of a set.

    Attributes
    ----------
    rate : quantiles of the rate relative to its mean, without outages.
    outages_per_hour, outage_s : number of outages, and how long they last on average.
    """

    rate: Quantiles
    outages_per_hour: float
    outage_s: float


#: The sets: 35,516 s, 37,430 s and 35,384 s.
CARRIERS: Final = {
    "verizon": Carrier(quantiles(0, 0.053, 0.274, 0.753, 1.513, 2.645, 4.2), 13.9, 4.74),
    "att": Carrier(quantiles(0, 0.062, 0.331, 0.680, 1.361, 3.080, 5.5), 48.3, 1.89),
    "tmobile": Carrier(quantiles(0, 0.026, 0.165, 0.587, 1.801, 2.754, 4.2), 64.7, 2.38),
}


class Mobile5g(Model, frozen=True, kw_only=True, tag="5g", tag_field="kind"):
    """A 5G network on the move."""

    like: Annotated[
        str,
        Parameter(
            choice({name: name for name in CARRIERS}),
            "verizon",
            "no carrier given: Verizon's, the steadiest of the three (CoNEXT 2023)",
        ),
    ]

    @property
    def words(self) -> str:
        """Whose it is like."""
        return f"5G on the move, like {self.like} in the US, drawn for every seed"

    @property
    def lasts_ns(self) -> int:
        """10 min."""
        return _LASTS_S * SECOND

    def course(self, events: Random, rates: Random) -> Iterator[Moment]:
        """Draw a rate every second."""
        carrier = CARRIERS[self.like]
        # The sets count all seconds, an outage begins in one without.
        begin = carrier.outages_per_hour / (3600 - carrier.outages_per_hour * carrier.outage_s)
        up = 1 - share_out(begin, carrier.outage_s)
        outages = Outages(events, begin, carrier.outage_s)
        slow, fast = Correlated(rates, _SLOW_CORRELATION), Correlated(rates, _FAST_CORRELATION)
        for at in range(_LASTS_S):
            level = math.sqrt(_SLOW) * slow.step() + math.sqrt(1 - _SLOW) * fast.step()
            rate = 0.0 if outages.step() else carrier.rate.of(level) / up
            yield Moment(at * SECOND, rate, 0)
