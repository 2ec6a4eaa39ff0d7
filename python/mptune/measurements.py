"""Measurements of anyone: a CSV file with a row per observation, read with its units or refused.

Needed are a throughput, a buffer and a congestion control; a path manager, an initial path, a run
number and other factors may stand beside them. The `observations.csv` of a run directory is such a
file. Nothing is guessed: a unit stands in the header or is given, a cell is a number or an error
with its row and column. What the numbers mean is decided elsewhere.
"""

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from mptune._headers import KEPT, NO_FACTORS, Column, ReadOptions, find_columns
from mptune.errors import InputError

__all__ = ["Measurement", "Measurements", "ReadOptions", "read_measurements"]

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")

#: A file with these columns is an `observations.csv` of ours; of its rows the sweep counts, since the
#: others were measured with subflows withdrawn, or of chosen configurations.
_OURS = {"purpose", "pm", "cc", "buffer_bytes", "run", "seed", "withdrawn", "throughput_mbps", "failed"}


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """One observation.

    Attributes
    ----------
    row : of the file, counted from 1 with the header.
    levels : factor -> level; "cc" always, "pm", "initial_path" and others where there is such a column.
    run : number that tells runs of one configuration apart; None where there is no such column.
    """

    row: int
    throughput_mbps: float
    buffer_mib: float
    levels: dict[str, str]
    run: str | None = None


class Measurements(msgspec.Struct, frozen=True, kw_only=True):
    """A file of measurements.

    Attributes
    ----------
    path : as the user gave it.
    factors : names of the factor columns, "cc" first.
    failed : rows left out because their `failed` column gives a reason.
    unused : headers of columns that are neither read nor declared.
    """

    path: str
    rows: tuple[Measurement, ...]
    factors: tuple[str, ...]
    failed: int = 0
    unused: tuple[str, ...] = ()

    def levels(self, factor: str) -> tuple[str, ...]:
        """Levels of a factor, sorted."""
        return tuple(sorted({one.levels[factor] for one in self.rows}))


def read_measurements(path: str, options: ReadOptions | None = None) -> Measurements:
    """Read a CSV file of measurements.

    Raises
    ------
    InputError : anything about the file that is missing, ambiguous or no number, with row and column.
    """
    options = options or ReadOptions()
    table = _table(path)
    _, header = next(table, (0, []))
    if not any(header):
        raise InputError(path, "", "expected a header and a row per observation, found an empty file")
    columns = find_columns(path, header, options)
    ours = set(header) >= _OURS
    rows, failed = [], 0
    for number, cells in table:
        if len(cells) != len(header):
            expected = f"expected {len(header)} cells as in the header, found {len(cells)}"
            raise InputError(path, f"row {number}", expected)
        if ours and cells[header.index("purpose")] != "sweep":
            continue
        if "failed" in columns and cells[columns["failed"].index]:
            failed += 1
            continue
        one = _measurement(path, number, cells, columns)
        if _wanted(one, options):
            rows.append(one)
    found = Measurements(
        path=path,
        rows=tuple(rows),
        factors=tuple(name for name in columns if name not in NO_FACTORS),
        failed=failed,
        unused=_unused(header, columns, ours=ours),
    )
    _check(found, options)
    return found


def _table(path: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, with their numbers and without spaces around the cells."""
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            for cells in reader:
                stripped = [cell.strip() for cell in cells]
                if any(stripped):
                    yield reader.line_num, stripped
    except OSError as error:
        raise InputError(path, "", f"expected a CSV file, found {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InputError(path, "", "expected text in UTF-8, found other bytes") from None
    except csv.Error as error:
        raise InputError(path, f"row {reader.line_num}", f"expected comma-separated cells: {error}") from None


def _measurement(path: str, number: int, cells: Sequence[str], columns: Mapping[str, Column]) -> Measurement:
    """One row, converted."""
    levels = {role: cells[column.index] for role, column in columns.items() if role not in NO_FACTORS}
    for role, level in levels.items():
        if not level:
            raise _at(path, number, columns[role], "expected a name, found nothing")
    return Measurement(
        row=number,
        throughput_mbps=_number(path, number, cells, columns["throughput"], "throughput"),
        buffer_mib=_number(path, number, cells, columns["buffer"], "buffer"),
        levels=levels,
        run=cells[columns["run"].index] if "run" in columns else None,
    )


def _number(path: str, number: int, cells: Sequence[str], column: Column, role: str) -> float:
    """One cell as Mbit/s or MiB."""
    text = cells[column.index]
    if not _NUMBER.fullmatch(text):
        raise _at(path, number, column, f"expected a number, found {text!r}")
    value = float(text) * column.scale
    if value < 0 or (role == "buffer" and value == 0):
        least = "above 0" if role == "buffer" else "that is not negative"
        raise _at(path, number, column, f"expected a {role} {least}, found {text}")
    most = KEPT[role][1]
    if not math.isfinite(value) or value > most:
        limit = "10 Tbit/s" if role == "throughput" else "1 TiB"
        raise _at(
            path, number, column, f"expected at most {limit}, found {text} (is the unit that of the column?)"
        )
    return value


def _at(path: str, number: int, column: Column, expected: str) -> InputError:
    """Error about one cell."""
    return InputError(path, f"row {number}, column {column.header}", expected)


def _wanted(one: Measurement, options: ReadOptions) -> bool:
    """Whether a row is of the congestion controls and path managers asked for."""
    by_cc = not options.ccs or one.levels["cc"] in options.ccs
    return by_cc and (not options.pms or one.levels.get("pm", options.pms[0]) in options.pms)


def _unused(header: Sequence[str], columns: Mapping[str, Column], *, ours: bool) -> tuple[str, ...]:
    """Headers nothing was read from; what a file of ours has beside is known and not mentioned."""
    used = {column.header for column in columns.values()}
    known = _OURS | {"omega"} if ours else set()
    return tuple(name for name in header if name not in used | known)


def _check(found: Measurements, options: ReadOptions) -> None:
    """Refuse what no procedure could learn from."""
    for option, factor, names in (("--cc", "cc", options.ccs), ("--pm", "pm", options.pms)):
        missing = [name for name in names if all(one.levels.get(factor, name) != name for one in found.rows)]
        if missing:
            raise InputError(option, "", f"expected names that occur in {found.path}, found {missing[0]!r}")
    if not found.rows:
        raise InputError(found.path, "", "expected a row per observation, found none that is usable")
    for factor in found.factors:
        _check_spelling(found, factor)
    sizes = {one.buffer_mib for one in found.rows}
    if len(sizes) == 1:
        raise InputError(
            found.path, "buffer", f"expected two sizes at least, found {sizes.pop():.6g} MiB in every row"
        )
    for cc in found.levels("cc"):
        rows = [one.row for one in found.rows if one.levels["cc"] == cc]
        if len(rows) == 1:
            raise InputError(
                found.path,
                f"row {rows[0]}, cc",
                f"expected two observations of {cc!r} at least, found this one",
            )


def _check_spelling(found: Measurements, factor: str) -> None:
    """Two levels that differ in capital letters alone are one, misspelt."""
    seen: dict[str, str] = {}
    for one in found.rows:
        level = one.levels[factor]
        first = seen.setdefault(level.casefold(), level)
        if first != level:
            raise InputError(
                found.path,
                f"row {one.row}, {factor}",
                f"expected one spelling, found {level!r} after {first!r}",
            )
