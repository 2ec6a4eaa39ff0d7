"""A comparison as JSON and as files.

The table on the terminal is `mptune.cli.compare`'s.
"""

from __future__ import annotations

import csv
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from mptune.decision.agreement import Cell, Comparison, Row
from mptune.decision.comparison import CompareOptions
from mptune.files import writing_table
from mptune.store.directory import run_directory, write_config, write_json
from mptune.topology import Topology

#: Columns of the interval that is expected of a kernel, Mbit/s.
_EXPECTED = ("expected_low_mbps", "expected_high_mbps")


def document(name: str, comparison: Comparison) -> dict[str, Any]:
    """`--json`: throughputs in Mbit/s, errors relative to the kernel."""
    return {
        "topology": name,
        "compared": comparison.compared,
        "median_error": comparison.median_error,
        "q90_error": comparison.q90_error,
        "rank_correlation": comparison.rank_correlation,
        "stalls_agree": comparison.stalls_agree,
        "same_optimum": comparison.same_optimum,
        "simulated_optimum": _key(comparison.simulated_optimum),
        "kernel_optimum": _key(comparison.kernel_optimum),
        "kept": comparison.kept,
        "configurations": [_row(row) for row in comparison.rows],
    }


def write(
    path: Path,
    topology: Topology,
    options: CompareOptions,
    comparison: Comparison,
    now: datetime,
    *,
    force: bool,
) -> None:
    """Write `comparison.json`, `comparison.csv` and `config.json`.

    Raises
    ------
    InputError : the directory holds something else.
    """
    with run_directory(path, force=force) as directory:
        write_config(directory, msgspec.to_builtins(options), msgspec.to_builtins(topology), now)
        write_json(directory / "comparison.json", document(topology.name, comparison))
        with writing_table(directory / "comparison.csv") as file:
            writer = csv.writer(file, lineterminator="\n")
            sides = [f"{side}_{key}" for side in ("simulated", "kernel") for key in Cell.__struct_fields__]
            writer.writerow(["pm", "cc", "buffer_bytes", *sides, "error", *_EXPECTED])
            for row in comparison.rows:
                cells = [msgspec.structs.astuple(cell) for cell in (row.simulated, row.kernel)]
                writer.writerow(
                    [row.pm, row.cc, row.buffer_bytes, *cells[0], *cells[1], row.error, *_ends(row)]
                )


def _row(row: Row) -> dict[str, Any]:
    return {
        **(_key(row) or {}),
        "simulated": msgspec.to_builtins(row.simulated),
        "kernel": msgspec.to_builtins(row.kernel),
        "error": row.error,
        "expected": None if row.expected is None else msgspec.to_builtins(row.expected),
    }


def _ends(row: Row) -> tuple[float | None, float | None]:
    expected = row.expected
    return (None, None) if expected is None else (expected.low_mbps, expected.high_mbps)


def _key(row: Row | None) -> dict[str, Any] | None:
    """The configuration of a row."""
    return None if row is None else {"pm": row.pm, "cc": row.cc, "buffer_bytes": row.buffer_bytes}
