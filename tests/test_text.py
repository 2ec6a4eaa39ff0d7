"""Numbers for people."""

import pytest

from mptune._text import digits, pace


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (276.04, "276.0"),
        (0.81, "0.8100"),
        (12345.6, "12350"),
        (9.9996, "10.00"),
        (0.0, "0.000"),
        (-3.2561, "-3.256"),
    ],
)
def test_significant_digits(value: float, text: str) -> None:
    assert digits(value) == text


def test_fewer_digits_with_sign() -> None:
    assert (digits(13.58, 3, "+"), digits(-20.09, 3, "+")) == ("+13.6", "-20.1")


@pytest.mark.parametrize(
    ("per_s", "text"),
    [(154.52, "154.5 trials/s"), (1.0, "1.0 trials/s"), (0.032, "31 s a trial"), (0, "- trials/s")],
)
def test_a_slow_pace_is_a_time(per_s: float, text: str) -> None:
    assert pace(per_s, "trials") == text
