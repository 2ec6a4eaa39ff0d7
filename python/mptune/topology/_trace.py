"""The traces of a topology file: what a key names, in any format, and the part of it that is meant.

A key has the name of a file beside the topology file, or a table with `file` and what is to be done with it.
The formats are in `traces`; the core determines what a trace does to packets.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mptune import units
from mptune._text import quoted
from mptune.files import LIMIT, read_bytes
from mptune.topology._kinds import RATE, SWITCH, TIME, Kind, choice
from mptune.topology._schema import TraceTable
from mptune.topology._values import Table
from mptune.topology.traces import (
    FORMATS,
    GAPS,
    NAMES,
    Part,
    Recording,
    Source,
    mahimahi,
    moment,
    others,
    recognised,
    recorded,
)

#: Longest name of a trace, characters.
_LONGEST = 200
_GZIP = b"\x1f\x8b"
#: Most `rows` of a trace, and their longest value, characters.
_MOST_ROWS = 20
_MAX_RELATIVE = 10**6 * 10**9


class Trace(NamedTuple):
    """A trace as read: mahimahi's opportunities, or a recording.

    Attributes
    ----------
    name : of the file as given.
    times_ms : times of opportunities; empty if there is a recording instead.
    recording : what any other format has.
    kind : name of the format.
    """

    name: str
    times_ms: tuple[int, ...]
    recording: Recording | None = None
    kind: str = mahimahi.NAME

    def mean_bps(self, way: str) -> int | None:
        """Long-run mean rate of a way, bit/s, rounded down; None if the trace has no rates."""
        if self.recording is None:
            return mahimahi.mean_bps(self.times_ms)
        series = self.recording.rate.get(way)
        return None if series is None else int(self.recording.mean(series))


def trace_of(table: Table[Any], name: str, folder: Path) -> Trace:
    """The trace at a key of a table: a name, a value with its origin, or a table with `file`.

    Parameters
    ----------
    folder : where relative names start.

    Raises
    ------
    InputError : anything that is not as expected.
    """
    raw = table.raw(name)
    asked = table.inner(name, TraceTable) if isinstance(raw, dict) and "file" in raw else None
    if asked is None:
        return table.value(name, _kind(folder, None, Source(""), Part()))
    kind = asked.optional("format", choice({name: name for name in NAMES}))
    part = Part(
        start_ns=asked.optional("start", _START) or 0,
        stop_ns=asked.optional("stop", _START),
        gaps=asked.optional("gaps", choice({name: name for name in GAPS})) or GAPS[0],
        mean_bps=asked.optional("mean", RATE),
        elsewhere_ns=asked.optional("elsewhere", TIME) or 0,
        hold=asked.optional("ends", choice({"repeat": False, "hold": True})) or False,
        anywhere=asked.optional("begins", choice({"start": False, "anywhere": True})) or False,
    )
    if part.hold and part.anywhere:
        raise asked.refuse("begins", 'expected a trace that repeats, found ends = "hold" beside it')
    one_way = asked.optional("one_way", SWITCH) or False
    source = Source("", _rows(asked), one_way)
    trace = asked.value("file", _kind(folder, kind, source, part))
    if trace.recording is None:
        given = next((name for name in raw if name in _OF_RECORDINGS), None)
        if given is not None:
            expected = f"expected a trace of another format than mahimahi beside it, found {trace.name}"
            raise asked.refuse(given, expected)
    return trace


#: Keys that mahimahi's traces, which are played as they are, do not have.
_OF_RECORDINGS = ("start", "stop", "gaps", "mean", "elsewhere", "begins", "ends", "one_way", "rows")


def _start(text: str) -> int:
    """A time since the first entry, or a date with a time of day."""
    if "-" in text:
        return moment(text, 0)
    value = units.parse_time(text)
    if value > _MAX_RELATIVE:
        most = units.format_time(_MAX_RELATIVE)
        raise ValueError(f"expected at most {most} or a date, found {quoted(text)}")
    return value


_START = Kind(_start, units.format_time, "90 s")


def _rows(asked: Table[TraceTable]) -> Mapping[str, str]:
    raw: object = asked.raw("rows")
    if raw is None:
        return {}
    if (
        not isinstance(raw, dict)
        or len(raw) > _MOST_ROWS
        or not all(isinstance(value, str) and len(value) <= _LONGEST for value in raw.values())
    ):
        expected = 'expected a table of columns and texts such as { unit_id = "386" }'
        raise asked.refuse("rows", f"{expected}, found {quoted(raw)}")
    return raw


def _kind(folder: Path, kind: str | None, source: Source, part: Part) -> Kind[Trace]:
    """Kind of a value that names a trace, relative to a folder."""
    return Kind(_reader(folder, kind, source, part), _shown, "lte.trace")


def _reader(folder: Path, kind: str | None, source: Source, part: Part) -> Callable[[str], Trace]:
    def read(name: str) -> Trace:
        if not name.isprintable() or len(name) > _LONGEST:
            raise ValueError(f"expected the name of a file, found {quoted(name)}")
        text = _text(folder / name, name)
        chosen = recognised(text) if kind is None else FORMATS.get(kind)
        if chosen is None:
            trace = Trace(name, mahimahi.opportunities(name, text, others()))
        else:
            try:
                recording = recorded(source._replace(text=text), chosen, part)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
            trace = Trace(name, (), recording, chosen.name)
        for way in ("up", "down"):
            _check_mean(trace, trace.mean_bps(way))
        return trace

    return read


def _check_mean(trace: Trace, mean_bps: int | None) -> None:
    if mean_bps is None:
        return
    try:
        RATE.parse(f"{mean_bps} bit/s")
    except ValueError:
        found = units.format_rate(mean_bps)
        raise ValueError(f"expected at least 100 bit/s on average in {trace.name}, found {found}") from None


def _shown(trace: Trace) -> str:
    recording = trace.recording
    if recording is None:
        period = units.format_time(trace.times_ms[-1] * 10**6)
        mean = units.format_rate(mahimahi.mean_bps(trace.times_ms), 4)
        return f"{trace.name}, {mean} on average, repeating after {period}"
    length = units.format_time(recording.length_ns, 4)
    ends = "then held" if recording.hold else "repeating"
    return f"{trace.name} ({trace.kind}), {recording.entries} measurements in {length}, {ends}"


def _text(file: Path, name: str) -> str:
    try:
        content = read_bytes(file)
        if content.startswith(_GZIP):
            content = _unpacked(content, name)
        text = content.decode()
    except FileNotFoundError:
        raise ValueError(f"expected a trace beside the topology file, found no file {name}") from None
    except UnicodeDecodeError:
        expected = f"expected whole numbers of milliseconds, one per line, in {name}, or {others()}"
        raise ValueError(f"{expected}, found other bytes than UTF-8") from None
    except OSError as error:
        raise ValueError(f"expected a readable file: {name}: {error.strerror or error}") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _unpacked(content: bytes, name: str) -> bytes:
    """Content of a compressed file, at most as large as a file that is not."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
            found = packed.read(LIMIT + 1)
    except (OSError, EOFError) as error:
        raise ValueError(f"expected a whole compressed file: {name}: {error}") from None
    if len(found) > LIMIT:
        raise ValueError(f"expected at most {units.format_size(LIMIT)} in {name}, found more")
    return found
