"""The smoothing model: it smooths noise, keeps shape, and its interval covers."""

import math

import numpy as np
import pytest
from scipy.interpolate import make_smoothing_spline

from mptune.response import Curve, Sample
from mptune.response.smooth import Smooth
from mptune.trial import Combination

KEY = Combination("fullmesh", "cubic")
BUFFERS = [0.5 * (i + 1) for i in range(40)]


def wavy(bs: float) -> float:
    """A window, a collapse and a slow recovery, as with a blocked fast path."""
    return 200 + 70 * math.exp(-((bs - 1) ** 2) * 4) - 120 * math.exp(-((bs - 4) ** 2) / 6) + 2 * bs


def fitted(truth, noise: float, seed: int = 1, runs: int = 3) -> Curve:
    rng = np.random.default_rng(seed)
    samples = [
        Sample(KEY, bs, truth(bs) + noise * float(rng.normal()), run) for bs in BUFFERS for run in range(runs)
    ]
    return Smooth().fit(samples).curves[KEY]


def test_without_noise_it_passes_through_every_mean() -> None:
    curve = fitted(wavy, 0.0)
    assert [curve.predict(bs) for bs in BUFFERS] == pytest.approx([wavy(bs) for bs in BUFFERS], abs=0.5)


def test_of_a_straight_line_in_log_buffer_only_the_line_is_left() -> None:
    curve = fitted(lambda bs: 50 + 10 * math.log(bs), 2.0)
    assert all(abs(curve.predict(bs) - 50 - 10 * math.log(bs)) < 1.5 for bs in BUFFERS)


def test_it_is_closer_to_the_truth_than_the_means_are() -> None:
    """Over 20 noisy sweeps its squared error is below that of the means."""
    smooth = raw = 0.0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        values = {bs: [wavy(bs) + 15 * float(rng.normal()) for _ in range(2)] for bs in BUFFERS}
        curve = Smooth().fit([Sample(KEY, bs, y) for bs, ys in values.items() for y in ys]).curves[KEY]
        smooth += sum((curve.predict(bs) - wavy(bs)) ** 2 for bs in BUFFERS)
        raw += sum((sum(ys) / 2 - wavy(bs)) ** 2 for bs, ys in values.items())
    assert smooth < 0.8 * raw


def test_the_spline_is_that_of_an_independent_implementation() -> None:
    """The same family as scipy's smoothing spline over log buffer: at its own smoothness the same values."""
    rng = np.random.default_rng(3)
    ys = np.array([wavy(bs) + 10 * float(rng.normal()) for bs in BUFFERS])
    curve = Smooth().fit([Sample(KEY, bs, float(y)) for bs, y in zip(BUFFERS, ys, strict=True)]).curves[KEY]
    ours = np.array([curve.predict(bs) for bs in BUFFERS])
    x = np.log(BUFFERS)
    distances = [
        np.abs(make_smoothing_spline(x, ys, lam=lam)(x) - ours).max() for lam in np.geomspace(1e-8, 10, 400)
    ]
    assert min(distances) < 0.5


def test_the_interval_covers_on_the_average_over_the_buffers() -> None:
    """Nychka's interval: 95 % over all buffers of 60 sweeps together, within 3 %."""
    inside = total = 0
    for seed in range(60):
        curve = fitted(wavy, 8.0, seed=seed, runs=2)
        for bs in BUFFERS:
            low, high = curve.interval(bs) or (math.nan, math.nan)
            inside += low <= wavy(bs) <= high
            total += 1
    assert inside / total == pytest.approx(0.95, abs=0.03)


def test_the_throughput_of_a_window_is_recovered() -> None:
    """The best buffer is inside the window, and the inverse is before the collapse."""
    curve = fitted(wavy, 3.0)
    assert curve.maximum(0.5, 10.0)[0] == pytest.approx(1.0)
    reached = curve.smallest_buffer(240.0, 0.5, 20.0)
    assert reached is not None and reached < 1.0


def test_two_buffers_give_a_straight_line() -> None:
    curve = Smooth().fit([Sample(KEY, 1.0, 10.0), Sample(KEY, 3.0, 30.0)]).curves[KEY]
    assert curve.predict(2.0) == pytest.approx(20.0) and curve.interval(2.0) is None


def test_outside_the_measured_range_it_stays_level() -> None:
    curve = fitted(wavy, 0.0)
    assert curve.predict(0.1) == curve.predict(0.5) and curve.predict(99.0) == curve.predict(20.0)
