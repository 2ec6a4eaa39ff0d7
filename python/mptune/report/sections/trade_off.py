"""The section of the trade-off, shown beside the answer: its slider changes both."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mptune.report.charts.style import key
from mptune.report.charts.trade_off import trade_off as chart
from mptune.report.choices import Choices
from mptune.report.run_data import FrontRow, RunData, beginning
from mptune.report.sections._base import Panel, Rows, Section, Table, without

#: Sacrifices that are written beside their points.
_LABELLED = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5)


def trade_off(run: RunData, choices: Choices) -> Iterator[Section]:
    """Throughput against buffer, and what each sacrifice buys."""
    answer = run.answer
    if answer is None or not answer.pareto:
        return
    rows = front_rows(answer.pareto)
    tables = [
        Table(
            title="The smallest buffer for every sacrifice",
            rows=without(rows, "percent"),
            source="pareto.csv",
        ),
        *_traditional(answer.traditional, answer.obs_mib),
    ]
    title = "What a smaller buffer costs"
    if len(rows) == 1:
        told = "One buffer gives the best throughput, and none needs less for half of it: nothing to trade."
        yield Section(name="trade-off", title=title, lead=told, tables=tables)
        return
    colours = key("name", "path manager, congestion control", rows, marks=True)
    marks = choices.marks(_logarithmic([row["buffer_mib"] for row in rows]))
    yield Section(
        name="trade-off",
        title=title,
        lead="Each mark: the smallest buffer that still gives the best throughput less a sacrifice (%). "
        "Ring: the choice shown. Crosses: 95 % intervals. The throughput axis does not start at 0.",
        panels=[Panel(chart=chart(rows, colours, choices=marks, choice=choices.answer))],
        key=colours,
        tables=tables,
    )


def _logarithmic(sizes: Sequence[float]) -> Callable[[float], float]:
    """Where a size lies on a logarithmic axis over these sizes, from 0 to 1; 0.5 of a single one."""
    low, high = math.log(min(sizes)), math.log(max(sizes))
    if low == high:
        return lambda size: 0.5
    return lambda size: min(max((math.log(size) - low) / (high - low), 0.0), 1.0)


def front_rows(front: Sequence[FrontRow]) -> Rows:
    """Points of a front as rows."""
    return [
        {
            "name": f"{beginning(row.pm, row.initial_path)}, {row.cc}",
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


#: Formulas of `mptune.theory.traditional` in words.
_FORMULAS = {
    "eq1": "max RTT x sum of rates (Eq. 1)",
    "eq2": "with a fast retransmission (Eq. 2)",
    "eq3": "with a timer retransmission (Eq. 3)",
    "table5": "3 (max RTT + max RTO) x sum of access rates (MPCOA Table 5)",
}


def _traditional(sizes: dict[str, dict[str, Any]], obs_mib: float) -> Iterator[Table]:
    rows = [
        {
            "formula": _FORMULAS[name],
            "buffer_mib": size["mib"],
            "recommended_mib": obs_mib,
            "recommended_is_percent": 100 * size["share"],
        }
        for name, size in sizes.items()
    ]
    if rows:
        yield Table(title="What the traditional formulas give", rows=rows, source="result.json")
