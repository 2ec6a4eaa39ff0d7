"""Kinds of values in a topology file: text to integer, within bounds, and back.

The bounds are what the core supports (`crates/mptune-core/src/network/`); they are checked here too,
because only here are the file and the key known. What is recorded of a value is in `_values`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from mptune import units
from mptune._text import quoted
from mptune.errors import one_of

T = TypeVar("T")

#: The lowest rate of a link that the core takes; below, nothing passes.
MIN_RATE_BPS = 100
_MAX_TIME = 100 * 10**9
_MAX_MOMENT = 10**6 * 10**9
_FULL_PACKET = 1500
#: IPv4 (20) and UDP (8) headers.
_SMALLEST_PACKET = 28
_SIZES = (256, 65_536)
_MAX_COUNT = 65_536
_WHOLE = units.FRACTIONS[""]


class Kind(NamedTuple, Generic[T]):
    """A kind of value: its reading (ValueError with a sentence if that fails) and its display.

    `plain` is its type in TOML: text, except for switches and counts.
    """

    parse: Callable[[Any], T]
    show: Callable[[T], str]
    example: str
    plain: type = str

    @property
    def wanted(self) -> str:
        """Expected value, for messages."""
        return f'text such as "{self.example}"' if self.plain is str else self.example


def _rate(text: str) -> int:
    value = units.parse_rate(text)
    if value < MIN_RATE_BPS:
        raise ValueError(f"expected a rate above zero (at least {MIN_RATE_BPS} bit/s), found {quoted(text)}")
    return value


def _rate_or_none(text: str) -> int:
    return 0 if units.parse_rate(text) == 0 else _rate(text)


def _time(text: str) -> int:
    return _at_most(units.parse_time(text), _MAX_TIME, text)


def _some_time(text: str) -> int:
    return _above_zero(_time(text), text)


def _moment(text: str) -> int:
    return _at_most(units.parse_time(text), _MAX_MOMENT, text)


def _at_most(value: int, most: int, text: str) -> int:
    if value > most:
        raise ValueError(f"expected at most {units.format_time(most)}, found {quoted(text)}")
    return value


def _above_zero(value: int, text: str) -> int:
    if value == 0:
        raise ValueError(f"expected more than 0, found {quoted(text)}")
    return value


def _queue(text: str) -> int:
    value = units.parse_size(text)
    if value < _FULL_PACKET:
        raise ValueError(
            f"expected room for at least one packet of {_FULL_PACKET} bytes, found {quoted(text)}"
        )
    return value


def _between(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = units.parse_size(text)
        if not least <= value <= most:
            raise ValueError(f"expected {least} to {most} bytes, found {quoted(text)}")
        return value

    return parse


def _loss(text: str) -> int:
    value = units.parse_fraction(text)
    if value == _WHOLE:
        raise ValueError(f"expected a loss below 100 %, found {quoted(text)}")
    return value


def _some_chance(text: str) -> int:
    return _above_zero(units.parse_fraction(text), text)


def _count(value: int) -> int:
    if not 1 <= value <= _MAX_COUNT:
        raise ValueError(f"expected 1 to {_MAX_COUNT}, found {value}")
    return value


def choice(options: dict[str, T]) -> Kind[T]:
    """Kind of a value that is one of several words."""

    def parse(text: str) -> T:
        if text not in options:
            raise ValueError(one_of(options, text))
        return options[text]

    names = {value: word for word, value in options.items()}
    return Kind(parse, lambda value: names[value], next(iter(options)))


RATE = Kind(_rate, units.format_rate, "100 Mbit/s")
#: A rate that may be 0 for a while.
STEP_RATE = Kind(_rate_or_none, units.format_rate, "100 Mbit/s")
TIME = Kind(_time, units.format_time, "12.4 ms")
SOME_TIME = Kind(_some_time, units.format_time, "12.4 ms")
#: A point in time of a trial, or a period of it.
MOMENT = Kind(_moment, units.format_time, "10 s")
PERIOD = Kind(lambda text: _above_zero(_moment(text), text), units.format_time, "10 s")
QUEUE = Kind(_queue, units.format_size, "256 KiB")
SIZE = Kind(units.parse_size, units.format_size, "30 kB")
PACKET = Kind(_between(_SMALLEST_PACKET, _FULL_PACKET), units.format_size, "1500 B")
QUANTUM = Kind(_between(*_SIZES), units.format_size, "1514 B")
#: A loss below 100 %.
LOSS = Kind(_loss, units.format_fraction, "0.1 %")
CHANCE = Kind(units.parse_fraction, units.format_fraction, "0.1 %")
SOME_CHANCE = Kind(_some_chance, units.format_fraction, "0.1 %")
#: A size that is not 0.
SOME_SIZE = Kind(lambda text: _above_zero(units.parse_size(text), text), units.format_size, "2 GB")
SWITCH = Kind[bool](bool, lambda on: "true" if on else "false", "true or false", bool)
COUNT = Kind[int](_count, str, "a whole number such as 1024", int)
