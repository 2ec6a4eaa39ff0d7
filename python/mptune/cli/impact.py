"""`mptune impact`: impact factors of all subflows under one congestion control, and the sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mptune.cli import _options
from mptune.cli._common import JsonOption, TopologyArgument, console, emit_json, examples

if TYPE_CHECKING:
    from rich.console import Console

    from mptune.impact import Impact


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=examples(
            "mptune impact UNIS-HiN --cc cubic",
            "mptune impact UNIS-HiN --cc olia --duration 120s --buffer 16MiB   # as in the PCDC paper",
            "mptune impact UiB-HU --settle 5s --json                           # without slow start",
        )
    )(impact)


def impact(
    topology: TopologyArgument,
    cc: Annotated[str, typer.Option(help="Congestion control.")] = "cubic",
    runs: Annotated[int, typer.Option(help="Runs per subflow, each with a seed of its own.")] = 10,
    duration: Annotated[str, typer.Option(help="T: time with all subflows, and again without one.")] = "30s",
    buffer: Annotated[str, typer.Option(help="Send and receive buffer.")] = "16MiB",
    settle: Annotated[str, typer.Option(help="Leave out so much at the start of both times.")] = "0s",
    zero: Annotated[
        str, typer.Option(help="Set of a subflow at exactly 0: standby or optional.")
    ] = "standby",
    seed: Annotated[int, typer.Option(help="Base of all seeds.")] = 1,
    testbed: Annotated[str, typer.Option(help="Where to measure.")] = "simulated",
    jobs: _options.JobsOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure how much each subflow contributes.

    All subflows carry data for T; then one of them is withdrawn, and the throughput of the next T is
    compared with the first. The impact factor is the share that is lost: above 0 the subflow helps
    (optional set), below 0 the connection is faster without it (standby set). The mean of the runs
    decides. Slow start falls into the first T, so a subflow that does nothing ends slightly below 0; see
    --settle.
    """
    from mptune import testbeds
    from mptune.campaign.bench import Bench
    from mptune.campaign.progress import Reporter
    from mptune.impact import ImpactOptions, measure_impact
    from mptune.report.documents import impact_document
    from mptune.topology import load

    loaded = load(topology)
    _options.check_choice("--cc", cc, testbeds.names("congestion_controls"))
    options = ImpactOptions(
        runs=_options.at_least_one("--runs", runs),
        window_ns=_options.duration_ns("--duration", duration),
        buffer_bytes=_options.size_bytes("--buffer", buffer),
        settle_ns=_options.duration_ns("--settle", settle),
        zero=zero,
        seed=seed,
    )
    with Reporter(quiet=quiet).phase("impact factors") as progress:
        (measured,), _ = measure_impact(
            loaded,
            Bench(testbeds.create(testbed), _options.jobs(jobs)),
            [cc],
            options,
            progress=progress,
        )
    if as_json:
        emit_json(impact_document(measured))
    else:
        _show(console(), loaded.name, measured)


def _show(out: Console, name: str, measured: Impact) -> None:
    """Sets first, then the statistics behind them."""
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
