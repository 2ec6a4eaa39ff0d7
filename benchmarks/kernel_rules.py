"""The three rules of multipath congestion control (RFC 6356 section 1), measured on the kernel.

Do no harm: two subflows through one bottleneck against one Reno flow; their share is 1/2 if they behave as
one flow, 2/3 if uncoupled. Balance congestion: two paths, one of them contended by three Reno flows; the less
of the contended one is used the better, 1/4 if uncoupled. Improve throughput: on the same paths, the total
over what the free one gives alone. Both are connections of this kernel over the emulated network: MPTCP with
the program of `bpf/congestion` against plain TCP with the kernel's Reno. Prints a table and writes JSON.
"""

import argparse
import json
import os
import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table

from _measure import machine, write
from mptune.errors import TrialError
from mptune.linux import addresses, bpf
from mptune.linux.assignment import SATURATED, Assignment, kernel_paths
from mptune.linux.namespaces import STEP_S, Sites
from mptune.linux.processes import Child
from mptune.topology import Topology, load

#: A contest is repeated so often when the machine was overloaded: one packet in a hundred was so late, ns.
ATTEMPTS, LATE_NS = 4, 1_000_000
NETWORKS = Path(__file__).parent / "networks" / "contended"
BUFFER_BYTES = 2**20
#: The coupled ones, and reno on every subflow for contrast.
CCS = ("reno", "lia", "olia", "balia")


class Contest(NamedTuple):
    """Payload received in order, bytes: of the multipath connection by path, and of each rival."""

    paths: dict[str, int]
    rivals: list[int]

    @property
    def total(self) -> int:
        """Of the multipath connection."""
        return sum(self.paths.values())


def contend(
    topology: Topology, cc: str, labels: Sequence[str], rivals: Sequence[str], seconds: float, seed: int
) -> Contest:
    """Send over the paths `labels` with MPTCP, and over each of `rivals` with a Reno flow, for so long.

    Raises
    ------
    TrialError : a process died or refused, or the machine was overloaded each time.
    """
    for _ in range(ATTEMPTS):
        contest, late_ns = _contend(topology, cc, labels, rivals, seconds, seed)
        if late_ns <= LATE_NS:
            return contest
    raise TrialError(f"overloaded: 1 % of the packets was {late_ns / 1e6:.1f} ms late or more")


def _contend(
    topology: Topology, cc: str, labels: Sequence[str], rivals: Sequence[str], seconds: float, seed: int
) -> tuple[Contest, int]:
    """The contest, and the lateness of the emulator at the 99th percentile."""
    named = addresses.interfaces(topology)
    with ExitStack() as stack:
        sites = stack.enter_context(Sites())
        emulator, manager, *meters = (
            stack.enter_context(sites.start(module, f"mptune.linux.{module}"))
            for module in ("emulator", "path_manager", *["meter"] * (1 + len(rivals)))
        )
        _connect(sites, emulator, manager, topology, labels, seed)
        emulator.tell({"action": "start"})
        for meter, label in zip(meters, [labels[0], *rivals], strict=True):
            os.sched_setscheduler(meter.pid, os.SCHED_RR, os.sched_param(1))
            path = topology.path(label, "path")
            local, remote = named["local"][path.local_index], named["remote"][path.remote_index]
            ours = meter is meters[0]
            job = {"cc": cc if ours else "reno", "mptcp": ours, "seed": seed, **_sending(seconds)}
            job["sender"] = {"netns": sites.local, "address": local.ipv4}
            meter.tell(job | {"receiver": {"netns": sites.remote, "address": remote.ipv4}})
        results = [_result(meter, seconds) for meter in meters]
        emulator.tell({"action": "stop"})
        late_ns: int = emulator.expect("report", STEP_S)["late_p99_ns"]
    sent = {(one["local"], one["remote"]): one["bytes"] for one in results[0]["subflows"]}
    paths = [path for path in kernel_paths(topology) if path.label in labels]
    by_path = {path.label: sum(sent.get(pair, 0) for pair in path.pairs) for path in paths}
    return Contest(by_path, [one["in_order_bytes"] for one in results[1:]]), late_ns


def _sending(seconds: float) -> dict[str, Any]:
    """What all meters are told alike."""
    length_ns = round(seconds * 1e9)
    return {
        "buffer_bytes": BUFFER_BYTES,
        "duration_ns": length_ns,
        "transfer_bytes": None,
        "deadline_ns": length_ns,
        "bin_ns": 100_000_000,
        "stall_ns": length_ns,
        "thresholds_bytes": [],
    }


def _connect(
    sites: Sites, emulator: Child, manager: Child, topology: Topology, labels: Sequence[str], seed: int
) -> None:
    """The network between the namespaces, and a full mesh of the wanted paths only."""
    named = addresses.interfaces(topology)
    interfaces = [
        {
            "side": one.side,
            "index": one.index,
            "netns": sites.of(one.side),
            "device": one.device,
            "ipv4": one.ipv4,
            "ipv6": one.ipv6,
        }
        for side in named.values()
        for one in side
    ]
    emulator.tell({"network": topology.network(), "seed": seed, "interfaces": interfaces})
    wanted = tuple(path for path in kernel_paths(topology) if path.label in labels)
    assignment = Assignment(pm="fullmesh", paths=wanted, transfer_bytes=SATURATED)
    manager.tell(
        {"assignment": msgspec.to_builtins(assignment), "sender": sites.local, "receiver": sites.remote}
    )
    emulator.expect("ready", STEP_S)
    sites.configure(named)
    manager.expect("ready", STEP_S)


def _result(meter: Child, seconds: float) -> dict[str, Any]:
    result = meter.expect("result", seconds + STEP_S)
    if result["failed"] is not None:
        raise TrialError(f"{meter.name}: {result['failed']}")
    return result


def rules(cc: str, asked: argparse.Namespace) -> dict[str, list[float]]:
    """Estimates of the three rules, one for each run."""
    one, two = (load(NETWORKS / f"{name}.toml") for name in ("one-bottleneck", "two-bottlenecks"))
    found: dict[str, list[float]] = {"share": [], "on_contended": [], "gain": []}
    with bpf.loaded([cc]) as names:
        for run in range(asked.runs):
            seed = asked.seed + run
            shared = contend(one, names[cc], ["A-X", "B-X"], ["C-X"], asked.duration, seed)
            found["share"].append(shared.total / (shared.total + shared.rivals[0]))
            both = contend(two, names[cc], ["A-X", "B-Y"], ["C-Y"] * 3, asked.duration, seed)
            alone = contend(two, names[cc], ["A-X"], ["C-Y"] * 3, asked.duration, seed)
            found["on_contended"].append(both.paths["B-Y"] / (both.paths["B-Y"] + sum(both.rivals)))
            found["gain"].append(both.total / alone.total)
    return found


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--duration", type=float, default=60.0, help="of a transfer, seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cc", action="append", help="only these; repeat")
    parser.add_argument("--json", action="store_true", help="print the estimates and write nothing")
    asked = parser.parse_args()
    result = {cc: rules(cc, asked) for cc in asked.cc or CCS}
    if asked.json:
        print(json.dumps(result))
        return
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    table = Table(
        "CC", "share against one Reno flow", "share of the contended path", "total over the free path alone"
    )
    for cc, found in result.items():
        table.add_row(cc, *(_shown(found[key]) for key in ("share", "on_contended", "gain")))
    Console(width=110).print(table)
    write("kernel_rules", result)


def _shown(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    main()
