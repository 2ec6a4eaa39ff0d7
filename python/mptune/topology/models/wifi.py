"""Wi-Fi: a rate that the station adapts, and time that it waits for the air.

The sources, and what is taken from each:

- IEEE 802.11n, one spatial stream, 20 MHz, long guard interval: the eight rates of MCS 0 to 7, 6.5 to 65
  Mbit/s. The link's own rate is their mean over time.
- Patro et al., "Observing Home Wireless Experience through WiFi APs" (MobiCom 2013, abstract): clients had
  a poor link for 2.1 % of the time; that is taken for the time at the lowest rate.
- Pei et al., "WiFi Can Be the Weakest Link of Round Trip Network Latency in the Wild" (INFOCOM 2016,
  abstract): the hop took more than 20 ms for half the packets, more than 100 ms for a tenth: a lognormal
  distribution with these quantiles, divided between the directions. Those were access points of a campus
  with many stations: `busy`. How long such a wait lasts, 100 ms here, is an assumption.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random
from typing import Annotated, Final

from mptune.topology._declared import Parameter
from mptune.topology._kinds import SWITCH
from mptune.topology.models._process import Model, Moment, normal

_LASTS: Final = 1200
_STEP_NS: Final = 100_000_000
#: Rates of MCS 0 to 7, Mbit/s.
MCS: Final = (6.5, 13.0, 19.5, 26.0, 39.0, 52.0, 58.5, 65.0)
#: A step up is this much likelier than one down, which makes the lowest rate 2.1 % of the time.
_UP: Final = 0.5985
#: Probability of a step in 100 ms, in which Linux' minstrel_ht looks at its statistics: assumed.
_MOVES: Final = 0.2
#: Median of a lognormal delay, there and back, ms, and its logarithmic deviation: a tenth is above 100 ms.
_MEDIAN_MS: Final = 20.0
_SIGMA: Final = math.log(100 / 20) / 1.2815515655446004


class Wifi(Model, frozen=True, kw_only=True, tag="wifi", tag_field="kind"):
    """A station of a wireless network."""

    busy: Annotated[bool, Parameter(SWITCH, False, "not given: a home, where others seldom send at once")]

    @property
    def words(self) -> str:
        """Model and load, in words."""
        others = "among many stations" if self.busy else "nearly alone"
        return f"Wi-Fi, {others}, drawn for every seed"

    @property
    def lasts_ns(self) -> int:
        """2 min."""
        return _LASTS * _STEP_NS

    def course(self, events: Random, rates: Random) -> Iterator[Moment]:
        """Draw a rate and a delay every 100 ms."""
        shares = stationary()
        mean = sum(share * rate for share, rate in zip(shares, MCS, strict=True))
        (place,) = rates.choices(range(len(MCS)), shares)
        for step in range(_LASTS):
            if rates.random() < _MOVES:
                moved = place + (1 if rates.random() < _UP else -1)
                place = min(max(moved, 0), len(MCS) - 1)
            wait_ms = _MEDIAN_MS * math.exp(_SIGMA * normal(events)) if self.busy else 0.0
            yield Moment(step * _STEP_NS, MCS[place] / mean, round(min(wait_ms, 1000.0) / 2 * 1e6))


def stationary() -> list[float]:
    """Share of the time at each rate: geometric, as of any such walk with walls."""
    weights = [(_UP / (1 - _UP)) ** place for place in range(len(MCS))]
    return [weight / sum(weights) for weight in weights]
