"""The files of a report: the page, and every figure as SVG, PNG and PDF. Offline; no browser is needed."""

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mptune.errors import InputError, MptuneError
from mptune.files import name_of, write
from mptune.report._same_pdf import same
from mptune.report.charts.style import FONT, Spec, look
from mptune.report.page import page
from mptune.report.sections import Section, sections
from mptune.result.reading import read_run
from mptune.result.run_data import RunData
from mptune.store.directory import written_into

#: The page, and the directory of the figures beside it.
PAGE = "report.html"
FIGURES = "figures"

#: Panels in a row of a figure, and their width in pixels by how many there are.
_COLUMNS = 3
_WIDTHS = {1: 640, 2: 420, 3: 300}
_PNG_SCALE = 2

#: Letters per pixel of width in the explanation above a figure.
_LETTERS = 0.17


def write_page(run: RunData, directory: Path) -> Path:
    """Write the page of one run; takes a second or two. Raises the same errors as `write_report`."""
    return _write(directory / PAGE, page(run, (), sections(run)).encode())


def draw_run(directory: Path) -> Path:
    """Write the page of a finished run, which is complete without it. Raises the same as `read_run` too."""
    run = read_run(directory, name_of(directory))
    with written_into(directory):
        return write_page(run, directory)


def write_report(runs: Sequence[RunData], directory: Path, *, figures: bool = True) -> list[Path]:
    """Write the page, and the figures to a directory beside it; return the files, the page first.

    Parameters
    ----------
    runs : the first is shown in full, the others are compared with it.

    Raises
    ------
    InputError : the directory cannot be created.
    MptuneError : a file cannot be written.
    """
    first, *others = runs
    drawn = sections(first, others)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(str(directory), "", f"expected a writable directory: {error.strerror}") from None
    with written_into(directory):
        written = [_write(directory / PAGE, page(first, others, drawn).encode())]
        for section in drawn if figures else ():
            if section.panels or section.drawing is not None:
                written += [
                    _write(directory / FIGURES / f"{section.name}.{kind}", text)
                    for kind, text in _drawn(section).items()
                ]
    return written


def _write(path: Path, content: bytes) -> Path:
    """Write a file completely or not at all."""
    try:
        path.parent.mkdir(exist_ok=True)
        write(path, content)
    except OSError as error:
        raise MptuneError(f"{path}: {error.strerror}") from None
    return path


def _drawn(section: Section) -> dict[str, bytes]:
    """A figure in all formats."""
    import vl_convert

    if section.drawing is not None:
        colours = look(page=False)
        ink, paper = colours["title"]["color"], colours["background"]
        ground = f'<rect width="100%" height="100%" fill="{paper}"/><title>'
        svg = section.drawing[0].replace("currentColor", ink).replace("var(--paper)", paper)
        svg = svg.replace("<title>", ground, 1).replace("system-ui, sans-serif", FONT, 1)
    else:
        svg = _counted_anew(vl_convert.vegalite_to_svg(printed(section)))
    return {
        "svg": svg.encode(),
        "png": vl_convert.svg_to_png(svg, scale=_PNG_SCALE),
        "pdf": same(vl_convert.svg_to_pdf(svg)),
    }


def _counted_anew(svg: str) -> str:
    """The text with its clip paths numbered from 1: Vega counts them through all figures of a process."""
    numbers: dict[str, int] = {}
    return re.sub(
        r'(?<=id="clip)\d+(?=")|(?<=url\(#clip)\d+(?=\))',
        lambda found: str(numbers.setdefault(found[0], len(numbers) + 1)),
        svg,
    )


def printed(section: Section) -> Spec:
    """Vega-Lite of all panels of a section as one figure, with its title, its explanation and a legend."""
    columns = min(len(section.panels), _COLUMNS)
    width = _WIDTHS[columns]
    datasets: dict[str, Any] = {}
    views = []
    for number, panel in enumerate(section.panels):
        view = {
            name: part for name, part in panel.chart.items() if name not in ("datasets", "params", "$schema")
        }
        datasets |= {f"{name}-{number}": rows for name, rows in panel.chart["datasets"].items()}
        views.append(
            {**_renamed(view, number), "width": width, **({"title": panel.title} if panel.title else {})}
        )
    lines = textwrap.wrap(section.lead, int(_LETTERS * width * columns))
    parameters = {param["name"]: param for panel in section.panels for param in panel.chart["params"]}
    return {
        "$schema": section.panels[0].chart["$schema"],
        "title": {"text": section.title, "subtitle": lines, "anchor": "start", "fontSize": 16, "offset": 16},
        "params": list(parameters.values()),
        "concat": views,
        "columns": columns,
        "resolve": {"scale": dict.fromkeys(("color", "shape", "stroke", "strokeDash"), "shared")},
        "datasets": datasets,
        "config": look(page=False),
    }


def _renamed(view: Spec, number: int) -> Spec:
    """A view with its data renamed: all panels of a figure use the same names."""
    renamed = dict(view)
    if "data" in view:
        renamed["data"] = {"name": f"{view['data']['name']}-{number}"}
    if "layer" in view:
        renamed["layer"] = [_renamed(layer, number) for layer in view["layer"]]
    return renamed
