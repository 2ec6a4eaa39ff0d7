"""A CSV file of anybody's: columns with their units in brackets, such as `time (s),down (Mbit/s),rtt (ms)`.

`time` has a unit of time, or none where it is Unix seconds or a date with a time of day. A column of another
name than those of `Entry` is not looked at; one of these needs a unit, and each quantity is there once.
"""

import re
from collections.abc import Callable, Iterator

from mptune._text import quoted
from mptune.errors import one_of
from mptune.topology.traces._format import (
    Entry,
    Format,
    Source,
    columns,
    moment,
    number,
    rate,
    share,
    table,
    time,
)
from mptune.units import FRACTIONS, RATES, TIMES

_HEADER = re.compile(r"([a-z_]+) ?[(\[]([^)\]]*)[)\]]")
#: Quantity of `Entry` -> its units, and how a cell is read.
_RATES = dict.fromkeys(("rate", "up", "down"), (RATES, rate))
_TIMES = dict.fromkeys(("rtt", "up_delay", "down_delay"), (TIMES, time))
_SHARES = dict.fromkeys(("loss", "up_loss", "down_loss", "round_loss"), (FRACTIONS, share))
_KNOWN = _RATES | _TIMES | _SHARES


def _recognises(head: str) -> bool:
    found = {re.split(r"[(\[]", name)[0].strip() for name in columns(head)}
    return "time" in found and not found.isdisjoint(_KNOWN)


def _read(source: Source) -> Iterator[Entry]:
    names = columns(source.text)
    clock, unit_ns = _time_of(names)
    readers = _readers(names)
    for row in table(source):
        text = row.cell(clock)
        at = moment(text, row.line) if unit_ns is None else round(number(text, row.line, "a time") * unit_ns)
        # An empty cell: this was not measured then.
        cells = {name: row.cells.get(column, "").strip() for name, (column, _) in readers.items()}
        values = {name: readers[name][1](cell, row.line) for name, cell in cells.items() if cell}
        yield Entry(at, row.line, values)


def _time_of(names: list[str]) -> tuple[str, int | None]:
    """The column of the time, and its unit in ns; None for dates."""
    for name in names:
        if name == "time":
            return name, None
        if (found := _HEADER.fullmatch(name)) and found[1] == "time":
            return name, _unit(name, found[2], TIMES)
    raise ValueError("expected a column such as time (s) in line 1, found none")


def _readers(names: list[str]) -> dict[str, tuple[str, Callable[[str, int], int]]]:
    """Quantity -> its column, and how a cell in a line is read."""
    readers: dict[str, tuple[str, Callable[[str, int], int]]] = {}
    for name in names:
        found = _HEADER.fullmatch(name)
        quantity = found[1] if found else name
        if quantity not in _KNOWN:
            continue
        if found is None:
            raise ValueError(f"expected a unit in brackets in line 1, found {quoted(name)}")
        if quantity in readers:
            both = f"{quoted(readers[quantity][0])} and {quoted(name)}"
            raise ValueError(f"expected each quantity once in line 1, found {both}")
        units, read = _KNOWN[quantity]
        readers[quantity] = name, _cell(read, _unit(name, found[2], units))
    if not readers:
        raise ValueError(f"expected one of {', '.join(_KNOWN)} in line 1, each with its unit, found none")
    return readers


def _cell(read: Callable[[str, int, int], int], unit: int) -> Callable[[str, int], int]:
    return lambda text, line: read(text, unit, line)


def _unit(name: str, text: str, units: dict[str, int]) -> int:
    by_name = {unit.lower(): size for unit, size in units.items() if unit}
    if text.strip() not in by_name:
        names = [unit for unit in units if unit.isascii() and unit]
        raise ValueError(f"expected a unit for {quoted(name)} in line 1: {one_of(names, text)}")
    return by_name[text.strip()]


FORMAT = Format(
    name="csv",
    units="those of its header",
    source="the reference of topology files",
    recognises=_recognises,
    read=_read,
)
