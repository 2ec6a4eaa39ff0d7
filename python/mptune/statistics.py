"""Summaries of a sample: location, spread, and the 95 % interval of its mean.

One definition of each statistic for the whole project. It knows nothing about trials: callers have already
left out the failed ones.
"""

import math
from collections.abc import Iterable, Sequence

import msgspec

#: Confidence level of every interval shown.
CONFIDENCE = 0.95


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of one sample, all but `n` in the unit of the sample.

    Attributes
    ----------
    n : number of values.
    q10, q90 : 10 % and 90 % quantile (definition: `quantile`).
    low, high : 95 % interval of the mean by Student's t; None for a single value, which has none.
    """

    n: int
    mean: float
    median: float
    min: float
    max: float
    q10: float
    q90: float
    low: float | None
    high: float | None


def summarise(values: Sequence[float]) -> Summary:
    """Summary of a sample.

    Raises
    ------
    ValueError : the sample is empty.
    """
    if not values:
        raise ValueError("an empty sample has no statistics")
    ordered = sorted(values)
    mean = _mean(ordered)
    half = half_width(ordered)
    return Summary(
        n=len(ordered),
        mean=mean,
        median=quantile(ordered, 0.5),
        min=ordered[0],
        max=ordered[-1],
        q10=quantile(ordered, 0.1),
        q90=quantile(ordered, 0.9),
        low=None if half is None else mean - half,
        high=None if half is None else mean + half,
    )


def summary_of(values: Iterable[float]) -> Summary | None:
    """Summary of what there is; None of nothing."""
    present = list(values)
    return summarise(present) if present else None


def quantile(ordered: Sequence[float], share: float) -> float:
    """Quantile by linear interpolation between the closest ranks of a sorted sample.

    Type 7 of Hyndman and Fan (1996): rank `(n - 1) * share` counted from 0. It is the default of
    GNU R, in which the papers' figures were drawn, and of numpy.
    """
    rank = (len(ordered) - 1) * share
    below = math.floor(rank)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (rank - below) * (ordered[above] - ordered[below])


def half_width(values: Sequence[float], confidence: float = CONFIDENCE) -> float | None:
    """Half the width of the t-interval of the mean, of 95 % by default; None below two values.

    The interval is exact for independent normal values, and approximate for others.
    """
    n = len(values)
    if n < 2:
        return None
    mean = _mean(values)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    from scipy.special import stdtrit  # lazily: half a second that most commands need not spend

    return float(stdtrit(n - 1, 0.5 + confidence / 2)) * deviation / math.sqrt(n)


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Excess of one sample's mean over that of another, independent one.

    Attributes
    ----------
    low, high : its 95 % interval.
    least : it is more than this, with 95 % confidence; one-sided, and so more than `low`.
    """

    mean: float
    low: float
    high: float
    least: float


def difference(before: Sequence[float], after: Sequence[float]) -> Difference:
    """Excess of `after`, by Welch's t-interval: the variances may differ.

    B. L. Welch, "The generalization of Student's problem when several different population variances are
    involved", Biometrika 34, 1947.

    Raises
    ------
    ValueError : one of them has fewer than two values.
    """
    if min(len(before), len(after)) < 2:
        raise ValueError("two samples of at least two values are needed")
    mean = _mean(after) - _mean(before)
    parts = [
        math.fsum((value - _mean(number)) ** 2 for value in number) / (len(number) - 1) / len(number)
        for number in (before, after)
    ]
    error = math.sqrt(math.fsum(parts))
    if not error:
        return Difference(mean=mean, low=mean, high=mean, least=mean)
    freedom = math.fsum(parts) ** 2 / math.fsum(
        part**2 / (len(row) - 1) for part, row in zip(parts, (before, after), strict=True)
    )
    from scipy.special import stdtrit  # lazily: as above

    two_sided = float(stdtrit(freedom, 0.5 + CONFIDENCE / 2)) * error
    one_sided = float(stdtrit(freedom, CONFIDENCE)) * error
    return Difference(mean=mean, low=mean - two_sided, high=mean + two_sided, least=mean - one_sided)


class Paired(msgspec.Struct, frozen=True, kw_only=True):
    """Excess of one sample over another, value by value.

    Attributes
    ----------
    low, high : 95 % interval of the mean.
    p : of the t-test that the mean is 0, two-sided.
    """

    mean: float
    low: float
    high: float
    p: float
    n: int


def paired(before: Sequence[float], after: Sequence[float]) -> Paired:
    """Excess of `after`, by the t-interval of the differences: common parts of a pair cancel out.

    Raises
    ------
    ValueError : not two samples of the same size, or fewer than two pairs.
    """
    if len(before) != len(after) or len(after) < 2:
        raise ValueError("at least two pairs of values are needed")
    differences = [new - old for old, new in zip(before, after, strict=True)]
    mean, half = _mean(differences), half_width(differences)
    assert half is not None  # there are two values
    n = len(differences)
    if not half:
        return Paired(mean=mean, low=mean, high=mean, p=0.0 if mean else 1.0, n=n)
    from scipy.special import stdtr, stdtrit  # lazily: as above

    error = half / float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2))
    p = 2 * float(stdtr(n - 1, -abs(mean) / error))
    return Paired(mean=mean, low=mean - half, high=mean + half, p=p, n=n)


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values corrected for being many, in the order given: the chance that any is wrong keeps its level.

    S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6,
    1979. It needs no independence.
    """
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda number: p_values[number])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


def prediction_half_width(
    values: Sequence[float], n: int, *, model_error: float = 0.0, confidence: float = CONFIDENCE
) -> float | None:
    """Half the width of the interval for the mean of `n` further values; None below two values.

    The mean of the sample and that of the further values both scatter, so the variance is the sample's times
    1/len(values) + 1/n, and the quantile is Student's. It is exact for independent normal values.

    Parameters
    ----------
    n : number of further values.
    model_error : standard deviation of the error that all further values share because the sample is a
        model's, as a share of its mean; its variance is added.
    """
    if len(values) < 2:
        return None
    mean = _mean(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    from scipy.special import stdtrit  # lazily: as above

    quantile_ = float(stdtrit(len(values) - 1, 0.5 + confidence / 2))
    return quantile_ * math.sqrt(variance * (1 / len(values) + 1 / n) + (model_error * mean) ** 2)


def log_mean_variance(values: Sequence[float], n: int) -> float:
    """Variance of log(mean of `n` further values / mean of the sample), by scatter alone; means above 0.

    To first order: the sample's variance, as a share of its mean's square, times 1/len(values) + 1/n. 0 below
    two values, which show no scatter.
    """
    if len(values) < 2:
        return 0.0
    mean = _mean(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return variance / mean**2 * (1 / len(values) + 1 / n)


def model_error_needed(
    values: Sequence[float], mean: float, n: int, *, confidence: float = CONFIDENCE
) -> float | None:
    """Smallest `model_error` with which `prediction_half_width` reaches a mean of `n` further values.

    None below two values, or where their mean is 0.
    """
    half = prediction_half_width(values, n, confidence=confidence)
    middle = _mean(values) if values else 0.0
    if half is None or not middle:
        return None
    from scipy.special import stdtrit  # lazily: as above

    missing = max(0.0, (mean - middle) ** 2 - half**2)
    return math.sqrt(missing) / (float(stdtrit(len(values) - 1, 0.5 + confidence / 2)) * abs(middle))


def _mean(values: Sequence[float]) -> float:
    """Mean, independent of the order of the values and never outside their range."""
    return min(max(math.fsum(values) / len(values), min(values)), max(values))
