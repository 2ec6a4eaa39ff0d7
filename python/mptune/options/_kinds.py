"""Kinds of values: how they are written on a command line and in a file, checked and shown.

A kind knows neither the option nor the place: it raises ValueError with a sentence, and the caller adds where
the value was written.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from mptune import units
from mptune._text import quoted
from mptune.errors import one_of

T = TypeVar("T")

#: Types of a TOML file as messages name them; `bool` first, because it is an `int` too.
_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a table",
}


def _anything(value: object) -> None:
    pass


@dataclass(frozen=True, eq=False)
class Kind(Generic[T]):
    """A kind of value.

    Attributes
    ----------
    metavar : placeholder for a value in the help.
    parse : text -> value; ValueError for wrong syntax.
    show : value -> text that `parse` turns back into it.
    check : ValueError for an invalid value, wherever it came from.
    written : types of a value in a TOML file.
    expected : those types in words.
    known : names to choose from, for the help; empty if there are none or the help text explains them.
    several : may be repeated on the command line.
    labels : the names are labels of a topology's paths, which the topology checks.
    """

    metavar: str
    parse: Callable[[str], T]
    show: Callable[[T], str] = str
    check: Callable[[T], None] = _anything
    written: tuple[type, ...] = (str,)
    expected: str = "text"
    known: Callable[[], Sequence[str]] = tuple
    several: bool = False
    labels: bool = False

    def read(self, raw: object) -> T:
        """Value from a TOML file.

        Raises
        ------
        ValueError : it has the wrong type or syntax.
        """
        if type(raw) not in self.written:
            raise ValueError(f"expected {self.expected}, found {in_words(raw)}")
        return self.parse(_text(raw))


def in_words(raw: object) -> str:
    """Type of a value of a TOML file, in words."""
    return next((word for kind, word in _WORDS.items() if isinstance(raw, kind)), type(raw).__name__)


def _text(raw: Any) -> str:
    """A value of a TOML file as it would be written on the command line."""
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, list):
        for entry in raw:
            if isinstance(entry, bool | list | dict):
                raise ValueError(f"expected a list of single values, found {in_words(entry)} in it")
        return ",".join(map(str, raw))
    return str(raw)


#: Any text.
TEXT = Kind("TEXT", str)
#: On or off; on the command line a flag without a value.
SWITCH = Kind[bool](
    "", lambda text: text == "true", lambda on: str(on).lower(), written=(bool,), expected="true or false"
)

#: On, off or left alone; on the command line a flag, or the same with "no-" before its name.
TOGGLE = replace(SWITCH)


def count(least: int = 0, most: int = units.LIMIT, *, zero: str = "") -> Kind[int]:
    """Kind of a whole number within limits; `zero` explains what 0 means."""

    def check(value: int) -> None:
        if not least <= value <= most:
            low = f"{least} ({zero})" if zero else f"{least}"
            range_ = f"{low} or more" if most == units.LIMIT else f"{low} to {most}"
            raise ValueError(f"expected {range_}, found {value}")

    return Kind("N", units.parse_count, str, check, (int,), "a whole number")


def time(*, positive: bool = False, step_ns: int = 0) -> Kind[int]:
    """Kind of a time, nanoseconds; `step_ns` makes it a positive multiple of that."""

    def check(value: int) -> None:
        if step_ns and (value <= 0 or value % step_ns):
            multiple = f"a positive multiple of {step_ns / 1e9:g} s"
            raise ValueError(f"expected {multiple}, found {units.format_time(value)}")
        if value < int(positive):
            raise ValueError(f"expected more than 0, found {units.format_time(value)}")

    return Kind(
        "TIME", units.parse_time, lambda ns: units.format_time(ns).replace(" ", "") if ns else "0s", check
    )


def size(*, least: int = 1) -> Kind[int]:
    """Kind of an amount of data, bytes."""

    def check(value: int) -> None:
        if value < least:
            range_ = "more than 0" if least == 1 else f"at least {units.format_size(least)}"
            raise ValueError(f"expected {range_}, found {units.format_size(value)}")

    return Kind("SIZE", units.parse_size, lambda value: units.format_size(value).replace(" ", ""), check)


def share() -> Kind[float]:
    """Kind of a fraction below 1: "7%" or "0.07"."""
    whole = units.FRACTIONS[""]

    def check(value: float) -> None:
        if not 0 <= value < 1:
            raise ValueError(f"expected a share in [0, 1), found {value}")

    return Kind(
        "SHARE",
        lambda text: units.parse_fraction(text) / whole,
        lambda value: units.format_fraction(round(value * whole)).replace(" ", ""),
        check,
        (str, int, float),
        'a share such as "7%" or 0.07',
    )


def probability() -> Kind[float]:
    """Kind of a probability above 0 and below 1: "0.05" or "5%"."""
    kind = share()

    def check(value: float) -> None:
        if not 0 < value < 1:
            raise ValueError(f"expected a probability between 0 and 1, found {value}")

    return Kind("P", kind.parse, "{:g}".format, check, kind.written, 'a probability such as 0.05 or "5%"')


#: Ends of what a certainty may be: half is a guess, and beyond the other end nothing can be known from runs
#: that can be counted.
_CERTAINTIES = 0.5, 0.999


def confidence() -> Kind[float]:
    """Kind of a probability with which an answer has to hold: "95%" or "0.95"."""
    kind, (low, high) = share(), _CERTAINTIES

    def check(value: float) -> None:
        if not low <= value <= high:
            raise ValueError(f"expected {100 * low:g}% to {100 * high:g}%, found {100 * value:g}%")

    return Kind("P", kind.parse, kind.show, check, kind.written, 'a probability such as "95%" or 0.95')


def rate() -> Kind[int]:
    """Kind of a rate above 0, bit/s."""

    def check(value: int) -> None:
        if value <= 0:
            raise ValueError(f"expected more than 0, found {units.format_rate(value)}")

    return Kind("RATE", units.parse_rate, lambda bps: units.format_rate(bps).replace(" ", ""), check)


def rate_mbps() -> Kind[float]:
    """Kind of a rate, Mbit/s."""
    unit = units.RATES["Mbit/s"]

    def check(value: float) -> None:
        if value <= 0:
            raise ValueError(f"expected more than 0, found {value:g} Mbit/s")

    return Kind("RATE", lambda text: units.parse_rate(text) / unit, "{:g}Mbit/s".format, check)


def choice(known: Callable[[], Iterable[str]], *, listed: bool = True) -> Kind[str]:
    """Kind of a name; if `listed`, the help lists the known ones automatically."""

    def check(value: str) -> None:
        if value not in (names := tuple(known())):
            raise ValueError(one_of(names, value))

    return Kind("NAME", str.strip, str, check, known=lambda: tuple(known()) if listed else ())


def names(known: Callable[[], Iterable[str]]) -> Kind[tuple[str, ...]]:
    """Kind of one or more distinct names."""
    kind = choice(known)

    def check(value: tuple[str, ...]) -> None:
        if not value:
            raise ValueError(one_of(known(), None))
        for name in value:
            kind.check(name)
        check_distinct(value)

    return Kind(
        "NAME,...",
        words,
        ",".join,
        check,
        (str, list),
        "a list of names",
        known=kind.known,
        several=True,
    )


def texts(metavar: str = "TEXT,...", *, labels: bool = False) -> Kind[tuple[str, ...]]:
    """Kind of any distinct words, or none; `labels` for the labels of paths."""
    return Kind(
        metavar,
        words,
        ",".join,
        check_distinct,
        (str, list),
        "a list of words",
        several=True,
        labels=labels,
    )


def several(kind: Kind[T], *, distinct: bool = True) -> Kind[tuple[T, ...]]:
    """Kind of any number of values of a kind, each once unless they need not be `distinct`."""

    def parse(text: str) -> tuple[T, ...]:
        return tuple(kind.parse(part) for part in words(text))

    def check(values: tuple[T, ...]) -> None:
        for value in values:
            kind.check(value)
        if distinct:
            check_distinct(values, kind.show)

    return Kind(
        f"{kind.metavar},...",
        parse,
        lambda values: ",".join(map(kind.show, values)),
        check,
        (*kind.written, list),
        f"a list, or {kind.expected}",
        several=True,
        labels=kind.labels,
    )


def words(text: str) -> tuple[str, ...]:
    """Words between commas, in their order."""
    return tuple(part.strip() for part in text.split(",")) if text else ()


@dataclass(frozen=True, eq=False)
class _ByLabel(Kind[dict[str, T]]):
    """Kind of a value for each of some paths, `one` each: "A-X=3,B-X=1", or a table in a file."""

    one: Kind[T] | None = None

    def read(self, raw: object) -> dict[str, T]:
        if not isinstance(raw, dict) or self.one is None:
            raise ValueError(f"expected {self.expected}, found {in_words(raw)}")
        return {label: _named(label, self.one.read, value) for label, value in raw.items()}


def by_label(kind: Kind[T], place: Kind[str] | None = None) -> Kind[dict[str, T]]:
    """Kind of values by the label of a path, or by another name for paths."""
    name = place.metavar if place else "PATH"

    def check(values: Mapping[str, T]) -> None:
        for label, value in values.items():
            if place:
                place.check(label)
            _named(label, kind.check, value)

    def parse(text: str) -> dict[str, T]:
        values: dict[str, T] = {}
        for word in words(text):
            label, equals, value = word.partition("=")
            if not (label.strip() and equals and value.strip()):
                raise ValueError(f"expected {name}={kind.metavar}, found {quoted(word)}")
            if label.strip() in values:
                raise ValueError(f"expected each path once, found {label.strip()} twice")
            values[label.strip()] = _named(label.strip(), kind.parse, value.strip())
        return values

    def show(values: Mapping[str, T]) -> str:
        return ",".join(f"{label}={kind.show(value)}" for label, value in values.items())

    return _ByLabel(
        f"{name}={kind.metavar},...",
        parse,
        show,
        check,
        (dict,),
        "a table of paths and their values",
        several=True,
        labels=place is None,
        one=kind,
    )


def _named(label: str, function: Callable[[Any], T], value: Any) -> T:
    """Result of a function; its ValueError names the label."""
    try:
        return function(value)
    except ValueError as error:
        raise ValueError(f"{label}: {error}") from None


def check_distinct(values: Sequence[Any], show: Callable[[Any], str] = quoted) -> None:
    """Refuse a value that is there twice: it means nothing, and is a slip where another one was meant.

    Raises
    ------
    ValueError : naming the first such value.
    """
    seen: list[Any] = []
    for value in values:
        if value in seen:
            raise ValueError(f"expected each value once, found {show(value)} twice")
        seen.append(value)
