"""Statistics against hand-worked samples and their defining properties."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mptune.statistics import (
    difference,
    half_width,
    holm,
    model_error_needed,
    paired,
    prediction_half_width,
    quantile,
    summarise,
)

samples = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40)


def test_a_hand_worked_sample() -> None:
    got = summarise([4.0, 1.0, 3.0, 2.0, 5.0])
    assert (got.n, got.mean, got.median, got.min, got.max) == (5, 3.0, 3.0, 1.0, 5.0)
    assert (got.q10, got.q90) == pytest.approx((1.4, 4.6))
    # Student's t for 4 degrees of freedom at 97.5 % is 2.776 (any table); s = sqrt(2.5).
    assert got.high == pytest.approx(3 + 2.776 * math.sqrt(2.5 / 5), abs=1e-3)
    assert got.low == pytest.approx(3 - 2.776 * math.sqrt(2.5 / 5), abs=1e-3)


def test_a_single_value_has_no_interval() -> None:
    got = summarise([7.5])
    assert (got.mean, got.q10, got.q90) == (7.5, 7.5, 7.5)
    assert got.low is None and got.high is None


def test_an_empty_sample_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        summarise([])


@given(samples)
def test_order_of_the_statistics(values: list[float]) -> None:
    got = summarise(values)
    assert got.min <= got.q10 <= got.median <= got.q90 <= got.max
    assert got.min <= got.mean <= got.max
    assert summarise(values[::-1]) == got


@given(samples, st.floats(0, 1))
def test_quantiles_are_those_of_numpy(values: list[float], share: float) -> None:
    assert quantile(sorted(values), share) == pytest.approx(np.quantile(values, share), abs=1e-6)


def test_the_interval_covers_the_true_mean_as_often_as_stated() -> None:
    samples_of_nine = np.random.default_rng(1).normal(10.0, 3.0, size=(2000, 9)).tolist()
    covered = sum(abs(sum(s) / 9 - 10.0) <= (half_width(s) or 0.0) for s in samples_of_nine)
    assert covered / 2000 == pytest.approx(0.95, abs=0.015)


def test_a_difference_is_welchs():
    """Against scipy, which has the interval; and the one-sided bound is the upper end of 5 %."""
    before, after = [10.0, 11.0, 9.5, 10.2], [12.0, 15.0, 13.0]
    interval = difference(before, after)
    test = stats.ttest_ind(after, before, equal_var=False)
    low, high = test.confidence_interval(0.95)
    assert (interval.low, interval.high) == pytest.approx((low, high))
    assert interval.least == pytest.approx(test.confidence_interval(0.90).low)
    assert interval.mean == pytest.approx((low + high) / 2)
    same = difference([1.0, 1.0], [3.0, 3.0])
    assert (same.low, same.least, same.mean, same.high) == (2.0, 2.0, 2.0, 2.0)
    with pytest.raises(ValueError, match="at least two"):
        difference([1.0], after)


def test_the_prediction_interval_holds_the_mean_of_further_values_as_often_as_stated() -> None:
    """Five values predicted from twenty: 95 % of 4000 normal samples, give or take three standard errors."""
    random = np.random.default_rng(1)
    held = 0
    for _ in range(4000):
        seen, further = random.normal(10, 2, 20).tolist(), random.normal(10, 2, 5)
        half = prediction_half_width(seen, 5)
        assert half is not None
        held += abs(further.mean() - math.fsum(seen) / 20) <= half
    assert held / 4000 == pytest.approx(0.95, abs=3 * math.sqrt(0.95 * 0.05 / 4000))


def test_a_hand_worked_prediction() -> None:
    """Student's t of 4 degrees of freedom is 2.776, the variance 2.5, to which a model's error adds."""
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    assert prediction_half_width(values, 5) == pytest.approx(2.776 * math.sqrt(2.5 * 0.4), abs=1e-3)
    with_error = 2.776 * math.sqrt(2.5 * 0.4 + 0.3**2)
    assert prediction_half_width(values, 5, model_error=0.1) == pytest.approx(with_error, abs=1e-3)
    assert prediction_half_width(values, 10**9) == pytest.approx(half_width(values))
    assert prediction_half_width([3.0], 5) is None


@given(st.lists(st.floats(1, 100), min_size=2, max_size=20), st.floats(1, 1000), st.integers(1, 20))
def test_with_the_error_that_is_needed_the_interval_just_reaches(
    values: list[float], mean: float, n: int
) -> None:
    needed = model_error_needed(values, mean, n)
    assert needed is not None
    half = prediction_half_width(values, n, model_error=needed)
    assert half is not None
    distance = abs(mean - math.fsum(values) / len(values))
    rounding = 1e-9 * mean  # of means, whose last bits differ by the order of adding up
    if needed:
        assert half == pytest.approx(distance, abs=rounding)
    else:
        assert half >= distance - rounding
    assert model_error_needed(values[:1], mean, n) is None


def test_a_paired_difference_is_scipys():
    before, after = [3.0, 5.0, 4.0, 8.0], [3.5, 5.9, 4.2, 9.1]
    result, expected = paired(before, after), stats.ttest_rel(after, before)
    interval = expected.confidence_interval(0.95)
    assert result.p == pytest.approx(expected.pvalue) and result.n == 4
    assert (result.low, result.high) == pytest.approx((interval.low, interval.high))


def test_pairs_that_all_differ_by_the_same_leave_no_doubt():
    assert paired([1.0, 2.0], [2.0, 3.0]).p == 0
    assert paired([1.0, 2.0], [1.0, 2.0]).p == 1
    with pytest.raises(ValueError, match="pairs"):
        paired([1.0], [2.0])


def test_holms_correction_by_hand():
    """Ranked 0.01, 0.02, 0.03, 0.5: times 4, 3, 2 and 1, and never below one that is smaller."""
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([]) == [] and holm([0.9, 0.8]) == [1.0, 1.0]


def test_holm_rejects_a_true_hypothesis_no_more_often_than_stated():
    generator = np.random.default_rng(5)
    tries = [min(holm(list(generator.uniform(size=15)))) < 0.05 for _ in range(4000)]
    assert np.mean(tries) == pytest.approx(0.05, abs=0.012)
