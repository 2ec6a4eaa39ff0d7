"""Stated models: the GLM study's worked examples, units, predictions, inverses with limits, refusals."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from mptune.errors import InputError
from mptune.papers.glm.stated import Stated, Statement, fit_stated
from mptune.papers.published import rows

#: Slope of each congestion control beyond that of Vegas (GLM study, Eq. 4).
SLOPES = {"Cubic": 0.659, "Hybla": 0.357, "OLIA": 0.915, "Reno": 0.683, "Scalable": 1.487, "Vegas": 0.0}

EQUATION_4 = "T ~ B + B^2 + B:CC"


def study(place: Path, noise: float = 0.0, seed: int = 1) -> str:
    """A file of Eq. 4 in the units of the paper: 40 buffers of its domain, 6 congestion controls."""
    rng = np.random.default_rng(seed)
    lines = ["throughput [bit/s],buffer [B],cc"]
    for buffer in np.linspace(1843200, 92160000, 40):
        for cc, slope in SLOPES.items():
            throughput = 6649290 + (3.542 + slope) * buffer - 3.301e-8 * buffer**2 + noise * rng.normal()
            lines.append(f"{max(float(throughput), 0.0)!r},{float(buffer)!r},{cc}")
    path = place / "study.csv"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def state(path: str, model: str = EQUATION_4, **asked: Any) -> Stated:
    return fit_stated(path, Statement(model=model, **asked))


@pytest.fixture
def lines(tmp_path: Path) -> Callable[..., str]:
    def write(header: str, *rows: str) -> str:
        path = tmp_path / "data.csv"
        path.write_text("\n".join([header, *rows]) + "\n")
        return str(path)

    return write


def test_the_worked_examples_of_the_study(tmp_path: Path) -> None:
    published = {row["item"]: float(row["value"]) for row in rows("glm_worked_examples")}
    result = state(
        study(tmp_path), predictions=("B=20000000,CC=scalable",), inverses=("T=20000000,CC=scalable",)
    )
    assert result.predictions[0].mean.value == pytest.approx(published["T(B=20,000,000), Scalable"], abs=0.5)
    assert result.inverses[0].value == pytest.approx(published["B for T=20,000,000 bit/s, Scalable"], abs=0.5)
    estimates = {estimate.name: estimate.value for estimate in result.fit.estimates()}
    for row in rows("glm_table4_coefficients"):
        parameter = str(row["parameter"])
        name = f"B:CC={row['cc']}" if row["cc"] else {"Intercept": "intercept"}.get(parameter, parameter)
        assert estimates[name] == pytest.approx(float(row["estimate_T_bit_s_B_byte"]), rel=1e-6)
    with pytest.raises(InputError) as refused:
        state(study(tmp_path), inverses=("T=200Mbit/s,CC=scalable",))
    top, at = published["T at maximum, Scalable"], published["B at maximum, Scalable"]
    assert f"at most {top:.0f}" in refused.value.expected and f"with B = {at:.0f}" in refused.value.expected


def test_the_published_variation_is_the_root_mse_over_the_mean() -> None:
    """All of Table III that can be computed: the 2160 observations were not published."""
    (row,) = rows("glm_table3_fit")
    cv = 100 * float(row["root_mse_bit_s"]) / float(row["mean_throughput_bit_s"])
    assert cv == pytest.approx(float(row["coeff_var_percent"]), abs=5e-6)


def test_units_change_numbers_and_no_test(tmp_path: Path) -> None:
    path = study(tmp_path, noise=2e7)
    paper = state(path, predictions=("B=20MiB,CC=OLIA",))
    ours = state(path, units=("Mbit/s", "MiB"), predictions=("B=20,CC=OLIA",))
    assert (paper.unit("T"), paper.unit("B")) == ("bit/s", "byte")
    assert (ours.unit("T"), ours.unit("B")) == ("Mbit/s", "MiB")
    assert (paper.predictions[0].mean.value or 0) / 1e6 == pytest.approx(ours.predictions[0].mean.value)
    assert [row.type_three.f for row in paper.terms] == pytest.approx(
        [row.type_three.f for row in ours.terms]
    )


def test_an_inverse_is_fieller_s_for_a_straight_line(lines: Callable[..., str]) -> None:
    rng = np.random.default_rng(3)
    x = np.linspace(1, 20, 40)
    y = 5 + 2 * x + rng.normal(size=40)
    result = state(
        lines("x,y", *(f"{a!r},{b!r}" for a, b in zip(x.tolist(), y.tolist(), strict=True))),
        "y ~ x",
        inverses=("y=25",),
    )
    (inverse,) = result.inverses
    slope, intercept = (float(value) for value in np.polyfit(x, y, 1))
    s2 = float(((y - intercept - slope * x) ** 2).sum()) / 38
    t = float(stats.t.ppf(0.975, 38))
    sxx, centre = float(((x - x.mean()) ** 2).sum()), float(x.mean())
    value = (25 - intercept) / slope
    g = t * t * s2 / (slope**2 * sxx)
    middle = centre + (value - centre) / (1 - g)
    half = t * math.sqrt(s2) / slope / (1 - g) * math.sqrt((1 - g) / 40 + (value - centre) ** 2 / sxx)
    assert inverse.value == pytest.approx(value)
    assert (inverse.low, inverse.high) == pytest.approx((middle - half, middle + half), rel=1e-9)


def test_inverse_limits_cover_the_buffer_as_often_as_they_promise(tmp_path: Path) -> None:
    covered, truth = 0, 2702691
    for seed in range(60):
        result = state(study(tmp_path, noise=1e6, seed=seed), inverses=("T=20Mbit/s,CC=scalable",))
        (inverse,) = result.inverses
        covered += (inverse.low or 0) <= truth <= (inverse.high or math.inf)
    assert 52 <= covered <= 60  # 57, within 3 standard deviations


def test_a_throughput_that_every_buffer_gives(tmp_path: Path) -> None:
    (inverse,) = state(study(tmp_path, noise=1e6), inverses=("T=1000,CC=reno",)).inverses
    assert inverse.at_end and inverse.value == 1843200


def test_what_is_left_open_stands_for_every_level(tmp_path: Path) -> None:
    result = state(study(tmp_path), predictions=("B=20MiB",), target_mbps=50.0)
    assert [row.levels["CC"] for row in result.predictions] == list(SLOPES)
    assert [row.levels["CC"] for row in result.inverses] == list(SLOPES)


def test_predictions_beyond_the_data_are_noted(tmp_path: Path) -> None:
    result = state(study(tmp_path, noise=1e6), predictions=("B=100MiB,CC=reno",))
    assert result.predictions[0].mean.value is not None
    assert any("is outside the data with CC=Reno (1843200 to 92160000 B)" in note for note in result.warnings)


def test_a_reference_level(tmp_path: Path) -> None:
    result = state(study(tmp_path), references=("CC=cubic",))
    estimates = {estimate.name: estimate.value for estimate in result.fit.estimates()}
    assert estimates["B:CC=Cubic"] == 0 and estimates["B:CC=Vegas"] == pytest.approx(-0.659)


def test_levels_never_measured_together_are_noted(lines: Callable[..., str]) -> None:
    cells = ("p,u", "p,v", "q,u", "r,u", "r,v") * 4
    path = lines("a,b,y", *(f"{cell},{i}" for i, cell in enumerate(cells)))
    crossed = state(path, "y ~ a + b + a:b", predictions=("a=q,b=v",))
    assert crossed.predictions[0].mean.value is None and crossed.predictions[0].low is None
    assert any("a=q,b=v is not determined by the data (Non-est)" in note for note in crossed.warnings)
    assert any("mean of a=q is not determined" in note for note in crossed.warnings)
    added = state(path, "y ~ a + b", predictions=("a=q,b=v",))
    assert added.predictions[0].mean.value is not None
    assert any("No row has a=q,b=v together" in note for note in added.warnings)


@pytest.mark.parametrize(
    ("model", "rows", "where", "wrong"),
    [
        ("y ~ z", ("1,1,a", "2,2,b"), "--model", "expected columns of"),
        ("g ~ x", ("1,1,a", "2,2,b"), "--model", "expected numbers in g, found levels"),
        ("y ~ x + g^2", ("1,1,a", "2,2,b", "3,4,a"), "--model", "expected g alone"),
        ("y ~ log(g)", ("1,1,a", "2,2,b", "3,4,a"), "--model", "expected g alone"),
        ("y ~ log(x)", ("0,1,a", "2,2,b", "3,4,a"), "--model", "expected numbers above 0 for log(x)"),
        (
            "y ~ sqrt(x)",
            ("-1,1,a", "2,2,b", "3,4,a"),
            "--model",
            "expected numbers of at least 0 for sqrt(x)",
        ),
        ("y ~ g", ("1,1,a", "2,2,a", "3,4,a"), "--model", "expected several levels of g"),
        ("y ~ x", ("1,1,a", "2,2,b"), "data.csv", "expected more than 2 usable rows for this model, found 2"),
        (
            "y ~ x + x^2",
            ("1,1,a", "2,2,a", "1,3,a", "2,5,a"),
            "--model",
            "but x^2 depends on those before it",
        ),
        ("y ~ 0", ("1,1,a", "2,2,b"), "--model", "expected at least one term"),
        ("y ~ x", ("1,1,a", "two,2,b", "3,3,a"), "row 3, column x", "expected a number as in other rows"),
        ("y ~ x", ("1,1,a", ",2,b", "3,3,a"), "row 3, column x", "expected a number, found nothing"),
        ("y ~ g", ("1,1,a", "2,2,", "3,3,b"), "row 3, column g", "expected a level, found nothing"),
        ("y ~ x", ("1,1,a", "1e999,2,b", "3,3,a"), "row 3, column x", "expected a number"),
        ("y ~ x^9", ("1e99,1,a", "2,2,b", "3,3,a"), "--model", "expected smaller numbers"),
    ],
)
def test_refusals(
    lines: Callable[..., str], model: str, rows: tuple[str, ...], where: str, wrong: str
) -> None:
    path = lines("x,y,g", *rows)
    with pytest.raises(InputError) as refused:
        state(path, model)
    assert wrong in refused.value.expected and where in str(refused.value)


def test_two_names_of_one_column(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="each column by one name"):
        state(study(tmp_path), "T ~ B + buffer")


def test_equal_columns_are_collinear(lines: Callable[..., str]) -> None:
    path = lines("x,y,z", *(f"{i},{i * i},{2 * i + 1}" for i in range(9)))
    with pytest.raises(InputError, match="z depends on those before it"):
        state(path, "y ~ x + z")


@pytest.mark.parametrize(
    ("asked", "wrong"),
    [
        ({"predictions": ("B=1",)}, None),
        ({"predictions": ("CC=reno",)}, "expected a value of B"),
        ({"predictions": ("B=1,CC=turbo",)}, "--predict: CC: expected one of"),
        ({"predictions": ("B=1,PM=default",)}, "--predict: expected one of B, CC"),
        ({"predictions": ("B",)}, "expected NAME=VALUE"),
        ({"predictions": ("B=1,B=2",)}, "expected B once"),
        ({"predictions": ("B=nan",)}, "--predict: B: expected a size"),
        ({"predictions": ("B=1 parsec",)}, "--predict: B: expected a size"),
        ({"predictions": ("B=10Mbit/s",)}, "--predict: B: expected a size"),
        ({"inverses": ("CC=reno",)}, "expected a value of T"),
        ({"inverses": ("T=1e9",)}, "--solve: expected a T that the model reaches"),
        (
            {"inverses": ("T=1e7,B=3",)},
            "expected one number column of the model (B) without a value, found 0",
        ),
        ({"references": ("CC=turbo",)}, "--reference: CC: expected one of"),
        ({"references": ("PM=default",)}, "--reference: expected one of CC"),
        ({"references": ("CC",)}, "--reference: expected NAME=VALUE"),
        ({"units": ("parsec",)}, "--units: expected one of bit/s"),
        ({"units": ("bit/s", "Mbit/s")}, "--units: expected one unit of a throughput"),
        ({"target_mbps": 1e6}, "--target: expected a T that the model reaches"),
    ],
)
def test_values_that_cannot_be(tmp_path: Path, asked: dict[str, Any], wrong: str | None) -> None:
    path = study(tmp_path)
    if wrong is None:
        assert len(state(path, **asked).predictions) == len(SLOPES)
        return
    with pytest.raises(InputError) as refused:
        state(path, **asked)
    assert wrong in str(refused.value)
