"""The section of the trade-off, shown beside the answer: its slider changes both."""

from collections.abc import Iterator, Sequence

from mptune.report.charts.style import key
from mptune.report.charts.trade_off import trade_off as chart
from mptune.report.choices import Choices, logarithmic
from mptune.report.sections._base import Panel, Rows, Section, Table, without
from mptune.result.answer import FrontRow, TraditionalSize
from mptune.result.run_data import RunData

#: Sacrifices that are written beside their points.
_LABELLED = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5)

#: Columns of a front's intervals.
_INTERVALS = "buffer_low_mib", "buffer_high_mib", "throughput_low_mbps", "throughput_high_mbps"


def trade_off(run: RunData, choices: Choices) -> Iterator[Section]:
    """Throughput against buffer, and what each sacrifice buys."""
    answer = run.answer
    if answer is None or not answer.pareto:
        return
    rows = without_empty(front_rows(answer.pareto))
    tables = [
        Table(
            title="The smallest buffer for every sacrifice",
            rows=without(rows, "percent"),
            source="pareto.csv",
        ),
        *_traditional(answer.traditional, answer.obs_mib),
    ]
    title = "Cost of a smaller buffer"
    if len(rows) == 1:
        lead = "One buffer gives the best throughput, and none needs less for half of it: nothing to trade."
        yield Section(name="trade-off", title=title, lead=lead, tables=tables)
        return
    colours = key("name", "path manager, congestion control", rows, marks=True)
    marks = choices.marks(logarithmic([row["buffer_mib"] for row in rows]))
    crosses = " Crosses: 95 % intervals." if "buffer_low_mib" in rows[0] else ""
    yield Section(
        name="trade-off",
        title=title,
        lead="Each mark: the smallest buffer that still gives the best throughput less a sacrifice (%). "
        f"Ring: the choice shown.{crosses} The throughput axis does not start at 0.",
        panels=[Panel(chart=chart(rows, colours, choices=marks, choice=choices.answer))],
        key=colours,
        tables=tables,
    )


def front_rows(front: Sequence[FrontRow]) -> Rows:
    """Points of a front as rows."""
    return [
        {
            "name": f"{row.manager}, {row.cc}",
            "sacrifice_percent": 100 * row.sacrifice,
            "buffer_mib": row.buffer_mib,
            "buffer_low_mib": row.buffer_mib_low,
            "buffer_high_mib": row.buffer_mib_high,
            "throughput_mbps": row.throughput_mbps,
            "throughput_low_mbps": row.throughput_mbps_low,
            "throughput_high_mbps": row.throughput_mbps_high,
            "percent": f"{100 * row.sacrifice:g} %" if row.sacrifice in _LABELLED else "",
        }
        for row in front
    ]


def without_empty(rows: Rows) -> Rows:
    """The rows without the columns of intervals, if there are no intervals."""
    empty = all(row[name] is None for row in rows for name in _INTERVALS)
    return without(rows, *_INTERVALS) if empty else rows


#: Formulas of `mptune.theory.traditional` in words.
_FORMULAS = {
    "eq1": "max RTT x sum of rates (Eq. 1)",
    "eq2": "with a fast retransmission (Eq. 2)",
    "eq3": "with a timer retransmission (Eq. 3)",
    "table5": "3 (max RTT + max RTO) x sum of access rates (MPCOA Table 5)",
}


def _traditional(sizes: dict[str, TraditionalSize], obs_mib: float) -> Iterator[Table]:
    rows = [
        {
            "formula": _FORMULAS[name],
            "buffer_mib": size.mib,
            "recommended_mib": obs_mib,
            "recommended_is_percent": 100 * size.share,
        }
        for name, size in sizes.items()
    ]
    if rows:
        yield Table(title="Traditional formulas", rows=rows, source="result.json")
