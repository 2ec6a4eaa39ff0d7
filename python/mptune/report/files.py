"""The files of a report: the page, and every figure as SVG, PNG and PDF. Offline; no browser is needed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mptune.errors import InputError, MptuneError
from mptune.report.figures import styled
from mptune.report.page import page
from mptune.report.run_data import RunData
from mptune.report.sections import Section, sections

#: Width of a figure in a file, pixels; PNGs have twice as many in each direction.
_WIDTH = 640
_PNG_SCALE = 2

PAGE = "report.html"


def write_report(
    run: RunData, others: Sequence[RunData], directory: Path, *, figures: bool = True
) -> list[Path]:
    """Write the page, and the figures into `figures/` beside it; return the files, the page first.

    Raises
    ------
    InputError : the directory cannot be made.
    MptuneError : a file cannot be written.
    """
    found = sections(run, others)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(str(directory), "", f"expected a place to write to: {error.strerror}") from None
    path = directory / PAGE
    try:
        partial = path.with_suffix(".part")
        partial.write_text(page(run, others, found), encoding="utf-8")
        partial.replace(path)
        drawn = [file for one in found for file in _figure(one, directory / "figures")] if figures else []
    except OSError as error:
        raise MptuneError(f"{error.filename or directory}: {error.strerror}") from None
    return [path, *drawn]


def _figure(one: Section, directory: Path) -> list[Path]:
    import vl_convert

    directory.mkdir(exist_ok=True)
    if one.svg is not None:
        svg = one.svg.replace("currentColor", "#1c2024").replace('class="halo"', 'stroke="#ffffff"')
    else:
        svg = vl_convert.vegalite_to_svg(_printed(one))
    contents: dict[str, bytes] = {
        "svg": svg.encode(),
        "png": vl_convert.svg_to_png(svg, scale=_PNG_SCALE),
        "pdf": vl_convert.svg_to_pdf(svg),
    }
    paths = []
    for ending, content in contents.items():
        path = directory / f"{one.name}.{ending}"
        path.write_bytes(content)
        paths.append(path)
    return paths


def _printed(one: Section) -> dict[str, Any]:
    """A chart with a width of its own, its title and the explanation of its marks."""
    import altair as alt

    chart = one.chart.properties(width=_WIDTH, title=alt.TitleParams(one.title, anchor="start"))
    spec: dict[str, Any] = styled(chart).to_dict()
    return spec
