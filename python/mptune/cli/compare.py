"""`mptune compare`: the same trials in the simulator and on a kernel, and how far apart they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from mptune.cli._common import (
    ForceOption,
    JsonOption,
    QuietOption,
    TopologyArgument,
    add,
    console,
    emit_json,
    load_topology,
)
from mptune.decision.comparison import CompareOptions
from mptune.options.trials import Jobs, Reverse, Testbed

if TYPE_CHECKING:
    from rich.console import Console

    from mptune.decision.agreement import Cell, Comparison, Row


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        compare,
        "mptune compare UiB-HU",
        "mptune compare UiB-HU --cc cubic --buffers 512KiB,4MiB --runs 3 --duration 20s",
        "mptune compare UNIS-HiN --transfer 4MiB --json",
        "mptune compare my-sites.toml --testbed hosts                   # with two real machines",
    )


def compare(
    topology: TopologyArgument,
    options: CompareOptions,
    testbed: Testbed = "namespaces",
    reverse: Reverse = False,
    jobs: Jobs = None,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Directory for the tables as CSV and JSON.")
    ] = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure the same trials in the simulator and on a kernel.

    That is this machine's own MPTCP, or with --testbed hosts that of two real machines.

    The simulator uses Linux's scheduler and memory accounting. Shows both throughputs and the simulator's
    error for each configuration, and how well the two agree overall: the median and the 90 % quantile of the
    errors, the rank correlation, and whether both recommend the same configuration. Trials on the kernel run
    in real time.
    """
    from datetime import datetime
    from pathlib import Path

    from mptune._text import over
    from mptune.cli import _comparison_files
    from mptune.decision.comparison import measure
    from mptune.runner.progress import Reporter
    from mptune.store.directory import check_writable

    loaded = load_topology(topology, reverse=reverse, family=options.family)
    if out is not None:
        check_writable(Path(out), force=force)
    now = datetime.now().astimezone()
    reporter = Reporter(quiet=quiet)
    comparison = measure(loaded, options, testbed=testbed, workers=jobs, reporter=reporter)
    if out is not None:
        _comparison_files.write(Path(out), loaded, options, comparison, now, force=force)
    if as_json:
        emit_json(_comparison_files.document(loaded.name, comparison))
    else:
        _show(console(), f"{loaded.name}{over(options.family)}", comparison)


def _show(out: Console, name: str, comparison: Comparison) -> None:
    from mptune import units
    from mptune.cli._tables import table

    out.print(f"{name}: {_verdict(comparison)}", style="bold", markup=False)
    for sentence in _optima(comparison):
        out.print(sentence, markup=False)
    listing = table(
        "path manager", "CC", "| buffer", "| simulated (Mbit/s)", "| kernel (Mbit/s)", "| error", "no number"
    )
    for row in comparison.rows:
        listing.add_row(
            row.pm,
            row.cc,
            units.format_size(row.buffer_bytes),
            _number(row.simulated),
            _kernel(row),
            "-" if row.error is None else f"{row.error:+.1%}",
            "; ".join(_trouble(row)),
        )
    out.print()
    out.print(listing)
    unknown = [row.expected.unknown for row in comparison.rows if _is_alone(row) and row.expected]
    for reason in sorted(set(filter(None, unknown))):
        out.print(f"No kernel error estimate: {reason}.", markup=False)
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
    """Recommendation of each side."""
    simulated, kernel = comparison.simulated_optimum, comparison.kernel_optimum
    if simulated is None or kernel is None:
        return ["No recommendation: on one side every configuration stalled or failed."]
    if simulated is kernel:
        return [f"Both recommend {_configuration(kernel)}."]
    retained = (
        "" if comparison.kept is None else f", which keeps {comparison.kept:.1%} of the throughput there"
    )
    return [
        f"The kernel recommends {_configuration(kernel)}, "
        f"the simulator {_configuration(simulated)}{retained}."
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


def _is_alone(row: Row) -> bool:
    """True if there is a simulated throughput, and none of the kernel."""
    return row.kernel.throughput_mbps is None and row.simulated.throughput_mbps is not None


def _kernel(row: Row) -> str:
    """The kernel's throughput; without one, the expectation from the simulator (95 %)."""
    expected = row.expected
    if not _is_alone(row) or expected is None or expected.low_mbps is None or expected.high_mbps is None:
        return _number(row.kernel)
    return f"- (expected {expected.low_mbps:.2f} to {expected.high_mbps:.2f})"


def _trouble(row: Row) -> list[str]:
    """Runs without a number, by side."""
    sides: list[tuple[str, Any]] = [("simulated", row.simulated), ("kernel", row.kernel)]
    return [
        f"{side} {word} {count} of {cell.runs}"
        for side, cell in sides
        for word, count in (("stalled", cell.stalled), ("failed", cell.failed))
        if count
    ]
