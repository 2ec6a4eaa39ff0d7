"""The section of what the answer hangs on: every uncertain value varied alone."""

from collections.abc import Iterator

from mptune._text import number_of
from mptune.optimisation.sensitivity import End, Sensitivity, Varied
from mptune.report.charts.sensitivity import sensitivity as sensitivity_chart
from mptune.report.charts.style import Key
from mptune.report.choices import Choices
from mptune.report.sections._base import Panel, Section, Table, without
from mptune.result.run_data import RunData

#: Values in the figure.
_DRAWN = 15

#: A change of the throughput that is not worth a row, as a share.
_SLIGHT = 0.005

_STAYS, _CHANGES = "the answer stays", "it would change"

#: Words of a key's last part.
_WORDS = {
    "up": "rate up",
    "down": "rate down",
    "queue_up": "queue up",
    "queue_down": "queue down",
    "rtt": "RTT",
}


def sensitivity(run: RunData, choices: Choices) -> Iterator[Section]:
    """Throughput of the answer at both ends of the range of each value, and where it would change."""
    result = None if run.answer is None else run.answer.sensitivity
    if result is None or not result.values:
        return
    everything = [_row(varied, end, result) for varied in result.values for end in varied.ends]
    changing = [varied for varied in result.values if any(end.instead for end in varied.ends)]
    worth = [varied for varied in result.values if varied in changing or _is_felt(varied, result)]
    # Something is drawn even where nothing matters: that is the news then.
    labels = {_words(value.key) for value in (worth or result.values)[:_DRAWN]}
    drawn = [row for row in everything if row["value of"] in labels]
    colours = Key(field="then", title="at that end", names=(_STAYS, _CHANGES))
    changes = [row for row in everything if row["changes"]]
    columns = "value of", "from", "throughput_mbps", "instead", "instead_mbps"
    table = Table(
        title="Changes of the answer",
        rows=[{name: row[name] for name in columns} for row in changes],
        source="result.json",
        headings={"from": "from, to", "instead_mbps": "that gives (Mbit/s)"},
    )
    yield Section(
        name="sensitivity",
        title="Sensitivity of the answer",
        lead=_lead(result, len(changing), len(result.values) - len(labels)),
        panels=[Panel(chart=sensitivity_chart(drawn, result.throughput_mbps, colours))],
        key=colours,
        open=[table] if changes else (),
        tables=[
            Table(
                title="Every value that was varied",
                rows=without(everything, *_ONLY_DRAWN),
                source="result.json",
            )
        ],
    )


def _is_felt(varied: Varied, result: Sensitivity) -> bool:
    """True if the throughput changes by more than is worth a row."""
    least = _SLIGHT * result.throughput_mbps
    return any(abs(end.throughput_mbps - result.throughput_mbps) >= least for end in varied.ends)


def _lead(result: Sensitivity, changing: int, hidden: int) -> str:
    """Introduction: how to read the figure, the values tried, and their cost."""
    count = number_of(len(result.values), "value")
    verdict = f"{changing or 'None'} of {count} would change the answer."
    rest = f" Not drawn: {hidden} with less effect." if hidden else ""
    more = f" Not tried: {number_of(result.left_out, 'further value')}." if result.left_out else ""
    return (
        "Each value that is assumed, or measured with an interval, was varied alone. Marks: throughput of "
        "the answer with the smallest (point down) and the largest value (point up), filled where the answer "
        f"would change; dashed: as stated. The axis does not start at 0. "
        f"{verdict}{rest}{more} It took {result.trials} simulated trials of "
        f"{result.duration_s:g} s: {result.runs} at each end with the answer, {', '.join(result.contenders)}."
    )


#: Columns that only the figure, or only the first table, needs.
_ONLY_DRAWN = ("stated_mbps", "from", "between", "instead_mbps", "then", "largest", "changes")


def _row(varied: Varied, end: End, result: Sensitivity) -> dict[str, object]:
    first, last = varied.ends[0].value, varied.ends[-1].value
    # With a single end the range begins or ends at the stated value.
    low, high = (first, last) if len(varied.ends) > 1 else (varied.stated, last)
    return {
        "value of": _words(varied.key),
        "stated": varied.stated,
        "is": end.value,
        "because": varied.because,
        "throughput_mbps": end.throughput_mbps,
        "stated_mbps": result.throughput_mbps,
        "best": end.best,
        "best_mbps": end.best_mbps,
        "instead": end.instead or "",
        "instead_mbps": end.best_mbps if end.instead else None,
        "from": f"{varied.stated} to {end.value}",
        "between": f"{low} to {high}",
        "then": _CHANGES if end.instead else _STAYS,
        "largest": end.is_largest,
        "changes": end.instead is not None,
    }


def _words(key: str) -> str:
    """A key of the topology file in words: "HiN U, rate up", "U-U, RTT"."""
    parts = key.split(".")
    last = _WORDS.get(parts[-1], parts[-1])
    return f"{parts[1]} {parts[3]}, {last}" if parts[0] == "sites" else f"{parts[2]}, {last}"
