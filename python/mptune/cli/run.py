"""`mptune run`: one trial, and what every subflow did in it.

The options become a `Trial`; the testbed does the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Self

import msgspec
import typer

from mptune import testbeds, units
from mptune._text import over
from mptune.cli._common import JsonOption, TopologyArgument, add, console, emit_json, load_topology
from mptune.errors import TrialError
from mptune.options import Option, Options, count
from mptune.options.path_managers import PathManagerOptions
from mptune.options.scripts import Script, wrong_times
from mptune.options.stacks import StackOptions
from mptune.options.trials import (
    USUAL_PMS,
    Buffer,
    BufferMode,
    Cc,
    Family,
    InitialPath,
    Pm,
    Protocol,
    Reverse,
    Testbed,
    Transfer,
    check_labels,
    sending_time,
)

if TYPE_CHECKING:
    from mptune.testbeds import Observation, Trial

#: What shows how a connection coped with a script, by its name in the metadata of every testbed.
_AFTER_A_SCRIPT = ("takeover_ms", "reinjected_bytes")


class RunOptions(Options, frozen=True, kw_only=True):
    """One trial; the fields but `stack` are those of `mptune.testbeds.Trial`."""

    protocol: Protocol = "mptcp"
    pm: Pm = None
    cc: Cc = "cubic"
    buffer_bytes: Buffer = 16 * units.MIB
    buffer_mode: BufferMode = testbeds.FIXED
    family: Family = testbeds.DEFAULT_FAMILY
    duration_ns: Annotated[int | None, sending_time("30s")] = None
    transfer_bytes: Transfer = None
    seed: Annotated[int, Option(count(), "Seed of everything random.", flag="--seed")] = 1
    initial_path: InitialPath = None
    script: Script = ()
    stack: StackOptions = StackOptions()
    pm_options: PathManagerOptions = PathManagerOptions()

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """A time or a size, not both; options only of the path manager that is used."""
        if self.duration_ns is not None and self.transfer_bytes is not None:
            yield "transfer_bytes", "expected either --duration or --transfer, found both"
        for expected in wrong_times(self.script, self.duration_ns):
            yield "script", expected
        if self.protocol == "tcp":
            yield from self._conflicts_of_tcp()
        for name, pm in self.pm_options.unused((self.manager,)):
            yield f"pm_options.{name}", f"expected only with --pm {pm}, found with {self.manager}"

    def _conflicts_of_tcp(self) -> Iterator[tuple[str, str]]:
        """Plain TCP has one path: nothing to manage, and nothing to schedule."""
        if self.manager != USUAL_PMS["tcp"]:
            yield "pm", f"expected {USUAL_PMS['tcp']} with --protocol tcp, found {self.pm}"
        for one in self.script:
            if one.action not in ("down", "up"):
                yield "script", f"expected only down and up with --protocol tcp, found {one.action}"
        for name in ("scheduler", "opportunistic"):
            if getattr(self.stack, name) is not None:
                yield f"stack.{name}", "expected only with --protocol mptcp, found with tcp"

    @property
    def manager(self) -> str:
        """The path manager: the given one, or the protocol's usual one."""
        return self.pm or USUAL_PMS[self.protocol]

    def completed(self) -> Self:
        """Without a time or a size, send for 30 s."""
        if self.duration_ns is None and self.transfer_bytes is None:
            return msgspec.structs.replace(self, duration_ns=30_000_000_000)
        return self


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        run,
        "mptune run UNIS-HiN --pm fullmesh --cc cubic --buffer 4MiB --duration 30s",
        "mptune run UiB-UNIS --cc olia --transfer 512KiB     # completion time of a transfer",
        "mptune run SRL-HU --pm pcdc --active K-C,U-C        # these carry data, the rest stands by",
        "mptune run KU-HiG.pathmgmt --pm ndiffports --ndiffports 4   # options of a path manager",
        "mptune run KU-HiG.pathmgmt --initial-path K-P --json",
        "mptune run UNIS-HiN --stack v0.9x                          # the papers' kernel",
        "mptune run UNIS-HiN --buffer-mode auto --buffer 4MiB       # autotuning up to tcp_rmem, tcp_wmem",
        "mptune run UNIS-HiN --at 5s:down:U-U --at 9s:up:U-U --duration 15s   # cut a path for 4 s",
        "mptune run UNIS-HiN --protocol tcp --initial-path U-U      # plain TCP on one path, to compare",
        "mptune run UNIS-HiN --family ipv6                          # the same over IPv6",
        "mptune run UiT-HAW --testbed namespaces                    # Linux itself",
    )


def run(
    topology: TopologyArgument,
    options: RunOptions,
    testbed: Testbed = "simulated",
    reverse: Reverse = False,
    as_json: JsonOption = False,
) -> None:
    """Run one trial and show its throughput and its subflows."""
    from mptune.measuring.progress import Reporter
    from mptune.testbeds import Trial

    loaded = load_topology(topology, reverse=reverse)
    check_labels(options, loaded)
    options.stack.check_on(testbed)
    asked = msgspec.structs.asdict(options)
    asked |= {"pm": options.manager, "pm_options": options.pm_options.of(options.manager)}
    stack = asked.pop("stack").chosen(protocol=options.protocol)
    trial = Trial(topology=loaded, **asked, **msgspec.structs.asdict(stack))
    told = testbeds.notice(
        testbed,
        loaded,
        buffer_modes=(options.buffer_mode,),
        lasting_ns=trial.duration_ns,
        transfer_bytes=trial.transfer_bytes,
    )
    Reporter().say(told)
    observation = testbeds.create(testbed).run(trial)
    if as_json:
        emit_json(_result(trial, observation))
    else:
        _print(trial, observation)
    if observation.failed:
        raise TrialError(f"the trial failed: {observation.failed}")


def _result(trial: Trial, observation: Observation) -> dict[str, Any]:
    """`--json`: throughputs in Mbit/s of payload, times in s and ms."""
    from mptune.testbeds import BIN_NS
    from mptune.testbeds.stacks import describe

    seconds = observation.duration_ns / 1e9
    result: dict[str, Any] = {
        "throughput_mbps": observation.throughput_bps / 1e6,
        "duration_s": seconds,
        "buffer_bytes": trial.buffer_bytes,
        "buffer_mode": trial.buffer_mode,
        "protocol": trial.protocol,
        "family": trial.family,
        "pm": trial.pm,
        "cc": trial.cc,
        "stack": describe(trial.members),
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
    for name in _AFTER_A_SCRIPT:
        if name in observation.metadata:
            result[name] = observation.metadata[name]
    if observation.completion_ns is not None:
        result["completion_s"] = observation.completion_ns / 1e9
    if observation.failed is not None:
        result["failed"] = observation.failed.reason
        result["failed_kind"] = observation.failed.kind
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
    how = f"{'plain TCP' if trial.protocol == 'tcp' else trial.pm}{over(trial.family)}"
    size = units.format_size(trial.buffer_bytes)
    buffer = f"{size} of buffer" if trial.buffer_mode == testbeds.FIXED else f"buffers of up to {size}"
    what = f"{trial.topology.name}, {how}, {trial.cc}, {buffer}"
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
    if trial.script:
        out.print(_coped(observation.metadata))


def _coped(metadata: Mapping[str, Any]) -> str:
    """How the connection coped with its script: "take-over 231 ms, 48 KiB repeated on other subflows"."""
    takeover, repeated = (metadata.get(name) for name in _AFTER_A_SCRIPT)
    parts = [] if takeover is None else [f"take-over {takeover:.0f} ms"]
    if repeated is not None:
        parts.append(f"{units.format_size(repeated, 3)} repeated on other subflows")
    return ", ".join(parts)
