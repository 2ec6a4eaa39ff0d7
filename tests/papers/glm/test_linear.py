"""The linear model against statsmodels, and against its definitions."""

import itertools

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

from mptune.papers.glm.formula import parse
from mptune.papers.glm.linear import Data, LinearFit


def unbalanced(seed: int = 1) -> pd.DataFrame:
    """Two factors and a number, different counts in all cells."""
    rng = np.random.default_rng(seed)
    rows = [
        {"a": a, "b": b, "x": float(rng.uniform(0, 10))}
        for i, a in enumerate("pqr")
        for j, b in enumerate("uv")
        for _ in range(3 + 2 * i + j)
    ]
    frame = pd.DataFrame(rows)
    effect = frame["a"].map({"p": 0.0, "q": 3.0, "r": 1.0}) + frame["b"].map({"u": 0.0, "v": 2.0})
    frame["y"] = (
        effect + frame["x"] * frame["a"].map({"p": 1.0, "q": 1.5, "r": 0.5}) + rng.normal(size=len(frame))
    )
    return frame


def fitted(frame: pd.DataFrame, text: str) -> LinearFit:
    formula = parse(text)
    factors = [name for name in formula.names() if name in ("a", "b")]
    levels = {name: tuple(sorted(frame[name].unique())) for name in factors}
    numbers = [name for name in formula.names() if name not in factors]
    data = Data(
        y=frame["y"].to_numpy(),
        numbers={name: frame[name].to_numpy() for name in numbers},
        codes={name: np.array([levels[name].index(level) for level in frame[name]]) for name in factors},
        levels=levels,
    )
    return LinearFit(data, formula.terms, intercept=formula.intercept)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("y ~ a + b + a:b", "y ~ C(a, Sum) + C(b, Sum) + C(a, Sum):C(b, Sum)"),
        ("y ~ a + b + x", "y ~ C(a, Sum) + C(b, Sum) + x"),
        ("y ~ x + a + x:a", "y ~ x + C(a, Sum) + x:C(a, Sum)"),
        ("y ~ x + x^2 + a + b + a:b + x:a", "y ~ x + I(x**2) + C(a,Sum)*C(b,Sum) + x:C(a,Sum)"),
    ],
)
def test_type_three_is_that_of_contrasts_which_sum_to_zero(ours: str, theirs: str) -> None:
    frame = unbalanced()
    fit = fitted(frame, ours)
    whole = smf.ols(theirs, frame).fit()
    table = sm.stats.anova_lm(whole, typ=3).drop(index=["Intercept", "Residual"])
    expected = {
        name.replace("C(", "").replace(", Sum)", "").replace("I(x ** 2)", "x^2"): row
        for name, row in table.iterrows()
    }
    for effect, (squares, test) in zip(fit.effects, fit.type_three(), strict=True):
        row = expected[effect.name]
        assert squares == pytest.approx(row["sum_sq"], rel=1e-8)
        assert test.df == row["df"] and test.f == pytest.approx(row["F"], rel=1e-8)
        assert test.p == pytest.approx(row["PR(>F)"], rel=1e-6)


def test_type_one_is_what_each_term_adds() -> None:
    frame = unbalanced()
    texts = ["y ~ 1", "y ~ x", "y ~ x + a", "y ~ x + a + b", "y ~ x + a + b + a:b"]
    left = [fitted(frame, text).squares for text in texts]
    squares = [square for square, _ in fitted(frame, texts[-1]).type_one()]
    assert squares == pytest.approx([before - after for before, after in itertools.pairwise(left)])


def test_limits_are_those_of_statsmodels() -> None:
    frame = unbalanced()
    fit = fitted(frame, "y ~ x + a + x:a")
    theirs = smf.ols("y ~ x*a", frame).fit()
    row = fit.row({"x": 4.0}, {"a": "q"})
    expected = theirs.get_prediction(pd.DataFrame({"x": [4.0], "a": ["q"]})).summary_frame().iloc[0]
    mean = fit.mean(row)
    assert (mean.value, mean.low, mean.high) == pytest.approx(
        (expected["mean"], expected["mean_ci_lower"], expected["mean_ci_upper"])
    )
    half = fit.t_value * float(np.sqrt(fit.mean_square + fit.error(row) ** 2))
    assert (mean.value or 0) + half == pytest.approx(expected["obs_ci_upper"])


def test_the_reference_level_has_no_column_of_its_own() -> None:
    fit = fitted(unbalanced(), "y ~ a + x:b")
    zero = [estimate.name for estimate in fit.estimates() if estimate.value == 0]
    assert zero == ["a=r"] and all(
        estimate.error is None for estimate in fit.estimates() if estimate.name in zero
    )


def test_a_mean_that_an_empty_cell_hides_is_not_made_up() -> None:
    frame = unbalanced()
    frame = frame[~((frame["a"] == "p") & (frame["b"] == "u"))]
    fit = fitted(frame, "y ~ a + b + a:b")
    assert fit.mean(fit.row({}, {"a": "p"})).value is None
    assert fit.mean(fit.row({}, {"b": "u"})).value is None
    cells = frame.groupby(["a", "b"])["y"].mean()
    assert fit.mean(fit.row({}, {"a": "q"})).value == pytest.approx(cells["q"].mean())
    assert fit.mean(fit.row({}, {"a": "p", "b": "v"})).value == pytest.approx(cells["p", "v"])
    main = fitted(frame, "y ~ a + b")
    assert main.mean(main.row({}, {"a": "p"})).value is not None  # without the interaction it is determined


def test_the_unit_of_a_number_changes_no_test() -> None:
    """B in bytes and its square differ by 15 orders of magnitude."""
    frame = unbalanced()
    small, large = (
        fitted(frame, "y ~ x + x^2 + a"),
        fitted(frame.assign(x=frame["x"] * 2**20), "y ~ x + x^2 + a"),
    )
    for test, other in zip(small.type_three(), large.type_three(), strict=True):
        assert test[0] == pytest.approx(other[0], rel=1e-9)
    assert small.r_squared == pytest.approx(large.r_squared or 0, rel=1e-12)
    assert large.coefficients[1] * 2**20 == pytest.approx(small.coefficients[1], rel=1e-8)


def test_least_squares_means_cover_the_truth_as_often_as_their_limits_promise() -> None:
    covered = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame({"a": list("pq") * 15, "x": rng.uniform(0, 10, 30)})
        frame["y"] = (frame["a"] == "q") * 2.0 + frame["x"] + rng.normal(size=30)
        fit = fitted(frame, "y ~ a + x")
        mean = fit.mean(fit.row({}, {"a": "q"}))
        covered += (mean.low or 0) <= 2.0 + frame["x"].mean() <= (mean.high or 0)
    assert 180 <= covered <= 198  # 190 of 200, within 2.6 standard deviations
