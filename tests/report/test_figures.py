"""Figures: what is drawn is what was measured, and both files are there."""

import struct
from pathlib import Path
from typing import Any

import pytest

from mptune.report.figures import bars_figure, response_figure, save
from mptune.response import Combination, Curve
from mptune.response.quadratic import Parabola
from mptune.selection import Optimum
from mptune.statistics import summarise
from mptune.sweep import SweepPoint

CURVES: dict[Combination, Curve] = {
    Combination(pm, cc): Parabola((3.0, slope, -0.15))
    for pm in ("fullmesh", "pcdc")
    for cc, slope in (("cubic", 4.8), ("olia", 5.3))
}
POINTS = [
    SweepPoint(
        combination=combination,
        buffer_mib=bs,
        throughput=summarise([curve.predict(bs) + d for d in (-2, 0, 1)]),
    )
    for combination, curve in CURVES.items()
    for bs in (0.5, 10.0, 20.0)
]
OPTIMUM = Optimum(pm="pcdc", cc="olia", buffer_mib=12.36, throughput_mbps=45.6)


def layers(chart: dict[str, Any]) -> list[dict[str, Any]]:
    """All layers of a chart, with the data they draw."""
    panels = chart.get("hconcat", [chart])
    return [{**layer, "panel": panel} for panel in panels for layer in panel["layer"]]


def drawn(layer: dict[str, Any], chart: dict[str, Any]) -> list[dict[str, Any]]:
    """Values a layer draws, wherever altair has put them."""
    data: dict[str, Any] = next(one["data"] for one in (layer, layer["panel"], chart) if "data" in one)
    values: list[dict[str, Any]] = chart["datasets"][data["name"]] if "name" in data else data["values"]
    return values


def test_a_panel_per_path_manager_with_every_point() -> None:
    chart = response_figure(POINTS, CURVES, OPTIMUM).to_dict()
    assert [panel["title"]["text"] for panel in chart["hconcat"]] == ["fullmesh", "pcdc"]
    means = [layer for layer in layers(chart) if "shape" in layer["encoding"]]
    seen = [(value["pm"], value["cc"], value["buffer"]) for layer in means for value in drawn(layer, chart)]
    assert sorted(seen) == sorted((*point.combination, point.buffer_mib) for point in POINTS)


def test_the_optimum_is_marked_in_its_panel_alone() -> None:
    chart = response_figure(POINTS, CURVES, OPTIMUM).to_dict()
    labelled = [layer for layer in layers(chart) if "text" in layer["encoding"]]
    assert {layer["panel"]["title"]["text"] for layer in labelled} == {"pcdc"}
    (value,) = drawn(labelled[0], chart)
    assert value["label"] == "olia: 12.36 MiB, 45.60 Mbit/s"


def test_every_axis_has_a_unit() -> None:
    titles = {
        channel["title"]
        for chart in (response_figure(POINTS, CURVES).to_dict(), bars_figure(POINTS).to_dict())
        for layer in layers(chart)
        for name, channel in layer["encoding"].items()
        if name in ("x", "y") and "title" in channel
    }
    assert titles == {"buffer (MiB)", "throughput (Mbit/s)", "congestion control"}


def test_bars_show_the_largest_buffer() -> None:
    chart = bars_figure(POINTS).to_dict()
    values = drawn(layers(chart)[0], chart)
    assert {value["buffer"] for value in values} == {20.0}
    assert {(value["pm"], value["cc"]) for value in values} == set(CURVES)


@pytest.mark.timeout(120)
def test_both_files_are_written(tmp_path: Path) -> None:
    png, svg = save(bars_figure(POINTS), tmp_path / "bars")
    width, height = struct.unpack(">II", png.read_bytes()[16:24])
    assert width > 800 and height > 600
    assert "congestion control" in svg.read_text()
