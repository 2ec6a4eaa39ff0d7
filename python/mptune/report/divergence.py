"""The figure of a divergence: data in flight, RTT and what was delivered, of every subflow on both sides."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mptune.capture.series import STEP_S
from mptune.errors import InputError, MptuneError
from mptune.files import write
from mptune.report.charts.divergence import course
from mptune.report.charts.style import Key, Rows, Spec, look

if TYPE_CHECKING:
    from mptune.capture.divergence import Divergence, Side

#: Time before and after the divergence, seconds; without one the figure begins at 0.
_AROUND_S = 0.5
_WIDTH = 330
_PNG_SCALE = 2

#: Figures: quantity of a subflow, title of the axis, factor to its unit.
_PANELS = (
    ("inflight", "in flight, and window dashed (KiB)", 1 / 1024),
    ("rtt", "RTT (ms)", 1e3),
    ("delivered", "delivered, ahead of {reference} (KiB)", 1 / 1024),
)

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


def write_figure(path: Path, divergence: Divergence, reference: Side, other: Side, lead: str) -> None:
    """Draw the figure in the format of the file's suffix.

    Raises
    ------
    InputError : no such format.
    MptuneError : it cannot be written.
    """
    import vl_convert

    check_suffix(path, str(path))
    spec = figure(divergence, reference, other, lead)
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


def figure(divergence: Divergence, reference: Side, other: Side, lead: str) -> Spec:
    """Vega-Lite of all panels: a row per subflow."""
    import textwrap

    colours = Key(field="side", title="", names=(reference.name, other.name))
    middle = 0.0 if divergence.first is None else divergence.first.at_s
    names = tuple(dict.fromkeys((*reference.subflows, *other.subflows)))
    views: list[Spec] = []
    datasets: dict[str, Any] = {}
    for name in names:
        for quantity, title, factor in _PANELS:
            rows = _rows(reference, other, name, quantity, factor, middle)
            if not rows:
                continue
            chart = course(
                rows,
                colours,
                title.format(reference=reference.name),
                None if divergence.first is None else middle,
                dashed="window" if quantity == "inflight" else "",
            )
            number = len(views)
            datasets |= {f"{dataset}-{number}": values for dataset, values in chart["datasets"].items()}
            view = {text: part for text, part in chart.items() if text in ("layer", "height", "resolve")}
            # Without the line of a divergence all layers have the same data, which then stand above them.
            shared = chart.get("data")
            view["layer"] = [_renamed({"data": shared, **label}, number) for label in view["layer"]]
            views.append({**view, "width": _WIDTH, "title": name})
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "title": {
            "text": "First difference",
            "subtitle": textwrap.wrap(lead, 150),
            "anchor": "start",
            "offset": 16,
        },
        "params": [{"name": "emphasis", "value": []}],
        "concat": views,
        "columns": len(_PANELS),
        "datasets": datasets,
        "config": look(page=False),
    }


def _renamed(layer: Spec, number: int) -> Spec:
    """A layer with its data renamed: all panels use the same names."""
    return {**layer, "data": {"name": f"{layer['data']['name']}-{number}"}}


def _rows(reference: Side, other: Side, name: str, quantity: str, factor: float, middle: float) -> Rows:
    """Rows of one panel; none if nothing is known there."""
    import numpy as np

    end = len(reference.runs[0].times) - 1
    low = max(0, int((middle - _AROUND_S) / STEP_S))
    high = min(end, int((middle + _AROUND_S) / STEP_S))
    base = np.zeros(end + 1)
    if quantity == "delivered":
        base = np.median(reference.values(name, quantity), axis=0)
    rows = []
    for side in (reference, other):
        values = (side.values(name, quantity) - base) * factor
        windows = _windows(side, name) / 1024
        for index in range(low, high + 1):
            column = values[:, index]
            if not np.isfinite(column).any():
                continue
            row = {
                "side": side.name,
                "t_s": round(index * STEP_S, 4),
                "low": float(np.nanmin(column)),
                "middle": float(np.nanmedian(column)),
                "high": float(np.nanmax(column)),
            }
            if quantity == "inflight":
                row["window"] = float(windows[index]) if np.isfinite(windows[index]) else None
            rows.append(row)
    return rows


def _windows(side: Side, name: str) -> Any:
    """Median congestion window of a side's runs, bytes; NaN where there is no sample."""
    import numpy as np

    windows = [run.subflows[name].cwnd * run.segment for run in side.runs if name in run.subflows]
    if not windows:
        return np.full(len(side.runs[0].times), np.nan)
    return np.median(np.stack(windows), axis=0)
