"""`mptune impact`: impact factors of all subflows under one congestion control, and the sets."""

from __future__ import annotations

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

if TYPE_CHECKING:
    from rich.console import Console

    from mptune.impact import Impact


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        impact,
        "mptune impact UNIS-HiN --cc cubic",
        "mptune impact UNIS-HiN --cc olia --duration 120s --buffer 16MiB   # as in the PCDC paper",
        "mptune impact UiB-HU --settle 5s --json                           # without slow start",
    )


def impact(
    topology: TopologyArgument,
    options: ImpactOptions,
    measuring: MeasuringOptions,
    stack: StackOptions,
    cc: Cc = "cubic",
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure how much each subflow contributes.

    All subflows carry data for a time T. Then one of them is withdrawn, and the throughput of the next T is
    compared with that of the first. The impact factor is the share lost: above 0 the subflow helps
    (optional set), below 0 the connection is faster without it (standby set). The mean of the runs
    decides. Slow start is in the first T, so a subflow that does nothing ends up slightly below 0; see
    --settle.
    """
    from mptune import testbeds
    from mptune.campaign.documents import impact_document
    from mptune.impact import measure_impact
    from mptune.measuring.progress import Reporter
    from mptune.measuring.runner import TrialRunner

    loaded = load_topology(topology, reverse=measuring.reverse)
    stack.check_on(measuring.testbed)
    runner = TrialRunner(testbeds.create(measuring.testbed), measuring.jobs)
    with Reporter(quiet=quiet).phase("impact factors") as progress:
        (measured,), _ = measure_impact(
            loaded, runner, [cc], options, stack=stack.chosen(), progress=progress
        )
    if as_json:
        emit_json(impact_document(measured))
    else:
        _show(console(), loaded.name, measured)


def _show(out: Console, name: str, measured: Impact) -> None:
    """Print the sets, then the statistics behind them."""
    from rich.table import Table

    sets = measured.sets
    out.print(f"{name}, {measured.cc}: send on {', '.join(sets.optional)}.", style="bold")
    if sets.standby:
        out.print(f"Standby, best first: {', '.join(sets.standby)}.")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("path", no_wrap=True)
    columns = ("mean", "median", "min", "max", "q10", "q90")
    for column in (*columns, "RTT (ms)"):
        table.add_column(column, no_wrap=True, justify="right")
    table.add_column("set", no_wrap=True)
    for one in measured.paths:
        omegas = (
            ["-"] * len(columns) if one.omega is None else [f"{getattr(one.omega, c):.4f}" for c in columns]
        )
        rtt = "-" if one.rtt_ms is None else f"{one.rtt_ms:.1f}"
        table.add_row(one.path, *omegas, rtt, "optional" if one.path in sets.optional else "standby")
    out.print("\nImpact factors")
    out.print(table)
    for warning in measured.warnings:
        out.print(f"! {warning}", markup=False)
