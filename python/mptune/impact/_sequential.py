"""Stop rule for trials: repeated looks at the impact factors at a stated error rate for all of them.

The factors of a subflow are looked at after 4 trials, and each time their number has doubled. A look gives
the interval of their mean by Student's t. A subflow whose interval is above 0, below 0 or within +-`MARGIN`
is decided and measured no more. The error rate is spent in equal parts on every subflow and every look
(Bonferroni; for the looks it is a linear alpha-spending function as in Lan and DeMets, Biometrika 70, 1983).
So all decisions together are right with a probability of at least `1 - ERROR_RATE`, for factors that are
independent and roughly normal. It runs no trial.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mptune.impact._result import Decision
from mptune.statistics import half_width

#: Probability that any subflow of a set is decided wrongly, at most.
ERROR_RATE = 0.05

#: A subflow whose impact factor is closer to 0 than this does not matter.
MARGIN = 0.01

#: Trials before the first look. With fewer nothing is decided: where little is delivered, the same number of
#: segments in two trials would look like certainty.
FIRST = 4


class Verdict(NamedTuple):
    """A decision and the interval it comes from; None without one."""

    decision: Decision
    low: float | None = None
    high: float | None = None


def looks(most: int) -> tuple[int, ...]:
    """Numbers of trials after which the factors are looked at, the last of them `most`."""
    sizes = []
    size = FIRST
    while size < most:
        sizes.append(size)
        size *= 2
    return (*sizes, most)


def verdicts(
    factors: Mapping[str, Sequence[float]], planned: Sequence[int], least: int = FIRST
) -> dict[str, Verdict]:
    """Verdict on each subflow so far.

    Parameters
    ----------
    factors : impact factors of every subflow, one per trial.
    planned : as `looks`; their number decides how the error rate is divided.
    least : trials without which nothing is decided.
    """
    share = ERROR_RATE / (len(factors) * len(planned))
    return {path: verdict(values, share, least) for path, values in factors.items()}


def verdict(values: Sequence[float], error_rate: float, least: int = FIRST) -> Verdict:
    """Verdict of one look on one subflow."""
    half = half_width(values, 1 - error_rate)
    if half is None:
        return Verdict("unresolved")
    mean = sum(values) / len(values)
    low, high = mean - half, mean + half
    decision: Decision = "unresolved"
    if len(values) < least:
        pass
    elif low >= -MARGIN and high <= MARGIN:
        decision = "does not matter"
    elif low > 0:
        decision = "helps"
    elif high < 0:
        decision = "hurts"
    return Verdict(decision, low, high)
