"""`mptune impact`: impact factors of all subflows under one congestion control, and the sets."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import typer

from mptune._text import digits
from mptune.cli._common import (
    JsonOption,
    QuietOption,
    TopologyArgument,
    add,
    console,
    emit_json,
    load_topology,
)
from mptune.errors import MptuneError
from mptune.impact import ImpactOptions
from mptune.measuring.executors import ExecutorOptions
from mptune.options.stacks import StackOptions
from mptune.options.trials import Cc, MeasuringOptions
from mptune.units import format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    1 %), with a probability of 95 % for all together; --runs limits them.

    With --impact eq5 it is the formula of the papers: one trial per run and subflow, all subflows for a time
    T, then T without it. The mean of the runs decides. Slow start is in the first T, so a subflow that does
    nothing ends up slightly below 0; see --settle.
    """
    import msgspec

    from mptune import testbeds
    from mptune._text import over
    from mptune.campaign.documents import impact_document
    from mptune.impact import measure_impact, run_ns
    from mptune.measuring.progress import Reporter
    from mptune.measuring.runner import TrialRunner

    loaded = load_topology(topology, reverse=measuring.reverse)
    stack.check_on(measuring.testbed)
    runner = TrialRunner(
        testbeds.create(measuring.testbed), measuring.jobs, executor=where.create(measuring.jobs)
    )
    reporter = Reporter(quiet=quiet)
    one_ns = run_ns(loaded, options)
    reporter.say(
        testbeds.notice(
            measuring.testbed,
            loaded,
            buffer_modes=(options.buffer_mode,),
            lasting_ns=options.most_runs * one_ns,
        )
    )
    if testbeds.only_stack(measuring.testbed) is not None:
        reporter.say(_patience(options, one_ns))
    with reporter.phase("impact factors") as progress:
        (measured,), records = measure_impact(
            loaded, runner, [cc], options, stack=stack.chosen(), progress=progress
        )
    if all(one.omega is None for one in measured.paths):
        raise MptuneError(f"no impact factors: {' '.join(measured.warnings)}")
    if stack.chosen().accounting == "linux" and options.design == "paired":
        found = [one.throughput_mbps for one in records if one.throughput_mbps is not None]
        measured = msgspec.structs.replace(
            measured, warnings=(*measured.warnings, *_too_much_buffer(cc, options, found))
        )
    if as_json:
        emit_json(impact_document(measured))
    else:
        _show(console(), f"{loaded.name}{over(options.family)}", measured)


def _patience(options: ImpactOptions, one_ns: int) -> str:
    """How long it takes in real time, before the first trial has ended."""
    runs = f"{options.most_runs} run" + "s" * (options.most_runs != 1)
    lasting = f"{runs} of {format_time(one_ns)}"
    if options.design == "paired":
        lasting = f"At most {lasting}, fewer if all is decided sooner"
    return f"{lasting}; --runs and --duration make it shorter."


def _too_much_buffer(cc: str, options: ImpactOptions, mbps: Sequence[float]) -> Iterator[str]:
    """Linux queues up to a whole buffer on subflows, where it waits when they are withdrawn.

    Between two machines with 20 and 10 Mbit/s, 16 MiB and windows of 10 s gave factors of 0.05 and 0.35; the
    rates suggest 0.67 and 0.33.
    """
    if not any(mbps):
        return
    bytes_s = math.fsum(mbps) / len(mbps) * 1e6 / 8
    lasts_s, window_s = options.buffer_bytes / bytes_s, options.length_ns / 1e9
    if lasts_s > window_s / 2:
        size = format_size(options.buffer_bytes, 3)
        yield (
            f"{cc}: a buffer of {size} lasts for {digits(lasts_s)} s at this throughput, more than half of "
            "T: what is queued before a subflow is withdrawn, or comes back, blurs the next window; a "
            "smaller --buffer or a longer --duration tells more."
        )


def _show(out: Console, name: str, measured: Impact) -> None:
    """Print the sets, then the statistics behind them."""
    from mptune.cli._tables import section, table

    sets = measured.sets
    out.print(f"{name}, {measured.cc}: send on {', '.join(sets.optional)}.", style="bold")
    if sets.standby:
        out.print(f"Standby, best first: {', '.join(sets.standby)}.")
    columns = ("median", "min", "max", "q10", "q90")
    shown = table(
        "path",
        "| mean",
        "| interval",
        "decision",
        *(f"| {column}" for column in columns),
        "| RTT (ms)",
        "set",
    )
    for one in measured.paths:
        kind = "optional" if one.path in sets.optional else "standby"
        rtt = "-" if one.rtt_ms is None else f"{one.rtt_ms:.1f}"
        mean, *others = (
            "-" if one.omega is None else f"{getattr(one.omega, column):.4f}" for column in ("mean", *columns)
        )
        shown.add_row(one.path, mean, _interval(one), one.decision, *others, rtt, kind)
    section(out, "Impact factors", shown)
    out.print(f"\n{_effort(measured)}", markup=False)
    for warning in measured.warnings:
        out.print(f"! {warning}", markup=False)


def _interval(one: PathImpact) -> str:
    """The interval that decided."""
    return "-" if one.low is None or one.high is None else f"{one.low:.3f} to {one.high:.3f}"


def _effort(measured: Impact) -> str:
    """What it took, how sure it is, and whether it can be believed."""
    trials = f"{measured.trials} trial" + "s" * (measured.trials != 1)
    return (
        f"{trials} of {format_time(measured.measured_ns)} together; the decisions are all right with a "
        f"probability of {100 * (1 - measured.error_rate):.0f} %. "
        f"The impact factors are {'plausible' if measured.plausible else 'not plausible, see below'}."
    )
