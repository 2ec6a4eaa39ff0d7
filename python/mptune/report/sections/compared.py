"""Sections that compare several runs: what they confirmed, their best curves, their trade-offs."""

from collections.abc import Iterator, Sequence
from typing import Any

from mptune.report.charts.factors import completion, intervals
from mptune.report.charts.style import Key, distinct, key
from mptune.report.charts.sweep import response
from mptune.report.charts.trade_off import trade_off
from mptune.report.sections._base import (
    SPREAD,
    Panel,
    Rows,
    Section,
    Table,
    grouped,
    throughput,
    with_path,
    without,
)
from mptune.report.sections.factors import completion_rows
from mptune.report.sections.sweep import HEADROOM
from mptune.report.sections.trade_off import front_rows, without_empty
from mptune.report.settings import in_words
from mptune.result.answer import Answer
from mptune.result.run_data import RunData


def compared(runs: Sequence[RunData]) -> Iterator[Section]:
    """Fresh trials of each run, and the differences between the runs."""
    rows: Rows = []
    for run in runs:
        rows += _best_of(run) if run.answer is None else _confirmed(run, run.answer)
    colours = key("configuration", "configuration", rows, marks=True)
    lead = "Means with 95 % intervals, of fresh trials where there are any; the axis does not start at 0."
    yield Section(
        name="compared",
        title="The runs compared",
        lead=lead if rows else "No throughputs to compare.",
        panels=[Panel(chart=intervals(rows, colours, down="run", title="run", zero=False))] if rows else [],
        key=colours if rows else None,
        open=[_differences(runs)],
        tables=[Table(title="Means and intervals", rows=rows, source="result.json")] if rows else [],
    )


def _best_of(run: RunData) -> Rows:
    """For a sweep, the configuration with the largest mean."""
    columns = "manager", "cc", "buffer_mib"
    return [
        {
            "run": run.label,
            "configuration": "best of the sweep",
            "pm": row["manager"],
            **{
                name: row[name] for name in ("cc", "buffer_mib", "mean_mbps", "low_mbps", "high_mbps", "runs")
            },
        }
        for row in grouped(run.shown, columns, throughput, "mbps")
    ]


def _confirmed(run: RunData, answer: Answer) -> Iterator[dict[str, Any]]:
    for name, pm, cc, buffer_mib, interval in answer.confirmed_ones():
        if interval.mean is not None:
            yield {
                "run": run.label,
                "configuration": name,
                "pm": pm,
                "cc": cc,
                "buffer_mib": buffer_mib,
                "mean_mbps": interval.mean,
                "low_mbps": interval.low,
                "high_mbps": interval.high,
                "runs": interval.runs,
            }


def _differences(runs: Sequence[RunData]) -> Table:
    """Answers and settings that differ between runs, one row each and one column per run."""
    settings = [_settings(run) for run in runs]
    names = dict.fromkeys(name for row in settings for name in row)
    rows = [
        {"setting": name, **{f"run {number}": entry.get(name, "") for number, entry in enumerate(settings)}}
        for name in names
        if len({entry.get(name, "") for entry in settings}) > 1
    ]
    headings = {f"run {number}": run.label for number, run in enumerate(runs)}
    return Table(title="What differs", rows=rows, source="config.json", headings=headings)


def _settings(run: RunData) -> dict[str, str]:
    answer = run.answer
    settings = {"network": run.name}
    if answer is not None:
        settings["answer"] = f"{answer.manager} with {answer.occ}, {answer.obs_mib:.2f} MiB"
        settings["model"] = answer.model
    settings |= in_words(run.config.options)
    settings["version of mptune"] = run.config.versions.get("mptune", "")
    settings["platform"] = run.config.platform
    return settings


def compared_responses(runs: Sequence[RunData]) -> Iterator[Section]:
    """Throughput over buffer of the best combination of each run: data, curve, interval."""
    points: Rows = []
    curves: Rows = []
    names = {}
    for run in runs:
        best = _best(run)
        if best is not None:
            points += _best_points(run, *best)
            curves += _best_curve(run, *best)
            names[run.label] = " with ".join(best)
    if len({row["run"] for row in (*points, *curves)}) < 2:
        return
    colours = _run_key(runs)
    top = max([row["max_mbps"] for row in points] + [row["predicted_mbps"] for row in curves])
    legend = "; ".join(f"{label}: {name}" for label, name in names.items())
    yield Section(
        name="compared-response",
        title="The best combination of each run over the buffer",
        lead=f"{legend}. Marks: mean of the runs, minimum and maximum; lines: the fitted models, "
        "with their 95 % intervals where they have one.",
        panels=[Panel(chart=response(points, curves, colours, top=HEADROOM * top))],
        key=colours,
        tables=[Table(title="Means of the runs", rows=points)] if points else [],
    )


def _best(run: RunData) -> tuple[str, str] | None:
    """Path manager and congestion control of the answer, or of a sweep's best configuration."""
    if run.answer is not None:
        return run.answering
    return (with_path(run, run.shown[0]).manager, run.shown[0].cc) if run.shown else None


def _best_points(run: RunData, manager: str, cc: str) -> Rows:
    swept = [with_path(run, trial) for trial in run.swept]
    mine = [trial for trial in swept if (trial.manager, trial.cc) == (manager, cc)]
    return [{"run": run.label, **row} for row in grouped(mine, ("buffer_mib",), throughput, "mbps")]


def _best_curve(run: RunData, manager: str, cc: str) -> Rows:
    return [
        {
            "run": run.label,
            "buffer_mib": curve.buffer_mib,
            "predicted_mbps": curve.predicted_mbps,
            "predicted_low_mbps": curve.low_mbps,
            "predicted_high_mbps": curve.high_mbps,
        }
        for curve in run.curves
        if (curve.pm, curve.cc) == (manager, cc)
    ]


def compared_fronts(runs: Sequence[RunData]) -> Iterator[Section]:
    """The trade-offs of the runs, one front each."""
    rows = [
        {"run": run.label, **row}
        for run in runs
        if run.answer is not None
        for row in front_rows(run.answer.pareto)
    ]
    if len(distinct(row["run"] for row in rows)) < 2:
        return
    rows, colours = without_empty(rows), _run_key(runs)
    crosses = "; 95 % intervals where there are any" if "buffer_low_mib" in rows[0] else ""
    yield Section(
        name="compared-trade-off",
        title="Cost of a smaller buffer in each run",
        lead=f"The smallest buffer for every sacrifice (percent){crosses}. Neither axis starts at 0.",
        panels=[Panel(chart=trade_off(rows, colours, steps=colours))],
        key=colours,
        tables=[
            Table(
                title="The smallest buffer for every sacrifice",
                rows=without(rows, "percent"),
                source="pareto.csv",
            )
        ],
    )


def compared_completions(runs: Sequence[RunData]) -> Iterator[Section]:
    """Completion times of each run's fastest combination on average, with the largest buffer."""
    rows: Rows = []
    for run in runs:
        groups: dict[str, Rows] = {}
        for row in completion_rows(run):
            groups.setdefault(f"{row['manager']} with {row['cc']}", []).append({"run": run.label, **row})
        rows += min(groups.values(), key=lambda mine: sum(row["mean_s"] for row in mine), default=[])
    if len(distinct(row["run"] for row in rows)) < 2:
        return
    rows.sort(key=lambda row: row["transfer_bytes"])
    colours = _run_key(runs)
    fastest = {row["run"]: f"{row['manager']} with {row['cc']}, {row['buffer_mib']:.4g} MiB" for row in rows}
    legend = "; ".join(f"{label}: {name}" for label, name in fastest.items())
    yield Section(
        name="compared-completion",
        title="Completion time over transfer size in each run",
        lead=f"{legend}. Bar: mean of the runs; {SPREAD}",
        panels=[Panel(chart=completion(rows, colours, top=HEADROOM * max(row["max_s"] for row in rows)))],
        key=colours,
        tables=[Table(title="Completion times", rows=without(rows, "transfer"))],
    )


def _run_key(runs: Sequence[RunData]) -> Key:
    return Key(field="run", title="run", names=tuple(run.label for run in runs), marks=True)
