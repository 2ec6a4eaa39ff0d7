"""Section of a main job that is repeated over time: the answer of each round, when it changed, and why."""

from collections.abc import Iterator
from typing import Any

from mptune.report.charts import factors as charts
from mptune.report.charts.style import key
from mptune.report.choices import Choices
from mptune.report.sections._base import Panel, Rows, Section, Table
from mptune.result.answer import RoundAnswer, RoundRow
from mptune.result.run_data import RunData

_HOUR_S = 3600


def rounds(run: RunData, choices: Choices) -> Iterator[Section]:
    """Throughput and answer of every round, and the changes between them."""
    answers = () if run.answer is None else run.answer.rounds
    rows = [_row(row, row.answer) for row in answers if row.answer is not None]
    if len(rows) < 2:
        return
    changes: Rows = [{**_when(row), "what": text} for row in answers for text in _cells(row)]
    colours = key("configuration", "path manager and congestion control", rows, marks=True)
    sentence = "The table of changes has the reasons." if changes else "The answer never changed."
    yield Section(
        name="rounds",
        title="The answer over time",
        lead=f"Throughput of each round's answer with new seeds, with its 95 % interval. {sentence}",
        panels=[Panel(chart=charts.intervals(rows, colours, down="when", title="after", zero=True))],
        key=colours,
        open=[Table(title="Changes", rows=changes, source="result.json")] if changes else (),
        tables=[
            Table(title="Answers by round", rows=rows, source="result.json"),
            Table(title="Impact factors by round", rows=_omegas(answers), source="impact.json"),
        ],
    )


def _when(row: RoundRow) -> dict[str, Any]:
    """The round, and the time after the first."""
    return {"round": row.round + 1, "when": f"{row.at_s / _HOUR_S:.4g} h"}


def _cells(name: RoundRow) -> tuple[str, ...]:
    return (f"No answer: {name.failed}",) if name.failed else name.changes


def _row(row: RoundRow, answer: RoundAnswer) -> dict[str, Any]:
    confirmed, gain = answer.confirmed, answer.gain
    return {
        **_when(row),
        "configuration": f"{answer.opm}, {answer.occ}",
        "initial_path": answer.initial_path,
        "subflows": ", ".join(answer.subflows),
        "buffer_mib": answer.obs_bytes / 2**20,
        "mean_mbps": confirmed.mean,
        "low_mbps": confirmed.low,
        "high_mbps": confirmed.high,
        "gain_mbps": gain.mean,
    }


def _omegas(answers: tuple[RoundRow, ...]) -> Rows:
    """Impact factors of every round; `carries_data` is whether the path is in the optional set."""
    return [
        {
            **_when(row),
            "cc": cc,
            "path": path,
            "impact_factor": omega,
            "carries_data": path in row.answer.optional.get(cc, ()),
        }
        for row in answers
        if row.answer is not None
        for cc, by_path in row.answer.omega.items()
        for path, omega in by_path.items()
    ]
