"""The section of the subflows: what each contributes, and the sets that follow."""

from collections.abc import Iterator

from mptune.report.charts.subflows import omegas
from mptune.report.choices import Choices
from mptune.report.run_data import RunData
from mptune.report.sections._base import SPREAD, Panel, Rows, Section, Table
from mptune.report.sections.sweep import cc_key

#: Impact factors so much smaller than the largest get a panel of their own.
_SMALL = 0.25


def sets(run: RunData, choices: Choices) -> Iterator[Section]:
    """Impact factors and the sets that follow from them (MPCOA Tables 2 and 3, PCDC Tables II to IV)."""
    rows: Rows = [
        {
            "path": path,
            "cc": one.cc,
            "carries_data": path in one.optional,
            **{name: omega.get(name) for name in ("mean", "min", "max", "q10", "q90")},
            "rtt_ms": omega.get("rtt_ms"),
            "runs": int(omega.get("runs") or 0),
        }
        for one in run.impact
        for path, omega in one.omega.items()
    ]
    drawn = [row for row in rows if row["mean"] is not None]
    if not drawn:
        return
    colours = cc_key(run)
    panels = [Panel(chart=omegas(drawn, colours))]
    reach = _reach(drawn)
    if reach is not None:
        panels[0].title = "All"
        panels.append(
            Panel(
                title="Close to 0; what lies farther off is left out",
                chart=omegas(drawn, colours, reach=reach),
            )
        )
    chosen = [
        {
            "cc": one.cc,
            "carry data": ", ".join(one.optional),
            "standby, best first": ", ".join(one.standby) or "none",
            **({"note": "none qualified: the best one" if one.fallback else ""} if _fell_back(run) else {}),
        }
        for one in run.impact
    ]
    yield Section(
        name="impact-factors",
        title="What each subflow contributes",
        lead="Impact factor: the share of the throughput that is lost when the subflow falls silent. Filled "
        f"marks carry data under pcdc, hollow ones stand by: nothing is lost without them. Spread: {SPREAD}",
        panels=panels,
        key=colours,
        open=[Table(title="The resulting sets", rows=chosen, source="impact.json")],
        tables=[Table(title="Impact factors", rows=rows, source="impact.json")],
    )


def _fell_back(run: RunData) -> bool:
    return any(one.fallback for one in run.impact)


def _reach(rows: Rows) -> float | None:
    """How far a second panel reaches, where small impact factors would be lost beside a large one."""
    largest = max(abs(row["mean"]) for row in rows)
    small = [row for row in rows if abs(row["mean"]) < _SMALL * largest]
    ends = [abs(row[name]) for row in small for name in ("q10", "q90")]
    reach = 1.2 * max(ends, default=0.0)
    return reach if 0 < reach < largest / 2 else None
