"""`mptune run`: one trial, and what every subflow did in it.

The options become a `Trial`; the testbed does the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from mptune import _core, units
from mptune.cli._common import JsonOption, TopologyArgument, console, emit_json, examples
from mptune.errors import InputError, TrialError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mptune.testbeds import Observation, Trial


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=examples(
            "mptune run UNIS-HiN --pm fullmesh --cc cubic --buffer 4MiB --duration 30s",
            "mptune run UiB-UNIS --cc olia --transfer 512KiB     # completion time of a transfer",
            "mptune run SRL-HU --pm pcdc --active K-C,U-C        # these carry data, the rest stands by",
            "mptune run KU-HiG --initial-path K-P --json",
            "mptune run UiT-HAW --scheduler kernel --accounting linux   # as near to Linux as it gets",
            "mptune run UiT-HAW --testbed namespaces                    # Linux itself",
        )
    )(run)


def run(
    topology: TopologyArgument,
    pm: Annotated[str, typer.Option(help=f"Path manager: {', '.join(_core.path_managers())}.")] = "fullmesh",
    cc: Annotated[
        str,
        typer.Option(help=f"Congestion control of every subflow: {', '.join(_core.congestion_controls())}."),
    ] = "cubic",
    buffer: Annotated[str, typer.Option(help="Connection-level send and receive buffer.")] = "16MiB",
    duration: Annotated[str | None, typer.Option(help="Send for so long.  [default: 30s]")] = None,
    transfer: Annotated[str | None, typer.Option(help="Send so many bytes instead.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 1,
    testbed: Annotated[str, typer.Option(help="Where to measure.")] = "simulated",
    initial_path: Annotated[str | None, typer.Option(help="Path of the first handshake.")] = None,
    scheduler: Annotated[str, typer.Option(help=f"Scheduler: {', '.join(_core.schedulers())}.")] = "minrtt",
    opportunistic: Annotated[
        bool,
        typer.Option(
            "--opportunistic", help="Opportunistic retransmission and penalisation (v0.9x kernels)."
        ),
    ] = False,
    accounting: Annotated[
        str,
        typer.Option(help=f"What the simulator charges the buffers with: {', '.join(_core.accountings())}."),
    ] = "payload",
    tso: Annotated[
        bool, typer.Option("--tso", help="Simulated segments leave in bursts, as with offload.")
    ] = False,
    active: Annotated[
        str | None, typer.Option(help="Subflows that carry data (pcdc), separated by commas.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run one trial and show its throughput and its subflows."""
    from mptune.testbeds import MSS, Trial, create, names
    from mptune.topology import load

    _check("--cc", cc, names("congestion_controls"))
    _check("--pm", pm, names("path_managers"))
    _check("--scheduler", scheduler, names("schedulers"))
    _check("--accounting", accounting, names("accountings"))
    if duration is not None and transfer is not None:
        raise InputError("--transfer", "", "expected either --duration or --transfer, found both")
    if active is not None and pm != "pcdc":
        raise InputError("--active", "", f"expected only with --pm pcdc, found with {pm}")
    buffer_bytes = _value("--buffer", buffer, units.parse_size)
    if buffer_bytes < MSS:
        raise InputError("--buffer", "", f"expected at least one segment ({MSS} B), found {buffer}")
    duration_ns = transfer_bytes = None
    if transfer is None:
        duration_ns = _positive("--duration", duration or "30s", units.parse_time)
    else:
        transfer_bytes = _positive("--transfer", transfer, units.parse_size)
    loaded = load(topology)
    chosen = None if active is None else tuple(label.strip() for label in active.split(","))
    for label in chosen or ():
        loaded.path(label, "--active")
    if initial_path is not None:
        loaded.path(initial_path, "--initial-path")
    trial = Trial(
        topology=loaded,
        pm=pm,
        cc=cc,
        scheduler=scheduler,
        opportunistic=opportunistic,
        accounting=accounting,
        tso=tso,
        buffer_bytes=buffer_bytes,
        seed=seed,
        initial_path=initial_path,
        active=chosen,
        duration_ns=duration_ns,
        transfer_bytes=transfer_bytes,
    )
    observation = create(testbed).run(trial)
    if as_json:
        emit_json(_result(trial, observation))
    else:
        _print(trial, observation)
    if observation.failed:
        raise TrialError(f"the trial failed: {observation.failed}")


def _check(option: str, name: str, known: list[str]) -> None:
    if name not in known:
        raise InputError(option, "", f"expected one of {', '.join(known)}, found {name!r}")


def _value(option: str, text: str, parse: Callable[[str], int]) -> int:
    try:
        return parse(text)
    except ValueError as error:
        raise InputError(option, "", str(error)) from None


def _positive(option: str, text: str, parse: Callable[[str], int]) -> int:
    value = _value(option, text, parse)
    if value == 0:
        raise InputError(option, "", f"expected more than 0, found {text!r}")
    return value


def _result(trial: Trial, observation: Observation) -> dict[str, Any]:
    """`--json`: throughputs in Mbit/s of payload, times in s and ms."""
    from mptune.testbeds import BIN_NS

    seconds = observation.duration_ns / 1e9
    result: dict[str, Any] = {
        "throughput_mbps": observation.throughput_bps / 1e6,
        "duration_s": seconds,
        "buffer_bytes": trial.buffer_bytes,
        "pm": trial.pm,
        "cc": trial.cc,
        "scheduler": trial.scheduler,
        "seed": trial.seed,
        "testbed": observation.testbed,
        "subflows": [
            {
                "path": subflow.path,
                "active": subflow.active,
                "throughput_mbps": subflow.bytes * 8 / 1e6 / seconds,
                "rtt_ms": subflow.srtt_ns / 1e6,
                "min_rtt_ms": subflow.min_rtt_ns / 1e6,
                "retransmitted": subflow.retransmitted,
                "timeouts": subflow.timeouts,
                "counters": subflow.counters,
                "series_mbps": _mbps(subflow.bins, observation.duration_ns),
            }
            for subflow in observation.subflows
        ],
        "background": [
            {
                "path": flow.path,
                "throughput_mbps": flow.bytes * 8e3 / max(flow.duration_ns, 1),
                "retransmitted": flow.retransmitted,
            }
            for flow in observation.background
        ],
        "series": {
            "t_s": [number * BIN_NS / 1e9 for number in range(len(observation.bins))],
            "throughput_mbps": _mbps(observation.bins, observation.duration_ns),
        },
        "metadata": observation.metadata,
    }
    if observation.completion_ns is not None:
        result["completion_s"] = observation.completion_ns / 1e9
    if observation.failed is not None:
        result["failed"] = observation.failed
    return result


def _mbps(bins: list[int], duration_ns: int) -> list[float]:
    """Mbit/s of each bin; the last one may be shorter than the others."""
    from mptune.testbeds import BIN_NS

    widths = [min(BIN_NS, duration_ns - number * BIN_NS) for number in range(len(bins))]
    return [8e3 * size / width for size, width in zip(bins, widths, strict=True)]


def _print(trial: Trial, observation: Observation) -> None:
    from rich.table import Table

    out = console()
    seconds = observation.duration_ns / 1e9
    what = f"{trial.topology.name}, {trial.pm}, {trial.cc}, {units.format_size(trial.buffer_bytes)} of buffer"
    if observation.completion_ns is not None:
        out.print(
            f"{units.format_size(observation.in_order_bytes)} in {seconds:.3f} s ({what})", style="bold"
        )
    else:
        out.print(f"{observation.throughput_bps / 1e6:.2f} Mbit/s over {seconds:g} s ({what})", style="bold")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("subflow", no_wrap=True)
    table.add_column("role", no_wrap=True)
    for name in ("Mbit/s", "share", "RTT", "smallest RTT", "retransmitted", "timeouts"):
        table.add_column(name, no_wrap=True, justify="right")
    total = sum(subflow.bytes for subflow in observation.subflows) or 1
    for subflow in observation.subflows:
        table.add_row(
            subflow.path,
            "active" if subflow.active else "standby",
            f"{subflow.bytes * 8 / 1e6 / seconds:.2f}",
            f"{subflow.bytes / total:.1%}",
            units.format_time(subflow.srtt_ns, 4),
            units.format_time(subflow.min_rtt_ns, 4),
            str(subflow.retransmitted),
            str(subflow.timeouts),
        )
    for flow in observation.background:
        rate = f"{flow.bytes * 8e3 / max(flow.duration_ns, 1):.2f}"
        table.add_row(flow.path, "background", rate, "", "", "", str(flow.retransmitted), "")
    out.print(table)
