"""Isotonic regression: by hand, against the definition, and its interval."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptune.response import Curve, Sample
from mptune.response.monotone import Monotone
from mptune.trial import Combination

KEY = Combination("fullmesh", "cubic")


def fitted(*values: float) -> Curve:
    return Monotone().fit([Sample(KEY, float(i + 1), y) for i, y in enumerate(values)]).curves[KEY]


def test_violators_are_pooled_by_hand() -> None:
    curve = fitted(1.0, 3.0, 2.0, 4.0)
    assert [curve.predict(b) for b in (1, 2, 3, 4)] == [1.0, 2.5, 2.5, 4.0]
    assert curve.predict(1.5) == pytest.approx(1.75)
    assert curve.maximum(1.0, 4.0) == (4.0, 4.0)
    assert curve.smallest_buffer(2.5, 1.0, 4.0) == 2.0


def test_more_runs_weigh_more() -> None:
    samples = [Sample(KEY, 1.0, 4.0), Sample(KEY, 2.0, 1.0), Sample(KEY, 2.0, 1.0), Sample(KEY, 3.0, 5.0)]
    assert Monotone().fit(samples).curves[KEY].predict(1.0) == pytest.approx(2.0)  # (4 + 1 + 1) / 3


@given(st.lists(st.floats(0, 100), min_size=2, max_size=12))
def test_it_is_the_closest_curve_that_never_falls(values: list[float]) -> None:
    """Optimality of isotonic regression: max over i <= k of min over j >= k of the mean of i..j."""
    curve = fitted(*values)
    for k in range(len(values)):
        means = [
            min(math.fsum(values[i : j + 1]) / (j + 1 - i) for j in range(k, len(values)))
            for i in range(k + 1)
        ]
        assert curve.predict(k + 1.0) == pytest.approx(max(means), abs=1e-9)


def test_the_interval_of_a_level_is_that_of_its_mean() -> None:
    """Four observations pooled to one level: Student's t with three degrees of freedom."""
    samples = [Sample(KEY, bs, y) for bs, y in ((1.0, 12.0), (1.0, 10.0), (2.0, 10.0), (2.0, 8.0))]
    half = 3.1824 * math.sqrt(8 / 3 / 4)
    for bs in (1.0, 1.5, 2.0):
        assert Monotone().fit(samples).curves[KEY].interval(bs) == pytest.approx(
            (10 - half, 10 + half), abs=1e-3
        )
