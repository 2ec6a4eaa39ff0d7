"""One figure as a file of its own: the format follows from the suffix."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mptune.errors import InputError, MptuneError
from mptune.files import write
from mptune.report.charts.style import look

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mptune.report.charts.style import Spec

_PNG_SCALE = 2

#: Letters in a line below the title.
_LINE = 150

#: Formats by the suffix of the file.
SUFFIXES = (".svg", ".png", ".pdf", ".html")


def check_suffix(path: Path, option: str) -> None:
    """Refuse a file of another format.

    Raises
    ------
    InputError : naming the option.
    """
    if path.suffix not in SUFFIXES:
        raise InputError(option, "", f"expected a file that ends in {', '.join(SUFFIXES)}, found {path.name}")


def write_spec(path: Path, spec: Spec) -> None:
    """Draw a figure in the format of the file's suffix.

    Raises
    ------
    InputError : no such format.
    MptuneError : it cannot be written.
    """
    import vl_convert

    check_suffix(path, str(path))
    drawn: str | bytes
    match path.suffix:
        case ".svg":
            drawn = vl_convert.vegalite_to_svg(spec)
        case ".png":
            drawn = vl_convert.vegalite_to_png(spec, scale=_PNG_SCALE)
        case ".pdf":
            drawn = vl_convert.vegalite_to_pdf(spec)
        case _:
            drawn = vl_convert.vegalite_to_html(spec, bundle=True)
    try:
        write(path, drawn)
    except OSError as error:
        raise MptuneError(f"{path}: {error.strerror}") from None


def panels(charts: Sequence[tuple[str, Spec]], title: str, lead: str, *, columns: int, width: int) -> Spec:
    """Charts of `style.layered` side by side, each with its title, as one figure with one legend.

    Parameters
    ----------
    lead : sentences below the title.
    width : of each chart, pixels.
    """
    import textwrap

    views: list[Spec] = []
    datasets: dict[str, Any] = {}
    for number, (name, chart) in enumerate(charts):
        datasets |= {f"{dataset}-{number}": values for dataset, values in chart["datasets"].items()}
        view = {text: part for text, part in chart.items() if text in ("layer", "height", "resolve")}
        # If all layers have the same data, these stand above them.
        shared = chart.get("data")
        view["layer"] = [_renamed({"data": shared, **label}, number) for label in view["layer"]]
        views.append({**view, "width": width, "title": name})
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "title": {
            "text": title,
            "subtitle": textwrap.wrap(lead, _LINE),
            "anchor": "start",
            "offset": 16,
        },
        "params": [{"name": "emphasis", "value": []}],
        "concat": views,
        "columns": columns,
        "datasets": datasets,
        "config": look(page=False),
    }


def _renamed(layer: Spec, number: int) -> Spec:
    """A layer with its data renamed: all panels use the same names."""
    return {**layer, "data": {"name": f"{layer['data']['name']}-{number}"}}
