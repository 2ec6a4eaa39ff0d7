"""The parabola in closed form, and the fit against data made from known coefficients."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mptune.errors import MptuneError
from mptune.response import Curve, Sample
from mptune.response.quadratic import Parabola, Quadratic
from mptune.trial import Combination

LOW, HIGH = 0.5, 30.0
BUFFERS = [0.5 + 1.5 * i for i in range(20)]
TRUE = {"cubic": (3.5, 4.85), "olia": (7.0, 5.26), "vegas": (4.7, 4.63)}  # intercept, slope
CURVATURE = -0.15


def observations(noise: float = 0.0, pm: str = "fullmesh", runs: int = 3) -> list[Sample]:
    rng = np.random.default_rng(7)
    return [
        Sample(Combination(pm, cc), bs, c0 + c1 * bs + CURVATURE * bs**2 + noise * rng.normal())
        for (cc, (c0, c1)), bs, _ in itertools.product(TRUE.items(), BUFFERS, range(runs))
    ]


@pytest.mark.parametrize("reference", list(TRUE))
def test_recovers_the_curves_whatever_the_reference_level(reference: str) -> None:
    data = sorted(observations(), key=lambda sample: sample.combination.cc != reference)
    response = Quadratic().fit(data)
    for cc, (c0, c1) in TRUE.items():
        curve = response.curves[Combination("fullmesh", cc)]
        assert [curve.predict(bs) for bs in BUFFERS] == pytest.approx(
            [c0 + c1 * bs + CURVATURE * bs**2 for bs in BUFFERS]
        )
    assert response.r_squared == pytest.approx(1.0)


def test_path_managers_are_fitted_apart() -> None:
    tilted = [
        Sample(Combination("pcdc", s.combination.cc), s.buffer_mib, 2 * s.value) for s in observations()
    ]
    response = Quadratic().fit(observations() + tilted)
    full, pcdc = (response.curves[Combination(pm, "olia")] for pm in ("fullmesh", "pcdc"))
    assert pcdc.predict(10.0) == pytest.approx(2 * full.predict(10.0))
    assert [quality.pm for quality in response.qualities] == ["fullmesh", "pcdc"]


def test_r_square_and_p_values_of_a_straight_case() -> None:
    """One congestion control: R-square = SSR/SST by hand; the significant terms are found so."""
    data = [s for s in observations(noise=2.0) if s.combination.cc == "cubic"]
    quality = Quadratic().fit(data).qualities[0]
    x, y = [s.buffer_mib for s in data], np.array([s.value for s in data])
    fitted = np.polyval(np.polyfit(x, y, 2), x)
    assert quality.r_squared == pytest.approx(((fitted - y.mean()) ** 2).sum() / ((y - y.mean()) ** 2).sum())
    assert set(quality.p_values) == {"intercept (cubic)", "bs (cubic)", "bs^2"}
    assert all(p is not None and p < 1e-4 for p in quality.p_values.values())


def test_the_interval_is_that_of_the_mean() -> None:
    """Of a single congestion control at the data's middle: Student's t times the textbook error."""
    flat = [Sample(Combination("fullmesh", "reno"), bs, y) for bs in (1.0, 2.0, 3.0) for y in (9.0, 11.0)]
    interval = Quadratic().fit(flat).curves[Combination("fullmesh", "reno")].interval(2.0)
    assert interval is not None
    # Three points, three coefficients: the curve passes through the means. s^2 = 6 / 3, error s / sqrt(2).
    assert interval == pytest.approx((10 - 3.1824 * 1.0, 10 + 3.1824 * 1.0), abs=1e-3)


def test_noise_is_called_out_but_does_not_stop_the_fit() -> None:
    response = Quadratic().fit(observations(noise=60.0))
    assert any("R-square" in text and "0.90" in text for text in response.warnings)
    assert any("not significant" in text for text in response.warnings)
    assert set(response.curves) == {Combination("fullmesh", cc) for cc in TRUE}


def test_a_good_fit_has_no_warning_about_r_square() -> None:
    assert not any("R-square" in text for text in Quadratic().fit(observations(noise=0.5)).warnings)


def test_throughput_that_never_varies_is_reported_not_fatal() -> None:
    flat = [Sample(Combination("fullmesh", "reno"), bs, 0.8) for bs in BUFFERS]
    response = Quadratic().fit(flat)
    assert response.r_squared is None
    assert any("does not vary" in text for text in response.warnings)
    assert response.curves[Combination("fullmesh", "reno")].predict(7.0) == pytest.approx(0.8)


def test_as_many_coefficients_as_observations() -> None:
    exact = [Sample(Combination("fullmesh", "reno"), bs, bs**2) for bs in (1.0, 2.0, 3.0)]
    response = Quadratic().fit(exact)
    assert response.curves[Combination("fullmesh", "reno")].interval(2.0) is None
    assert any("no p-values" in text for text in response.warnings)


def test_too_few_buffers_are_named() -> None:
    with pytest.raises(MptuneError, match=r"fullmesh.*three buffer sizes"):
        Quadratic().fit([s for s in observations() if s.buffer_mib < 3])


def test_formula_reads_like_table_4() -> None:
    assert Parabola((3.49, 4.85, -0.15)).formula() == "tp = 3.49 + 4.85 bs - 0.15 bs^2"


coefficients = st.tuples(st.floats(-100, 300), st.floats(-20, 20), st.floats(-1, 1))


@given(coefficients, st.floats(0, 1))
def test_the_inverse_is_the_smallest_buffer_that_reaches(c: tuple[float, float, float], share: float) -> None:
    curve = Parabola(c)
    _, top = curve.maximum(LOW, HIGH)
    floor = min(curve.predict(LOW + i * (HIGH - LOW) / 200) for i in range(201))
    target = min(floor + share * (top - floor), top)
    size = curve.smallest_buffer(target, LOW, HIGH)
    assert size is not None and LOW <= size <= HIGH
    slack = 1e-9 * (1 + abs(top) + abs(floor))
    assert curve.predict(size) >= target - slack
    assert all(curve.predict(LOW + i * (size - LOW) / 50) < target + slack for i in range(50) if size > LOW)


@given(coefficients)
def test_nothing_reaches_more_than_the_maximum(c: tuple[float, float, float]) -> None:
    curve = Parabola(c)
    buffer, top = curve.maximum(LOW, HIGH)
    assert LOW <= buffer <= HIGH
    assert all(curve.predict(LOW + i * (HIGH - LOW) / 100) <= top + 1e-9 * (1 + abs(top)) for i in range(101))
    assert curve.smallest_buffer(top + 1.0, LOW, HIGH) is None


# Not exactly what the lowest buffer gives: there the last digit decides between it and the next crossing.
@given(coefficients, st.floats(0.01, 0.99))
def test_closed_form_and_search_agree(c: tuple[float, float, float], share: float) -> None:
    closed, searched = Parabola(c), Searched(c)
    (_, top), (_, top_searched) = closed.maximum(LOW, HIGH), searched.maximum(LOW, HIGH)
    assert top_searched == pytest.approx(top, rel=1e-6, abs=1e-6)
    target = closed.predict(LOW) + share * (top - closed.predict(LOW))
    assume(top - target > 1e-3)
    size, found_searched = (
        closed.smallest_buffer(target, LOW, HIGH),
        searched.smallest_buffer(target, LOW, HIGH),
    )
    assert size is not None and found_searched is not None
    assert found_searched == pytest.approx(size, abs=0.03)  # one step of the search


class Searched(Curve):
    """The same parabola as a model without a closed form would offer it."""

    def __init__(self, c: tuple[float, float, float]) -> None:
        self.c = c

    def predict(self, buffer_mib: float) -> float:
        """Evaluate the parabola."""
        return math.fsum(ck * buffer_mib**k for k, ck in enumerate(self.c))

    def interval(self, buffer_mib: float) -> tuple[float, float] | None:
        """Return nothing: it was not fitted."""
        return None

    def formula(self) -> str:
        """Return the name of a curve known by its values only."""
        return "by search"
