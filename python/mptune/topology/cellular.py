"""Rate traces of a cellular link, drawn from a model: for topology files with unmeasured links.

The model is that of Sprout (Winstein, Sivaraman and Balakrishnan, NSDI 2013, section 3.1) with its
constants: packets can leave at the times of a Poisson process whose rate moves in Brownian motion of
200 packets/s per square root of a second, updated every 20 ms. It stays between 0 and a highest rate (1000
packets/s there) by reflection. Outages are left out unless they are asked for: a rate that falls to 0 then
stays there, and leaves at random, at Sprout's once per second. A trace is an assumption, not a measurement:
state that where it is used.
"""

from math import log, sqrt
from random import Random
from statistics import NormalDist

#: Standard deviation of the rate's change in a second, packets/s.
BROWNIAN = 200.0
#: Highest rate, packets/s: 12 Mbit/s in packets of 1500 bytes.
HIGHEST = 1000.0
#: Sprout's rate of leaving an outage, per second.
ESCAPES = 1.0
_TICK_MS = 20


def trace_ms(
    duration_ms: int,
    seed: int,
    highest: float = HIGHEST,
    brownian: float = BROWNIAN,
    escapes: float | None = None,
) -> list[int]:
    """Times at which a packet of 1500 bytes can leave, ms; the last is `duration_ms`, the period.

    Parameters
    ----------
    duration_ms : length of the trace.
    seed : the same seed gives the same trace on every machine.
    highest : highest rate, packets/s; the motion starts at half of it.
    brownian : standard deviation of the rate's change in a second, packets/s.
    escapes : rate of leaving an outage, per second; None is a link without outages.
    """
    random, normal = Random(seed), NormalDist(0.0, brownian * sqrt(_TICK_MS / 1000))
    rate, times = highest / 2, []
    # Packets expected until the next one leaves: an exponential variable of mean 1, used up at the rate.
    left = -log(1 - random.random())
    for now in range(1, duration_ms + 1):
        if now % _TICK_MS == 1:
            moved = rate + normal.inv_cdf(random.random() or 0.5)
            if escapes is not None and (rate == 0 or moved <= 0):
                # From an outage it goes on upwards.
                stays = rate != 0 or random.random() > escapes * _TICK_MS / 1000
                moved = 0.0 if stays else abs(moved)
            rate = _reflected(moved, highest)
        left -= rate / 1000
        while left <= 0:
            times.append(now)
            left -= log(1 - random.random())
    return [*times, duration_ms]


def _reflected(rate: float, highest: float) -> float:
    """Rate between 0 and the highest one, mirrored at both."""
    rate = abs(rate) % (2 * highest)
    return min(rate, 2 * highest - rate)
