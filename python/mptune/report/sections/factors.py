"""Sections for other factors of a sweep: transfers, initial paths, the time of day."""

from collections.abc import Iterator
from datetime import datetime

from mptune.report.charts import factors as charts
from mptune.report.charts.style import Key, distinct, key
from mptune.report.choices import Choices
from mptune.report.sections._base import (
    SPREAD,
    Panel,
    Rows,
    Section,
    Table,
    grouped,
    statistics,
    throughput,
    with_path,
    without,
)
from mptune.report.sections.sweep import HEADROOM, manager_key
from mptune.result.run_data import RunData, TrialRow
from mptune.units import MIB

#: Steps of the time of day, hours.
_STEP_H = 0.25
#: Share of the runs in which all path managers take the same time, from which on that is explained.
_MOST = 0.75


def completion(run: RunData, choices: Choices) -> Iterator[Section]:
    """Completion time over transfer size, a panel per congestion control (PCDC Figs. 7, 9, 11)."""
    rows = [] if run.by_size is not None else completion_rows(run)
    if not rows:
        return
    top = HEADROOM * max(row["max_s"] for row in rows)
    colours = manager_key(rows)
    yield Section(
        name="completion",
        title="Completion time over transfer size",
        lead=f"From the first SYN to the last byte in order, with {rows[0]['buffer_mib']:.4g} MiB of buffer. "
        f"Bar: mean of the runs; {SPREAD}{_alike(run)}",
        panels=[
            Panel(
                title=cc, chart=charts.completion([row for row in rows if row["cc"] == cc], colours, top=top)
            )
            for cc in distinct(row["cc"] for row in rows)
        ],
        key=colours,
        tables=[Table(title="Completion times", rows=without(rows, "transfer"))],
    )


def _alike(run: RunData) -> str:
    """Why path managers do not differ, where that is so."""
    done = [trial for trial in _with_the_largest_buffer(run) if trial.buffer_mode == "fixed"]
    times: dict[object, set[tuple[str, float | None]]] = {}
    for trial in done:
        case = (trial.cc, trial.transfer_bytes, trial.run, trial.initial_path, trial.round)
        times.setdefault(case, set()).add((trial.manager, trial.completion_s))
    several = [case for case in times.values() if len(case) > 1]
    same = sum(len({time for _, time in case}) == 1 for case in several)
    fits = all((trial.transfer_bytes or 0) <= trial.buffer_bytes for trial in done)
    if not several or not fits or same < _MOST * len(several):
        return ""
    return (
        " Path managers hardly differ here, because these transfers fit into the send buffer: the first "
        "subflow is given all of it before another one is established. Smaller buffers, or buffers that grow "
        '(buffer_mode = "auto"), show the difference.'
    )


def _with_the_largest_buffer(run: RunData) -> list[TrialRow]:
    """Transfers that were completed."""
    done = [
        trial
        for trial in run.trials
        if trial.purpose == "sweep" and trial.transfer_bytes and trial.failed is None
    ]
    largest = max((trial.buffer_bytes for trial in done), default=0)
    return [trial for trial in done if trial.buffer_bytes == largest]


def completion_rows(run: RunData) -> Rows:
    """Completion times with the largest buffer, by rising transfer size."""
    selected = [with_path(run, trial) for trial in _with_the_largest_buffer(run)]
    columns = "manager", "cc", "buffer_mib", "transfer_bytes"
    rows = grouped(selected, columns, lambda trial: trial.completion_s, "s")
    rows.sort(key=lambda row: row["transfer_bytes"])
    return [{**row, "transfer": f"{row['transfer_bytes'] / 1024:.4g}"} for row in rows]


def initial_paths(run: RunData, choices: Choices) -> Iterator[Section]:
    """Throughput per initial path with 95 % intervals (buffer sizes Figs. 5-9, path management Figs. 5-9)."""
    if not run.many_paths:
        return
    rows = grouped(run.swept, ("manager", "cc", "initial_path", "buffer_mib"), throughput, "mbps")
    if not rows:
        return
    paths = key("initial_path", "initial path", rows, marks=True)
    over_buffers = len({row["buffer_mib"] for row in rows}) > 1
    yield Section(
        name="initial-paths",
        title="Throughput per initial path",
        lead="Mean of the runs with its 95 % interval."
        + ("" if over_buffers else f" Buffer: {rows[0]['buffer_mib']:.4g} MiB."),
        panels=_over_buffers(rows, paths) if over_buffers else _side_by_side(rows),
        key=paths if over_buffers else manager_key(rows),
        tables=[Table(title="Means and intervals", rows=rows)],
    )


def _over_buffers(rows: Rows, paths: Key) -> list[Panel]:
    """A panel per path manager and congestion control, a line per initial path."""
    top = HEADROOM * max(row["high_mbps"] or row["mean_mbps"] for row in rows)
    panels = []
    for manager, cc in dict.fromkeys((row["manager"], row["cc"]) for row in rows):
        mine = [row for row in rows if (row["manager"], row["cc"]) == (manager, cc)]
        panels.append(Panel(title=f"{manager}, {cc}", chart=charts.by_buffer(mine, paths, top=top)))
    return panels


def _side_by_side(rows: Rows) -> list[Panel]:
    """A panel per congestion control, one initial path below another."""
    colours = manager_key(rows)
    return [
        Panel(
            title=cc,
            chart=charts.intervals(
                [row for row in rows if row["cc"] == cc],
                colours,
                down="initial_path",
                title="initial path",
                zero=True,
            ),
        )
        for cc in distinct(row["cc"] for row in rows)
    ]


def time_of_day(run: RunData, choices: Choices) -> Iterator[Section]:
    """Throughput with the largest buffer over the time of day, for a repeated campaign."""
    if len({trial.round for trial in run.trials}) < 2:
        return
    largest = max((trial.buffer_bytes for trial in run.ever_swept), default=0)
    groups: dict[tuple[str, float], list[float]] = {}
    for trial in run.ever_swept:
        if trial.buffer_bytes == largest and trial.throughput_mbps is not None:
            name = f"{trial.manager}, {trial.cc}"
            groups.setdefault((name, _time_of_day_h(run, trial)), []).append(trial.throughput_mbps)
    rows = [
        {"name": name, "time_of_day_h": hour, **statistics(values, "mbps")}
        for (name, hour), values in sorted(groups.items())
    ]
    if not rows:
        return
    colours = key("name", "configuration", rows, marks=True)
    yield Section(
        name="time-of-day",
        title="Throughput over the time of day",
        lead=f"With {largest / MIB:.4g} MiB, all rounds: mean of the trials that began in the same quarter "
        "of an hour, minimum to maximum. The throughput axis does not start at 0.",
        panels=[Panel(chart=charts.time_of_day(rows, colours))],
        key=colours,
        tables=[Table(title="By quarters of an hour", rows=rows)],
    )


def _time_of_day_h(run: RunData, trial: TrialRow) -> float:
    """Quarter of an hour in which a trial began, in the time zone of the campaign."""
    zone = datetime.fromisoformat(run.config.time).tzinfo
    started = datetime.fromtimestamp(trial.started, zone)
    return _STEP_H * ((started.hour * 60 + started.minute) // round(60 * _STEP_H))
