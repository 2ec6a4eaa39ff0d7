"""Ranking of the congestion controls of a fitted form, and which differences are significant.

Each congestion control is represented by the mean of the model at the average of x over the data, other
factors at the mean of their levels. Each is compared with the best by a t test with HC3 errors (by least
squares if there are none), and the p values are corrected for their number by Holm (1979).
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from mptune.papers.glm.fit import FormFit

if TYPE_CHECKING:
    from mptune.papers.glm.design import Array


class Rank(msgspec.Struct, frozen=True, kw_only=True):
    """One congestion control in the ranking.

    Attributes
    ----------
    throughput_mbps : of the model, at the average of x over the data.
    behind_mbps : how far it is behind the best; 0 for the best.
    p : Holm-corrected, of the difference from the best; None for the best, and without any scatter.
    """

    cc: str
    throughput_mbps: float
    behind_mbps: float
    p: float | None


def rank_congestion_controls(fit: FormFit) -> list[Rank]:
    """Congestion controls from best to worst; empty if they are not in the model."""
    if not any(term.factor == "cc" for term in fit.terms):
        return []
    x = [float((fit.design.x**power).mean()) for power in range(3)]
    rows = {cc: fit.contrast({"cc": cc}, x) for cc in fit.coding.levels["cc"]}
    heights = {cc: float(row @ fit.coefficients) for cc, row in rows.items()}
    best, *others = sorted(heights, key=lambda cc: -heights[cc])
    ps = (
        holm([_p(fit, rows[best] - rows[cc]) for cc in others])
        if fit.linear.scatter
        else [None] * len(others)
    )
    return [
        Rank(cc=cc, throughput_mbps=heights[cc], behind_mbps=heights[best] - heights[cc], p=p)
        for cc, p in zip([best, *others], [None, *ps], strict=True)
    ]


def holm(ps: Sequence[float]) -> list[float]:
    """Correct p values for their number by the step-down procedure of Holm, in the order given."""
    order = sorted(range(len(ps)), key=lambda i: ps[i])
    corrected = [0.0] * len(ps)
    largest = 0.0
    for position, i in enumerate(order):
        largest = max(largest, min(1.0, (len(ps) - position) * ps[i]))
        corrected[i] = largest
    return corrected


def _p(fit: FormFit, difference: "Array") -> float:
    """P of a difference between two means of the model; 0 if there is no scatter."""
    variance = float(difference @ fit.covariance @ difference)
    if variance <= 0:
        return 0.0
    return fit.linear.p_of_t(float(difference @ fit.coefficients) / math.sqrt(variance))
