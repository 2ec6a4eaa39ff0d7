"""The section, and statistics that several of them show. It knows no chart and no page."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from mptune.report.charts.style import Key, Spec
from mptune.report.drawing import Position
from mptune.result.answer import beginning
from mptune.result.run_data import RunData, TrialRow
from mptune.statistics import summarise
from mptune.trial import PLAIN_TCP

Rows = list[dict[str, Any]]

#: Combinations of which a belief's figures show something.
_BEST = 8

#: Legend of the runs' spread at bars and impact factors.
SPREAD = "thin line: minimum to maximum; thick line: 10 % to 90 % quantile."


class Panel(msgspec.Struct, kw_only=True):
    """One chart of a section; `title` distinguishes it from the others.

    Attributes
    ----------
    zoom : axes ("x", "y") that the page lets its readers zoom; in files it does nothing.
    """

    chart: Spec
    title: str = ""
    zoom: tuple[str, ...] = ()


class Table(msgspec.Struct, kw_only=True):
    """Numbers behind a figure; `rows` have the same columns.

    Attributes
    ----------
    source : file of the run directory, or command, that has all of it if not all is shown.
    headings : for columns whose names are not clear.
    """

    title: str
    rows: Rows
    source: str = "observations.csv"
    headings: dict[str, str] = {}


class Slider(msgspec.Struct, kw_only=True):
    """Times between which readers of a page choose; the drawing shows the first of them.

    Attributes
    ----------
    label : what is chosen.
    """

    label: str
    positions: Sequence[Position]


class Section(msgspec.Struct, kw_only=True):
    """One part of a report.

    Attributes
    ----------
    name : identifier, also of its files; never taken from data.
    lead : how to read it, a sentence or two.
    panels : charts side by side; they share one key.
    drawing : SVG texts for a wide and for a narrow page, instead of charts.
    slider : of the drawing, if that is one of `mptune.report.drawing.moving`.
    tables : the numbers behind it; `open` ones are shown without a click.
    """

    name: str
    title: str
    lead: str
    panels: Sequence[Panel] = ()
    key: Key | None = None
    drawing: tuple[str, str] | None = None
    slider: Slider | None = None
    tables: Sequence[Table] = ()
    open: Sequence[Table] = ()


def statistics(values: Sequence[float], unit: str) -> dict[str, Any]:
    """Columns of a summary; the 95 % interval is None for a single value."""
    summary = summarise(values)
    named = {name: getattr(summary, name) for name in ("mean", "min", "max", "q10", "q90", "low", "high")}
    return {**{f"{name}_{unit}": value for name, value in named.items()}, "runs": summary.n}


def grouped(
    trials: Iterable[TrialRow], columns: Sequence[str], value: Callable[[TrialRow], float | None], unit: str
) -> Rows:
    """Statistics of a value of the trials per combination of some of their columns."""
    groups: dict[tuple[Any, ...], list[float]] = {}
    for trial in trials:
        number = value(trial)
        if number is not None:
            groups.setdefault(tuple(getattr(trial, column) for column in columns), []).append(number)
    return [
        {**dict(zip(columns, group, strict=True)), **statistics(values, unit)}
        for group, values in groups.items()
    ]


def with_path(run: RunData, trial: TrialRow) -> TrialRow:
    """The trial with its initial path added to the path manager, if that was chosen among several.

    With an answer it is added wherever it was given, as in the names of the curves.
    """
    if trial.initial_path is None or trial.pm == PLAIN_TCP or not (run.many_paths or run.answer):
        return trial
    return msgspec.structs.replace(trial, manager=beginning(trial.manager, trial.initial_path))


def worth_showing(run: RunData) -> list[tuple[str, str]] | None:
    """Path managers and congestion controls of the answer and the next best curves; None for all of them.

    A belief has a curve for every combination that was ever tried: some forty, most of them from one or two
    observations.
    """
    answer = run.answer
    if answer is None or not answer.is_belief:
        return None
    ranked = sorted(answer.models, key=lambda model: -model.max_mbps)
    return list(dict.fromkeys([run.answering, *(each_model.name for each_model in ranked)]))[:_BEST]


def throughput(trial: TrialRow) -> float | None:
    """Throughput of a trial, Mbit/s."""
    return trial.throughput_mbps


def without(rows: Rows, *columns: str) -> Rows:
    """The rows without columns that are only drawn."""
    return [{name: value for name, value in row.items() if name not in columns} for row in rows]
