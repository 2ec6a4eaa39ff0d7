"""`mptune run`: one trial, and what every subflow did in it.

The options become a `Trial`; the testbed does the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mptune import units
from mptune._text import over
from mptune.cli._common import JsonOption, TopologyArgument, add, console, emit_json, load_topology
from mptune.errors import TrialError
from mptune.options.trials import Reverse, Testbed
from mptune.runner.one_trial import (
    AFTER_A_SCRIPT,
    RunOptions,
    minutes,
    minutes_line,
    part_lines,
    responsiveness_line,
    times_line,
)
from mptune.trial import FIXED, Timed, judged

if TYPE_CHECKING:
    from mptune.trial import Observation, Trial


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        run,
        "mptune run UNIS-HiN --pm fullmesh --cc cubic --buffer 4MiB --duration 30s",
        "mptune run UiB-UNIS --cc olia --transfer 512KiB     # completion time of a transfer",
        "mptune run UiB-UNIS --pm pcdc --transfer 2MiB --no-size-known   # pcdc goes by the bytes sent",
        "mptune run SRL-HU --pm pcdc --active K-C,U-C        # these carry data, the rest stands by",
        "mptune run KU-HiG.pathmgmt --pm ndiffports --ndiffports 4   # options of a path manager",
        "mptune run KU-HiG.pathmgmt --initial-path K-P --json",
        "mptune run UNIS-HiN --stack v0.9x                          # the papers' kernel",
        "mptune run CLOUD-HOME.hybrid --workload messages:200B/100ms   # the delay of each message",
        "mptune run CLOUD-HOME.hybrid --workload requests:400B/64KiB   # the time of each response",
        "mptune run CLOUD-HOME.hybrid --workload mix:bulk+messages:200B/100ms   # both at the same time",
        "mptune run UNIS-HiN --connections 20                       # that share the paths, and how fairly",
        "mptune run UNIS-HiN --buffer-mode auto --buffer 4MiB       # autotuning up to tcp_rmem, tcp_wmem",
        "mptune run CLOUD-HOME.hybrid --buffer-mode auto --buffer 128KiB --receive-buffer 32MiB",
        "mptune run UNIS-HiN --at 5s:down:U-U --at 9s:up:U-U --duration 15s   # cut a path for 4 s",
        "mptune run UNIS-HiN --protocol tcp --initial-path U-U      # plain TCP on one path, to compare",
        "mptune run UNIS-HiN --family ipv6                          # the same over IPv6",
        "mptune run UNIS-HiN --family both                          # subflows of both families",
        "mptune run UiT-HAW --testbed namespaces                    # Linux itself",
        "mptune run UiT-HAW --capture uit.pcapng                    # its packets, as Wireshark reads them",
    )


def run(
    topology: TopologyArgument,
    options: RunOptions,
    testbed: Testbed = "simulated",
    capture: Annotated[
        str | None, typer.Option(metavar="FILE", help="Keep the packets of both ends in a pcapng file.")
    ] = None,
    reverse: Reverse = False,
    as_json: JsonOption = False,
) -> None:
    """Run one trial and show its throughput and its subflows.

    Subflows can carry more than what arrives in order, which is the throughput: the table then has what was
    *repeated* on another subflow and arrived twice, and what was *not in order* at the end.
    """
    from mptune.files import check_writable
    from mptune.runner.one_trial import measure_one, trial_document
    from mptune.runner.progress import Reporter

    file = None if capture is None else Path(capture)
    if file is not None:
        check_writable(file, "--capture")
    loaded = load_topology(topology, reverse=reverse, family=options.family)
    trial, observation = measure_one(loaded, options, testbed=testbed, reporter=Reporter(), capture=file)
    if as_json:
        emit_json(trial_document(trial, observation))
    else:
        _print(trial, observation)
    if observation.failed:
        raise TrialError(f"the trial failed: {observation.failed}")


def _print(trial: Trial, observation: Observation) -> None:
    from mptune._terminal import DataTable

    out = console()
    seconds = observation.duration_ns / 1e9
    how = f"{'plain TCP' if trial.protocol == 'tcp' else trial.pm}{over(trial.family)}"
    size = units.format_size(trial.buffer_bytes)
    if trial.receive_buffer_bytes is not None:
        size = f"{size} and {units.format_size(trial.receive_buffer_bytes)}"
    buffer = f"{size} of buffer" if trial.buffer_mode == FIXED else f"buffers of up to {size}"
    what = f"{trial.topology.name}, {how}, {trial.cc}, {buffer}"
    if observation.completion_ns is not None:
        out.print(
            f"{units.format_size(observation.in_order_bytes)} in {seconds:.3f} s ({what})", style="bold"
        )
    elif isinstance(judged(trial.workload), Timed):
        out.print(f"{times_line(trial, observation)} ({what})", style="bold")
    else:
        out.print(f"{observation.throughput_bps / 1e6:.2f} Mbit/s over {seconds:g} s ({what})", style="bold")
    if (found := minutes(trial, observation)) is not None:
        out.print(minutes_line(found))
    if (sentence := responsiveness_line(trial, observation)) is not None:
        out.print(sentence)
    for line in part_lines(trial, observation):
        out.print(line)
    table = DataTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
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
    for what, amount in _not_in_the_total(trial, observation):
        table.add_row(what, "", f"-{amount * 8 / 1e6 / seconds:.2f}", "", "", "", "", "")
    for flow in observation.background:
        rate = f"{flow.bytes * 8e3 / max(flow.duration_ns, 1):.2f}"
        table.add_row(flow.path, "background", rate, "", "", "", str(flow.retransmitted), "")
    out.print(table)
    if trial.script:
        out.print(_coped(observation.metadata))


def _not_in_the_total(trial: Trial, observation: Observation) -> Iterator[tuple[str, int]]:
    """Data of the subflows that are not in the total, where two decimals of Mbit/s show it, bytes."""
    from mptune.runner.one_trial import uncounted

    repeated, waiting, either = uncounted(trial, observation)
    rows = ("repeated", repeated), ("not in order", waiting), ("repeated or not in order", either)
    for what, size in rows:
        if round(size * 8e3 / max(observation.duration_ns, 1), 2) > 0:
            yield what, size


def _coped(metadata: Mapping[str, Any]) -> str:
    """Effects of the script on the connection: "take-over 231 ms, 48 KiB repeated on other subflows"."""
    takeover, repeated = (metadata.get(name) for name in AFTER_A_SCRIPT)
    parts = [] if takeover is None else [f"take-over {takeover:.0f} ms"]
    if repeated is not None:
        parts.append(f"{units.format_size(repeated, 3)} repeated on other subflows")
    return ", ".join(parts)
