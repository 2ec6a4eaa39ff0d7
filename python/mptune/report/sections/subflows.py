"""Sections of the subflows: what each contributes, the resulting sets, and each one's RTTs and losses."""

from collections.abc import Iterator, Sequence
from statistics import fmean

from mptune.report.charts import subflows as charts
from mptune.report.charts.style import key
from mptune.report.charts.subflows import omegas
from mptune.report.choices import Choices
from mptune.report.sections._base import SPREAD, Panel, Rows, Section, Table
from mptune.report.sections.series import by_configuration, labelled
from mptune.report.sections.sweep import cc_key
from mptune.result.run_data import RunData
from mptune.trial import Observation, SubflowObservation

#: Impact factors smaller than this share of the largest get a panel of their own.
_SMALL = 0.25

#: Title of the table of paths.
_PATHS = "RTT of each path over all trials, without load and under it"


def sets(run: RunData, choices: Choices) -> Iterator[Section]:
    """Impact factors and the sets that follow from them (MPCOA Tables 2 and 3, PCDC Tables II to IV)."""
    rows: Rows = [
        {
            "path": path,
            "cc": impact.cc,
            "carries_data": path in impact.optional,
            **{name: omega.get(name) for name in ("mean", "min", "max", "q10", "q90")},
            "rtt_ms": omega.get("rtt_ms"),
            "runs": int(omega.get("runs") or 0),
        }
        for impact in run.impact
        for path, omega in impact.omega.items()
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
                title="Close to 0; values farther off are left out",
                chart=omegas(drawn, colours, reach=reach),
            )
        )
    fell_back = any(impact.fallback for impact in run.impact)
    chosen = [
        {
            "cc": impact.cc,
            "carry data": ", ".join(impact.optional),
            "standby, best first": ", ".join(impact.standby) or "none",
            **({"note": "none qualified: the best one" if impact.fallback else ""} if fell_back else {}),
        }
        for impact in run.impact
    ]
    yield Section(
        name="impact-factors",
        title="Contribution of each subflow",
        lead="Impact factor: the share of the throughput that is lost without the subflow. Filled "
        f"marks carry data under pcdc; hollow ones stand by: nothing is lost without them. Spread: {SPREAD}",
        panels=panels,
        key=colours,
        open=[Table(title="The resulting sets", rows=chosen, source="impact.json")],
        tables=[Table(title="Impact factors", rows=rows, source="impact.json")],
    )


def _reach(rows: Rows) -> float | None:
    """Range of a second panel, where small impact factors would be lost beside a large one."""
    largest = max(abs(row["mean"]) for row in rows)
    small = [row for row in rows if abs(row["mean"]) < _SMALL * largest]
    ends = [abs(row[name]) for row in small for name in ("q10", "q90")]
    reach = 1.2 * max(ends, default=0.0)
    return reach if 0 < reach < largest / 2 else None


def went_through(run: RunData, choices: Choices) -> Iterator[Section]:
    """RTTs and retransmissions of the subflows, for answer and default or for a sweep's best."""
    rows: Rows = [
        row
        for name, trials in by_configuration(run, run.shown).items()
        for row in _by_subflow(name, [run.observations[trial.key] for trial in trials])
    ]
    timed = [row for row in rows if row["rtt_ms"] is not None]
    sent = [row for row in rows if row["again_per_mb"] is not None]
    if not timed:
        return
    colours, paths = key("name", "configuration", rows, marks=True), path_rows(run)
    yield Section(
        name="round-trips",
        title="Round-trip times and retransmissions",
        lead="RTT: the mark is the smoothed RTT at the end, mean of the runs, with minimum and maximum; the "
        "vertical line is the smallest RTT seen. The difference was spent in queues. A subflow that "
        "delivered nothing has no mark among the retransmissions, and an RTT of few samples.",
        panels=[
            Panel(title="RTT", chart=charts.round_trips(timed, colours)),
            *([Panel(title="Retransmissions", chart=charts.retransmissions(sent, colours))] if sent else []),
        ],
        key=colours,
        open=[Table(title=_PATHS, rows=paths, source="subflows.csv")] if paths else (),
        tables=[Table(title="Subflow by subflow, means of the runs", rows=rows, source="subflows.csv")],
    )


def path_rows(run: RunData) -> Rows:
    """RTTs of the paths (buffer-size study, Table II)."""
    names = "min", "mean", "median", "max"
    rows: Rows = []
    for rtt in run.rtts:
        row: dict[str, object] = {"path": rtt.path}
        for prefix, summary in (("idle", rtt.idle), ("loaded", rtt.loaded)):
            row |= {f"{prefix}_{name}_ms": summary and getattr(summary, name) for name in names}
        rows.append({**row, "trials": rtt.idle.n})
    return rows


def _by_subflow(name: str, seen: Sequence[Observation]) -> Iterator[dict[str, object]]:
    """RTTs and retransmissions of a configuration's subflows, over its runs."""
    by_name: dict[str, list[tuple[SubflowObservation, Observation]]] = {}
    for observation in seen:
        for label, subflow in labelled(observation.subflows):
            by_name.setdefault(label, []).append((subflow, observation))
    for label, mine in by_name.items():
        rtts = [subflow.srtt_ns / 1e6 for subflow, _ in mine if subflow.srtt_ns]
        smallest = [subflow.min_rtt_ns / 1e6 for subflow, _ in mine if subflow.min_rtt_ns]
        retransmitted = [subflow.retransmitted * 1e6 / subflow.bytes for subflow, _ in mine if subflow.bytes]
        yield {
            "name": name,
            "subflow": label,
            "throughput_mbps": fmean(
                subflow.bytes * 8e3 / max(whole.duration_ns, 1) for subflow, whole in mine
            ),
            "smallest_rtt_ms": min(smallest, default=None),
            "rtt_ms": fmean(rtts) if rtts else None,
            "min_rtt_ms": min(rtts, default=None),
            "max_rtt_ms": max(rtts, default=None),
            "again_per_mb": fmean(retransmitted) if retransmitted else None,
            "min_again_per_mb": min(retransmitted, default=None),
            "max_again_per_mb": max(retransmitted, default=None),
            "retransmitted": fmean(subflow.retransmitted for subflow, _ in mine),
            "timeouts": fmean(subflow.timeouts for subflow, _ in mine),
            "runs": len(mine),
        }
