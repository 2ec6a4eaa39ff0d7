"""Starlink: another satellite every 15 s, with another delay and rate, and nothing for an instant in between.

The sources, and what is taken from each:

- Casparsen et al., "Statistical Characterization and Prediction of E2E Latency over LEO Satellite Networks"
  (arXiv 2601.08439, abstract): a cycle of 15 s, disturbed for about 140 ms at its beginning and 75 ms at
  its end. That nothing passes meanwhile, so that packets are late by up to 215 ms, is an assumption.
- Huston, "Measuring Starlink Protocol Performance" (NANOG 92, 2024): to the satellite and back 3.7 ms if it
  is overhead, 7.5 ms at the lowest elevation, 25 degrees. Each cycle has a delay between these; the link's
  own is that of a satellite overhead.
- Hu et al., "LEO Satellite vs. Cellular Networks" (CoNEXT 2023), the set of figure 1, a plan for vehicles,
  27,390 s: quantiles of the rate relative to its mean and its autocorrelation, without outages, and the
  outages (below 1 Mbit/s): 22 an hour of 20 s on average. A dish with a free view is taken to have the same
  rates, but none of these outages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random
from typing import Annotated, Final

from mptune.topology._declared import Parameter
from mptune.topology._kinds import SWITCH
from mptune.topology.models._process import (
    SECOND,
    Correlated,
    Model,
    Moment,
    Outages,
    quantiles,
    share_out,
)

_CYCLE_S: Final = 15
_CYCLES: Final = 40
#: Disturbed at the beginning and at the end of a cycle, ns.
_BEGINNING_NS: Final = 140_000_000
_END_NS: Final = 75_000_000
#: One way by a satellite at the lowest elevation, more than by one overhead, ns.
_FARTHER_NS: Final = 3_800_000
#: Quantiles of the rate relative to its mean, without outages.
RATE: Final = quantiles(0, 0.184, 0.631, 1.009, 1.358, 1.778, 2.5)
#: Part of the variance that a cycle keeps, correlation from cycle to cycle, and of the rest per second: so
#: that the autocorrelation of the rate is that of the set, 0.82 after 1 s and 0.38 after 15 s.
_OF_CYCLE: Final = 0.62
_CYCLE_TO_CYCLE: Final = 0.66
_SECOND_TO_SECOND: Final = 0.62
#: Outages on the move: probability per second, and mean duration, s.
_BEGIN: Final = 22 / 3600 / (1 - 0.123)
_LASTS_S: Final = 20.2


class Starlink(Model, frozen=True, kw_only=True, tag="starlink", tag_field="kind"):
    """A satellite for 15 s at a time."""

    moving: Annotated[bool, Parameter(SWITCH, False, "not given: a dish with a free view of the sky")]

    @property
    def words(self) -> str:
        """Model and place of the dish, in words."""
        return f"Starlink, {'on the move' if self.moving else 'with a free view'}, drawn for every seed"

    @property
    def lasts_ns(self) -> int:
        """10 min."""
        return _CYCLES * _CYCLE_S * SECOND

    @property
    def _share_up(self) -> float:
        """Share of the time in which something passes."""
        disturbed = (_BEGINNING_NS + _END_NS) / (_CYCLE_S * SECOND)
        out = share_out(_BEGIN, _LASTS_S) if self.moving else 0.0
        return (1 - out) * (1 - disturbed)

    def course(self, events: Random, rates: Random) -> Iterator[Moment]:
        """Draw 40 cycles; where in a cycle the course begins is drawn too."""
        phase = events.randrange(_CYCLE_S)
        outages = Outages(events, _BEGIN, _LASTS_S)
        cycle, second = Correlated(rates, _CYCLE_TO_CYCLE), Correlated(rates, _SECOND_TO_SECOND)
        delay_ns = 0
        for at in range(_CYCLES * _CYCLE_S):
            if (begins := at % _CYCLE_S == phase) or at == 0:
                delay_ns = round(_FARTHER_NS * events.random())
                cycle.step()
            level = math.sqrt(_OF_CYCLE) * cycle.value + math.sqrt(1 - _OF_CYCLE) * second.step()
            out = outages.step() and self.moving
            rate = 0.0 if out else RATE.of(level) / self._share_up
            yield Moment(at * SECOND, 0.0 if begins else rate, delay_ns)
            if begins:
                yield Moment(at * SECOND + _BEGINNING_NS, rate, delay_ns)
            if (at + 1) % _CYCLE_S == phase:
                yield Moment((at + 1) * SECOND - _END_NS, 0.0, delay_ns)
