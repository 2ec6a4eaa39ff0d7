"""Statistics against hand-worked samples and their defining properties."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptune.statistics import half_width, quantile, summarise

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


def test_the_interval_covers_the_true_mean_as_often_as_it_says() -> None:
    samples_of_nine = np.random.default_rng(1).normal(10.0, 3.0, size=(2000, 9)).tolist()
    covered = sum(abs(sum(s) / 9 - 10.0) <= (half_width(s) or 0.0) for s in samples_of_nine)
    assert covered / 2000 == pytest.approx(0.95, abs=0.015)
