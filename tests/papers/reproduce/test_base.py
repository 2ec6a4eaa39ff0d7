"""Printed numbers as intervals, and the verdicts that follow from them alone."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mptune.papers.reproduce._base import bound, exact, known, names, number, reach, rounded, taken


@pytest.mark.parametrize(
    ("printed", "low", "high"),
    [
        (rounded("443"), 442.5, 443.5),
        (rounded("12.36"), 12.355, 12.365),
        (rounded("-3.301e-8"), -3.3015e-8, -3.3005e-8),
        (rounded("9.8", decimals=2), 9.795, 9.805),
        (rounded("2560", "about"), 2555, 2565),
        (rounded("300", "around"), 250, 350),
        (rounded("58.90", "ca."), 58.895, 58.905),
        (exact("30.0"), 30, 30),
        (bound("50", "at least"), 50, math.inf),
        (bound("2.1", "below"), -math.inf, math.nextafter(2.1, 0)),
    ],
)
def test_what_a_printed_number_may_stand_for(printed, low: float, high: float) -> None:
    assert printed.low == pytest.approx(low, rel=1e-12)
    assert printed.high == pytest.approx(high, rel=1e-12)


def test_a_strict_bound_leaves_out_the_number_itself() -> None:
    assert number("p/a", "", "", bound("0", "above"), known(0.0), "").verdict == "contradicts"
    assert number("p/a", "", "", bound("0", "at least"), known(0.0), "").verdict == "agrees"


quantities = st.floats(0.1, 1000, allow_nan=False)


@given(quantities, quantities, st.integers(0, 3), st.integers(0, 3))
def test_honest_rounding_never_contradicts(x: float, y: float, inputs: int, output: int) -> None:
    """Whoever computes from exact numbers and then rounds everything is never called wrong."""
    printed = [rounded(f"{value:.{inputs}f}") for value in (x, y)]
    assume(printed[1].low > 0)
    for compute in (lambda v: v[0] * v[1], lambda v: v[0] / v[1], lambda v: v[0] - v[1]):
        published = rounded(f"{compute((x, y)):.{output}f}")
        assert number("p/a", "", "", published, reach(compute, printed), "").verdict != "contradicts"


@given(quantities, quantities, st.floats(0, 1), st.floats(0, 1))
def test_reach_holds_every_input_that_rounds_to_the_printed_one(
    x: float, y: float, a: float, b: float
) -> None:
    printed = [rounded(f"{x:.1f}"), rounded(f"{y:.1f}")]
    assume(printed[1].low > 0.01)
    inside = [
        number.low + share * (number.high - number.low) for number, share in zip(printed, (a, b), strict=True)
    ]
    interval = reach(lambda v: v[0] / v[1], printed)
    assert interval.low * (1 - 1e-12) <= inside[0] / inside[1] <= interval.high * (1 + 1e-12)
    assert interval.low <= interval.value <= interval.high
    corners = [v / w for v in printed[0][2:4] for w in printed[1][2:4]]
    assert (interval.low, interval.high) == (min(corners), max(corners))


def test_the_three_verdicts() -> None:
    inputs = [rounded("2.0"), rounded("3.0")]
    product = reach(lambda v: v[0] * v[1], inputs)

    def verdict(text: str) -> str:
        return number("p/a", "", "", rounded(text), product, "").verdict

    # 1.95 * 2.95 = 5.7525 and 2.05 * 3.05 = 6.2525.
    assert [verdict(text) for text in ("6.0", "5.8", "6.3", "5.6", "6.4")] == [
        "agrees",
        "within rounding",
        "within rounding",
        "contradicts",
        "contradicts",
    ]


def test_explanations_stand_where_a_number_is_not_the_printed_one() -> None:
    off = number("p/a", "", "", rounded("5.8"), reach(sum, [rounded("5.8"), rounded("0.0")]), "")
    near = number("p/a", "", "", rounded("5.8"), reach(sum, [rounded("5.9"), rounded("0.0")]), "")
    assert off.explanation == ""
    assert "5.8" in near.explanation
    assert "6" in near.explanation
    assert number("p/a", "", "", rounded("5"), taken("5"), "", "a note").explanation == ""
    assert names("p/a", "", "", "A B", "A", also={"A B"}, note="a note").explanation == "a note"


def test_names_agree_when_equal_and_within_rounding_when_allowed() -> None:
    assert names("p/a", "", "", "A B", "A B").verdict == "agrees"
    assert names("p/a", "", "", "A B", "A", also={"A B"}).verdict == "within rounding"
    assert names("p/a", "", "", "A B", "A", also={"B"}).verdict == "contradicts"
