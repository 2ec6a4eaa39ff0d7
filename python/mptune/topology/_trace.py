"""Rate traces in mahimahi's format: a text file with one time per line, in ms, at which 1500 bytes can leave.

The times do not decrease; the last one is the period after which the trace repeats. What mahimahi refuses
(`src/frontend/link_queue.cc`) is refused here too: no line, an empty line, a period of 0. The core determines
what a trace does to packets.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from mptune import units
from mptune._text import quoted
from mptune.files import read_text
from mptune.topology._kinds import RATE, Kind

#: Longest name of a trace, characters.
_LONGEST = 200
_MAX_MS = 2**32 - 1
_MAX_DIGITS = len(str(_MAX_MS))
_BIT_MS_PER_OPPORTUNITY = 1500 * 8 * 1000


class Trace(NamedTuple):
    """A file's name as given, and the times in it, ms."""

    name: str
    times_ms: tuple[int, ...]

    @property
    def mean_bps(self) -> int:
        """Long-run mean rate of a fully used trace, rounded down."""
        return len(self.times_ms) * _BIT_MS_PER_OPPORTUNITY // self.times_ms[-1]


def trace_in(folder: Path) -> Kind[Trace]:
    """Kind of a value that names a trace, relative to a folder."""
    return Kind(_reader(folder), _shown, "lte.trace")


def _reader(folder: Path) -> Callable[[str], Trace]:
    def read(name: str) -> Trace:
        if not name.isprintable() or len(name) > _LONGEST:
            raise ValueError(f"expected the name of a file, found {quoted(name)}")
        trace = Trace(name, tuple(_times(name, _lines(folder / name, name))))
        if trace.times_ms[-1] == 0:
            raise ValueError(f"expected a last time above 0 in {name}: it is the period")
        try:
            RATE.parse(f"{trace.mean_bps} bit/s")
        except ValueError:
            found = units.format_rate(trace.mean_bps)
            raise ValueError(f"expected at least 100 bit/s on average in {name}, found {found}") from None
        return trace

    return read


def _shown(trace: Trace) -> str:
    period = units.format_time(trace.times_ms[-1] * 10**6)
    return f"{trace.name}, {units.format_rate(trace.mean_bps, 4)} on average, repeating after {period}"


def _lines(file: Path, name: str) -> list[str]:
    try:
        lines = read_text(file, encoding="ascii").splitlines()
    except FileNotFoundError:
        raise ValueError(f"expected a trace beside the topology file, found no file {name}") from None
    except UnicodeDecodeError:
        raise ValueError(f"expected whole numbers of milliseconds, one per line, in {name}") from None
    except OSError as error:
        raise ValueError(f"expected a readable file: {name}: {error.strerror}") from None
    if not lines:
        raise ValueError(f"expected at least one time in {name}, found an empty file")
    return lines


def _times(name: str, lines: list[str]) -> list[int]:
    times: list[int] = []
    before = 0
    for number, line in enumerate(lines, start=1):
        if not line.isdigit() or len(line) > _MAX_DIGITS or (time := int(line)) > _MAX_MS:
            expected = f"expected a whole number of milliseconds below 2^32 in line {number} of {name}"
            raise ValueError(f"{expected}, found {quoted(line[:20])}")
        if time < before:
            expected = f"expected times that do not decrease in {name}"
            raise ValueError(f"{expected}, found {time} after {before} in line {number}")
        times.append(time)
        before = time
    return times
