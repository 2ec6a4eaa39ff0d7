"""`mptune compare`: the same trials in the simulator and on the kernel, and how far they are apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from mptune.cli import _options
from mptune.cli._common import JsonOption, TopologyArgument, console, emit_json, examples
from mptune.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from mptune.comparison import Cell, Comparison, Row

_BUFFERS = "256KiB,512KiB,1MiB,2MiB,4MiB"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=examples(
            "mptune compare UiB-HU",
            "mptune compare UiB-HU --cc cubic --buffers 512KiB,4MiB --runs 3 --duration 20s",
            "mptune compare UNIS-HiN --transfer 4MiB --json",
        )
    )(compare)


def compare(
    topology: TopologyArgument,
    cc: Annotated[list[str] | None, typer.Option(help="Congestion controls.  [default: reno,cubic]")] = None,
    pm: Annotated[list[str] | None, typer.Option(help="Path managers.  [default: fullmesh]")] = None,
    buffers: Annotated[str, typer.Option(help="Send and receive buffers.")] = _BUFFERS,
    runs: Annotated[int, typer.Option(help="Runs of each configuration, with a seed of its own each.")] = 1,
    duration: Annotated[str | None, typer.Option(help="Send for so long.  [default: 10s]")] = None,
    transfer: Annotated[str | None, typer.Option(help="Send so many bytes instead.")] = None,
    seed: Annotated[int, typer.Option(help="Base of all seeds.")] = 1,
    out: Annotated[str | None, typer.Option(help="Directory for the tables as CSV and JSON.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier run in --out.")] = False,
    jobs: _options.JobsOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure the same configurations in the simulator and on this machine's own MPTCP.

    Shows both throughputs and the error of the simulator for each, then how well the two agree as a whole:
    the median and the 90 % quantile of the errors, the rank correlation, and whether both recommend the
    same configuration. Trials on the kernel take their time: as long as they say.
    """
    from datetime import datetime
    from pathlib import Path

    from mptune import comparing
    from mptune.campaign.directory import check_writable
    from mptune.campaign.progress import Reporter
    from mptune.cli import _comparing
    from mptune.topology import load

    if duration is not None and transfer is not None:
        raise InputError("--transfer", "", "expected either --duration or --transfer, found both")
    loaded = load(topology)
    options = comparing.CompareOptions(
        pms=_options.names(pm or ["fullmesh"]),
        ccs=_options.names(cc or ["reno", "cubic"]),
        buffers=tuple(_options.size_bytes("--buffers", size) for size in buffers.split(",")),
        runs=runs,
        duration_ns=None if transfer is not None else _options.duration_ns("--duration", duration or "10s"),
        transfer_bytes=None if transfer is None else _options.size_bytes("--transfer", transfer),
        seed=seed,
    )
    if out is not None:
        check_writable(Path(out), force=force)
    now = datetime.now().astimezone()
    reporter = Reporter(quiet=quiet)
    comparison = comparing.measure(loaded, options, workers=_options.jobs(jobs), reporter=reporter)
    if out is not None:
        _comparing.write(Path(out), loaded, options, comparison, now, force=force)
    if as_json:
        emit_json(_comparing.document(loaded.name, comparison))
    else:
        _show(console(), loaded.name, comparison)


def _show(out: Console, name: str, comparison: Comparison) -> None:
    from mptune import units
    from mptune.cli._tables import table

    out.print(f"{name}: {_verdict(comparison)}", style="bold", markup=False)
    for sentence in _optima(comparison):
        out.print(sentence, markup=False)
    shown = table(
        "path manager", "CC", "| buffer", "| simulated (Mbit/s)", "| kernel (Mbit/s)", "| error", "no number"
    )
    for row in comparison.rows:
        shown.add_row(
            row.pm,
            row.cc,
            units.format_size(row.buffer_bytes),
            _number(row.simulated),
            _number(row.kernel),
            "-" if row.error is None else f"{row.error:+.1%}",
            "; ".join(_trouble(row)),
        )
    out.print()
    out.print(shown)
    reasons = {row.kernel.reason for row in comparison.rows if row.kernel.failed} - {None}
    for reason in sorted(str(reason) for reason in reasons):
        out.print(f"! kernel: {reason}", markup=False)


def _verdict(comparison: Comparison) -> str:
    """Errors and ranks in a sentence."""
    if comparison.median_error is None or comparison.q90_error is None:
        return "no configuration gave a number on both sides."
    ranks = comparison.rank_correlation
    correlation = "" if ranks is None else f", rank correlation {ranks:.3f}"
    return (
        f"median error {comparison.median_error:.1%}, 90 % quantile {comparison.q90_error:.1%}"
        f"{correlation} ({comparison.compared} of {len(comparison.rows)} configurations)."
    )


def _optima(comparison: Comparison) -> list[str]:
    """What either side recommends."""
    simulated, kernel = comparison.simulated_optimum, comparison.kernel_optimum
    if simulated is None or kernel is None:
        return ["One side has no configuration without a stall or a failure to recommend."]
    if simulated is kernel:
        return [f"Both recommend {_configuration(kernel)}."]
    kept = "" if comparison.kept is None else f", which keeps {comparison.kept:.1%} of the throughput there"
    return [
        f"The kernel recommends {_configuration(kernel)}, the simulator {_configuration(simulated)}{kept}."
    ]


def _configuration(row: Row) -> str:
    from mptune import units

    return f"{row.pm} with {row.cc} and {units.format_size(row.buffer_bytes)}"


def _number(cell: Cell) -> str:
    """Mean of the runs, with their range where there are several."""
    if cell.throughput_mbps is None:
        return "-"
    if cell.low_mbps == cell.high_mbps:
        return f"{cell.throughput_mbps:.2f}"
    return f"{cell.throughput_mbps:.2f} ({cell.low_mbps:.2f} to {cell.high_mbps:.2f})"


def _trouble(row: Row) -> list[str]:
    """Runs without a number, by side."""
    sides: list[tuple[str, Any]] = [("simulated", row.simulated), ("kernel", row.kernel)]
    return [
        f"{side} {word} {count} of {cell.runs}"
        for side, cell in sides
        for word, count in (("stalled", cell.stalled), ("failed", cell.failed))
        if count
    ]
