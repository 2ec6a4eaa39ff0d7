"""Charts: every value is drawn, every axis has its unit, and the ring is where the choice is.

Building a chart also holds it against the schema of Vega-Lite.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from mptune.report.charts import delays, factors, front, reached, subflows
from mptune.report.charts.style import PALETTE, Key, key, look
from mptune.report.charts.sweep import bars, response, single_runs
from mptune.report.charts.trade_off import trade_off

CCS = Key(field="cc", title="congestion control", names=("cubic", "olia"), marks=True)
PMS = Key(field="manager", title="path manager", names=("fullmesh", "pcdc"), first=4)
SPREAD = {
    "min_mbps": 4.0,
    "max_mbps": 6.0,
    "q10_mbps": 4.5,
    "q90_mbps": 5.5,
    "low_mbps": 4.2,
    "high_mbps": 5.8,
}
POINTS = [
    {"manager": pm, "cc": cc, "buffer_mib": bs, "mean_mbps": 5.0, **SPREAD}
    for pm in PMS.names
    for cc in CCS.names
    for bs in (0.5, 10.0)
]
CURVES = [
    {
        "cc": "cubic",
        "buffer_mib": bs,
        "predicted_mbps": 5.0,
        "predicted_low_mbps": low,
        "predicted_high_mbps": 6.0,
    }
    for bs, low in ((0.5, 4.0), (10.0, None))
]
CHOICES = [
    {"choice": i, "buffer_mib": 1.0 + i, "throughput_mbps": 5.0, "label": f"number {i}", "side": "left"}
    for i in range(3)
]
BOTH = [
    {
        "cc": cc,
        "buffer_mib": 0.5,
        "value": 40.0,
        "value_low": 39.0,
        "value_high": 41.0,
        "second": mbps,
        "second_low": None,
        "second_high": None,
    }
    for cc, mbps in (("cubic", 5.0), ("olia", 12.0))
]
FRONT = [
    {
        "name": "pcdc, olia",
        "sacrifice_percent": 7.0,
        "buffer_mib": 2.0,
        "buffer_low_mib": None,
        "buffer_high_mib": None,
        "throughput_mbps": 93.0,
        "throughput_low_mbps": 90.0,
        "throughput_high_mbps": 95.0,
        "percent": "",
    }
]
OMEGAS = [
    {
        "path": path,
        "cc": cc,
        "carries_data": True,
        "mean": 0.1,
        "min": 0.0,
        "max": 0.3,
        "q10": 0.05,
        "q90": 0.2,
    }
    for path in ("A-X", "B-X")
    for cc in CCS.names
]
SERIES = [{"cc": "cubic", "t_s": t, "mean_mbps": 1.0, "min_mbps": 0.5, "max_mbps": 2.0} for t in (0.0, 0.1)]
STACK = [{"cc": "cubic", "place": 0, "t_s": t, "throughput_mbps": 1.0} for t in (0.0, 0.1)]
TRANSFERS = [
    {
        "manager": "pcdc",
        "transfer": "64",
        "mean_s": 1.0,
        "min_s": 0.9,
        "max_s": 1.2,
        "q10_s": 0.9,
        "q90_s": 1.1,
    }
]
HOURS = [{"cc": "cubic", "time_of_day_h": 8.25, "mean_mbps": 1.0, "min_mbps": 0.5, "max_mbps": 2.0}]

RUNS = [{"manager": "pcdc", "cc": "olia", "run": run, "throughput_mbps": 4.0 + run} for run in range(3)]
BOXES = [{"manager": "pcdc", "cc": "olia", "q25_mbps": 4.5, "median_mbps": 5.0, "q75_mbps": 5.5}]
WENT_THROUGH = [
    {
        "subflow": "A-X",
        "cc": "olia",
        "smallest_rtt_ms": 10.0,
        "rtt_ms": 40.0,
        "min_rtt_ms": 30.0,
        "max_rtt_ms": 50.0,
        "again_per_mb": 2.0,
        "min_again_per_mb": 1.0,
        "max_again_per_mb": 3.0,
    }
]
DELAYS = [
    {"manager": pm, "time_ms": ms, "share_percent": share, "due_s": ms / 10}
    for pm in PMS.names
    for ms, share in ((14.0, 100.0), (30.0, 10.0), (200.0, 0.02))
]
ELAPSED = reached.Elapsed("after_min", "min", (0.0, 9.0))
STEPS = [
    {
        "after_min": t,
        "contenders": 3,
        "competing": 5,
        "certainty_percent": 95.0,
        "room_percent": 10.0,
        "smallest_mib": 0.5,
        "largest_mib": 8.0,
    }
    for t in (1.0, 2.0)
]
TRIALS = [
    {
        "after_min": 1.0,
        "cc": "olia",
        "candidate": "olia",
        "buffer_mib": 1.0,
        "throughput_mbps": mbps,
        "share": 1.0,
    }
    for mbps in (5.0, None)
]

#: What draws every chart there is, with the titles of its axes: tests draw them, and not who collects tests.
CHARTS: dict[str, tuple[Callable[[], dict[str, Any]], str, str]] = {
    "response": (
        lambda: response(POINTS, CURVES, CCS, top=6.0, choices=CHOICES, choice=1),
        "buffer (MiB)",
        "throughput",
    ),
    "bars": (
        lambda: bars([{**row, "label": "5"} for row in POINTS], PMS, top=6.0),
        "congestion control",
        "throughput",
    ),
    "trade-off": (
        lambda: trade_off(FRONT, key("name", "choice", FRONT, marks=True), choices=CHOICES, choice=0),
        "buffer (MiB), logarithmic",
        "throughput",
    ),
    "omegas": (lambda: subflows.omegas(OMEGAS, CCS), "impact factor, share of the throughput", "subflow"),
    "single runs": (lambda: single_runs(RUNS, BOXES, PMS), "throughput (Mbit/s)", "congestion control"),
    "round trips": (lambda: subflows.round_trips(WENT_THROUGH, CCS), "RTT (ms)", "subflow"),
    "retransmissions": (
        lambda: subflows.retransmissions(WENT_THROUGH, CCS),
        "retransmitted segments per MB delivered",
        "subflow",
    ),
    "over time": (lambda: subflows.over_time(SERIES, CCS), "time (s)", "throughput"),
    "stacked": (lambda: subflows.stacked(STACK, CCS, top=2.0), "time (s)", "throughput"),
    "completion": (
        lambda: factors.completion(TRANSFERS, PMS, top=2.0),
        "transfer (KiB)",
        "completion time (s)",
    ),
    "by buffer": (lambda: factors.by_buffer(POINTS, CCS, top=6.0), "buffer (MiB)", "throughput"),
    "intervals": (
        lambda: factors.intervals(POINTS, CCS, down="manager", title="run", zero=True),
        "throughput (Mbit/s)",
        "run",
    ),
    "race": (lambda: reached.race(STEPS, ELAPSED), "time on the testbed (min)", "candidates"),
    "certainty": (
        lambda: reached.certainty(STEPS, ELAPSED),
        "time on the testbed (min)",
        "may miss (%)",
    ),
    "trials": (
        lambda: reached.trials(TRIALS, STEPS, CCS, ELAPSED),
        "time on the testbed (min)",
        "buffer (MiB), logarithmic",
    ),
    "later": (
        lambda: delays.later(DELAYS, PMS, of="delay", many="messages"),
        "delay (ms), logarithmic",
        "messages that take longer (%), logarithmic",
    ),
    "front": (
        lambda: front.front(BOTH, CCS, across="throughput (Mbit/s)", up="delay p99 (ms)"),
        "throughput (Mbit/s)",
        "delay p99 (ms)",
    ),
    "messages": (
        lambda: delays.each(DELAYS, PMS, of="delay", across="due_s", title="message due (s)"),
        "message due (s)",
        "delay (ms), logarithmic",
    ),
    "time of day": (lambda: factors.time_of_day(HOURS, CCS), "time of day (h)", "throughput"),
}


@cache
def chart(name: str) -> dict[str, Any]:
    return CHARTS[name][0]()


def layers(chart: dict[str, Any]) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Layers of a chart, each with the rows it draws."""
    for layer in chart["layer"]:
        yield layer, chart["datasets"][(layer.get("data") or chart["data"])["name"]]


def titles(chart: dict[str, Any], axis: str) -> set[str]:
    return {
        layer["encoding"][axis]["title"]
        for layer, _ in layers(chart)
        if axis in layer["encoding"] and layer["encoding"][axis].get("title")
    }


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_valid_and_its_axes_have_titles(name: str) -> None:
    _, x, y = CHARTS[name]
    spec = chart(name)
    assert titles(spec, "x") - {""} <= {x} | {"zero"}
    assert titles(spec, "x") and titles(spec, "y") == {
        y if "(" in y or y != "throughput" else "throughput (Mbit/s)"
    }
    assert spec["width"] == "container" and spec["height"] > 0


def test_every_mean_and_its_spread_are_drawn() -> None:
    spec = chart("response")
    means = [rows for layer, rows in layers(spec) if layer["encoding"]["y"]["field"] == "mean_mbps"]
    spread = [layer for layer, _ in layers(spec) if layer["encoding"]["y"]["field"] == "min_mbps"]
    assert means == [POINTS]
    assert spread[0]["encoding"]["y2"]["field"] == "max_mbps"


def test_a_model_without_intervals_has_no_band() -> None:
    bare = [{**row, "predicted_low_mbps": None, "predicted_high_mbps": None} for row in CURVES]
    marks = {layer["mark"]["type"] for layer, _ in layers(response(POINTS, bare, CCS, top=6.0))}
    assert "area" not in marks and "line" in marks
    with_band = {layer["mark"]["type"] for layer, _ in layers(chart("response"))}
    assert "area" in with_band


def test_curves_are_drawn_where_there_is_no_data() -> None:
    marks = [layer["mark"]["type"] for layer, _ in layers(response([], CURVES, CCS, top=6.0))]
    assert marks == ["area", "line"]


@pytest.mark.parametrize("name", ["response", "trade-off"])
def test_the_ring_begins_at_the_answer_and_can_be_moved_to_every_choice(name: str) -> None:
    spec = chart(name)
    parameters = {param["name"]: param["value"] for param in spec["params"]}
    assert parameters["choice"] == (1 if name == "response" else 0)
    ring = next((layer, rows) for layer, rows in layers(spec) if layer["mark"].get("style") == "ring")
    assert [row["choice"] for row in ring[1]] == [0, 1, 2]
    assert ring[0]["encoding"]["opacity"]["condition"] == {"test": "datum.choice == choice", "value": 1}


def test_names_differ_by_colour_and_mark_and_beyond_the_palette_by_dash() -> None:
    many = Key(field="cc", title="cc", names=tuple(f"cc{i}" for i in range(11)), marks=True)
    looks = [many.look(i) for i in range(11)]
    assert len({colour for colour, _, _ in looks}) == len(PALETTE)
    assert len({(colour, dash) for colour, _, dash in looks}) == len(looks)
    assert len({shape for _, shape, _ in looks[: len(PALETTE)]}) == len(PALETTE)


def test_the_page_and_the_files_have_their_own_ink() -> None:
    assert look(page=True)["axis"]["labelColor"] == "var(--ink)"
    assert look(page=True)["legend"] == {"disable": True}
    assert look(page=False)["background"] == "#ffffff"
