"""A reproduced number, the effect of rounding on it, and the resulting verdict.

A paper prints rounded numbers and computes others from them. Every printed number is therefore an
interval here (half a unit of its last digit to either side), and so is what is recomputed from printed
inputs. No tolerance is chosen anywhere. The papers' modules choose the numbers to compare.
"""

import math
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal
from typing import Literal, NamedTuple

import msgspec

Verdict = Literal["agrees", "within rounding", "contradicts"]

#: All verdicts, in the order of tables.
VERDICTS: tuple[Verdict, ...] = ("agrees", "within rounding", "contradicts")

#: Relative difference up to which two floats are the same decimal number; far below any printed digit.
_FLOAT_ERROR = 1e-12

#: Significant digits of a recomputed number: enough for the longest printed one, without the last bits
#: of linear algebra, which differ between processors.
_DIGITS = 12

#: Comparisons under which the zeros at the end of a whole number are not digits ("about 2560").
_LOOSE = ("about", "ca.", "around")


class Printed(NamedTuple):
    """A number in a paper and what it may stand for.

    Attributes
    ----------
    text : as printed.
    value : the number itself.
    low, high : range of the numbers that would be printed like this; the same as `value` for exact numbers,
    unbounded on one side for statements such as "at least 50". decimals : digits after the point, for showing
    a recomputed number beside it.
    """

    text: str
    value: float
    low: float
    high: float
    decimals: int = 0


class Recomputed(NamedTuple):
    """The result of the printed inputs, and the least and the most their rounding allows."""

    value: float
    low: float
    high: float


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One published number beside the recomputed one.

    Attributes
    ----------
    key : stable name, "<paper>/<where>/<what>"; documented contradictions are listed by it.
    paper : name of the paper in `mptune.papers.reproduce.PAPERS`.
    where : table, equation, figure or section.
    published : as printed.
    recomputed : a number in `unit`, or names.
    low, high : what the rounding of the printed inputs allows; None for names.
    explanation : why a number differs from the printed one; empty if it does not.
    """

    key: str
    paper: str
    where: str
    quantity: str
    published: str
    recomputed: float | str
    low: float | None
    high: float | None
    unit: str
    verdict: Verdict
    explanation: str = ""


def rounded(text: str, comparison: str = "=", decimals: int | None = None) -> Printed:
    """Number that a paper rounded: half a unit of its last digit either side.

    Parameters
    ----------
    comparison : "about", "around" and "ca." make the zeros at the end of a whole number placeholders.
    decimals : digits after the point if the paper dropped zeros ("9.8" in a column of two decimals).
    """
    number = Decimal(text)
    if comparison.startswith(_LOOSE) and number == number.to_integral_value():
        number = number.normalize()
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), f"{text} is not finite"
    if decimals is not None:
        exponent = -decimals
    half = float(Decimal((0, (5,), exponent - 1)))
    value = float(number)
    return Printed(text, value, value - half, value + half, max(0, -exponent))


def exact(text: str) -> Printed:
    """Exact number: a setting, a count, a nominal rate."""
    number = Decimal(text)
    exponent = number.as_tuple().exponent
    return Printed(text, float(number), float(number), float(number), max(0, -int(exponent)))


def bound(text: str, comparison: str) -> Printed:
    """Bound in a paper: "at least", "above", "at most" or "below" a number."""
    value = float(text)
    low, high = {
        "at least": (value, math.inf),
        "above": (math.nextafter(value, math.inf), math.inf),
        "at most": (-math.inf, value),
        "below": (-math.inf, math.nextafter(value, -math.inf)),
    }[comparison]
    return Printed(f"{comparison} {text}", value, low, high, max(0, -int(Decimal(text).as_tuple().exponent)))


def reach(compute: Callable[[Sequence[float]], float], inputs: Sequence[Printed]) -> Recomputed:
    """Value of a formula at printed inputs, and its extremes over all they may stand for.

    Each input is moved alone to see in which direction it moves the result; the extremes lie where all of
    them pull the same way. That is exact for a formula that is monotone in every input across such a narrow
    interval, as all formulas here are; so is a decision as long as it stays the same.
    """
    at = [each_input.value for each_input in inputs]
    lowest, highest, values = list(at), list(at), [compute(at)]
    for i, printed in enumerate(inputs):
        low, high = (compute([*at[:i], end, *at[i + 1 :]]) for end in (printed.low, printed.high))
        lowest[i], highest[i] = (printed.low, printed.high) if low <= high else (printed.high, printed.low)
        values += [low, high]
    values += [compute(lowest), compute(highest)]
    return Recomputed(values[0], min(values), max(values))


def known(value: float) -> Recomputed:
    """Recomputed number whose inputs are exact, or whose rounding cannot move it."""
    return Recomputed(value, value, value)


def taken(text: str) -> Recomputed:
    """Printed number that needs no recomputing, with its rounding."""
    return Recomputed(*rounded(text)[1:4])


def number(
    key: str,
    where: str,
    quantity: str,
    published: Printed,
    recomputed: Recomputed,
    unit: str,
    note: str = "",
) -> Check:
    """Compare a number.

    Parameters
    ----------
    note : what to know about the number besides its rounding; shown unless it agrees.
    """
    slack = _FLOAT_ERROR * abs(recomputed.value)
    if published.low - slack <= recomputed.value <= published.high + slack:
        verdict: Verdict = "agrees"
    elif recomputed.low - slack <= published.high and published.low <= recomputed.high + slack:
        verdict = "within rounding"
    else:
        verdict = "contradicts"
    low, high = (_tidy(end) for end in recomputed[1:])
    spread = f"the rounding of the printed inputs allows {low:.7g} to {high:.7g}"
    return Check(
        key=key,
        paper=key.partition("/")[0],
        where=where,
        quantity=quantity,
        published=published.text,
        recomputed=_tidy(recomputed.value),
        low=low,
        high=high,
        unit=unit,
        verdict=verdict,
        explanation="" if verdict == "agrees" else note or spread,
    )


def names(
    key: str,
    where: str,
    quantity: str,
    published: str,
    recomputed: str,
    *,
    also: Collection[str] = (),
    note: str = "",
) -> Check:
    """Compare names: a set of subflows, a path manager with a congestion control.

    Parameters
    ----------
    also : what the rounding of the printed inputs allows besides `recomputed`.
    note : shown unless it agrees.
    """
    verdict: Verdict = "contradicts"
    if published == recomputed:
        verdict = "agrees"
    elif published in also:
        verdict = "within rounding"
    return Check(
        key=key,
        paper=key.partition("/")[0],
        where=where,
        quantity=quantity,
        published=published,
        recomputed=recomputed,
        low=None,
        high=None,
        unit="",
        verdict=verdict,
        explanation="" if verdict == "agrees" else note or "the rounding of the printed inputs allows it",
    )


def decimals_of(texts: Collection[str]) -> int:
    """Most digits after the point in a column: the resolution of all its numbers."""
    return max(max(0, -int(Decimal(text).as_tuple().exponent)) for text in texts)


def _tidy(value: float) -> float:
    """Value at `_DIGITS` significant digits, without a negative zero."""
    return float(f"{value:.{_DIGITS}g}") + 0.0
