"""What a report shows of its runs: sections with a chart or a drawing, the table behind it, and how to read it.

It prepares rows and calls `mptune.report.charts`; how a page or a file is made of them is
`mptune.report.page`'s and `mptune.report.files`' business. A section that a run has no data for is left out.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from mptune._text import digits
from mptune.report import charts
from mptune.report.drawing import draw
from mptune.report.run_data import RunData, TrialRow
from mptune.statistics import Summary, summarise
from mptune.testbeds import BIN_NS, Observation

Rows = list[dict[str, Any]]


class Section(msgspec.Struct, kw_only=True):
    """One part of a report.

    Attributes
    ----------
    name : identifier, also of its file.
    lead : how to read it, a sentence or two.
    chart : Altair chart, or None for a drawing.
    svg : drawing, or None for a chart.
    rows : the table behind it.
    """

    name: str
    title: str
    lead: str
    rows: Rows
    chart: Any = None
    svg: str | None = None


def sections(run: RunData, others: Sequence[RunData] = ()) -> list[Section]:
    """Every section that there is data for, the most wanted first; `others` are runs to compare with."""
    makers: tuple[Callable[[RunData], Iterator[Section]], ...] = (
        _trade_off,
        _responses,
        _bars,
        _omegas,
        _over_time,
        _completion,
        _initial_paths,
        _days,
        _topology,
    )
    found = [section for maker in makers for section in maker(run)]
    return [*_compared([run, *others]), *found] if others else found


def _statistics(values: Sequence[float], unit: str) -> dict[str, Any]:
    """Columns of a summary."""
    one: Summary = summarise(values)
    return {
        f"mean_{unit}": one.mean,
        f"min_{unit}": one.min,
        f"max_{unit}": one.max,
        f"q10_{unit}": one.q10,
        f"q90_{unit}": one.q90,
        f"low_{unit}": one.mean if one.low is None else one.low,
        f"high_{unit}": one.mean if one.high is None else one.high,
        "runs": one.n,
    }


def _grouped(
    trials: Sequence[TrialRow],
    keys: Sequence[str],
    value: str,
    unit: str,
    scale: dict[str, float] | None = None,
) -> Rows:
    """Statistics of a value of the trials for each combination of some of their fields."""
    groups: dict[tuple[Any, ...], list[float]] = {}
    for one in trials:
        number = getattr(one, value)
        if number is not None:
            groups.setdefault(tuple(getattr(one, key) for key in keys), []).append(number)
    return [
        {**dict(zip(keys, group, strict=True)), **_statistics(values, unit)}
        for group, values in groups.items()
    ]


def _trade_off(run: RunData) -> Iterator[Section]:
    result = run.result
    if result is None or not result["pareto"]:
        return
    rows = result["pareto"]
    chosen = min(rows, key=lambda row: abs(row["sacrifice"] - result["sacrifice"]))
    yield Section(
        name="trade-off",
        title="What a smaller buffer costs",
        lead="Each point is the smallest buffer that still gives the best throughput less a sacrifice. The ring is "
        "the answer; move the slider above to see the others. Thin lines: 95 % intervals.",
        chart=charts.pareto(rows, chosen),
        rows=rows,
    )


def _responses(run: RunData) -> Iterator[Section]:
    points = _grouped(_saturated(run.of("sweep")), ("pm", "cc", "buffer_mib"), "throughput_mbps", "mbps")
    if len({row["buffer_mib"] for row in points}) < 2:
        return
    top = 1.05 * max(row["max_mbps"] for row in points)
    for pm in dict.fromkeys(row["pm"] for row in points):
        curves = [msgspec.to_builtins(one) for one in run.curves if one.pm == pm]
        optimum = None
        if run.result is not None and run.result["opm"] == pm:
            optimum = {"buffer_mib": run.result["obs_mib"], "throughput_mbps": run.result["otp_mbps"]}
        mine = [row for row in points if row["pm"] == pm]
        yield Section(
            name=f"response-{pm}",
            title=f"Throughput over buffer, {pm}",
            lead="Marks: mean of the runs, with minimum and maximum; lines: the fitted model with its 95 % interval"
            + ("; ring: the optimum." if optimum else "."),
            chart=charts.response(mine, curves, optimum, top),
            rows=mine,
        )


def _bars(run: RunData) -> Iterator[Section]:
    swept = _saturated(run.of("sweep"))
    if not swept:
        return
    sizes = sorted({one.buffer_mib for one in swept})
    chosen = {"largest": sizes[-1]}
    if run.result is not None:
        chosen["recommended"] = min(sizes, key=lambda size: abs(size - run.result["obs_mib"]))  # type: ignore[index]
    for name, size in chosen.items():
        if name == "recommended" and size == sizes[-1]:
            continue
        rows = _grouped(
            [one for one in swept if one.buffer_mib == size], ("pm", "cc"), "throughput_mbps", "mbps"
        )
        yield Section(
            name=f"bars-{name}",
            title=f"Path managers and congestion controls with {size:.4g} MiB, the "
            + ("largest buffer" if name == "largest" else "measured buffer nearest to the recommended one"),
            lead="Mean of the runs; thin line: minimum to maximum, thick line: 10 % to 90 % quantile.",
            chart=charts.bars(rows),
            rows=rows,
        )


def _omegas(run: RunData) -> Iterator[Section]:
    rows = [
        {"cc": one["cc"], "path": path, "carries_data": path in one["optional"], **omega}
        for one in run.impact
        for path, omega in one["omega"].items()
        if omega["mean"] is not None
    ]
    if rows:
        yield Section(
            name="impact-factors",
            title="What each subflow contributes",
            lead="Impact factor: the share of the throughput that is lost when the subflow falls silent. Below 0 it "
            "harms the others, and pcdc keeps it on standby. Thin line: minimum to maximum, thick: 10 % to 90 %.",
            chart=charts.omegas(rows),
            rows=rows,
        )


def _over_time(run: RunData) -> Iterator[Section]:
    groups: dict[str, list[Observation]] = {}
    for one in run.trials:
        if one.key in run.series:
            name = f"{one.pm}, {one.cc}, {one.buffer_mib:.4g} MiB"
            groups.setdefault(name, []).append(run.series[one.key])
    if not groups:
        return
    rows = [row for name, seen in groups.items() for row in _mean_series(name, seen)]
    yield Section(
        name="over-time",
        title="Throughput over time",
        lead="Received in order, per 100 ms: mean of the runs, band from minimum to maximum.",
        chart=charts.over_time(rows),
        rows=rows,
    )
    name, seen = next(iter(groups.items()))
    rows = [
        {"path": subflow.path, "t_s": index * BIN_NS / 1e9, "throughput_mbps": size * 8e3 / BIN_NS}
        for subflow in seen[0].subflows
        if any(subflow.bins)
        for index, size in enumerate(subflow.bins)
    ]
    if rows:
        yield Section(
            name="over-time-subflows",
            title="Throughput over time by subflow",
            lead=f"First run of {name}, stacked; only subflows that delivered something.",
            chart=charts.stacked(rows),
            rows=rows,
        )


def _mean_series(name: str, seen: Sequence[Observation]) -> Iterator[dict[str, Any]]:
    for index, sizes in enumerate(itertools.zip_longest(*(one.bins for one in seen))):
        values = [size * 8e3 / BIN_NS for size in sizes if size is not None]
        yield {
            "name": name,
            "t_s": index * BIN_NS / 1e9,
            "mean_mbps": sum(values) / len(values),
            "min_mbps": min(values),
            "max_mbps": max(values),
        }


def _completion(run: RunData) -> Iterator[Section]:
    transfers = [one for one in run.of("sweep") if one.completion_s is not None]
    rows = [
        {
            "name": f"{row['pm']}, {row['cc']}, {row['buffer_mib']:.4g} MiB",
            "transfer_kib": row["transfer_bytes"] / 1024,
            **row,
        }
        for row in _grouped(transfers, ("pm", "cc", "buffer_mib", "transfer_bytes"), "completion_s", "s")
    ]
    if rows:
        yield Section(
            name="completion",
            title="Completion time over transfer size",
            lead="From the first SYN to the last byte in order: mean of the runs, minimum to maximum.",
            chart=charts.completion(rows),
            rows=rows,
        )


def _initial_paths(run: RunData) -> Iterator[Section]:
    trials = _saturated(run.of("sweep"))
    if len({one.initial_path for one in trials}) < 2:
        return
    largest = max(one.buffer_mib for one in trials)
    keys = ("pm", "cc", "initial_path")
    rows = [
        {"name": f"{row['pm']}, {row['cc']}", **row}
        for row in _grouped(
            [one for one in trials if one.buffer_mib == largest], keys, "throughput_mbps", "mbps"
        )
    ]
    yield Section(
        name="initial-paths",
        title=f"Throughput per initial path with {largest:.4g} MiB",
        lead="Mean of the runs with its 95 % interval.",
        chart=charts.initial_paths(rows),
        rows=rows,
    )


def _days(run: RunData) -> Iterator[Section]:
    if len({one.round for one in run.trials}) < 2:
        return
    rows = []
    for one in _saturated(run.of("sweep")):
        started = datetime.fromtimestamp(one.started).astimezone()
        rows.append(
            {
                "name": f"{one.pm}, {one.cc}",
                "time_of_day_h": started.hour + started.minute / 60 + started.second / 3600,
                "round": one.round,
                "throughput_mbps": one.throughput_mbps,
            }
        )
    yield Section(
        name="time-of-day",
        title="Throughput over the time of day",
        lead="One point per trial of a campaign that was repeated.",
        chart=charts.time_of_day(rows),
        rows=rows,
    )


def _topology(run: RunData) -> Iterator[Section]:
    topology = run.topology
    if topology is None:
        return
    carrying = [] if run.result is None else run.result["subflows"]
    rows = [
        {
            "path": path.label,
            "rate_mbps": path.rate_bps / 1e6,
            "base_rtt_ms": path.base_rtt_ns / 1e6,
            "queue_kib": path.queue_bytes / 1024,
            "loss_percent": path.loss_ppb / 1e7,
            "carries_data": path.label in carrying,
        }
        for path in topology.paths
    ]
    yield Section(
        name="topology",
        title="The network",
        lead="Interfaces of both sites with their up and down rates; a line is a path with its RTT when queues are "
        "empty. Thick lines carry data in the recommended configuration.",
        svg=draw(topology, carrying),
        rows=rows,
    )


def _compared(runs: Sequence[RunData]) -> Iterator[Section]:
    rows = []
    for run in runs:
        if run.result is None:
            continue
        for kind, key in (("recommended", "confirmed"), ("default", "default")):
            interval = run.result[key]
            if interval is None or interval["mean"] is None:
                continue
            rows.append(
                {
                    "run": run.label,
                    "kind": kind,
                    "pm": run.result["opm"] if kind == "recommended" else interval["pm"],
                    "cc": run.result["occ"] if kind == "recommended" else interval["cc"],
                    "buffer_mib": run.result["obs_mib"] if kind == "recommended" else interval["buffer_mib"],
                    "mean_mbps": interval["mean"],
                    "low_mbps": interval["mean"] if interval["low"] is None else interval["low"],
                    "high_mbps": interval["mean"] if interval["high"] is None else interval["high"],
                    "testbed": run.config["options"].get("testbed", "unstated"),
                }
            )
    if rows:
        yield Section(
            name="compared",
            title="The runs compared",
            lead="What fresh trials of each run gave, with 95 % intervals.",
            chart=charts.compared(rows),
            rows=rows,
        )


def _saturated(trials: Sequence[TrialRow]) -> list[TrialRow]:
    return [one for one in trials if one.transfer_bytes is None]


def warnings(run: RunData) -> list[str]:
    """What a reader must know before believing the numbers."""
    found = [] if run.result is None else list(run.result["warnings"])
    if run.failures:
        reasons = dict.fromkeys(one.failed for one in run.trials if one.failed is not None)
        first = next(iter(reasons))
        found.append(f"{run.failures} of {len(run.trials)} trials failed (first reason: {first}).")
    overloaded = sum(1 for one in run.series.values() if one.metadata.get("overloaded"))
    if overloaded:
        found.append(f"In {overloaded} of the trials shown over time the machine was overloaded.")
    if run.result is not None and (run.result["r_squared"] or 1.0) < 0.9:
        found.append(f"The model explains little: R-square {digits(run.result['r_squared'], 3)}.")
    return found
