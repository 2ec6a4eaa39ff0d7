"""Section of an answer by size of transfer: completion times of each answer beside the default."""

from collections.abc import Iterator
from typing import Any

from mptune.report.charts import factors as charts
from mptune.report.charts.style import key
from mptune.report.choices import Choices
from mptune.report.sections._base import SPREAD, Panel, Rows, Section, Table, statistics, without
from mptune.report.sections.sweep import HEADROOM, MANAGERS
from mptune.result.answer import SizeChoice, SizeTimes
from mptune.result.run_data import RunData

_HEADINGS = {
    "percentile_95_s": "95th percentile (s)",
    "default_95_s": "default, 95th percentile (s)",
    "default_mean_s": "default, mean (s)",
    "saved_low_s": "saved, 95 % from (s)",
    "saved_high_s": "saved, 95 % to (s)",
}


def by_size(run: RunData, choices: Choices) -> Iterator[Section]:
    """Completion time of each answer and of the default over transfer size, with new seeds."""
    if run.by_size is None:
        return
    rows = _confirmed(run, run.by_size.sizes)
    if not rows:
        return
    colours = key("which", "configuration", rows, first=MANAGERS)
    top = HEADROOM * max(row["max_s"] for row in rows)
    yield Section(
        name="by-size",
        title="Completion time by size of transfer",
        lead="From the first SYN to the last byte in order, of each answer and of the default, with new "
        f"seeds. Bar: mean of the runs; {SPREAD}",
        panels=[Panel(chart=charts.completion(rows, colours, top=top))],
        key=colours,
        open=[
            Table(
                title="Answers by size",
                rows=[_answer(size) for size in run.by_size.sizes],
                source="result.json",
                headings=_HEADINGS,
            )
        ],
        tables=[Table(title="Completion times", rows=without(rows, "transfer"))],
    )


def _confirmed(run: RunData, sizes: tuple[SizeChoice, ...]) -> Rows:
    """Statistics of the confirming trials, answer and default by size."""
    rows: Rows = []
    for size in sorted(sizes, key=lambda choice: choice.transfer_bytes):
        for which, size_choice in (("answer", size), ("default", size.default)):
            times = _times(run, size.transfer_bytes, size_choice)
            if times:
                rows.append(
                    {
                        "which": which,
                        "manager": size_choice.pm,
                        "cc": size_choice.cc,
                        "transfer_bytes": size.transfer_bytes,
                        "transfer": f"{size.transfer_bytes / 1024:.4g}",
                        **statistics(times, "s"),
                    }
                )
    return rows


def _times(run: RunData, transfer_bytes: int, choice: SizeChoice | SizeTimes) -> list[float]:
    """Completion times of the confirming trials of a configuration, seconds."""
    configuration = transfer_bytes, choice.pm, choice.cc, choice.buffer_bytes
    return [
        trial.completion_s
        for trial in run.trials
        if trial.purpose == "confirm" and trial.failed is None and trial.completion_s is not None
        if (trial.transfer_bytes, trial.pm, trial.cc, trial.buffer_bytes) == configuration
    ]


def _answer(choice: SizeChoice) -> dict[str, Any]:
    """A row of the table of answers."""
    saved, share = choice.gain, choice.gain.share
    return {
        "transfer_bytes": choice.transfer_bytes,
        "pm": choice.pm,
        "cc": choice.cc,
        "initial_path": choice.initial_path,
        "subflows": ", ".join(choice.subflows),
        "buffer_kib": choice.buffer_bytes / 1024,
        "mean_s": choice.confirmed.mean_s,
        "percentile_95_s": choice.confirmed.percentile_95_s,
        "default_mean_s": choice.default.mean_s,
        "default_95_s": choice.default.percentile_95_s,
        "saved_s": saved.mean_s,
        "saved_low_s": saved.low_s,
        "saved_high_s": saved.high_s,
        "saved_percent": None if share is None else 100 * share,
    }
