"""Anyone's measurements: a CSV file with one row per observation, read with its units or refused.

A throughput, a buffer and a congestion control are required; a path manager, an initial path, a run
number and other factors are optional. The `observations.csv` of a run directory is such a file. Nothing is
guessed: units are in the header or given as options, and a cell that is not a number is an error with its
row and column. Other modules interpret the numbers.
"""

from collections.abc import Mapping, Sequence

import msgspec

from mptune._text import quoted
from mptune.errors import InputError
from mptune.table._headers import NO_FACTORS, Column, ReadOptions, find_columns
from mptune.table._rows import UNSET, cell_error, is_ours, observations, physical, rows_of
from mptune.trial.objectives import COLUMNS

__all__ = ["Measurement", "Measurements", "ReadOptions", "pooled", "read_measurements"]

#: Columns of our files that are not varied: the identity and the outcome of a trial.
_NOT_VARIED = {
    *("purpose", "run", "round", "seed", "withdrawn", "omega", "failed_kind", "completion_s"),
    *COLUMNS,
}


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """One observation.

    Attributes
    ----------
    row : of the file, counted from 1, including the header.
    levels : factor -> level; "cc" always, "pm", "initial_path" and others if there is such a column.
    run : number that distinguishes runs of one configuration; None if there is no such column.
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
    failed : rows left out because their `failed` column has a reason.
    unused : headers of columns that are neither read nor declared; empty for a file of ours.
    varying : headers of columns that are not read, but vary although all factors are the same.
    shared_runs : runs with the same number drew the same random numbers in every configuration.
    """

    path: str
    rows: tuple[Measurement, ...]
    factors: tuple[str, ...]
    failed: int = 0
    unused: tuple[str, ...] = ()
    varying: tuple[str, ...] = ()
    shared_runs: bool = False

    def levels(self, factor: str) -> tuple[str, ...]:
        """Levels of a factor, sorted."""
        return tuple(sorted({row.levels[factor] for row in self.rows}))


def read_measurements(path: str, options: ReadOptions | None = None) -> Measurements:
    """Read a CSV file of measurements.

    Raises
    ------
    InputError : something is missing, ambiguous or not a number, with row and column.
    """
    options = options or ReadOptions()
    header, table = rows_of(path)
    columns = find_columns(path, header, options)
    ours = is_ours(header)
    rows: list[tuple[Measurement, dict[str, str]]] = []
    failed = 0
    for number, cells in observations(header, table):
        if "failed" in columns and cells[columns["failed"].index]:
            failed += 1
            continue
        named = dict(zip(header, cells, strict=True))
        measurement = _measurement(path, number, _completed(cells, columns) if ours else cells, columns)
        if ours and named.get("round", "0") != "0":
            measurement = msgspec.structs.replace(measurement, run=f"{named['round']}/{measurement.run}")
        if _selected(measurement, options):
            rows.append((measurement, named))
    asked = [pair.levels.get("initial_path") for pair, _ in rows]
    unset = {"initial_path"} if ours and set(asked) == {UNSET} else set()
    measurements = Measurements(
        path=path,
        rows=tuple(measurement for measurement, _ in rows),
        factors=tuple(name for name in columns if name not in {*NO_FACTORS, *unset}),
        failed=failed,
        unused=() if ours else _unused(header, columns),
        varying=_varying(header, columns, rows, ours=ours),
        shared_runs=ours and _shared(rows),
    )
    _check(measurements, options)
    return measurements


def pooled(measurements: Measurements) -> list[str]:
    """A sentence about the columns whose differences count as scatter."""
    names = measurements.varying
    if not names:
        return []
    does, these = ("varies but is", "it") if len(names) == 1 else ("vary but are", "them")
    return [
        f"{', '.join(names)} {does} not modelled: rows that differ only in {these} are treated as runs of "
        "the same configuration (mptune fit --factor tests whether a column matters)."
    ]


def _completed(cells: Sequence[str], columns: Mapping[str, Column]) -> list[str]:
    """A row of ours, with the level `UNSET` for empty factors."""
    factors = {column.index for role, column in columns.items() if role not in NO_FACTORS}
    return [UNSET if index in factors and not cell else cell for index, cell in enumerate(cells)]


def _varying(
    header: Sequence[str],
    columns: Mapping[str, Column],
    rows: Sequence[tuple[Measurement, Mapping[str, str]]],
    *,
    ours: bool,
) -> tuple[str, ...]:
    """Columns that are not read, but vary between rows whose factors are all the same."""
    known = {column.header for column in columns.values()} | (_NOT_VARIED if ours else set())
    names = []
    for name in header:
        first: dict[tuple[str, ...], str] = {}
        cells = ((tuple(measurement.levels.values()), named[name]) for measurement, named in rows)
        if name not in known and any(first.setdefault(levels, cell) != cell for levels, cell in cells):
            names.append(name)
    return tuple(names)


def _shared(rows: Sequence[tuple[Measurement, Mapping[str, str]]]) -> bool:
    """True if there are several runs, each with a single seed."""
    seeds: dict[str | None, set[str]] = {}
    for measurement, named in rows:
        seeds.setdefault(measurement.run, set()).add(named["seed"])
    return len(seeds) > 1 and all(len(ones) == 1 for ones in seeds.values())


def _measurement(path: str, number: int, cells: Sequence[str], columns: Mapping[str, Column]) -> Measurement:
    """One row, converted."""
    levels = {role: cells[column.index] for role, column in columns.items() if role not in NO_FACTORS}
    for role, level in levels.items():
        if not level:
            raise cell_error(path, number, columns[role], "expected a name, found nothing")
    return Measurement(
        row=number,
        throughput_mbps=physical(path, number, cells, columns["throughput"], "throughput"),
        buffer_mib=physical(path, number, cells, columns["buffer"], "buffer"),
        levels=levels,
        run=cells[columns["run"].index] if "run" in columns else None,
    )


def _selected(measurement: Measurement, options: ReadOptions) -> bool:
    """True if a row has one of the requested congestion controls and path managers."""
    by_cc = not options.ccs or measurement.levels["cc"] in options.ccs
    return by_cc and (not options.pms or measurement.levels.get("pm", options.pms[0]) in options.pms)


def _unused(header: Sequence[str], columns: Mapping[str, Column]) -> tuple[str, ...]:
    """Headers of columns that were not read."""
    used = {column.header for column in columns.values()}
    return tuple(name for name in header if name not in used)


def _check(measurements: Measurements, options: ReadOptions) -> None:
    """Refuse data that are not sufficient for any procedure."""
    for option, factor, names in (("--cc", "cc", options.ccs), ("--pm", "pm", options.pms)):
        missing = [
            name for name in names if all(row.levels.get(factor, name) != name for row in measurements.rows)
        ]
        if missing:
            raise InputError(
                option, "", f"expected names that occur in {measurements.path}, found {quoted(missing[0])}"
            )
    if not measurements.rows:
        raise InputError(measurements.path, "", "expected one row per observation, found no usable row")
    for factor in measurements.factors:
        _check_spelling(measurements, factor)
    sizes = {row.buffer_mib for row in measurements.rows}
    if len(sizes) == 1:
        raise InputError(
            measurements.path,
            "buffer",
            f"expected at least two sizes, found {sizes.pop():.6g} MiB in every row",
        )
    for cc in measurements.levels("cc"):
        rows = [row.row for row in measurements.rows if row.levels["cc"] == cc]
        if len(rows) == 1:
            raise InputError(
                measurements.path,
                f"row {rows[0]}, cc",
                f"expected at least two observations of {quoted(cc)}, found only this one",
            )


def _check_spelling(measurements: Measurements, factor: str) -> None:
    """Refuse two levels that differ only in capitalisation: one is misspelt."""
    seen: dict[str, str] = {}
    for row in measurements.rows:
        level = row.levels[factor]
        first = seen.setdefault(level.casefold(), level)
        if first != level:
            raise InputError(
                measurements.path,
                f"row {row.row}, {factor}",
                f"expected one spelling, found {quoted(level)} after {quoted(first)}",
            )
