"""Stated models against certified and published results: NIST StRD to 6 digits, SAS/STAT to those printed."""

from pathlib import Path

import numpy as np
import pytest

from mptune.papers.glm.stated import Stated, Statement, fit_stated
from mptune.table import ReadOptions

DATA = Path(__file__).parent / "reference"


def stated(name: str, model: str, *factors: str) -> Stated:
    return fit_stated(str(DATA / f"{name}.csv"), Statement(model=model), ReadOptions(factors=factors))


POLYNOMIAL = "y ~ x + x^2 + x^3 + x^4 + x^5"
WAMPLER = (
    *(2152.32624678170, 2363.55173469681, 779.343524331583),
    *(101.475507550350, 5.64566512170752, 0.112324854679312),
)

#: Data, model, estimates, their standard deviations, residual standard deviation, R-square: all certified.
REGRESSIONS = [
    (
        *("norris", "y ~ x", (-0.262323073774029, 1.00211681802045)),
        *((0.232818234301152, 0.429796848199937e-3), 0.884796396144373, 0.999993745883712),
    ),
    (
        *("pontius", "y ~ x + x^2", (0.673565789473684e-3, 0.732059160401003e-6, -0.316081871345029e-14)),
        (0.107938612033077e-3, 0.157817399981659e-9, 0.486652849992036e-16),
        *(0.205177424076185e-3, 0.999999900178537),
    ),
    ("noint1", "y ~ 0 + x", (2.07438016528926,), (0.0165289256198347,), 3.56753034006338, 0.999365492298663),
    (
        *("longley", "y ~ x1 + x2 + x3 + x4 + x5 + x6"),
        (
            *(-3482258.63459582, 15.0618722713733, -0.0358191792925910, -2.02022980381683),
            *(-1.03322686717359, -0.0511041056535807, 1829.15146461355),
        ),
        (
            *(890420.383607373, 84.9149257747669, 0.0334910077722432, 0.488399681651699),
            *(0.214274163161675, 0.226073200069370, 455.478499142212),
        ),
        *(304.854073561965, 0.995479004577296),
    ),
    ("wampler1", POLYNOMIAL, (1, 1, 1, 1, 1, 1), (0,) * 6, 0, 1),
    ("wampler2", POLYNOMIAL, (1, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5), (0,) * 6, 0, 1),
    ("wampler3", POLYNOMIAL, (1,) * 6, WAMPLER, 2360.14502379268, 0.999995559025820),
    (
        *("wampler4", POLYNOMIAL, (1,) * 6, tuple(100 * sd for sd in WAMPLER)),
        *(236014.502379268, 0.957478440825662),
    ),
    (
        *("wampler5", POLYNOMIAL, (1,) * 6, tuple(1e4 * sd for sd in WAMPLER)),
        *(0.236014502379268e8, 0.224668921574940e-2),
    ),
]


@pytest.mark.parametrize(("name", "model", "values", "errors", "residual", "r_squared"), REGRESSIONS)
def test_certified_regressions(
    name: str,
    model: str,
    values: tuple[float, ...],
    errors: tuple[float, ...],
    residual: float,
    r_squared: float,
) -> None:
    fit = stated(name, model).fit
    estimates = fit.estimates()
    assert [estimate.value for estimate in estimates] == pytest.approx(values, rel=1e-6)
    assert [estimate.error or 0.0 for estimate in estimates] == pytest.approx(errors, rel=1e-6, abs=0)
    assert fit.root_mse == pytest.approx(residual, rel=1e-6, abs=0)
    assert fit.r_squared == pytest.approx(r_squared, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "between", "df", "within", "f", "r_squared"),
    [
        (
            *("atmwtag", 3.63834187500000e-09, (1, 46), 1.04951729166667e-08),
            *(15.9467335677930, 0.257426544538321),
        ),
        ("sirstv", 5.11462616e-2, (4, 20), 2.16636560e-1, 1.18046237440255, 0.190999039051129),
        ("smls01", 1.68, (8, 180), 1.80, 21.0, 0.482758620689655),
        ("smls04", 1.68, (8, 180), 1.80, 21.0, 0.482758620689655),
    ],
)
def test_certified_analyses_of_variance(
    name: str, between: float, df: tuple[int, int], within: float, f: float, r_squared: float
) -> None:
    result = stated(name, "y ~ group", "group")
    (term,) = result.terms
    for squares, test in ((term.squares_one, term.type_one), (term.squares_three, term.type_three)):
        assert squares == pytest.approx(between, rel=1e-6)
        assert (test.df, test.df_resid) == df and test.f == pytest.approx(f, rel=1e-6)
    assert result.fit.squares == pytest.approx(within, rel=1e-6)
    assert result.fit.r_squared == pytest.approx(r_squared, rel=1e-6)


def test_thirteen_constant_digits_leave_what_a_float_holds() -> None:
    """SmLs07: 10^12 + 0.4 is a float to 6e-5 only, so that its F of 21 is to 3 digits at best."""
    (term,) = stated("smls07", "y ~ group", "group").terms
    assert term.type_three.f == pytest.approx(21.0, rel=1e-2)


def test_an_unbalanced_two_way_design() -> None:
    """Both types of sums of squares, and the least-squares means, of the SAS/STAT User's Guide."""
    result = stated("drugs", "y ~ drug + disease + drug:disease", "drug", "disease")
    whole = result.fit.whole()
    assert (whole.df, whole.df_resid) == (11, 46)
    assert result.fit.total - result.fit.squares == pytest.approx(4259.338506, rel=5e-10)
    assert result.fit.squares == pytest.approx(5080.816667, rel=5e-10)
    assert result.fit.r_squared == pytest.approx(0.456024, abs=5e-7)
    assert result.fit.root_mse == pytest.approx(10.50964, abs=5e-6)
    assert result.fit.cv_percent == pytest.approx(55.66750, abs=5e-6)
    assert (round(whole.f, 2), round(whole.p, 4)) == (3.51, 0.0013)
    assert [round(row.squares_one, 6) for row in result.terms] == [3133.238506, 418.833741, 707.266259]
    assert [round(row.squares_three, 6) for row in result.terms] == [2997.471860, 415.873046, 707.266259]
    assert [round(row.type_one.f, 2) for row in result.terms] == [9.46, 1.90, 1.07]
    assert [round(row.type_three.f, 2) for row in result.terms] == [9.05, 1.88, 1.07]
    assert [round(row.type_three.p, 4) for row in result.terms] == [0.0001, 0.1637, 0.3958]
    means = {row.levels["drug"]: row.mean.value for row in result.means if list(row.levels) == ["drug"]}
    cells = {
        drug: np.mean([_mean("drugs", drug=drug, disease=disease) for disease in "123"]) for drug in "1234"
    }
    assert means == pytest.approx(cells)
    assert means == pytest.approx(
        {"1": 25.9944444, "2": 26.5555556, "3": 9.7444444, "4": 13.5444444}, abs=5e-8
    )


def _mean(name: str, **levels: str) -> float:
    """Mean of y in one cell of a file."""
    header, *rows = (line.split(",") for line in (DATA / f"{name}.csv").read_text().splitlines())
    named = (dict(zip(header, row, strict=True)) for row in rows)
    return float(np.mean([float(row["y"]) for row in named if levels.items() <= row.items()]))


def test_an_analysis_of_covariance() -> None:
    """Types I and III differ, and the estimates have the last level as reference, as in SAS."""
    result = stated("leprosy", "after ~ drug + before")
    fit = result.fit
    assert fit.total - fit.squares == pytest.approx(871.497403, rel=5e-9)
    assert fit.squares == pytest.approx(417.202597, rel=5e-9)
    assert (round(fit.r_squared or 0, 6), round(fit.root_mse or 0, 6)) == (0.676261, 4.005778)
    assert round(fit.cv_percent or 0, 5) == 50.70604
    assert [round(row.squares_one, 4) for row in result.terms] == [293.6000, 577.8974]
    assert [round(row.squares_three, 7) for row in result.terms] == [68.5537106, 577.8974030]
    assert [(estimate.name, round(estimate.value, 6)) for estimate in fit.estimates()] == [
        ("intercept", -0.434671),
        ("drug=A", -3.446138),
        ("drug=D", -3.337167),
        ("drug=F", 0.0),
        ("before", 0.987184),
    ]
    assert [round(estimate.error or 0, 6) for estimate in fit.estimates()] == [
        2.471354,
        1.886781,
        1.853866,
        0,
        0.164498,
    ]
    assert {row.levels["drug"]: round(row.mean.value or 0, 7) for row in result.means} == {
        "A": 6.7149635,
        "D": 6.8239348,
        "F": 10.1611017,
    }
    assert [round(row.mean.error or 0, 7) for row in result.means] == [1.2884943, 1.2724690, 1.3159234]
