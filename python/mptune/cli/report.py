"""`mptune report`: the offline report of one run, or of several compared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mptune.cli._common import JsonOption, console, emit_json, examples


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=examples(
            "mptune report runs/demo                                # runs/demo/report.html and its figures",
            "mptune report runs/new runs/old --out comparison       # the first in full, with the others",
            "mptune report runs/demo --no-figures                   # only the page",
        )
    )(report)


def report(
    directories: Annotated[list[str], typer.Argument(metavar="DIR...", help="Run directories.")],
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where to write.  [default: the first run directory]")
    ] = None,
    figures: Annotated[bool, typer.Option(help="Also write every figure as SVG, PNG and PDF.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Write one HTML file with the answer and the evidence, and every figure as a file.

    The page needs no network and no other files. If several runs are given, the first is shown in full and
    compared with the others.
    """
    from mptune.report.files import write_report
    from mptune.report.read_runs import read_runs

    runs = read_runs([Path(one) for one in directories])
    page, *drawn = write_report(runs, Path(directories[0] if out is None else out), figures=figures)
    if as_json:
        emit_json({"report": str(page), "figures": [str(one) for one in drawn]})
    else:
        console().print(str(page), markup=False)
