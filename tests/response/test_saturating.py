"""The saturating model: known curves recovered, its closed forms against a search, its intervals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mptune.response import Curve, Sample
from mptune.response.saturating import Growth, Saturating
from mptune.trial import Combination

KEY = Combination("fullmesh", "cubic")
BUFFERS = [0.5 + i for i in range(30)]


def fitted(true: Growth, noise: float, seed: int = 1, runs: int = 3) -> Growth:
    rng = np.random.default_rng(seed)
    samples = [
        Sample(KEY, bs, true.predict(bs) + noise * float(rng.normal()), run)
        for bs in BUFFERS
        for run in range(runs)
    ]
    fitted = Saturating().fit(samples).curves[KEY]
    assert isinstance(fitted, Growth)
    return fitted


TRUE = {
    "exponential": Growth((0.0, 100.0, 0.0), 4.0, 1.0),
    "with an offset": Growth((20.0, 80.0, 0.0), 6.0, 1.0),
    "bell-shaped": Growth((10.0, 60.0, 0.0), 5.0, 2.0),
    "nearly a corner": Growth((5.0, 90.0, 0.0), 8.0, 4.0),
    "with a decline": Growth((10.0, 90.0, 1.0), 3.0, 2.0),
}


@pytest.mark.parametrize("name", list(TRUE))
def test_known_curves_are_recovered(name: str) -> None:
    true = TRUE[name]
    exact, noisy = fitted(true, 0.0), fitted(true, 2.0)
    for bs in (0.5, 2.0, 5.5, 12.0, 29.5):
        assert exact.predict(bs) == pytest.approx(true.predict(bs), abs=0.05)
        assert noisy.predict(bs) == pytest.approx(true.predict(bs), abs=4.0)
    assert exact.h == true.h and exact.b0 == pytest.approx(true.b0, rel=0.01)


def test_a_decline_is_detected_where_there_is_one_and_nowhere_else() -> None:
    """It enters at 5 %: of 200 curves without one, at most as many as chance explains (99.9 %)."""
    assert fitted(TRUE["with a decline"], 2.0).d == pytest.approx(1.0, abs=0.3)
    false = sum(fitted(TRUE["bell-shaped"], 2.0, seed=seed).d > 0 for seed in range(200))
    assert false <= stats.binom.ppf(0.999, 200, 0.05)


def test_throughput_without_a_buffer_is_never_negative() -> None:
    """A knee between the first two buffers; least squares alone would rise from far below 0."""
    samples = [Sample(KEY, float(bs), 50.0 if bs == 1 else 100.0) for bs in range(1, 9)]
    curve = Saturating().fit(samples).curves[KEY]
    assert curve.predict(0.0) >= 0.0
    assert curve.predict(1.0) == pytest.approx(50, abs=0.5) and curve.predict(2.0) == pytest.approx(
        100, abs=0.5
    )
    assert 1.2 < (curve.smallest_buffer(93.0, 1.0, 8.0) or 0.0) < 2.0


def test_the_95_percent_interval_covers_95_percent() -> None:
    """At three buffers of 300 noisy curves (99.9 % bounds): the linear approximation is good enough."""
    true = TRUE["exponential"]
    covered = dict.fromkeys((2.5, 8.0, 25.0), 0)
    for seed in range(300):
        curve = fitted(true, 5.0, seed=seed, runs=2)
        for bs in covered:
            low, high = curve.interval(bs) or (math.nan, math.nan)
            covered[bs] += low <= true.predict(bs) <= high
    low, high = stats.binom.interval(0.999, 300, 0.95)
    assert all(low <= count <= high for count in covered.values()), covered


def test_the_interval_is_wider_where_the_curve_misses_the_data() -> None:
    """Many runs cannot make a curve sure that passes beside all of them."""
    rng = np.random.default_rng(1)

    def samples(runs: int) -> list[Sample]:
        return [
            Sample(KEY, bs, (200.0 if bs < 1 else 20 + 9 * bs) + float(rng.normal()), run)
            for bs in BUFFERS
            for run in range(runs)
        ]

    widths = []
    for runs in (2, 20):
        low, high = Saturating().fit(samples(runs)).curves[KEY].interval(10.0) or (math.nan, math.nan)
        widths.append(high - low)
    assert widths[1] > 0.8 * widths[0]


def test_no_interval_is_given_where_one_buffer_alone_lies_on_the_rise() -> None:
    """It would reach from minus to plus millions of Mbit/s."""
    levels = {0.5: (170.0, 173.7)} | {0.5 * number: (231.4, 231.6) for number in range(2, 7)}
    samples = [Sample(KEY, bs, tp, run) for bs, runs in levels.items() for run, tp in enumerate(runs)]
    curve = Saturating().fit(samples).curves[KEY]
    for bs in (0.6, 3.0):
        low, high = curve.interval(bs) or (0.0, 0.0)
        assert high - low < 500, (bs, low, high)


growths = st.builds(
    lambda t0, r, d, b0, h: Growth((t0, r, d), b0, h),
    st.floats(0, 100),
    st.floats(1, 300),
    st.sampled_from([0.0, 0.1, 1.0, 5.0]),
    st.floats(0.3, 40),
    st.sampled_from([1.0, 2.0, 4.0]),
)


@given(growths, st.floats(0, 1))
def test_closed_forms_and_search_agree(curve: Growth, share: float) -> None:
    searched = Searched(curve)
    (_, top), (_, top_searched) = curve.maximum(0.5, 30.0), searched.maximum(0.5, 30.0)
    assert top == pytest.approx(top_searched, rel=1e-6, abs=1e-6)
    target = min(curve.predict(0.5) + share * (top - curve.predict(0.5)), top)
    size, other = curve.smallest_buffer(target, 0.5, 30.0), searched.smallest_buffer(target, 0.5, 30.0)
    assert size is not None
    assert curve.predict(size) >= target - 1e-6 * (1 + abs(target))
    if other is not None and top - target > 1e-3:
        assert size == pytest.approx(other, abs=0.03)


class Searched(Curve):
    """The same curve as one known by its values only."""

    def __init__(self, known: Growth) -> None:
        self.known = known

    def predict(self, buffer_mib: float) -> float:
        """Ask the known one."""
        return self.known.predict(buffer_mib)

    def interval(self, buffer_mib: float) -> None:
        """Return nothing."""

    def formula(self) -> str:
        """Name it."""
        return "by search"


def test_the_formula_reads_as_it_is() -> None:
    assert TRUE["with a decline"].formula() == "tp = 10 + 90 (1 - exp(-(bs / 3)^2)) - 1 bs"
    assert TRUE["exponential"].formula() == "tp = 0 + 100 (1 - exp(-(bs / 4)))"
