"""The whole procedure: the right form, what matters, the inverse, the validation, and what it refuses."""

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mptune.errors import InputError
from mptune.papers.glm.analysis import Analysis, AnalysisOptions, Verdict, analyse

SLOPES = {"cubic": 0.7, "olia": 1.4, "vegas": 0.0}
FORMS = {
    "linear": lambda b, cc, path: 7 + (4 + SLOPES[cc]) * b,
    "quadratic": lambda b, cc, path: 7 + (4 + SLOPES[cc]) * b - 0.1 * b**2,
    "logarithmic": lambda b, cc, path: 7 + (10 + 5 * SLOPES[cc]) * math.log(b),
    "square-root": lambda b, cc, path: 7 + (9 + 5 * SLOPES[cc]) * math.sqrt(b),
}


def verdict(analysis: Analysis, family: str) -> Verdict:
    return next(verdict for verdict in analysis.verdicts if verdict.family == family)


@pytest.mark.parametrize("form", list(FORMS))
def test_the_form_the_data_were_made_by_is_chosen(simulate, form: str) -> None:
    """Linear data are a quadratic without curvature: both forms find the same model."""
    analysis = analyse(simulate(FORMS[form], noise=1.0, seed=1), AnalysisOptions(alpha=0.001))
    assert analysis.best.form == form or {term.power for term in analysis.best.terms} == {1}
    assert verdict(analysis, "cc").in_model and verdict(analysis, "buffer").in_model


@settings(max_examples=30)
@given(
    intercept=st.floats(0, 50),
    slope=st.floats(3, 8),
    curvature=st.floats(-0.12, -0.04),
    gap=st.floats(0.5, 2),
    noise=st.floats(0.1, 2),
    seed=st.integers(0, 2**32 - 1),
)
def test_whatever_the_coefficients_they_are_recovered(
    simulate, intercept: float, slope: float, curvature: float, gap: float, noise: float, seed: int
) -> None:
    """Within six standard errors, in a model of the shape of Eq. 4: slopes differ, intercepts do not."""
    gaps = {"cubic": gap, "olia": 2 * gap, "vegas": 0.0}
    data = simulate(
        lambda b, cc, path: intercept + (slope + gaps[cc]) * b + curvature * b**2, noise=noise, seed=seed
    )
    options = AnalysisOptions(forms=("quadratic",), alpha=1e-6)
    estimates = {estimate.name: estimate for estimate in analyse(data, options).best.estimates()}
    truth = {
        "intercept": intercept,
        "B": slope,
        "B^2": curvature,
        "B * cc=cubic": gap,
        "B * cc=olia": 2 * gap,
    }
    assert set(estimates) == set(truth)
    for name, value in truth.items():
        assert abs(estimates[name].value - value) <= 6 * (estimates[name].error or 0.0)


def test_the_initial_path_does_not_matter_as_in_the_study(simulate) -> None:
    analysis = analyse(simulate(FORMS["quadratic"], noise=4.0, seed=11), AnalysisOptions())
    path = verdict(analysis, "initial_path")
    assert not path.in_model
    assert path.test.p > 0.05 and path.test.df == 4  # two levels' main effects and slopes


def test_the_p_of_a_factor_that_does_nothing_is_uniform(simulate) -> None:
    """Kolmogorov and Smirnov over 300 data sets; p above 0.05, as the smaller ones are of chosen terms."""
    classical, robust = [], []
    for seed in range(300):
        data = simulate(FORMS["quadratic"], noise=4.0, seed=seed)
        path = verdict(analyse(data, AnalysisOptions(forms=("quadratic",))), "initial_path")
        if not path.in_model:
            classical.append(path.test.p)
            assert path.robust_p is not None
            robust.append(path.robust_p)
    assert len(classical) > 270
    assert stats.kstest(classical, lambda p: (p - 0.05) / 0.95).pvalue > 0.01
    low, high = stats.binom.interval(0.999, len(robust), 0.5)
    assert low <= sum(p <= 0.525 for p in robust) <= high


def test_the_inverse_gives_the_target(simulate) -> None:
    analysis = analyse(simulate(FORMS["quadratic"], noise=0.1, seed=1), AnalysisOptions(target_mbps=40.0))
    for key, buffer in analysis.targets.items():
        assert isinstance(buffer, float)
        assert FORMS["quadratic"](buffer, key.cc, "") == pytest.approx(40.0, abs=0.3)
        assert buffer < 20.0  # the smaller root: the vertex is at 20 MiB or more


def test_a_target_only_some_reach_has_its_reason_for_the_others(simulate) -> None:
    analysis = analyse(simulate(FORMS["quadratic"], noise=0.1, seed=1), AnalysisOptions(target_mbps=55.0))
    reached = {key.cc: isinstance(target, float) for key, target in analysis.targets.items()}
    assert reached == {"cubic": True, "olia": True, "vegas": False}
    (reason,) = [target for target in analysis.targets.values() if isinstance(target, str)]
    assert "the vertex" in reason and "found 55" in reason


def test_a_target_above_every_vertex_is_refused(simulate) -> None:
    with pytest.raises(InputError, match=r"--target: expected at most 79\..* Mbit/s.*found 90"):
        analyse(simulate(FORMS["quadratic"], noise=0.01, seed=1), AnalysisOptions(target_mbps=90.0))


def test_validation_measures_the_error_on_fresh_data(simulate) -> None:
    """Noise of 5 % of about 45 Mbit/s, and what lies outside the domain is left out and counted."""
    data = simulate(FORMS["quadratic"], noise=2.0, seed=1)
    fresh = simulate(FORMS["quadratic"], noise=2.0, seed=2, buffers=(10.0, 20.0, 40.0))
    validation = analyse(data, AnalysisOptions(), fresh).validation
    assert validation is not None
    assert (validation.n, validation.outside) == (18, 9)
    assert 0.01 < validation.errors["quadratic"] < 0.08
    assert validation.errors["quadratic"] < validation.errors["logarithmic"]


def test_the_form_that_predicts_best_is_chosen_and_the_other_is_named(simulate) -> None:
    """R-square prefers the parabola of few observations; fresh ones show that it was noise."""
    data = simulate(FORMS["linear"], noise=12.0, seed=8, buffers=(1.0, 10.0, 28.0))
    forms = AnalysisOptions(forms=("linear", "quadratic"))
    alone = analyse(data, forms)
    assert alone.best.form == "quadratic" and any(term.power == 2 for term in alone.best.terms)
    fresh = msgspec.structs.replace(simulate(FORMS["linear"], noise=0.5, seed=9), path="fresh.csv")
    analysis = analyse(data, forms, fresh)
    assert analysis.best.form == "linear"
    (warning,) = [text for text in analysis.warnings if "R-square (" in text]
    assert warning.startswith("The quadratic form has a higher R-square") and "fresh.csv" in warning


def test_fewer_than_40_observations_a_variable_are_reported(simulate) -> None:
    """Buffer, two levels of cc and two of the initial path beside the references: 200 are asked for."""
    few = analyse(simulate(FORMS["quadratic"], noise=1.0, seed=1, runs=2), AnalysisOptions())
    (warning,) = [text for text in few.warnings if "study requires" in text]
    assert warning.startswith("180 observations of 5 variables (1 of buffer, 2 of cc, 2 of initial_path)")
    assert "that is 200" in warning
    many = analyse(simulate(FORMS["quadratic"], noise=1.0, seed=1, runs=3), AnalysisOptions())
    assert not any("study requires" in text for text in many.warnings)


def test_a_validation_file_with_other_levels_is_refused(simulate) -> None:
    data = simulate(FORMS["quadratic"], noise=1.0, seed=1)
    rows = tuple(msgspec.structs.replace(row, levels={**row.levels, "cc": "bbr"}) for row in data.rows)
    with pytest.raises(
        InputError, match=r"fresh\.csv: row 2, cc: expected one of cubic, olia, vegas, found 'bbr'"
    ):
        analyse(data, AnalysisOptions(), msgspec.structs.replace(data, path="fresh.csv", rows=rows))


def test_two_buffer_sizes_leave_the_quadratic_out_with_a_warning(simulate) -> None:
    data = simulate(FORMS["linear"], noise=1.0, seed=1, buffers=(1.0, 20.0))
    analysis = analyse(data, AnalysisOptions())
    assert "quadratic" not in [fit.form for fit in analysis.fits]
    assert any("quadratic form needs three buffer sizes" in text for text in analysis.warnings)
    with pytest.raises(InputError, match="buffer: expected at least three sizes for quadratic, found two"):
        analyse(data, AnalysisOptions(forms=("quadratic",)))


def test_throughput_that_never_varies_is_reported(simulate) -> None:
    analysis = analyse(simulate(lambda b, cc, path: 3.0, noise=0.0, seed=1), AnalysisOptions())
    assert not analysis.best.terms
    assert any("does not vary" in text for text in analysis.warnings)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (AnalysisOptions(forms=("cubic",)), "--forms: expected one of linear.*'cubic'"),
        (AnalysisOptions(forms=()), "--forms"),
        (AnalysisOptions(alpha=0.0), "--alpha: expected a probability"),
        (AnalysisOptions(ignore=("weekday",)), "--ignore: expected a factor"),
    ],
)
def test_impossible_options_are_refused(simulate, options: AnalysisOptions, message: str) -> None:
    with pytest.raises(InputError, match=message):
        analyse(simulate(FORMS["linear"], noise=1.0, seed=1), options)
