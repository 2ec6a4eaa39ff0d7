"""`mptune diverge`: the same trial in the simulator and on a kernel, and where the two part."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mptune.cli._common import (
    JsonOption,
    QuietOption,
    add,
    complete_scenarios,
    console,
    emit_json,
    load_topology,
)
from mptune.errors import InputError
from mptune.options.trials import Reverse
from mptune.runner.recording import DivergeOptions

if TYPE_CHECKING:
    from rich.console import Console

    from mptune.capture import Recording, Run
    from mptune.capture.divergence import Divergence, Moment, Side

#: Columns of the table around a divergence, after the time and the side.
_COLUMNS = (
    *("in flight", "window", "RTT", "given", "delivered"),
    *("receiver's window", "burst", "lost", "repeated"),
)

#: Names of the two sides; the first is the reference.
_KERNEL, _SIMULATED = "kernel", "simulated"


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        diverge,
        "mptune diverge UiB-HU --cc reno --buffer 1MiB --duration 5s --out diverge.svg",
        "mptune diverge UiB-HU --testbed virtual              # a kernel without noise",
        "mptune diverge my-network.toml --runs 5 --tolerance 5% --json",
        "mptune diverge my-network.toml --record before       # before/kernel.trace, before/simulated.trace",
        "mptune diverge --traces before/kernel.trace after/kernel.trace   # two kernels, or two models",
    )


def diverge(
    options: DivergeOptions,
    topology: Annotated[
        str | None,
        typer.Argument(
            metavar="[TOPOLOGY]",
            help="A topology file, or the name of a shipped scenario.",
            autocompletion=complete_scenarios,
        ),
    ] = None,
    traces: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="A B", help="Compare two recordings instead; the first is the reference."),
    ] = None,
    record: Annotated[
        str | None, typer.Option(metavar="DIR", help="Keep both recordings in this directory.")
    ] = None,
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Draw a figure: .svg, .png, .pdf or .html.")
    ] = None,
    reverse: Reverse = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find where simulator and kernel diverge in the same trial.

    The kernel is this machine's, or a guest's. Both run the same network, so every packet can be compared:
    what each subflow was given, what is in flight, the round-trip time, what was delivered. The first
    difference beyond the tolerance and beyond what the kernel's own runs differ by is shown, with what it
    looks like and what both did around it. Recordings of other kernels or models can be compared the same
    way.
    """
    from mptune.capture.divergence import Limits, find, paragraph, table_around
    from mptune.files import check_writable
    from mptune.report.divergence import figure
    from mptune.report.figures import check_suffix, write_spec

    if (topology is None) == (traces is None):
        raise InputError("TOPOLOGY", "", "expected either a topology or --traces")
    if out is not None:
        check_suffix(Path(out), "--out")
        check_writable(Path(out), "--out")
    if traces is None:
        assert topology is not None
        reference, other = _record(topology, options, reverse=reverse, quiet=quiet, keep=record)
    else:
        reference, other = _read(traces, record, reverse=reverse)
    divergence = find(reference, other, Limits(tolerance=options.tolerance, span_s=options.span_ns / 1e9))
    summary = paragraph(divergence, reference, other)
    moments = table_around(divergence, reference, other)
    if out is not None:
        write_spec(Path(out), figure(divergence, reference, other, summary))
    if as_json:
        emit_json(_document(divergence, reference, other, summary, moments))
    else:
        _show(console(), divergence, summary, moments)


def _record(
    topology: str, options: DivergeOptions, *, reverse: bool, quiet: bool, keep: str | None
) -> tuple[Side, Side]:
    """Run the trials on both sides."""
    from mptune.capture import write
    from mptune.options.trials import check_labels
    from mptune.runner.progress import Reporter
    from mptune.runner.recording import record
    from mptune.testbeds import create

    loaded = load_topology(topology, reverse=reverse, family=options.family)
    check_labels(options, loaded)
    options.stack.check_on(options.testbed)
    files = {} if keep is None else _recordings(Path(keep))
    bed = create(options.testbed)
    trials, reporter = options.trials(loaded), Reporter(quiet=quiet)
    simulated = record(create("simulated"), trials, reporter)
    kernel = record(bed, trials, reporter)
    for name, file in files.items():
        write({_KERNEL: kernel, _SIMULATED: simulated}[name], file)
    return _sides((_KERNEL, kernel), (_SIMULATED, simulated))


def _recordings(directory: Path) -> dict[str, Path]:
    """Files for the recordings of both sides."""
    from mptune.files import check_writable

    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        expected = f"expected a writable directory, found {directory}: {error.strerror}"
        raise InputError("--record", "", expected) from None
    files = {name: directory / f"{name}.trace" for name in (_KERNEL, _SIMULATED)}
    for file in files.values():
        check_writable(file, "--record")
    return files


def _read(traces: tuple[str, str], keep: str | None, *, reverse: bool) -> tuple[Side, Side]:
    """Two recordings of before."""
    from mptune.capture import read

    if keep is not None or reverse:
        raise InputError("--record" if keep is not None else "--reverse", "", "expected only with a topology")
    path, two = (Path(name) for name in traces)
    names = (path.stem, two.stem) if path.stem != two.stem else (str(path), str(two))
    return _sides((names[0], read(path)), (names[1], read(two)))


def _sides(*named: tuple[str, Recording]) -> tuple[Side, Side]:
    """Both on the same grid: as long as all runs last."""
    from mptune.capture.divergence import side

    for name, recording in named:
        if not recording.runs:
            raise InputError(name, "", "expected a recording with runs, found none")
    until_s = min(run.duration_ns for _, recording in named for run in recording.runs) / 1e9
    reference, other = (side(name, recording, until_s) for name, recording in named)
    return reference, other


def _document(
    divergence: Divergence, reference: Side, other: Side, summary: str, moments: list[Moment]
) -> dict[str, Any]:
    """`--json`: seconds, and KiB, ms and segments around the divergence."""
    return {
        "summary": summary,
        "diverged": divergence.first is not None,
        "first": divergence.first,
        "kind": divergence.kind,
        "departures": divergence.all,
        "alike_until_s": divergence.alike_until_s,
        "around": moments,
        "sides": [
            {
                "name": side.name,
                "about": side.recording.about,
                "throughput_mbps": [_mbps(run) for run in side.recording.runs],
                "packets": [len(run.packets) for run in side.recording.runs],
                "unrecorded": [run.unrecorded for run in side.recording.runs],
            }
            for side in (reference, other)
        ],
    }


def _mbps(run: Run) -> float:
    return run.in_order_bytes * 8e3 / run.duration_ns


def _show(out: Console, divergence: Divergence, summary: str, moments: list[Moment]) -> None:
    from mptune.cli._tables import section, table

    out.print(summary, markup=False)
    if divergence.first is None:
        return
    around = table("| time (s)", "side", *(f"| {name}" for name in _COLUMNS))
    for moment in moments:
        around.add_row(
            f"{moment.at_s:.3f}",
            moment.side,
            _number(moment.inflight_kib, " KiB"),
            _number(moment.cwnd, " seg."),
            _number(moment.rtt_ms, " ms", 1),
            _number(moment.assigned_kib, " KiB"),
            _number(moment.delivered_kib, " KiB"),
            _number(moment.window_kib, " KiB"),
            _number(moment.burst, "", 1),
            str(moment.lost),
            str(moment.repeated),
        )
    section(out, f"Around it, on {divergence.first.subflow or 'the busiest subflow'}", around)
    firsts = table("| time (s)", "subflow", "quantity", "| times the tolerance")
    for departure in divergence.all:
        firsts.add_row(
            f"{departure.at_s:.3f}", departure.subflow or "all", departure.quantity, f"{departure.excess:.1f}"
        )
    section(out, "First difference of each quantity", firsts)


def _number(value: float | None, unit: str, digits: int = 0) -> str:
    return "-" if value is None else f"{value:.{digits}f}{unit}"
