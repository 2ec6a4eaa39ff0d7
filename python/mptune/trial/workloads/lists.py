"""Lists of workloads from files: sizes of responses, and bursts.

A line each; empty lines and lines that begin with # are left out. An error names file and line.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from mptune import units
from mptune._text import quoted
from mptune.files import read_text, reason

#: Most entries of a list (`MOST_SIZES`, `MOST_LISTED` of the core).
MOST = 10_000
#: Bytes of a file at most.
_LIMIT = 1_000_000

T = TypeVar("T")


def sizes(name: str) -> tuple[int, ...]:
    """Sizes, bytes, of a file with one in each line: "64 KiB", or a number of bytes.

    Raises
    ------
    ValueError : it cannot be read, or names file, line, and what was expected.
    """

    def entry(text: str) -> int:
        size = _size(text)
        if size <= 0:
            raise ValueError("expected a size of at least 1 B, found 0 B")
        return size

    return tuple(value for _, value in _entries(name, entry))


def bursts(name: str) -> tuple[tuple[int, int], ...]:
    """Bursts of a file with `start,size` in each line: seconds or "200 ms", and as in `sizes`.

    The first is due at once: starts count from it.

    Raises
    ------
    ValueError : as `sizes`, or they do not increase.
    """

    def entry(text: str) -> tuple[int, int]:
        start, comma, size = text.partition(",")
        if not comma:
            raise ValueError(f"expected START,SIZE, found {quoted(text)}")
        found = _time(start), _size(size)
        if found[1] <= 0:
            raise ValueError("expected a size of at least 1 B, found 0 B")
        return found

    first, before = 0, -1
    found: list[tuple[int, int]] = []
    for number, (due, size) in _entries(name, entry):
        if not found:
            first = due
        if due <= before:
            earlier = units.format_time(before)
            raise ValueError(
                f"expected starts that increase, found {units.format_time(due)} after {earlier} "
                f"in line {number} of {name}"
            )
        before = due
        found.append((due - first, size))
    return tuple(found)


def _entries(name: str, entry: Callable[[str], T]) -> Iterator[tuple[int, T]]:
    try:
        text = read_text(Path(name), limit=_LIMIT)
    except (OSError, ValueError) as error:
        raise ValueError(f"expected a readable file, found {quoted(name)}: {reason(error)}") from None
    count = 0
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        count += 1
        if count > MOST:
            raise ValueError(f"expected at most {MOST} entries in {name}, found more in line {number}")
        try:
            value = entry(line.strip())
        except ValueError as error:
            raise ValueError(f"{error} in line {number} of {name}") from None
        yield number, value
    if not count:
        raise ValueError(f"expected a line at least in {name}, found none")


def _size(text: str) -> int:
    text = text.strip()
    return int(text) if text.isdecimal() else units.parse_size(text)


def _time(text: str) -> int:
    text = text.strip()
    try:
        return units.parse_time(text)
    except ValueError:
        return units.parse_time(f"{text} s")
