"""Model strings: what they mean, and that nothing else is accepted or evaluated."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptune.errors import InputError
from mptune.papers.glm.formula import parse


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("T ~ B + B^2 + CC + B:CC", "T ~ B + B^2 + CC + B:CC"),
        ("T~B*CC", "T ~ B + CC + B:CC"),
        ("T ~ B + CC*PM + B^2:CC", "T ~ B + CC + PM + CC:PM + B^2:CC"),
        ("T ~ (B + CC + PM)^2", "T ~ B + CC + PM + B:CC + B:PM + CC:PM"),
        ("T ~ (B + CC):PM", "T ~ B:PM + CC:PM"),
        ("T ~ B*B", "T ~ B + B^2"),
        ("T ~ B:B", "T ~ B^2"),
        ("T ~ (B)^2", "T ~ B^2"),
        ("T ~ a:b + b:a", "T ~ a:b"),
        ("T ~ B + B", "T ~ B"),
        ("T ~ log(B)*CC + sqrt(B)", "T ~ log(B) + CC + log(B):CC + sqrt(B)"),
        ("T ~ B - 1", "T ~ 0 + B"),
        ("T ~ 0 + B", "T ~ 0 + B"),
        ("T ~ 1 + B", "T ~ B"),
        ("T ~ 1", "T ~ 1"),
    ],
)
def test_meaning(text: str, meaning: str) -> None:
    formula = parse(text)
    assert str(formula) == meaning
    assert parse(str(formula)) == formula


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "expected a column before ~"),
        ("T", "expected ~, found the end"),
        ("T ~", "found the end"),
        ("T ~ B +", "found the end"),
        ("T ~ B; import os", "found ';'"),
        ("T ~ __import__('os')", 'found "\'"'),
        ("T ~ exit()", "expected an operator between terms, or one of log, sqrt"),
        ("T ~ log(B + 1)", "expected ), found '+'"),
        ("T ~ log(log(B))", "expected ), found '('"),
        ("T ~ B.__class__(x)", "expected an operator"),
        ("T ~ B[0]", "found '['"),
        ("T ~ B ** 2", "expected a column"),
        ("T ~ B^1.5", "expected a whole power"),
        ("T ~ B^0", "expected a whole power"),
        ("T ~ B^10", "expected a whole power"),
        ("T ~ B^9:B", "expected powers of at most 9"),
        ("T ~ -B", "expected 1 after -"),
        ("T ~ B B", "between terms"),
        ("T ~ B ~ CC", "between terms"),
        ("T ~ T + B", "expected T on one side of ~ only"),
        ("T ~ B:T^2", "expected T on one side of ~ only"),
        ("T ~ 2*B", "found '2'"),
        ("T ~ 1:B", "found the intercept"),
        ("T ~ (B + 0)", "expected the intercept outside parentheses"),
        ("T ~ " + "(" * 11 + "B", "at most 10 parentheses"),
        ("T ~ (a+b+c+d+e+f+g+h)^9", "at most 100 terms"),
        ("T ~ " + " + ".join(f"x{i}" for i in range(101)), "at most 100 terms"),
        ("T ~ " + "B + " * 400 + "B", "at most 1000 characters"),
        ("T ~ \u00b5", "found '\u00b5'"),
    ],
)
def test_refusals(text: str, wrong: str) -> None:
    with pytest.raises(InputError) as refused:
        parse(text)
    assert refused.value.where == "--model" and wrong in refused.value.expected


@given(st.text(alphabet="TBC aB1029^:*+-()~log;'.", max_size=60) | st.text(max_size=30))
def test_any_text_is_a_formula_or_refused(text: str) -> None:
    try:
        formula = parse(text)
    except InputError:
        return
    assert parse(str(formula)) == formula
