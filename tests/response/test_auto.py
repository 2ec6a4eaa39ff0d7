"""The choice by cross-validation: each model wins where it is right, and nothing held out leaks in."""

import itertools
import math

import numpy as np
import pytest

from mptune.response import MODELS, Sample
from mptune.response.auto import _folds, cross_validate
from mptune.trial import Combination

BUFFERS = [0.5 + 0.5 * i for i in range(30)]


def observations(truth, noise: float, runs: int = 3, seed: int = 1) -> list[Sample]:
    rng = np.random.default_rng(seed)
    return [
        Sample(Combination("fullmesh", cc), bs, factor * truth(bs) + noise * float(rng.normal()), run)
        for (cc, factor), bs, run in itertools.product(
            {"cubic": 1.0, "olia": 0.8}.items(), BUFFERS, range(runs)
        )
    ]


SHAPES = {
    "quadratic": lambda bs: 10 + 12 * bs - 0.5 * bs**2,
    "saturating": lambda bs: 100 * (1 - math.exp(-bs / 2.5)),
    "smooth": lambda bs: 100 + 40 * math.sin(1.2 * bs),
    # Steps at which a smooth curve swings and a growth curve cuts the corner.
    "monotone": lambda bs: 20 + 30.0 * (bs > 2) + 40.0 * (bs > 6) + 25.0 * (bs > 11),
}


@pytest.mark.parametrize("name", list(SHAPES))
def test_the_model_that_is_right_is_chosen(name: str) -> None:
    response = MODELS["auto"].fit(observations(SHAPES[name], 4.0))
    assert response.model == name, response.comparison
    errors = {model.model: model.rms_mbps for model in response.comparison}
    assert set(errors) == set(SHAPES)
    assert min(errors, key=lambda model: errors[model] or math.inf) == name


def test_the_error_of_the_right_model_is_the_noise() -> None:
    error = cross_validate(MODELS["quadratic"], observations(SHAPES["saturating"], 4.0))
    right = cross_validate(MODELS["saturating"], observations(SHAPES["saturating"], 4.0))
    assert right.rms_mbps == pytest.approx(4.0, rel=0.15)
    assert error.rms_mbps is not None and error.rms_mbps > 1.3 * 4.0
    assert set(right.by_pm) == {"fullmesh"} and right.by_pm["fullmesh"] == pytest.approx(right.rms_mbps)


@pytest.mark.parametrize("runs", [1, 2, 3, 7])
def test_folds_share_neither_buffers_nor_runs(runs: int) -> None:
    samples = observations(SHAPES["saturating"], 1.0, runs=runs)
    tested = []
    for train, test in _folds(samples):
        assert not {s.buffer_mib for s in train} & {s.buffer_mib for s in test}
        if runs > 1:
            assert not {s.run for s in train} & {s.run for s in test}
        assert {min(BUFFERS), max(BUFFERS)} <= {s.buffer_mib for s in train}
        tested += test
    assert sorted(tested) == sorted(s for s in samples if s.buffer_mib not in (min(BUFFERS), max(BUFFERS)))


def test_a_model_that_cannot_be_judged_is_left_out() -> None:
    """Three buffers: without the middle one a parabola is not determined, a straight line is."""
    few = [s for s in observations(SHAPES["saturating"], 1.0) if s.buffer_mib in (0.5, 5.0, 10.0)]
    response = MODELS["auto"].fit(few)
    errors = {model.model: model.rms_mbps for model in response.comparison}
    assert errors["quadratic"] is None and errors["saturating"] is None
    assert response.model in ("monotone", "smooth")


def test_two_buffers_cannot_be_judged_at_all_and_leave_the_belief() -> None:
    few = [s for s in observations(SHAPES["saturating"], 1.0) if s.buffer_mib in (0.5, 10.0)]
    response = MODELS["auto"].fit(few)
    assert response.model == "belief"
    assert all(model.rms_mbps is None for model in response.comparison)
