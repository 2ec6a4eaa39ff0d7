"""Priors of values that nobody published: one declaration for each kind of value.

Every value is inferred as a standard normal number: a prior turns it into the value by its quantiles, so that
an ensemble knows neither units nor bounds.
"""

import math
from collections.abc import Callable, Mapping
from statistics import NormalDist
from typing import Final

import msgspec

#: Numbers of TCP connections of others on a link, and how likely each is: mostly none or few.
CONNECTIONS: Final = ((0, 0.55), (1, 0.2), (2, 0.12), (4, 0.08), (8, 0.05))

#: Bounds of the rate of a core segment, shares of its path's access rate. Above 1 it limits nothing; the
#: lowest published throughput between continents is 1.5 % of the access rate (Essen to Haikou).
CORE_SHARES: Final = (0.005, 2.0)

#: Bounds of random losses, parts per billion: 1 in 10^7, which no throughput shows, and 1 %.
LOSSES: Final = (100.0, 10_000_000.0)


class Prior(msgspec.Struct, frozen=True, kw_only=True):
    """The distribution of a value before any data.

    Attributes
    ----------
    words : the distribution, for people; "{}" stands for the stated value.
    value : from a standard normal number and the stated value to the value, in the topology's unit.
    quantile : from the stated value to its standard normal number.
    """

    words: str
    value: Callable[[float, int], int]
    quantile: Callable[[int], float] = lambda _: 0.0


def _log_normal(factor: float) -> Callable[[float, int], int]:
    """A factor either way as one standard deviation of the logarithm."""
    return lambda u, stated: max(1, round(stated * math.exp(u * math.log(factor))))


def _loss(u: float, _: int) -> int:
    low, high = (math.log(bound) for bound in LOSSES)
    return round(math.exp(low + (high - low) * share_below(u)))


def _loss_quantile(stated: int) -> float:
    low, high = (math.log(bound) for bound in LOSSES)
    share = (math.log(max(stated, LOSSES[0])) - low) / (high - low)
    return NormalDist().inv_cdf(min(max(share, 0.01), 0.99))


def _share_of(u: float, stated: int) -> int:
    low, high = (math.log(bound) for bound in CORE_SHARES)
    return max(100, round(stated * math.exp(low + (high - low) * share_below(u))))


def _connections(u: float, _: int) -> int:
    left = share_below(u)
    for number, share in CONNECTIONS:
        left -= share
        if left < 0:
            return number
    return CONNECTIONS[-1][0]


def share_below(u: float) -> float:
    """Standard normal distribution function."""
    return 0.5 * math.erfc(-u / math.sqrt(2))


#: Every kind of value that can be inferred. Queues keep their time at the link's rate, so that the stated one
#: is in bandwidth-delay products too.
PRIORS: Final[Mapping[str, Prior]] = {
    "rate": Prior(words="log-normal, a factor of 1.25 either way of {}", value=_log_normal(1.25)),
    "core": Prior(
        words="log-uniform, 0.5 % to 200 % of the access rate, {}",
        value=_share_of,
        quantile=lambda _: NormalDist().inv_cdf(0.94),
    ),
    "rtt": Prior(words="log-normal, a factor of 1.15 either way of {}", value=_log_normal(1.15)),
    "queue": Prior(words="log-normal, a factor of 3 either way of {}", value=_log_normal(3.0)),
    "loss": Prior(words="log-uniform, 0.1 ppm to 1 %", value=_loss, quantile=_loss_quantile),
    "tcp": Prior(
        words="0 (55 %), 1 (20 %), 2, 4 or 8 connections", value=_connections, quantile=lambda _: -0.5
    ),
}
