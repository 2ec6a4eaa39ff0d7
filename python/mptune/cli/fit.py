"""`mptune fit`: the GLM procedure on measurements of anyone. What it shows is in `_fit_answer`."""

from __future__ import annotations

from typing import Annotated

import typer

from mptune.cli import _options
from mptune.cli._common import JsonOption, console, emit_json, examples
from mptune.cli._reading import (
    BufferUnitOption,
    ColumnOption,
    FactorOption,
    ThroughputUnitOption,
    rate_mbps,
    reading,
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=examples(
            "mptune fit data.csv",
            "mptune fit data.csv --validate fresh.csv --target 20Mbit/s",
            "mptune fit data.csv --throughput-unit Mbit/s --buffer-unit KiB --column cc=algorithm",
            "mptune fit data.csv --factor weekday --forms quadratic --alpha 0.01 --json",
            "mptune fit runs/one/observations.csv    # a run directory of mptune optimise",
        )
    )(fit)


def fit(
    data: Annotated[str, typer.Argument(metavar="DATA.csv", help="A row per observation.")],
    validate: Annotated[str | None, typer.Option(help="Measurements to predict; same columns.")] = None,
    target: Annotated[str | None, typer.Option(help="Throughput to find the buffer for.")] = None,
    cc: Annotated[
        list[str] | None, typer.Option(help="These congestion controls only; repeat, or use commas.")
    ] = None,
    forms: Annotated[
        list[str] | None, typer.Option(help="linear, quadratic, logarithmic, square-root.  [default: all]")
    ] = None,
    alpha: Annotated[float, typer.Option(help="Largest p that counts as significant.")] = 0.05,
    throughput_unit: ThroughputUnitOption = None,
    buffer_unit: BufferUnitOption = None,
    column: ColumnOption = None,
    factor: FactorOption = None,
    ignore: Annotated[
        list[str] | None, typer.Option(help="Factor to leave out; repeat, or use commas.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Find a formula for throughput over buffer and congestion control, and what matters.

    The statistical procedure of the GLM study. The file needs a header, a column of throughput and one of
    buffer with their units (throughput_mbps, "throughput [Mbit/s]", buffer_mib, buffer_bytes, ...), and a
    column cc; pm, initial_path and whatever --factor names are tested as further factors. Terms enter by
    significance, in each of four forms; the form with the largest adjusted R-square is explained: its
    coefficients, which factors do not matter, the buffer for a wanted throughput, the ranking of the
    congestion controls, and its error on a second file.
    """
    from mptune.cli import _fit_answer
    from mptune.glm.analysis import AnalysisOptions, analyse
    from mptune.glm.design import FORMS
    from mptune.measurements import read_measurements
    from mptune.report.fit_document import fit_document

    how = reading(throughput_unit, buffer_unit, column, factor, ccs=_options.names(cc or []))
    options = AnalysisOptions(
        forms=_options.names(forms or list(FORMS)),
        alpha=alpha,
        ignore=_options.names(ignore or []),
        target_mbps=None if target is None else rate_mbps("--target", target),
    )
    analysis = analyse(
        read_measurements(data, how),
        options,
        None if validate is None else read_measurements(validate, how),
    )
    if as_json:
        emit_json(fit_document(analysis))
    else:
        _fit_answer.show(console(), analysis)
