"""Section of the congestion controls that differ by more than chance, pair by pair."""

import itertools
from collections.abc import Iterator, Mapping
from statistics import fmean

from mptune.report.charts.differences import differences
from mptune.report.choices import Choices
from mptune.report.sections._base import Panel, Rows, Section, Table
from mptune.report.sections.sweep import cc_key
from mptune.result.run_data import RunData
from mptune.statistics import CONFIDENCE, Paired, holm, paired

#: With fewer runs a t-test has hardly any power.
_RUNS = 3

#: Throughputs by run, by where they were measured: everything but the congestion control and the run.
_Measured = Mapping[tuple[object, ...], Mapping[int, float]]


def differing(run: RunData, choices: Choices) -> Iterator[Section]:
    """Differences of throughput between congestion controls under the same conditions and seeds."""
    measured: dict[str, dict[tuple[object, ...], dict[int, float]]] = {}
    for trial in run.swept:
        if trial.throughput_mbps is not None and trial.failed is None and trial.is_saturated:
            place = trial.manager, trial.buffer_bytes, trial.initial_path, trial.round
            measured.setdefault(trial.cc, {}).setdefault(place, {})[trial.run] = trial.throughput_mbps
    names = [name for name in cc_key(run).names if name in measured]
    pairs = [
        (first, second, *result)
        for first, second in itertools.combinations(names, 2)
        if (result := _compared(measured[first], measured[second])) is not None
    ]
    if not pairs:
        return
    corrected = holm([difference.p for _, _, difference, _ in pairs])
    rows: Rows = []
    for (first, second, by, places), p in zip(pairs, corrected, strict=True):
        better, other, sign = (first, second, 1) if by.mean >= 0 else (second, first, -1)
        ends = sorted((sign * by.low, sign * by.high))
        rows.append(
            {
                "pair": f"{better} - {other}",
                "mean_mbps": sign * by.mean,
                "low_mbps": ends[0],
                "high_mbps": ends[1],
                "p": p,
                "differ": "yes" if p < 1 - CONFIDENCE else "not shown",
                "runs": by.n,
                "configurations": places,
            }
        )
    rows.sort(key=lambda row: -row["mean_mbps"])
    significant = sum(row["differ"] == "yes" for row in rows)
    yield Section(
        name="differing",
        title="Differences between congestion controls",
        lead="How much more the first of a pair gives: mean over the configurations measured with both, and "
        "its 95 % interval. Runs share their seeds, so they are compared run by run. Filled marks differ "
        "by more than chance at 5 % after Holm's correction for the number of pairs "
        f"({len(rows)}): {significant} of them.",
        panels=[Panel(chart=differences(rows))],
        tables=[
            Table(
                title="Pair by pair",
                rows=rows,
                headings={"p": "p, corrected", "differ": "significant"},
            )
        ],
    )


def _compared(first: _Measured, second: _Measured) -> tuple[Paired, int] | None:
    """Gain of the first over the second, and the number of configurations; None with too few in common.

    The mean over the configurations is taken within each run: configurations of a run share its seed, so
    runs are what is independent.
    """
    both = {place: first[place].keys() & second[place].keys() for place in first if place in second}
    places = [place for place, runs in both.items() if len(runs) >= _RUNS]
    runs = sorted(set.intersection(*(set(both[place]) for place in places))) if places else []
    if len(runs) < _RUNS:
        return None
    row, other = (
        [fmean(measured[place][run] for place in places) for run in runs] for measured in (first, second)
    )
    return paired(other, row), len(places)
