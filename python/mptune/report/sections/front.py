"""Section of two objectives: what one costs in the other."""

from collections.abc import Iterator

from mptune.report.charts.front import front as chart
from mptune.report.charts.style import key
from mptune.report.choices import Choices
from mptune.report.sections._base import Panel, Rows, Section, Table
from mptune.result.run_data import RunData
from mptune.result.values import Interval
from mptune.units import MIB


def front(run: RunData, choices: Choices) -> Iterator[Section]:
    """The configurations that no other beats in both objectives."""
    answer = run.by_objective
    if answer is None or answer.front is None:
        return
    found = answer.front
    first, second = f"{answer.objective} ({answer.unit})", f"{found.second} ({found.second_unit})"
    rows: Rows = [
        {
            "name": f"{point.beginning}, {point.cc}",
            "buffer_mib": point.buffer_bytes / MIB,
            **_ends("value", point.value),
            **_ends("second", point.second),
            "recommended": point.recommended,
        }
        for point in found.points
    ]
    headings = {
        "value": first,
        "value_low": "95 % from",
        "value_high": "95 % to",
        "second": second,
        "second_low": "95 % from",
        "second_high": "95 % to",
    }
    colours = key("name", "path manager, congestion control", rows, marks=True)
    yield Section(
        name="front",
        title=f"{answer.objective.capitalize()} and {found.second}",
        lead="Each mark: a configuration that none beats in both, of those that were swept. Crosses: 95 % "
        "intervals; the axes do not start at 0. A limit on one of the two recommends another of them.",
        panels=[Panel(chart=chart(rows, colours, across=second, up=first))],
        key=colours,
        tables=[Table(title="What no other beats", rows=rows, source="result.json", headings=headings)],
    )


def _ends(name: str, interval: Interval) -> dict[str, float | None]:
    return {name: interval.mean, f"{name}_low": interval.low, f"{name}_high": interval.high}
