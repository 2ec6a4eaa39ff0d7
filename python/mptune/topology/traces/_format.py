"""Declaration of a trace format, and parts that all formats share: numbers, times, CSV.

A format turns the text of a file into entries, each with the time and the values of one measurement. What is
true of every trace (order, gaps, parts, links) is in `_recording`. Errors are ValueErrors with the line and
what was expected; the caller adds the name of the file.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from mptune._text import quoted
from mptune.errors import one_of

T = TypeVar("T")

SECOND: Final = 10**9
MILLISECOND: Final = 10**6
MICROSECOND: Final = 10**3
#: Parts per billion of a whole, in which shares are kept.
WHOLE: Final = 10**9
#: Most probes that may be missing between two that were answered.
MOST_MISSING: Final = 100_000

#: The largest values that a core link takes: 1 Tbit/s and 100 s (`_kinds`).
_MOST_BPS, _MOST_NS = 10**12, 100 * SECOND
#: Longest cell that is looked at as a number or a time.
_LONGEST = 60
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,2})?", re.ASCII)
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))? ?(Z|[A-Z]{3,4}|[+-]\d\d:?\d\d)?")
#: Hours from UTC of the zones that RFC 5322 names (section 4.3).
_ZONES = {"Z": 0, "UTC": 0, "GMT": 0, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5}
_ZONES |= {"MST": -7, "MDT": -6, "PST": -8, "PDT": -7}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Entry(NamedTuple):
    """One measurement.

    Attributes
    ----------
    at_ns : when, since any moment that all entries of the file share.
    line : of the file, or the number of the entry where it has no lines; for messages.
    values : quantity -> value. Rates in bit/s: `rate` of either direction, `up`, `down`. Times in ns: `rtt`,
        `up_delay`, `down_delay`. Shares lost in ppb: `loss` of either direction, `up_loss`, `down_loss`, and
        `round_loss` of round trips.
    """

    at_ns: int
    line: int
    values: Mapping[str, int]


class Source(NamedTuple):
    """Input of a format.

    Attributes
    ----------
    text : of the file.
    rows : column -> value, of the rows that are meant where a file has those of several lines.
    one_way : the clocks of both ends were in step, so that delays of one direction are to be believed.
    """

    text: str
    rows: Mapping[str, str] = {}
    one_way: bool = False


class Format(NamedTuple):
    """A format of traces.

    Attributes
    ----------
    name : for `format = "..."`.
    units : what its files have, in which units.
    source : where the format is documented.
    recognises : true if the beginning of a text is that of such a file.
    read : the entries of a text, in the order of the file.
    probes : its losses are of single probes, each of them lost or not.
    """

    name: str
    units: str
    source: str
    recognises: Callable[[str], bool]
    read: Callable[[Source], Iterator[Entry]]
    probes: bool = False


def wrong(line: int, expected: str, found: object) -> ValueError:
    """Error of a line."""
    return ValueError(f"expected {expected} in line {line}, found {quoted(found)}")


def unfit(line: int, expected: str, found: str) -> ValueError:
    """Error of a line about something that was computed from it."""
    return ValueError(f"expected {expected} in line {line}, found {found}")


def number(text: str, line: int, what: str) -> Decimal:
    """A decimal number of a cell or a field."""
    if len(text) > _LONGEST or not _NUMBER.fullmatch(text):
        raise wrong(line, f"a number for {what}", text)
    return Decimal(text)


def rate(text: str, unit_bps: int, line: int, what: str = "a rate") -> int:
    """A rate in bit/s, in units of `unit_bps`."""
    return _bounded(text, unit_bps, _MOST_BPS, line, f"{what} of 0 to 1 Tbit/s")


def time(text: str, unit_ns: int, line: int, what: str = "an RTT") -> int:
    """A duration in ns, in units of `unit_ns`."""
    return _bounded(text, unit_ns, _MOST_NS, line, f"{what} of 0 to 100 s")


def share(text: str, unit_ppb: int, line: int) -> int:
    """A share of packets lost, ppb, in units of `unit_ppb`."""
    return _bounded(text, unit_ppb, WHOLE, line, "a loss of 0 to 100 %")


def _bounded(text: str, unit: int, most: int, line: int, what: str) -> int:
    value = round(number(text, line, what) * unit)
    if not 0 <= value <= most:
        raise wrong(line, what, text)
    return value


def moment(text: str, line: int) -> int:
    """A point in time, ns since 1970: Unix seconds, or a date and a time of day (UTC without a zone)."""
    if len(text) <= _LONGEST:
        if _NUMBER.fullmatch(text):
            value = round(Decimal(text) * SECOND)
            if 0 <= value < 2**62:
                return value
        elif found := _STAMP.fullmatch(text):
            day, clock, fraction, zone = found.groups()
            try:
                at = datetime.fromisoformat(f"{day}T{clock}").replace(tzinfo=_zone(zone))
            except (ValueError, KeyError):
                pass
            else:
                since = at - _EPOCH
                seconds = since.days * 86_400 + since.seconds
                return seconds * SECOND + int((fraction or "").ljust(9, "0"))
    raise wrong(line, "a time such as 1682092820.5 or 2023-04-12 10:40:20", text)


def _zone(name: str | None) -> timezone:
    if name is None:
        return UTC
    if name[0] in "+-":
        hours, minutes = int(name[1:3]), int(name[-2:])
        offset = timedelta(hours=hours, minutes=minutes)
        return timezone(offset if name[0] == "+" else -offset)
    return timezone(timedelta(hours=_ZONES[name]))


class Row(NamedTuple):
    """A row of a CSV file: its line, and its cells by the names of columns in small letters."""

    line: int
    cells: Mapping[str, str]

    def cell(self, column: str) -> str:
        """A cell, which must be there and have something in it."""
        text = self.cells.get(column, "").strip()
        if not text:
            raise wrong(self.line, f"a value in column {column}", text)
        return text


def columns(text: str) -> list[str]:
    """The names of the columns of a CSV text, in small letters."""
    first = text.lstrip("\ufeff").split("\n", 1)[0]
    return [name.strip().lower() for name in first.split(",")]


def table(source: Source, lines_of: Sequence[str] = ()) -> Iterator[Row]:
    """The rows of a CSV text that are meant.

    Parameters
    ----------
    lines_of : columns that tell which of several lines a row belongs to; a trace is of one.

    Raises
    ------
    ValueError : no such column, rows of several lines, a row that ends early, or quotes that never end.
    """
    names = columns(source.text)
    wanted = {column.lower(): value for column, value in source.rows.items()}
    for column in wanted:
        if column not in names:
            raise ValueError(f"expected rows of the columns of the file: {one_of(names, column)}")
    apart = [column for column in lines_of if column in names and column not in wanted]
    first: dict[str, str] = {}
    reader = csv.reader(source.text.splitlines()[1:], strict=True)
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            row = Row(reader.line_num + 1, dict(zip(names, cells, strict=False)))
            if any(row.cells.get(column, "").strip() != value for column, value in wanted.items()):
                continue
            for column in apart:
                found = row.cell(column)
                if found != first.setdefault(column, found):
                    chosen = f"one {column} (rows = {{ {column} = {quoted(first[column])} }})"
                    raise wrong(row.line, chosen, found)
            yield row
    except csv.Error as error:
        raise ValueError(f"expected CSV in line {reader.line_num + 1}: {error}") from None


def document(text: str, kind: type[T]) -> T:
    """A JSON text as far as a format needs it."""
    try:
        return msgspec.json.decode(text, type=kind, strict=False)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"expected the format's JSON: {str(error)[:120]}") from None


class Probe(NamedTuple):
    """A probe that was answered after `rtt_ns`, or was not (None)."""

    at_ns: int
    line: int
    rtt_ns: int | None


def probes(sent: Mapping[int, Probe]) -> Iterator[Entry]:
    """Entries of probes by their numbers; those that are missing were lost.

    A probe of which the time is not known was sent evenly between its neighbours.
    """
    before: tuple[int, Probe] | None = None
    for count in sorted(sent):
        probe = sent[count]
        if before is not None and (missing := count - before[0] - 1):
            if missing > MOST_MISSING:
                raise wrong(probe.line, f"at most {MOST_MISSING} probes missing", missing)
            step = (probe.at_ns - before[1].at_ns) / (missing + 1)
            for lost in range(1, missing + 1):
                yield Entry(before[1].at_ns + round(lost * step), probe.line, {"round_loss": WHOLE})
        if probe.rtt_ns is None:
            yield Entry(probe.at_ns, probe.line, {"round_loss": WHOLE})
        else:
            yield Entry(probe.at_ns, probe.line, {"rtt": probe.rtt_ns, "round_loss": 0})
        before = count, probe


def plain(value: Any) -> str:
    """A JSON number as text, for the functions above."""
    return format(Decimal(str(value)), "f") if isinstance(value, float) else str(value)
