"""Rows of a CSV file and the numbers in their cells; which rows of a file of ours are observations.

What the columns mean is in `mptune.table._headers`.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence

from mptune._text import quoted
from mptune.errors import InputError
from mptune.table._cells import cells_of
from mptune.table._headers import KEPT, Column

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)

#: A file with these columns is an `observations.csv` of ours. Only rows of the sweep count: the others were
#: measured with subflows withdrawn, or only for chosen configurations.
_OURS = {"purpose", "pm", "cc", "buffer_bytes", "run", "seed", "withdrawn", "throughput_mbps", "failed"}

#: Level of an empty cell in our files: the setting was not given.
UNSET = "default"

#: A row with its number, counted from 1, including the header.
Row = tuple[int, list[str]]


def rows_of(path: str) -> tuple[list[str], Iterator[Row]]:
    """Header of a CSV file, and its other rows, all with as many cells.

    Raises
    ------
    InputError : no such file, no CSV, or nothing in it.
    """
    table = cells_of(path)
    _, header = next(table, (0, []))
    if not any(header):
        raise InputError(path, "", "expected a header and a row per observation, found an empty file")
    return header, _complete(path, header, table)


def is_ours(header: Sequence[str]) -> bool:
    """True for the header of an `observations.csv` of ours."""
    return set(header) >= _OURS


def observations(header: Sequence[str], table: Iterable[Row]) -> Iterator[Row]:
    """Rows that count: those of the sweep in a file of ours, all of another one."""
    purpose = header.index("purpose") if is_ours(header) else None
    return (row for row in table if purpose is None or row[1][purpose] == "sweep")


def number_in(path: str, number: int, cells: Sequence[str], column: Column) -> float:
    """One cell as a finite number, in the unit of the column times its scale."""
    text = cells[column.index]
    value = float(text) * column.scale if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value):
        found = quoted(text) if text else "nothing"
        raise cell_error(path, number, column, f"expected a number, found {found}")
    return value


def is_number(text: str) -> bool:
    """True if a cell can be read as a number."""
    return _NUMBER.fullmatch(text) is not None


def physical(path: str, number: int, cells: Sequence[str], column: Column, role: str) -> float:
    """One cell as Mbit/s or MiB."""
    text = cells[column.index]
    if not is_number(text):
        raise cell_error(path, number, column, f"expected a number, found {quoted(text)}")
    value = float(text) * column.scale
    if value < 0 or (role == "buffer" and value == 0):
        least = "above 0" if role == "buffer" else "that is not negative"
        raise cell_error(path, number, column, f"expected a {role} {least}, found {quoted(text)}")
    most = KEPT[role][1]
    if not math.isfinite(value) or value > most:
        limit = "10 Tbit/s" if role == "throughput" else "1 TiB"
        expected = f"expected at most {limit}, found {quoted(text)} (is the unit of the column right?)"
        raise cell_error(path, number, column, expected)
    return value


def cell_error(path: str, number: int, column: Column, expected: str) -> InputError:
    """Error about one cell."""
    return InputError(path, f"row {number}, column {column.header}", expected)


def _complete(path: str, header: Sequence[str], table: Iterable[Row]) -> Iterator[Row]:
    """Rows with as many cells as the header has."""
    for number, cells in table:
        if len(cells) != len(header):
            expected = f"expected {len(header)} cells as in the header, found {len(cells)}"
            raise InputError(path, f"row {number}", expected)
        yield number, cells
