"""`mptune fit`: the GLM procedure on anyone's measurements, or a model that the user states.

The output is in `_fit_tables` and `_stated_tables`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from mptune.options import words
from mptune.papers.glm.analysis import AnalysisOptions
from mptune.papers.glm.asked import statement_of

if TYPE_CHECKING:
    from mptune.papers.glm.stated import Statement
    from mptune.table import ReadOptions


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
        'mptune fit data.csv --model "T ~ B + B^2 + CC + B:CC" --reference CC=vegas --out fit.svg',
        'mptune fit data.csv --model "T ~ B + B^2 + B:CC" --units bit/s,B --predict B=20000000,CC=scalable',
        'mptune fit data.csv --model "T ~ B + B^2 + B:CC" --solve T=20Mbit/s,CC=scalable    # which buffer',
        'mptune fit other.csv --model "y ~ 0 + x + sqrt(x) + group" --factor group --json',
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
    model: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help='Fit this model, such as "T ~ B + B^2 + CC + B:CC".'),
    ] = None,
    reference: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=LEVEL", help="With --model: level that others are compared with; repeat for more."
        ),
    ] = None,
    units: Annotated[
        list[str] | None,
        typer.Option(
            metavar="UNIT,...", help="With --model: show throughputs and buffers in these, as bit/s,B."
        ),
    ] = None,
    predict: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE,...", help="With --model: predict the response there; repeat for more."
        ),
    ] = None,
    solve: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE,...",
            help="With --model: find the number that is left out, as in T=20Mbit/s,CC=olia; repeat for more.",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="With --model: draw curve and residuals: .svg, .png, .pdf or .html."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Fit a formula for throughput to measurements of your own.

    It is one over buffer and congestion control, searched for, or the one of --model. This is the
    statistical procedure of the GLM study. The file needs a header, columns for throughput and buffer with
    their units (throughput_mbps, "throughput [Mbit/s]", buffer_mib, buffer_bytes, ...), and a column cc; pm,
    initial_path and the columns named by --factor are tested as further factors. In each of four forms,
    terms enter by significance. The form that predicts the second file best is shown, or without a second
    file the one with the highest R-square: its coefficients, which factors matter, the buffer for the
    --target throughput, the ranking of the congestion controls, and its error on the second file.

    With --model nothing is chosen: the model is fitted as PROC GLM of SAS does, to any columns. T, B, CC and
    PM are throughput, buffer, congestion control and path manager; other names are headers. a:b is a product,
    a*b is a + b + a:b, B^2 a square; log(B) and sqrt(B) are functions, and "+ 0" leaves the intercept out.
    Printed are Type I and III tests, coefficients, least-squares means, predictions and inverses with limits.
    """
    how = reading(throughput_unit, buffer_unit, column, factor, ccs=named("--cc", cc or ()))
    statement = statement_of(
        model,
        options,
        validated=validate is not None,
        references=reference or (),
        predictions=predict or (),
        inverses=solve or (),
        units=words(",".join(units or ())),
        drawn=out is not None,
    )
    if statement is None:
        _find(data, validate, options, how, as_json=as_json)
        return
    _state(data, statement, how, out, as_json=as_json)


def _find(
    data: str, validate: str | None, options: AnalysisOptions, how: ReadOptions, *, as_json: bool
) -> None:
    """Find a model by the procedure of the study."""
    from mptune.cli import _fit_tables
    from mptune.cli._fit_document import fit_document
    from mptune.papers.glm.analysis import analyse
    from mptune.table import read_measurements

    analysis = analyse(
        read_measurements(data, how),
        options,
        None if validate is None else read_measurements(validate, how),
    )
    if as_json:
        emit_json(fit_document(analysis))
    else:
        _fit_tables.show(console(), analysis)


def _state(data: str, statement: Statement, how: ReadOptions, out: str | None, *, as_json: bool) -> None:
    """Fit a model that is stated."""
    from mptune.cli import _stated_tables
    from mptune.cli._stated_document import stated_document
    from mptune.files import check_writable
    from mptune.papers.glm.stated import fit_stated
    from mptune.report.figures import check_suffix, write_spec

    if out is not None:
        check_suffix(Path(out), "--out")
        check_writable(Path(out), "--out")
    stated = fit_stated(data, statement, how)
    if out is not None:
        from mptune.report.fit import figure

        write_spec(Path(out), figure(stated))
    if as_json:
        emit_json(stated_document(stated))
    else:
        _stated_tables.show(console(), stated)
