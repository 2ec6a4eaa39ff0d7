"""Section of messages and requests: how long they took, with answer and default, or in a sweep."""

import math
from collections.abc import Iterator, Sequence

from mptune.report.charts import delays as charts
from mptune.report.charts.style import key
from mptune.report.choices import Choices
from mptune.report.sections._base import Panel, Rows, Section, Table, grouped
from mptune.result.answer import Figure, ObjectiveAnswer
from mptune.result.run_data import ComparedRow, RunData, TrialRow
from mptune.result.values import Interval, Setting
from mptune.trial import PLAIN_TCP
from mptune.trial.objectives import cost
from mptune.trial.workloads import TIMED, Times, series_of
from mptune.units import MIB

#: Points of a curve, and of a configuration over time: a screen shows no more.
_POINTS, _MESSAGES = 120, 400

#: Rows of the table of what was compared.
_COMPARED = 20

#: A logarithmic axis has no 0, ms.
_LEAST_MS = 1e-3

#: Command that writes every delay.
_SERIES = "mptune campaign export --series"

_HEADINGS = {
    "recommended_low": "95 % from",
    "recommended_high": "95 % to",
    "default_low": "95 % from",
    "default_high": "95 % to",
    "better_low": "95 % from",
    "better_high": "95 % to",
}


def delays(run: RunData, choices: Choices) -> Iterator[Section]:
    """Distribution of the delays or times, and those of one run one by one."""
    of_each = groups(run)
    if not of_each and run.by_objective is not None:
        lead = "With the answer and with the default, in fresh runs with new seeds."
        tables = list(_of_answer(run, run.by_objective))
        yield Section(name="figures", title="Answer and default", lead=lead, open=tables)
    if not of_each:
        return
    spread: Rows = [row for name, trials in of_each.items() for row in _later(name, _pooled(run, trials))]
    singly: Rows = [row for name, trials in of_each.items() for row in _over_time(name, run, trials[0])]
    colours = key("name", "configuration", spread, marks=True)
    runs = max(len(trials) for trials in of_each.values())
    answer = run.by_objective
    seeds = "new seeds, " if answer is not None else ""
    words = _words(run.delayed[0])
    yield Section(
        name="delays",
        title=words.title,
        lead=f"{words.from_to} Left: the share of {words.many} that take longer ({seeds}{runs} runs in one)."
        f" Right: each of the first run; {words.waiting} Axes of times are logarithmic.",
        panels=[
            Panel(
                title="Share that takes longer",
                chart=charts.later(spread, colours, of=words.of, many=words.many),
            ),
            Panel(
                title="One by one",
                chart=charts.each(singly, colours, of=words.of, across=words.across, title=words.axis),
                zoom=("x",),
            ),
        ],
        key=colours,
        open=[_of_sweep(run)] if answer is None else list(_of_answer(run, answer)),
        tables=[
            Table(title=f"Share of {words.many} that take longer", rows=spread, source=_SERIES),
            Table(title=f"{words.many.capitalize()} of the first run", rows=singly, source=_SERIES),
        ],
    )


def _words(trial: TrialRow) -> Times:
    """Names for the times of a trial's workload."""
    return TIMED[(trial.workload or {})["kind"]].judged_by


# ---- trials ---------------------------------------------------------------------------------------


def groups(run: RunData) -> dict[str, list[TrialRow]]:
    """Trials by their configuration in words."""
    found: dict[str, list[TrialRow]] = {}
    if run.by_objective is None:
        for trial in run.delayed:
            begun = "" if trial.initial_path is None else f", initial path {trial.initial_path}"
            found.setdefault(f"{trial.manager}, {trial.cc}, {_mib(trial.buffer_bytes)}{begun}", []).append(
                trial
            )
        return found
    for role, setting in (
        ("recommended", run.by_objective.recommended),
        ("default", run.by_objective.default),
    ):
        if mine := [trial for trial in run.delayed if _is_of(trial, setting)]:
            name = f"{role}: {mine[0].manager}, {setting.cc}, {_mib(setting.buffer_bytes)}"
            found[name] = mine
    return found


def _is_of(trial: TrialRow, setting: Setting) -> bool:
    """True if a trial has a configuration of the answer."""
    if (trial.cc, trial.buffer_bytes) != (setting.cc, setting.buffer_bytes):
        return False
    if PLAIN_TCP in (trial.pm, setting.protocol):
        return trial.manager == setting.manager
    same = (trial.pm, trial.initial_path) == (setting.pm, setting.initial_path)
    return same and (not trial.subflows or set(trial.subflows) == set(setting.subflows))


def _mib(buffer_bytes: int) -> str:
    return f"{buffer_bytes / MIB:.4g} MiB"


# ---- what is drawn --------------------------------------------------------------------------------


def _pooled(run: RunData, trials: Sequence[TrialRow]) -> list[float]:
    """Delays of all messages, ms, descending."""
    return sorted(
        (ns / 1e6 for trial in trials for ns in run.observations[trial.key].delays_ns), reverse=True
    )


def _later(name: str, descending: Sequence[float]) -> Rows:
    """The share of messages with at least a delay, by falling share; few points where many are alike."""
    count = len(descending)
    steps = {round(count ** (step / (_POINTS - 1))) for step in range(_POINTS)}
    return [
        {
            "name": name,
            "time_ms": max(descending[rank - 1], _LEAST_MS),
            "share_percent": 100 * rank / count,
        }
        for rank in sorted(steps, reverse=True)
    ]


def _over_time(name: str, run: RunData, trial: TrialRow) -> Rows:
    """Times of a trial; of many messages the longest of each of some hundred intervals."""
    seen = run.observations[trial.key].delays_ns
    width = math.ceil(len(seen) / _MESSAGES)
    sent = trial.workload or {}
    interval_ns = sent["interval_ns"] if _words(trial).across == "due_s" else None
    many = bool(run.observations[trial.key].parts)
    count = len(seen) if interval_ns is None else series_of(sent, len(seen), many=many)
    rows: Rows = []
    for start in range(0, len(seen), width):
        number = max(range(start, min(start + width, len(seen))), key=lambda place: seen[place])
        across = {"number": number} if interval_ns is None else {"due_s": number % count * interval_ns / 1e9}
        rows.append({"name": name, **across, "time_ms": max(seen[number] / 1e6, _LEAST_MS)})
    return rows


# ---- tables ---------------------------------------------------------------------------------------


def _of_answer(run: RunData, answer: ObjectiveAnswer) -> Iterator[Table]:
    rows = [_figure(figure.name, figure) for figure in answer.table]
    rows += [_figure(harm.name, harm) for harm in answer.harm]
    if answer.outage is not None:
        rows.append(_figure(f"{answer.outage.gap.name} if {answer.outage.path} fails", answer.outage.gap))
    yield Table(title="Answer and default", rows=rows, source="result.json", headings=_HEADINGS)
    if run.compared:
        yield Table(
            title=f"What was compared by {answer.objective}, the best first",
            rows=_compared(run),
            source="compared.csv",
        )


def _figure(name: str, figure: Figure) -> dict[str, object]:
    def fields(of: str, interval: Interval) -> dict[str, object]:
        return {of: interval.mean, f"{of}_low": interval.low, f"{of}_high": interval.high}

    return {
        "metric": name,
        "unit": figure.unit,
        **fields("recommended", figure.recommended),
        **fields("default", figure.default),
        **fields("better", figure.gain),
    }


def _compared(run: RunData) -> Rows:
    """The best configurations: those within the limits first, those with few runs, maybe lucky ones, last."""
    known = [row for row in run.compared if row.mean is not None]
    most = max((row.runs for row in known), default=0)

    def order(row: ComparedRow) -> tuple[object, ...]:
        unsound = not row.within_limits, row.failed > 0, 2 * row.runs < most
        return *unsound, cost(row.objective, row.mean or 0)

    known.sort(key=order)
    return [
        {
            "pm": row.pm,
            "subflows": ", ".join((row.active or "").split()),
            "initial_path": row.initial_path,
            "cc": row.cc,
            "buffer_mib": row.buffer_bytes / MIB,
            f"mean ({row.unit})": row.mean,
            f"95 % from ({row.unit})": row.low,
            f"95 % to ({row.unit})": row.high,
            "runs": row.runs,
            "failed": row.failed,
            "within_limits": row.within_limits,
            "chosen": row.chosen,
        }
        for row in known[:_COMPARED]
    ]


def _of_sweep(run: RunData) -> Table:
    """Every configuration of a sweep, the best first."""
    columns = "manager", "cc", "initial_path", "buffer_mib"
    swept = [trial for trial in run.trials if trial.purpose == "sweep" and trial.failed is None]
    rows = grouped(swept, columns, lambda trial: trial.p99_ms, "ms")
    rows.sort(key=lambda row: row["mean_ms"])
    return Table(title="99th percentile in each run", rows=rows[:_COMPARED])
