"""The contract of every response model: a new one is tested by its line in MODELS."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mptune.errors import MptuneError
from mptune.response import MODELS, Curve, Sample, means
from mptune.trial import Combination

LOW, HIGH = 0.5, 29.5
BUFFERS = [LOW + i for i in range(30)]
TOPS = {"cubic": 90.0, "olia": 70.0}
SHAPES = [name for name in MODELS if name != "auto"]


def observations(seed: int = 1, noise: float = 3.0, runs: int = 3, dip: float = 0.0) -> list[Sample]:
    """Saturating throughput, with a dip at small buffers if asked for."""
    rng = np.random.default_rng(seed)
    return [
        Sample(
            Combination("fullmesh", cc),
            bs,
            top * (1 - math.exp(-bs / 4)) - dip * math.exp(-((bs - 3) ** 2)) + noise * float(rng.normal()),
            run,
        )
        for (cc, top), bs, run in itertools.product(TOPS.items(), BUFFERS, range(runs))
    ]


def curve(name: str, **how: float) -> Curve:
    return MODELS[name].fit(observations(**how)).curves[Combination("fullmesh", "cubic")]  # type: ignore[arg-type]


def test_names_are_keys() -> None:
    assert all(MODELS[name].name == name for name in MODELS)


@pytest.mark.parametrize("name", list(MODELS))
def test_the_response_names_its_model_and_has_a_curve_for_each_combination(name: str) -> None:
    response = MODELS[name].fit(observations())
    assert response.model in SHAPES and (name in ("auto", response.model))
    assert set(response.curves) == {Combination("fullmesh", cc) for cc in TOPS}
    assert response.r_squared is not None and 0.5 < response.r_squared < 1
    assert response.qualities[0].n == len(observations())


@pytest.mark.parametrize("name", SHAPES)
def test_curves_are_those_of_the_fit(name: str) -> None:
    """The quick way that resampling takes gives the same curves, and no intervals."""
    samples = observations()
    fitted, quick = MODELS[name].fit(samples).curves, MODELS[name].curves(means(samples))
    for combination, fitted_curve in fitted.items():
        assert [quick[combination].predict(bs) for bs in BUFFERS] == pytest.approx(
            [fitted_curve.predict(bs) for bs in BUFFERS]
        )
        assert quick[combination].interval(5.0) is None and fitted_curve.interval(5.0) is not None


@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=25)
@given(seed=st.integers(0, 50), dip=st.sampled_from([0.0, 40.0]), share=st.floats(0, 1))
def test_the_inverse_is_the_smallest_buffer_that_reaches(
    name: str, seed: int, dip: float, share: float
) -> None:
    fitted_curve = curve(name, seed=seed, dip=dip)
    points = [LOW + i * (HIGH - LOW) / 400 for i in range(401)]
    _, top = fitted_curve.maximum(LOW, HIGH)
    floor = min(fitted_curve.predict(bs) for bs in points)
    target = min(floor + share * (top - floor), top)
    size = fitted_curve.smallest_buffer(target, LOW, HIGH)
    assert size is not None and LOW <= size <= HIGH
    assert fitted_curve.predict(size) >= target - 1e-6
    assert all(fitted_curve.predict(bs) < target + 1e-6 for bs in points if bs < size)


@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=25)
@given(seed=st.integers(0, 50), dip=st.sampled_from([0.0, 40.0]))
def test_nothing_is_higher_than_the_maximum(name: str, seed: int, dip: float) -> None:
    fitted_curve = curve(name, seed=seed, dip=dip)
    buffer, top = fitted_curve.maximum(LOW, HIGH)
    assert LOW <= buffer <= HIGH and fitted_curve.predict(buffer) == pytest.approx(top)
    assert all(fitted_curve.predict(LOW + i * (HIGH - LOW) / 400) <= top + 1e-9 for i in range(401))
    assert fitted_curve.smallest_buffer(top + 0.1, LOW, HIGH) is None


@pytest.mark.parametrize("name", SHAPES)
def test_the_interval_holds_the_prediction(name: str) -> None:
    fitted_curve = curve(name)
    for bs in (LOW, 3.3, 10.0, HIGH):
        low, high = fitted_curve.interval(bs) or (math.nan, math.nan)
        assert low < fitted_curve.predict(bs) < high


@pytest.mark.parametrize("name", [name for name in SHAPES if MODELS[name].min_buffers > 1])
def test_too_few_buffers_are_an_error(name: str) -> None:
    few = [sample for sample in observations() if sample.buffer_mib == LOW]
    with pytest.raises(MptuneError, match="needs"):
        MODELS[name].fit(few)


@pytest.mark.parametrize("name", list(MODELS))
def test_throughput_that_never_varies_is_reported_not_fatal(name: str) -> None:
    flat = [Sample(Combination("fullmesh", "reno"), bs, 0.8, run) for bs in BUFFERS for run in range(2)]
    response = MODELS[name].fit(flat)
    assert response.r_squared is None and any("does not vary" in text for text in response.warnings)
    assert response.curves[Combination("fullmesh", "reno")].predict(7.3) == pytest.approx(0.8, rel=1e-4)
