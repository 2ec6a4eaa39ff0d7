"""Sections over time: the total, by subflow, and per congestion control."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from mptune._text import digits
from mptune.optimisation.over_time import TABLE
from mptune.report.charts.style import Spec, distinct, key
from mptune.report.charts.subflows import over_time as time_chart
from mptune.report.charts.subflows import rtts_over_time
from mptune.report.charts.subflows import stacked as stacked_chart
from mptune.report.choices import Choices
from mptune.report.sections._base import Panel, Rows, Section, Table, without
from mptune.report.sections.sweep import HEADROOM, manager_key
from mptune.result.answer import Answer
from mptune.result.run_data import RunData, TrialRow
from mptune.statistics import quantile
from mptune.trial import BIN_NS, PLAIN_TCP, Observation, SubflowObservation

T = TypeVar("T")

#: Most steps of a drawn series: a phone shows no more, and single bins of 100 ms show bursts, not throughput.
_STEPS = 80

#: Widths of a step, in bins.
_WIDTHS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

#: Axes of a figure over time that can be zoomed.
ZOOM_TIME = ("x",)

#: Share of the steps that are usual, and how many times as high a peak is cut.
_USUAL, _FAR = 0.95, 4.0

#: Height of one of many panels, pixels.
_LOW = 150

#: The answer's name among the configurations that were confirmed with new seeds.
_RECOMMENDED = "recommended"

#: Command that writes the whole series.
SERIES = "mptune campaign export --series"


def over_time(run: RunData, choices: Choices) -> Iterator[Section]:
    """Total throughput over time: answer and default, or a sweep's best (path management Fig. 3)."""
    groups = by_configuration(run, run.shown)
    if not groups:
        return
    series, step = _mean_series(groups, run.observations)
    rows: Rows = [{"name": name, **row} for name, mine in series.items() for row in mine]
    runs = max(len(group) for group in groups.values())
    colours = key("name", "configuration", rows)
    top, cut = _reach(rows)
    yield Section(
        name="over-time",
        title="Throughput over time",
        lead=f"Received in order, per {step:g} s: mean of {runs} runs, band from minimum to maximum. What "
        "waited for a missing segment counts when that arrives, so peaks may exceed the links' rates."
        f"{cut}",
        panels=[Panel(chart=time_chart(rows, colours, top=top), zoom=ZOOM_TIME)],
        key=colours,
        tables=[Table(title="Mean, minimum and maximum", rows=rows, source=SERIES)],
    )


def stacked(run: RunData, choices: Choices) -> Iterator[Section]:
    """Throughput over time by subflow, a panel per configuration (path management Fig. 4)."""
    first = {
        name: run.observations[trials[0].key] for name, trials in by_configuration(run, run.shown).items()
    }
    width = step_width(max((len(observation.bins) for observation in first.values()), default=0))
    rows = {name: _by_subflow(seen, width) for name, seen in first.items()}
    together: Rows = [{"name": name, **row} for name, mine in rows.items() for row in mine]
    if not together:
        return
    totals: dict[tuple[str, float], float] = {}
    for row in together:
        step = row["name"], row["t_s"]
        totals[step] = totals.get(step, 0.0) + row["throughput_mbps"]
    top = HEADROOM * max(totals.values())
    colours = key("subflow", "subflow", sorted(together, key=lambda row: row["place"]))
    yield Section(
        name="over-time-subflows",
        title="Throughput over time by subflow",
        lead=f"First run of each configuration, per {seconds(width):g} s, stacked; subflows that delivered "
        "something.",
        panels=[
            Panel(title=name, chart=stacked_chart(mine, colours, top=top), zoom=ZOOM_TIME)
            for name, mine in rows.items()
        ],
        key=colours,
        tables=[Table(title="Subflow by subflow", rows=without(together, "place"), source=SERIES)],
    )


def round_trips(run: RunData, choices: Choices) -> Iterator[Section]:
    """Round-trip times and retransmissions over time by subflow, a panel per configuration."""
    if not run.steps:
        return
    names = {name.partition(":")[0]: name for name in by_configuration(run, run.shown)}
    rows: Rows = [
        {
            "name": names.get(time_step.role, time_step.role),
            "subflow": time_step.subflow,
            "t_s": time_step.t_s,
            "rtt_ms": time_step.rtt_ms,
            "min_rtt_ms": time_step.min_rtt_ms,
            "max_rtt_ms": time_step.max_rtt_ms,
            "retransmitted": time_step.retransmitted,
            "again_per_s": time_step.retransmitted / time_step.step_s,
        }
        for time_step in run.steps
    ]
    order = [path.label for path in run.topology.paths] if run.topology else []
    place = {label: number for number, label in enumerate(order)}
    ordered = sorted(rows, key=lambda row: (place.get(row["subflow"].partition(" ")[0], 0), row["subflow"]))
    colours = key("subflow", "subflow", ordered)
    for row in rows:
        row["place"] = colours.names.index(row["subflow"])
    step_s = run.steps[0].step_s
    once = f"per {step_s:g} s of the first run of each configuration, simulated again with its seed."
    groups: dict[tuple[str, str], Rows] = {}
    for row in rows:
        groups.setdefault((row["name"], row["subflow"]), []).append(row)
    round_trip = [
        {
            "name": name,
            "subflow": subflow,
            "rtt_ms": math.fsum(row["rtt_ms"] for row in mine) / len(mine),
            "min_rtt_ms": min(row["min_rtt_ms"] for row in mine),
            "max_rtt_ms": max(row["max_rtt_ms"] for row in mine),
        }
        for (name, subflow), mine in groups.items()
    ]
    retransmissions = [
        {"name": name, "subflow": subflow, "retransmitted": sum(row["retransmitted"] for row in mine)}
        for (name, subflow), mine in groups.items()
    ]
    table = f"By subflow (step by step: {TABLE})"

    def panels(columns: Sequence[str], chart: Callable[[Rows, float], Spec], top: float) -> list[Panel]:
        """A panel per configuration, of rows with only the columns that are drawn."""
        drawn = {
            text: [{column: row[column] for column in columns} for row in ordered if row["name"] == text]
            for text in distinct(row["name"] for row in rows)
            if any(row[columns[-1]] for row in rows if row["name"] == text)
        }
        return [Panel(title=values, chart=chart(mine, top), zoom=ZOOM_TIME) for values, mine in drawn.items()]

    yield Section(
        name="round-trips-over-time",
        title="Round-trip times over time",
        lead=f"Line: mean smoothed RTT {once} Band: smallest to largest. What is above the RTT with empty "
        "queues was spent in queues.",
        panels=panels(
            ("subflow", "t_s", "rtt_ms", "min_rtt_ms", "max_rtt_ms"),
            lambda mine, top: rtts_over_time(mine, colours, top=top),
            HEADROOM * max(row["max_rtt_ms"] for row in rows),
        ),
        key=colours,
        tables=[Table(title=table, rows=round_trip, source=TABLE)],
    )
    totals: dict[tuple[str, float], float] = {}
    for row in rows:
        step = row["name"], row["t_s"]
        totals[step] = totals.get(step, 0.0) + row["again_per_s"]
    made = panels(
        ("subflow", "t_s", "place", "again_per_s"),
        lambda mine, top: stacked_chart(
            mine, colours, top=top, column="again_per_s", title="retransmitted (segments/s)"
        ),
        HEADROOM * max(totals.values()),
    )
    if not made:
        return
    drawn = {panel.title for panel in made}
    silent = [each_name for each_name in distinct(row["name"] for row in rows) if each_name not in drawn]
    silent_names = " and ".join(
        f"{text.replace(': ', ' (', 1)})" if ": " in text else text for text in silent
    )
    nothing = f" No retransmissions: {silent_names}." if silent else ""
    yield Section(
        name="retransmissions-over-time",
        title="Retransmissions over time",
        lead=f"Retransmitted segments per second, stacked, {once}{nothing}",
        panels=made,
        key=colours,
        tables=[Table(title=table, rows=retransmissions, source=TABLE)],
    )


def _by_subflow(seen: Observation, width: int) -> Rows:
    """Throughput of each subflow that delivered data."""
    rows: Rows = []
    for place, (name, subflow) in enumerate(
        labelled(
            [subflow_observation for subflow_observation in seen.subflows if any(subflow_observation.bins)]
        )
    ):
        rows += [
            {"subflow": name, "place": place, "t_s": t_s, "throughput_mbps": rate}
            for t_s, rate in steps(subflow.bins, width)
        ]
    return rows


def labelled(subflows: Sequence[SubflowObservation]) -> Iterator[tuple[str, SubflowObservation]]:
    """Subflows by their path; several on one path are numbered."""
    on_path: dict[str, int] = {}
    for subflow in subflows:
        number = on_path[subflow.path] = on_path.get(subflow.path, 0) + 1
        yield subflow.path if number == 1 else f"{subflow.path} ({number})", subflow


def panorama(run: RunData, choices: Choices) -> Iterator[Section]:
    """Throughput over time, a panel per congestion control, a line per path manager (PCDC Fig. 5)."""
    if not run.panorama:
        return
    groups = {(trial.cc, trial.manager): [trial] for trial in run.panorama}
    series, step = _mean_series(groups, run.observations)
    rows: Rows = [{"cc": cc, "manager": pm, **row} for (cc, pm), mine in series.items() for row in mine]
    top, cut = _reach(rows)
    colours, first = manager_key(rows), run.panorama[0]
    yield Section(
        name="over-time-congestion-controls",
        title="Throughput over time per congestion control",
        lead=f"First run with the largest buffer, {first.buffer_mib:.4g} MiB{_begun(first)}, per "
        f"{step:g} s.{cut}",
        panels=[
            Panel(
                title=cc,
                chart=time_chart([row for row in rows if row["cc"] == cc], colours, top=top, height=_LOW),
                zoom=ZOOM_TIME,
            )
            for cc in distinct(row["cc"] for row in rows)
        ],
        key=colours,
        tables=[Table(title="Throughput", rows=without(rows, "min_mbps", "max_mbps"), source=SERIES)],
    )


def _reach(rows: Rows) -> tuple[float, str]:
    """Upper end of the axis, Mbit/s, and a note on peaks above it.

    A step in which much of what had waited became deliverable may have twenty times the others' throughput.
    """
    peaks = sorted(row["max_mbps"] for row in rows)
    usual = HEADROOM * quantile(peaks, _USUAL)
    if peaks[-1] <= _FAR * usual:
        return HEADROOM * peaks[-1], ""
    return 2 * usual, f" Peaks of up to {digits(peaks[-1], 3)} Mbit/s are cut."


def by_configuration(run: RunData, trials: Sequence[TrialRow]) -> dict[str, list[TrialRow]]:
    """Trials by their configuration in words; the recommended one first."""
    groups: dict[str, list[TrialRow]] = {}
    for trial in trials:
        name = f"{trial.manager}, {trial.cc}, {trial.buffer_mib:.4g} MiB{_begun(trial)}"
        if trial.purpose == "confirm" and run.answer is not None:
            name = f"{_role(trial, run.answer)}: {name}"
        groups.setdefault(name, []).append(trial)
    return dict(sorted(groups.items(), key=lambda group: not group[0].startswith(_RECOMMENDED)))


def _role(trial: TrialRow, answer: Answer) -> str:
    """Role of a confirming trial."""
    if (trial.pm, trial.cc, trial.buffer_bytes) == (answer.opm, answer.occ, answer.obs_bytes):
        return _RECOMMENDED
    if (trial.pm, trial.cc) == (answer.opm, answer.occ) and trial.buffer_bytes < answer.obs_bytes:
        return "with less buffer"  # it missed the target
    default = answer.default
    if default is None or (
        (trial.pm, trial.cc) == (default.pm, default.cc)
        and math.isclose(trial.buffer_mib, default.buffer_mib, rel_tol=1e-6)  # documents round
    ):
        return "default"
    return "best TCP" if trial.pm == PLAIN_TCP else "best MPTCP"


def _begun(trial: TrialRow) -> str:
    return "" if trial.initial_path is None else f", initial path {trial.initial_path}"


def _mean_series(
    groups: dict[T, list[TrialRow]], seen: dict[bytes, Observation]
) -> tuple[dict[T, Rows], float]:
    """Mean, minimum and maximum over the trials of each group, and the width of a step in seconds."""
    bins = {name: [seen[trial.key].bins for trial in trials] for name, trials in groups.items()}
    width = step_width(max(len(row) for ones in bins.values() for row in ones))
    series: dict[T, Rows] = {}
    for name, ones in bins.items():
        series[name] = []
        for together in itertools.zip_longest(*(steps(row, width) for row in ones)):
            present = [pair for pair in together if pair is not None]
            rates = [rate for _, rate in present]
            mean = min(max(math.fsum(rates) / len(rates), min(rates)), max(rates))
            ends = {"min_mbps": min(rates), "max_mbps": max(rates)}
            series[name].append({"t_s": present[0][0], "mean_mbps": mean, **ends})
    return series, seconds(width)


def step_width(bins: int) -> int:
    """Bins of one step of a series that has so many."""
    return next((width for width in _WIDTHS if bins <= width * _STEPS), -(-bins // _STEPS))


def seconds(width: int) -> float:
    """Length of a step of so many bins, seconds."""
    return width * BIN_NS / 1e9


def steps(bins: Sequence[int], width: int) -> Iterator[tuple[float, float]]:
    """Start (s) and throughput (Mbit/s) of each step; the last one only if it is full or the only one."""
    for first in range(0, max(len(bins) - width + 1, min(len(bins), 1)), width):
        part = bins[first : first + width]
        yield seconds(first), sum(part) * 8e3 / (len(part) * BIN_NS)
