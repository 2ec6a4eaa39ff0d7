"""`mptune report`: the offline report of one run, or of several compared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mptune.cli._common import JsonOption, add, console, emit_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        report,
        "mptune report runs/demo                                # runs/demo/report.html and its figures",
        "mptune report runs/new runs/old --out comparison       # the first in full, with the others",
        "mptune report runs/demo --no-figures                   # only the page",
        "mptune report demo.zip                                 # from a bundle, into demo-report",
    )


def report(
    directories: Annotated[list[str], typer.Argument(metavar="RUN...", help="Run directories, or bundles.")],
    out: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Where to write.  [default: the first run directory; for FILE.zip, FILE-report beside it]",
        ),
    ] = None,
    figures: Annotated[bool, typer.Option(help="Also write every figure as SVG, PNG and PDF.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Write the answer and its evidence as a page, and all figures.

    The page needs no network and no other files. If several runs are given, the first is shown in full and
    compared with the others.
    """
    from mptune.bundle.reading import is_bundle, opened
    from mptune.report.files import write_report
    from mptune.result.reading import read_runs

    places = [Path(directory) for directory in directories]
    first = places[0]
    with opened(places) as runs:
        read = read_runs(runs)
    beside = first.with_name(f"{first.stem}-report") if is_bundle(first) else first
    page, *drawn = write_report(read, beside if out is None else Path(out), figures=figures)
    held = _against(first, drawn) if len(places) == 1 and drawn and is_bundle(first) else None
    if as_json:
        document = {"report": str(page), "figures": [str(path) for path in drawn]}
        emit_json(document if held is None else {**document, "differing": held[0]})
        return
    console().print(str(page), markup=False)
    if held is not None:
        console().print(held[1], markup=False)


def _against(bundle: Path, drawn: list[Path]) -> tuple[list[str], str]:
    """Names of figures that differ from those in the bundle, and a sentence."""
    from mptune.bundle.making import drawn_with
    from mptune.bundle.reading import figures, versions
    from mptune.files import read_bytes

    bundled, here = figures(bundle), drawn_with()
    new = {path.name: read_bytes(path) for path in drawn}
    differing = sorted(name for name in bundled.keys() | new.keys() if bundled.get(name) != new.get(name))
    if not differing:
        return [], f"{len(new)} files of figures, the same bytes as in {bundle}"
    others = [f"{name} {text}" for name, text in versions(bundle).items() if here.get(name) != text]
    why = f"; those were drawn with {', '.join(others)}" if others else ""
    return differing, f"{len(differing)} of {len(new)} files of figures differ from those in {bundle}{why}"
