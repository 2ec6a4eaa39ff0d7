"""Values with units as people write them ("100 Mbit/s", "12.4 ms"), to integers and exactly back.

Rates are bit/s, times nanoseconds, sizes bytes, fractions parts per billion (ppb). Arithmetic is decimal, so
nothing is lost: a finer value is refused, never rounded. A unit is required (only fractions have a plain
form). This module knows neither files nor options: it raises ValueError with a sentence, and the caller adds
where the text came from.
"""

import re
from collections.abc import Mapping
from decimal import Context, Decimal

from mptune._text import quoted

#: Unit -> bit/s. Powers of ten, as in the papers.
RATES = {"bit/s": 1, "kbit/s": 10**3, "Mbit/s": 10**6, "Gbit/s": 10**9}
#: Unit -> ns. "µs" may be spelled with either of the two Unicode letters.
TIMES = {"ns": 1, "us": 10**3, "\u00b5s": 10**3, "\u03bcs": 10**3, "ms": 10**6, "s": 10**9}
TIMES |= {"min": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9}
#: Bytes of a mebibyte, in which buffers are shown.
MIB = 2**20
#: Unit -> bytes. KiB, MiB, GiB are powers of two (the papers' buffers), kB, MB and GB powers of ten.
SIZES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "kB": 10**3, "MB": 10**6, "GB": 10**9}
#: Unit -> ppb; the empty unit is the plain fraction.
FRACTIONS = {"%": 10**7, "ppm": 10**3, "": 10**9}

#: The core's largest integer; far above anything physical, and it bounds the work on "9e999".
LIMIT = 2**63 - 1

_TEXT = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)\s*([A-Za-z\u00b5\u03bc%/]*)", re.ASCII)
_WHOLE = re.compile(r"[+-]?[0-9]{1,30}")
# 19 digits of a 63-bit integer and the 30 decimals of 1 B in GiB fit.
_EXACT = Context(prec=80)


def parse_rate(text: str) -> int:
    """Bit/s of "100 Mbit/s" (bit/s, kbit/s, Mbit/s, Gbit/s).

    Raises
    ------
    ValueError : no number with such a unit, negative, finer than 1 bit/s, or too large.
    """
    return _parse(text, RATES, "rate", "100 Mbit/s", "1 bit/s")


def parse_time(text: str) -> int:
    """Nanoseconds of "12.4 ms" (ns, us, µs, ms, s, min, h, d).

    Raises
    ------
    ValueError : no number with such a unit, negative, finer than 1 ns, or too large.
    """
    return _parse(text, TIMES, "time", "12.4 ms", "1 ns")


def parse_size(text: str) -> int:
    """Bytes of "256 KiB" (B, KiB, MiB, GiB; kB, MB and GB are powers of ten).

    Raises
    ------
    ValueError : no number with such a unit, negative, finer than 1 B, or too large.
    """
    return _parse(text, SIZES, "size", "256 KiB", "1 B")


def parse_count(text: str) -> int:
    """A whole number as people write it; Python's own syntax has more, and no end.

    Raises
    ------
    ValueError : it is none.
    """
    if not _WHOLE.fullmatch(text.strip()):
        raise ValueError(f"expected a whole number, found {quoted(text)}")
    return int(text)


def parse_fraction(text: str) -> int:
    """Parts per billion of "0.1 %", "1000 ppm" or "0.001".

    Raises
    ------
    ValueError : no such number, outside 0 to 100 %, or finer than 1 ppb.
    """
    ppb = _parse(text, FRACTIONS, "fraction", "0.1 %", "1 ppb")
    if ppb > FRACTIONS[""]:
        raise ValueError(f"expected a fraction between 0 and 100 %, found {quoted(text.strip())}")
    return ppb


def format_rate(bps: int, digits: int | None = None) -> str:
    """Text that `parse_rate` turns into `bps` again; rounded to `digits` significant ones if given."""
    return _format(bps, RATES, ("Gbit/s", "Mbit/s", "kbit/s", "bit/s"), digits)


def format_time(ns: int, digits: int | None = None) -> str:
    """Text that `parse_time` turns into `ns` again; rounded to `digits` significant ones if given."""
    return _format(ns, TIMES, ("s", "ms", "us", "ns"), digits)


def format_size(size: int, digits: int | None = None) -> str:
    """Text that `parse_size` turns into `size` again; rounded to `digits` significant ones if given.

    The exact form is the first of GiB, MiB, GB, KiB, MB and kB that needs at most two decimals, else bytes.
    """
    if digits is not None:
        return _format(size, SIZES, ("GiB", "MiB", "KiB", "B"), digits)
    short = [unit for unit in ("GiB", "MiB", "GB", "KiB", "MB", "kB") if size * 100 % SIZES[unit] == 0]
    return _format(size, SIZES, (*short, "B"), digits)


def format_fraction(ppb: int, digits: int | None = None) -> str:
    """Text that `parse_fraction` turns into `ppb` again; rounded to `digits` significant ones if given.

    Percent from 0.001 % on (and for 0), ppm below.
    """
    small = 0 < ppb < 10**4
    return _format(ppb, FRACTIONS, ("ppm",) if small else ("%",), digits)


def _parse(text: str, units: Mapping[str, int], what: str, example: str, finest: str) -> int:
    spelled = [unit for unit in units if unit not in ("", "\u03bcs")]
    expected = f'expected a {what} such as "{example}" (units: {", ".join(spelled)})'
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{expected}, found {quoted(text)}")
    number, unit = match.groups()
    if unit not in units:
        description = f"the unit {quoted(unit)}" if unit else f"{quoted(number)} without a unit"
        raise ValueError(f"{expected}, found {description}")
    value = _EXACT.multiply(Decimal(number), Decimal(units[unit]))
    if value < 0:
        raise ValueError(f"expected a {what} that is not negative, found {quoted(text.strip())}")
    if value > LIMIT:
        raise ValueError(f"expected a smaller {what}, found {quoted(text.strip())}")
    if value != value.to_integral_value():
        raise ValueError(f"expected a {what} in steps of {finest}, found {quoted(text.strip())}")
    return int(value)


def _format(value: int, units: Mapping[str, int], candidates: tuple[str, ...], digits: int | None) -> str:
    unit = next((u for u in candidates if value >= units[u]), candidates[-1])
    number = _EXACT.divide(Decimal(value), Decimal(units[unit]))
    if digits is not None and number:
        number = round(number, max(0, digits - 1 - number.adjusted()))
    text = f"{number:f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {unit}"
