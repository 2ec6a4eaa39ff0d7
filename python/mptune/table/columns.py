"""Columns of a CSV file by the names that a model uses: numbers in their units, or levels of a factor.

A column is named by its header, or by what it is, whatever its header: T (throughput), B (buffer), CC and PM.
Congestion controls, path managers, initial paths and the columns of `ReadOptions.factors` have levels; any
other column has levels if no cell is a number. Nothing is guessed beyond that: a column with numbers and
other texts is an error with its row.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from mptune._text import quoted
from mptune.errors import InputError, one_of
from mptune.table._headers import NO_FACTORS, ROLES, UNITS, Column, ReadOptions, find_columns, listed, unit_of
from mptune.table._rows import UNSET, Row, cell_error, is_number, is_ours, number_in, observations, rows_of
from mptune.units import parse_rate, parse_size

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Symbols of columns in models, as in the GLM study.
SYMBOLS = {"T": "throughput", "B": "buffer", "CC": "cc", "PM": "pm"}


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """Columns of one file, all with one value per row.

    Attributes
    ----------
    rows : numbers of the rows in the file.
    numbers : name -> values, in the unit of `units`; or without a unit, as they stand.
    levels : name -> level of each row.
    roles : name -> "throughput", "buffer", ... of the names that have one.
    failed : rows left out because their `failed` column has a reason.
    """

    path: str
    rows: tuple[int, ...]
    numbers: dict[str, "NDArray[np.float64]"]
    levels: dict[str, tuple[str, ...]]
    units: dict[str, str]
    roles: dict[str, str]
    failed: int = 0


def read_columns(
    path: str,
    names: Sequence[str],
    options: ReadOptions | None = None,
    *,
    shown: Mapping[str, str] | None = None,
    where: str = "--model",
) -> Columns:
    """Read the columns that a model names.

    Parameters
    ----------
    shown : role -> unit to convert to; the unit of the file without one.
    where : option that has the names, for errors.

    Raises
    ------
    InputError : a name that is no column, a cell that is empty or not a number, a missing unit.
    """
    import numpy as np

    options, shown = options or ReadOptions(), shown or {}
    header, table = rows_of(path)
    roles = find_columns(path, header, options, required=())
    used: dict[str, Column] = {}
    role_of: dict[str, str] = {}
    units: dict[str, str] = {}
    for name in names:
        column, role = _located(path, header, roles, name, where)
        if any(column.index == other.index for other in used.values()):
            raise InputError(where, "", f"expected each column by one name, found {quoted(name)} again")
        if role in UNITS:
            given = options.throughput_unit if role == "throughput" else options.buffer_unit
            written = unit_of(path, role, column.header, given)
            units[name] = shown.get(role, written)
            column = msgspec.structs.replace(column, scale=UNITS[role][written] / UNITS[role][units[name]])
        if role is not None:
            role_of[name] = role
        used[name] = column
    rows, failed = _rows(header, table, roles, options)
    known = {cells[roles["cc"].index] for _, cells in rows} if "cc" in roles else set()
    for cc in options.ccs:
        if cc not in known:
            raise InputError("--cc", "", f"expected names that occur in {path}, found {quoted(cc)}")
    if not rows:
        raise InputError(path, "", "expected one row per observation, found no usable row")
    numbers: dict[str, NDArray[np.float64]] = {}
    levels: dict[str, tuple[str, ...]] = {}
    for name, column in used.items():
        if _has_levels(name, column, role_of.get(name), rows, options):
            levels[name] = _levels(path, rows, column, unset=UNSET if is_ours(header) else "")
        else:
            numbers[name] = np.array([_number(path, row, column, role_of.get(name)) for row in rows])
    return Columns(
        path=path,
        rows=tuple(number for number, _ in rows),
        numbers=numbers,
        levels=levels,
        units=units,
        roles=role_of,
        failed=failed,
    )


def _located(
    path: str, header: Sequence[str], roles: Mapping[str, Column], name: str, where: str
) -> tuple[Column, str | None]:
    """Column of a name, and its role."""
    if name in header:
        index = header.index(name)
        role = next((role for role, column in roles.items() if column.index == index), None)
        return Column(index, name), role if role in ROLES.values() else None
    role = SYMBOLS.get(name, name)
    if role in roles and role not in ("run", "failed"):
        return roles[role], role
    symbols = [symbol for symbol, meant in SYMBOLS.items() if meant in roles]
    known = ", ".join([*symbols, listed(header)])
    raise InputError(where, "", f"expected columns of {path} ({known}), found {quoted(name)}")


def _rows(
    header: Sequence[str], table: Iterable[Row], roles: Mapping[str, Column], options: ReadOptions
) -> tuple[list[Row], int]:
    """Rows that count and have one of the requested congestion controls, and how many failed."""
    rows: list[Row] = []
    failed = 0
    for number, cells in observations(header, table):
        if "failed" in roles and cells[roles["failed"].index]:
            failed += 1
        elif not options.ccs or ("cc" in roles and cells[roles["cc"].index] in options.ccs):
            rows.append((number, cells))
    return rows, failed


def _has_levels(
    name: str, column: Column, role: str | None, rows: Sequence[Row], options: ReadOptions
) -> bool:
    """True if a column is a factor."""
    if role is not None and role not in NO_FACTORS:
        return True
    if name in options.factors or column.header in options.factors:
        return True
    return role not in UNITS and not any(is_number(cells[column.index]) for _, cells in rows)


def _levels(path: str, rows: Sequence[Row], column: Column, unset: str) -> tuple[str, ...]:
    """Levels of a column; one spelling of each, and `unset` for an empty cell unless that is empty too."""
    seen: dict[str, str] = {}
    levels = []
    for number, cells in rows:
        level = cells[column.index] or unset
        if not level:
            raise cell_error(path, number, column, "expected a level, found nothing")
        first = seen.setdefault(level.casefold(), level)
        if first != level:
            expected = f"expected one spelling, found {quoted(level)} after {quoted(first)}"
            raise cell_error(path, number, column, expected)
        levels.append(level)
    return tuple(levels)


def _number(path: str, row: Row, column: Column, role: str | None) -> float:
    """One cell of a number column."""
    number, cells = row
    if role is None and cells[column.index] and not is_number(cells[column.index]):
        expected = f"expected a number as in other rows, found {quoted(cells[column.index])} (see --factor)"
        raise cell_error(path, number, column, expected)
    return number_in(path, number, cells, column)


def unit_shown(texts: Sequence[str], where: str = "--units") -> dict[str, str]:
    """Role -> unit of the units that a user wants to see, such as ("bit/s", "B").

    Raises
    ------
    InputError : no unit of a throughput or a buffer, or two of one.
    """
    shown: dict[str, str] = {}
    for text in ("B" if text in ("byte", "bytes") else text for text in texts):
        role = next((role for role, units in UNITS.items() if text in units), None)
        if role is None:
            raise InputError(where, "", one_of([unit for units in UNITS.values() for unit in units], text))
        if role in shown:
            raise InputError(where, "", f"expected one unit of a {role}, found {shown[role]} and {text}")
        shown[role] = text
    return shown


def number_of(text: str, unit: str | None, role: str | None) -> float:
    """A value as a user gives it: a plain number, or with a unit if the column has one.

    Parameters
    ----------
    unit, role : of the column.

    Raises
    ------
    ValueError : neither, with a sentence.
    """
    if is_number(text) and math.isfinite(float(text)):
        return float(text)
    if unit is None or role is None:
        raise ValueError(f"expected a number, found {quoted(text)}")
    parse = {"throughput": parse_rate, "buffer": parse_size}[role]
    try:
        return parse(text) / UNITS[role][unit]
    except ValueError as error:
        raise ValueError(f"{error}; or a plain number in {unit}") from None
