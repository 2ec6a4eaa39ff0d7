"""`mptune bundle`: a run as one file for an archive."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mptune.cli._common import JsonOption, add, console, emit_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        bundle,
        "mptune bundle runs/demo                                # demo.zip in this directory",
        "mptune bundle runs/demo --out paper.zip --license https://creativecommons.org/licenses/by/4.0/",
        "mptune bundle runs/demo --json                         # its name and its files",
    )


def bundle(
    directory: Annotated[str, typer.Argument(metavar="RUN", help="A run directory.")],
    out: Annotated[
        str | None, typer.Option(metavar="FILE.zip", help="The file to write.  [default: RUN's name, here]")
    ] = None,
    licence: Annotated[
        str | None,
        typer.Option("--license", metavar="URL", help="License of the data.  [default: none stated]"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Put everything about a run into one zip file, for archives.

    It has data, tables, figures, environment and commands. The file is a research object crate (version
    1.1). The same run gives the same file; mptune report draws from it.
    """
    from mptune.bundle.making import NO_LICENCE, write_bundle
    from mptune.files import name_of

    run = Path(directory)
    target = Path(f"{name_of(run)}.zip") if out is None else Path(out)
    made = write_bundle(run, target, licence=licence or NO_LICENCE)
    if as_json:
        emit_json({"bundle": str(made.path), "bytes": made.path.stat().st_size, "files": made.files})
    else:
        console().print(str(made.path), markup=False)
