"""The trade-off between throughput and buffer: the best choice for every sacrifice at once.

A point is what MPCOA's selection (global reading) answers to one sacrifice. Together they are the
Pareto front over all path managers and congestion controls: none of them is reached or surpassed with
less buffer. From it another sacrifice can be chosen without measuring again.
"""

from collections.abc import Iterable

import msgspec

from mptune.decision.selection import Candidates, Optimum

#: Sacrifices of the front: every percent up to half of the throughput, and finer where curves level off.
SACRIFICES = (0.001, 0.002, 0.005, *(percent / 100 for percent in range(51)))


class FrontPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One point of the front.

    Attributes
    ----------
    buffer_interval, throughput_interval : 95 % intervals of buffer (MiB) and throughput (Mbit/s) chosen
        for this sacrifice; None without resampling.
    """

    sacrifice: float
    optimum: Optimum
    buffer_interval: tuple[float, float] | None = None
    throughput_interval: tuple[float, float] | None = None

    def between(self, buffer: tuple[float, float], throughput: tuple[float, float]) -> "FrontPoint":
        """The point with its intervals."""
        return msgspec.structs.replace(self, buffer_interval=buffer, throughput_interval=throughput)


def pareto_front(
    candidates: Candidates, sacrifices: Iterable[float] = SACRIFICES, reading: str = "global"
) -> tuple[FrontPoint, ...]:
    """Front by falling throughput; of several sacrifices with one answer the smallest.

    A point that ties (`mptune.decision.selection`) put behind another one is left out.

    Parameters
    ----------
    reading : name in `mptune.decision.selection.READINGS`.
    """
    front: list[FrontPoint] = []
    for sacrifice in sorted(set(sacrifices)):
        optimum = candidates.best(sacrifice, reading)
        while front and _dominates(optimum, front[-1].optimum):
            front.pop()
        if not front or optimum.buffer_mib < front[-1].optimum.buffer_mib:
            front.append(FrontPoint(sacrifice=sacrifice, optimum=optimum))
    return tuple(front)


def _dominates(optimum: Optimum, other: Optimum) -> bool:
    """True if one needs no more buffer for no less throughput, and is better in one of them."""
    if optimum.buffer_mib > other.buffer_mib or optimum.throughput_mbps < other.throughput_mbps:
        return False
    return optimum.buffer_mib < other.buffer_mib or optimum.throughput_mbps > other.throughput_mbps
