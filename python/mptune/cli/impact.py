"""`mptune impact`: impact factors of all subflows under one congestion control, and the sets."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import typer

from mptune.cli._common import (
    JsonOption,
    QuietOption,
    TopologyArgument,
    add,
    console,
    emit_json,
    load_topology,
)
from mptune.impact import ImpactOptions
from mptune.options.stacks import StackOptions
from mptune.options.trials import Cc, MeasuringOptions
from mptune.runner.executors import ExecutorOptions
from mptune.units import format_time

if TYPE_CHECKING:
    from rich.console import Console

    from mptune.impact import Impact, PathImpact


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        impact,
        "mptune impact UNIS-HiN --cc cubic",
        "mptune impact UNIS-HiN --cc olia --impact eq5 --duration 120s   # as in the PCDC paper",
        "mptune impact UiB-HU --runs 64 --json                           # more trials for a clear answer",
    )


def impact(
    topology: TopologyArgument,
    options: ImpactOptions,
    measuring: MeasuringOptions,
    where: ExecutorOptions,
    stack: StackOptions,
    cc: Cc = "cubic",
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure how much each subflow contributes.

    The impact factor of a subflow is the share of the throughput that is lost without it: above 0 it helps
    (optional set), below 0 the connection is faster without it (standby set). In each trial the subflows are
    withdrawn one after another for a time T, and the throughput is compared with that just before and just
    after. Trials go on until the sign of every factor is known, or that the subflow does not matter (within
    1 %), with a probability of 95 % for all together; --runs limits them. Unless every subflow helps, sets of
    subflows then compete in at most as many trials again, and the fastest one is taken.

    With --impact eq5 it is the formula of the papers: one trial per run and subflow, all subflows for a time
    T, then T without it. The mean of the runs decides. Slow start is in the first T, so a subflow that does
    nothing ends up slightly below 0; see --settle.
    """
    from mptune._text import over
    from mptune.impact import measure_alone
    from mptune.result.making import impact_document
    from mptune.runner.progress import Reporter

    loaded = load_topology(topology, reverse=measuring.reverse, family=options.family)
    measured = measure_alone(
        loaded,
        cc,
        options,
        measuring,
        stack,
        executor=where.create(measuring.jobs),
        reporter=Reporter(quiet=quiet),
    )
    if as_json:
        emit_json(impact_document(measured))
    else:
        _show(console(), f"{loaded.name}{over(options.family)}", measured)


def _show(out: Console, name: str, measured: Impact) -> None:
    """Print the sets, then the statistics behind them."""
    from mptune.cli._tables import section, table

    sets = measured.sets
    out.print(f"{name}, {measured.cc}: send on {', '.join(sets.optional)}.", style="bold")
    if sets.standby:
        out.print(f"Standby, best first: {', '.join(sets.standby)}.")
    columns = ("median", "min", "max", "q10", "q90")
    listing = table(
        "path",
        "| mean",
        "| interval",
        "decision",
        *(f"| {column}" for column in columns),
        "| RTT (ms)",
        "set",
    )
    for path in measured.paths:
        kind = "optional" if path.path in sets.optional else "standby"
        rtt = "-" if path.rtt_ms is None else f"{path.rtt_ms:.1f}"
        mean, *others = (
            "-" if path.omega is None else f"{getattr(path.omega, column):.4f}"
            for column in ("mean", *columns)
        )
        listing.add_row(path.path, mean, _interval(path), path.decision, *others, rtt, kind)
    section(out, "Impact factors", listing)
    out.print(f"\n{_effort(measured)}", markup=False)
    if measured.compared:
        out.print(_competition(measured), markup=False)
    for warning in measured.warnings:
        out.print(f"! {warning}", markup=False)


def _interval(path: PathImpact) -> str:
    """The interval that decided."""
    return "-" if path.low is None or path.high is None else f"{path.low:.3f} to {path.high:.3f}"


def _competition(measured: Impact) -> str:
    """Number of sets that competed, and throughput of the best two."""
    from mptune._text import digits

    ranked = [
        f"{', '.join(contest.subflows)}: {digits(statistics.fmean(contest.throughput_mbps))}"
        for contest in measured.compared[:2]
    ]
    trials = sum(len(contest.throughput_mbps) for contest in measured.compared)
    return f"{len(measured.compared)} sets competed in {trials} of the trials (Mbit/s: {'; '.join(ranked)})."


def _effort(measured: Impact) -> str:
    """Effort, certainty and plausibility of the measurement."""
    trials = f"{measured.trials} trial" + "s" * (measured.trials != 1)
    return (
        f"{trials} of {format_time(measured.measured_ns)} together; the decisions are all right with a "
        f"probability of {100 * (1 - measured.error_rate):.0f} %. "
        f"The impact factors are {'plausible' if measured.plausible else 'not plausible, see below'}."
    )
