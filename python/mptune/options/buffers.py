"""Sizes of buffers as the user writes them: `4MiB`, `0.5` (MiB), `0.5:30:0.5` or `256KiB,1,2`.

A bare number is MiB, as in the papers. This module parses and checks; `mptune.runner.planning` makes
trials of the sizes.
"""

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import pairwise

from mptune._text import quoted
from mptune.options._kinds import Kind, check_distinct
from mptune.trial import MSS
from mptune.units import MIB, SIZES, format_size

#: A grid with more sizes than this is probably a typo, and would fill the memory before it starts.
_MAX_SIZES = 10_000

#: Largest buffer accepted, bytes: 1 TiB, far beyond any kernel's limit.
_MAX_BYTES = 2**40

#: Evenly spaced sizes are shown as a range from this many on.
_RANGE = 4

_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,2})?)\s*([A-Za-z]*)", re.ASCII)
_SYNTAX = "a bare number is MiB"
_GRID_SYNTAX = f'a range "low:high:step" or a list "a,b,c" of sizes such as 512KiB ({_SYNTAX})'


def parse_buffer(text: str) -> int:
    """Bytes of one size.

    Raises
    ------
    ValueError : not a size.
    """
    if (size := _exact(text)) is None:
        raise ValueError(f"expected a size such as 512KiB ({_SYNTAX}), found {quoted(text)}")
    return round(size)


def parse_buffers(text: str) -> tuple[int, ...]:
    """Buffer sizes of a grid, bytes, ascending. The high end of a range is included.

    Raises
    ------
    ValueError : wrong syntax, or an empty or oversized grid.
    """
    ranged = ":" in text
    sizes = [size for part in text.split(":" if ranged else ",") if (size := _exact(part)) is not None]
    if len(sizes) != (3 if ranged else text.count(",") + 1) or (ranged and text.count(":") != 2):
        raise ValueError(f"expected {_GRID_SYNTAX}, found {quoted(text)}")
    if ranged:
        return tuple(sorted({round(size) for size in _range(*sizes, text=text)}))
    return tuple(sorted(round(size) for size in sizes))


def _exact(text: str) -> Decimal | None:
    """Exact bytes of one size, so that the steps of a range add up. None for anything else."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None or (match[2] and match[2] not in SIZES):
        return None
    return Decimal(match[1]) * SIZES[match[2] or "MiB"]


def _range(low: Decimal, high: Decimal, step: Decimal, *, text: str) -> Iterable[Decimal]:
    """Give low, low + step, ... up to high."""
    if step <= 0 or high < low:
        raise ValueError(f"expected low <= high and a step above 0, found {quoted(text)}")
    count = int((high - low) / step) + 1
    if count > _MAX_SIZES:
        raise ValueError(f"expected at most {_MAX_SIZES} sizes, found {count} in {quoted(text)}")
    return [low + i * step for i in range(count)]


def _check(buffer_bytes: int) -> None:
    if buffer_bytes < MSS:
        raise ValueError(f"expected at least one segment ({MSS} B), found {format_size(buffer_bytes)}")
    if buffer_bytes > _MAX_BYTES:
        raise ValueError(f"expected at most {_MAX_BYTES // MIB} MiB, found {format_size(buffer_bytes)}")


def _check_all(sizes: Sequence[int]) -> None:
    if not sizes:
        raise ValueError(f"expected {_GRID_SYNTAX}, found none")
    for size in sizes:
        _check(size)
    check_distinct(sizes, _formatted)
    if any(low >= high for low, high in pairwise(sizes)):
        raise ValueError("expected ascending sizes")


def _formatted(buffer_bytes: int) -> str:
    return format_size(buffer_bytes).replace(" ", "")


def _all_shown(sizes: Sequence[int]) -> str:
    """A range if the sizes are evenly spaced, otherwise a list."""
    steps = {high - low for low, high in pairwise(sizes)}
    if len(sizes) >= _RANGE and len(steps) == 1:
        return ":".join(map(_formatted, (sizes[0], sizes[-1], steps.pop())))
    return ",".join(map(_formatted, sizes))


_WRITTEN = (str, int, float)

#: One size.
BUFFER = Kind("SIZE", parse_buffer, _formatted, _check, _WRITTEN, "a size such as 512KiB, or a number of MiB")
#: A grid of sizes.
BUFFERS = Kind(
    "SIZES",
    parse_buffers,
    _all_shown,
    _check_all,
    (*_WRITTEN, list),
    "a range, or a list of sizes",
)
