"""The figure of the trade-off: every point of the front, its intervals, and the answer."""

from typing import Any

from mptune.report.front_figure import front_figure
from mptune.selection import Optimum
from mptune.tradeoff import FrontPoint


def optimum(cc: str, buffer: float, throughput: float) -> Optimum:
    return Optimum(pm="pcdc", cc=cc, buffer_mib=buffer, throughput_mbps=throughput)


FRONT = [
    FrontPoint(
        sacrifice=0.0,
        optimum=optimum("olia", 9.0, 100.0),
        buffer_interval=(8.0, 11.0),
        throughput_interval=(98.0, 101.0),
    ),
    FrontPoint(sacrifice=0.07, optimum=optimum("reno", 2.0, 93.0)),
]


def data(chart: dict[str, Any], layer: dict[str, Any]) -> list[dict[str, Any]]:
    source: dict[str, Any] = layer.get("data") or chart["data"]
    values: list[dict[str, Any]] = chart["datasets"][source["name"]] if "name" in source else source["values"]
    return values


def test_what_is_drawn_is_the_front() -> None:
    chart = front_figure(FRONT, FRONT[1].optimum).to_dict()
    points = next(layer for layer in chart["layer"] if layer["mark"]["type"] == "point")
    drawn = [(v["name"], v["buffer"], v["throughput"]) for v in data(chart, points)]
    assert drawn == [("pcdc, olia", 9.0, 100.0), ("pcdc, reno", 2.0, 93.0)]
    first, second = data(chart, points)
    assert (first["buffer_low"], first["buffer_high"]) == (8.0, 11.0)
    assert (second["throughput_low"], second["throughput_high"]) == (93.0, 93.0)  # no interval


def test_the_answer_has_a_ring_and_the_axes_have_units() -> None:
    chart = front_figure(FRONT, FRONT[1].optimum).to_dict()
    ring = next(layer for layer in chart["layer"] if layer["mark"].get("filled") is False)
    assert [(v["buffer"], v["throughput"]) for v in data(chart, ring)] == [(2.0, 93.0)]
    titles = {layer["encoding"][axis].get("title") for layer in chart["layer"] for axis in ("x", "y")}
    assert titles - {None} == {"buffer (MiB, logarithmic)", "throughput (Mbit/s)"}
