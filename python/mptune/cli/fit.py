"""`mptune fit`: the GLM procedure on anyone's measurements. The output is in `_fit_tables`."""

from __future__ import annotations

from typing import Annotated

import typer

from mptune.cli._common import JsonOption, add, console, emit_json
from mptune.cli._measurement_file import (
    BufferUnitOption,
    ColumnOption,
    FactorOption,
    ThroughputUnitOption,
    named,
    reading,
)
from mptune.papers.glm.analysis import AnalysisOptions


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        fit,
        "mptune fit data.csv",
        "mptune fit data.csv --validate fresh.csv --target 20Mbit/s",
        "mptune fit data.csv --throughput-unit Mbit/s --buffer-unit KiB --column cc=algorithm",
        "mptune fit data.csv --factor weekday --forms quadratic --alpha 0.01 --json",
        "mptune fit runs/one/observations.csv    # a run directory of mptune optimise",
    )


def fit(
    data: Annotated[str, typer.Argument(metavar="DATA.csv", help="Measurements, one row per observation.")],
    options: AnalysisOptions,
    validate: Annotated[
        str | None, typer.Option(metavar="FRESH.csv", help="More measurements, to test the prediction on.")
    ] = None,
    cc: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME,...", help="Use only these congestion controls; repeat, or use commas."),
    ] = None,
    throughput_unit: ThroughputUnitOption = None,
    buffer_unit: BufferUnitOption = None,
    column: ColumnOption = None,
    factor: FactorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find a formula for throughput over buffer and congestion control, and what matters.

    This is the statistical procedure of the GLM study. The file needs a header, columns for throughput and
    buffer with their units (throughput_mbps, "throughput [Mbit/s]", buffer_mib, buffer_bytes, ...), and a
    column cc; pm, initial_path and the columns named by --factor are tested as further factors. In each of
    four forms, terms enter by significance. The form that predicts the second file best is shown, or without
    a second file the one with the highest R-square: its coefficients, which factors matter, the buffer for
    the --target throughput, the ranking of the congestion controls, and its error on the second file.
    """
    from mptune.cli import _fit_tables
    from mptune.cli._fit_document import fit_document
    from mptune.papers.glm.analysis import analyse
    from mptune.table import read_measurements

    how = reading(throughput_unit, buffer_unit, column, factor, ccs=named("--cc", cc or ()))
    analysis = analyse(
        read_measurements(data, how),
        options,
        None if validate is None else read_measurements(validate, how),
    )
    if as_json:
        emit_json(fit_document(analysis))
    else:
        _fit_tables.show(console(), analysis)
