"""Particulars of a belief: few observations are enough, and no acceptance of a fit applies."""

from mptune.response import BELIEF, MODELS, Sample
from mptune.trial import Combination

ONE, OTHER = Combination("fullmesh", "reno"), Combination("pcdc", "cubic")


def test_a_path_manager_measured_once_is_no_reason_for_a_warning() -> None:
    samples = [Sample(ONE, size, 10 * size, run) for size in (1.0, 2.0, 8.0) for run in range(2)]
    response = MODELS[BELIEF].fit([*samples, Sample(OTHER, 2.0, 70.0)])
    assert response.warnings == ()


def test_observations_that_scatter_are_no_reason_for_a_warning() -> None:
    """With runs this far apart no curve has an R-square near 1."""
    samples = [Sample(ONE, size, value, run) for size in (1.0, 2.0) for run, value in enumerate((1.0, 99.0))]
    response = MODELS[BELIEF].fit(samples)
    assert response.r_squared is not None and response.r_squared < 0.5
    assert response.warnings == ()


def test_a_curve_has_the_number_of_buffers_it_knows() -> None:
    samples = [Sample(ONE, 1.0, 10.0), Sample(ONE, 2.0, 20.0), Sample(OTHER, 2.0, 30.0)]
    curves = MODELS[BELIEF].fit(samples).curves
    assert [curves[key].formula() for key in (ONE, OTHER)] == [
        "belief after 2 buffers",
        "belief after 1 buffer",
    ]
