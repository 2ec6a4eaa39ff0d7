"""The three rules of multipath congestion control (RFC 6356 section 1), measured on the kernel.

Do no harm: two subflows through one bottleneck against one Reno flow; their share is 1/2 if they behave as
one flow, 2/3 if uncoupled. Balance congestion: two paths, one of them contended by three Reno flows; the
lower the share of the contended one the better, 1/4 if uncoupled. Improve throughput: on the same paths, the
total over what the free one gives alone. All are connections of this kernel over the emulated network: MPTCP
with the program of `bpf/congestion` against plain TCP with the kernel's Reno. Contests run side by side: at
20 or 40 Mbit/s each needs a small part of a processor. The simulator runs the same contests, with the
kernel's scheduler and with minRTT. Prints a table and writes JSON.
"""

import argparse
import json
import os
import statistics
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.shared.measure import machine, write
from mptune.errors import TrialError
from mptune.linux import addresses, bpf
from mptune.linux.assignment import SATURATED, Assignment, document, kernel_paths
from mptune.linux.awake import Awake
from mptune.linux.meter import Meter
from mptune.linux.sandbox.namespaces import STEP_S, Sites
from mptune.linux.sandbox.processes import Child
from mptune.testbeds import create as testbed
from mptune.topology import TcpBackground, Topology, load
from mptune.trial import Bulk, Trial

#: Repetitions of a contest on an overloaded machine: one packet in a hundred this late, ns.
ATTEMPTS, LATE_NS = 4, 1_000_000
NETWORKS = Path(__file__).parents[1] / "networks" / "contended"
BUFFER_BYTES = 2**20
#: The coupled ones, and reno on every subflow for contrast.
CCS = ("reno", "lia", "olia", "balia")
#: Schedulers in the simulator: the kernel's, and the one without its bursts.
SCHEDULERS = ("kernel", "minrtt")
#: Runs in the simulator, where they are cheap.
SIMULATED_RUNS = 10
#: The contests of a run: network, paths of the multipath connection, and each rival's path.
CONTESTS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("one-bottleneck", ("A-X", "B-X"), ("C-X",)),
    ("two-bottlenecks", ("A-X", "B-Y"), ("C-Y",) * 3),
    ("two-bottlenecks", ("A-X",), ("C-Y",) * 3),
)

#: Estimates of the three rules, one for each run.
Rules = dict[str, list[float]]


class Contest(NamedTuple):
    """Payload received in order, bytes: the multipath connection's by path, and each rival's."""

    paths: dict[str, int]
    rivals: list[int]

    @property
    def total(self) -> int:
        """Total of the multipath connection."""
        return sum(self.paths.values())


def contend(
    topology: Topology, cc: str, labels: Sequence[str], rivals: Sequence[str], seconds: float, seed: int
) -> Contest:
    """Send over the paths `labels` with MPTCP, and over each of `rivals` with a Reno flow, for this long.

    Raises
    ------
    TrialError : a process died or refused, or the machine was overloaded each time.
    """
    for _ in range(ATTEMPTS):
        contest, late_ns = _contend(topology, cc, labels, rivals, seconds, seed)
        if late_ns <= LATE_NS:
            return contest
    raise TrialError(f"overloaded: 1 % of the packets were {late_ns / 1e6:.1f} ms late or more")


def _contend(
    topology: Topology, cc: str, labels: Sequence[str], rivals: Sequence[str], seconds: float, seed: int
) -> tuple[Contest, int]:
    """The contest, and the lateness of the emulator at the 99th percentile."""
    named = addresses.interfaces(topology)
    with ExitStack() as stack:
        sites = stack.enter_context(Sites())
        emulator = stack.enter_context(sites.start("emulator", "mptune.linux.emulator"))
        managers = [stack.enter_context(sites.start_agent("paths", side)) for side in addresses.SIDES]
        meters = [_meter(stack, sites) for _ in (labels[0], *rivals)]
        _connect(sites, emulator, managers, topology, labels, seed)
        paths = [topology.path(label, "path") for label in (labels[0], *rivals)]
        ends = [(named["local"][path.local_index], named["remote"][path.remote_index]) for path in paths]
        for meter, (_, remote) in zip(meters, ends, strict=True):
            ours = meter is meters[0]
            job = {"cc": cc if ours else "reno", "mptcp": ours, "seed": seed, **_sending(seconds)}
            meter.listen(job, remote.ipv4, [interface.ipv4 for interface in named["remote"]] if ours else ())
        emulator.tell({"action": "start"})
        for meter, (local, remote) in zip(meters, ends, strict=True):
            meter.connect(local.ipv4, remote.ipv4)
        for meter in meters:
            meter.expect("connected", STEP_S)  # which lets its receiver know from when to count
        results = [_result(meter, seconds) for meter in meters]
        emulator.tell({"action": "stop"})
        late_ns: int = emulator.expect("report", STEP_S)["late_p99_ns"]
    sent = {(result["local"], result["remote"]): result["bytes"] for result in results[0]["subflows"]}
    used = [path for path in kernel_paths(topology, named) if path.label in labels]
    by_path = {path.label: sum(sent.get(pair, 0) for pair in path.pairs) for path in used}
    return Contest(by_path, [result["in_order_bytes"] for result in results[1:]]), late_ns


def _meter(stack: ExitStack, sites: Sites) -> Meter[Child]:
    """Both halves, scheduled in real time."""
    meter = Meter(
        stack.enter_context(sites.start_agent("sender", "local")),
        stack.enter_context(sites.start_agent("receiver", "remote")),
    )
    for half in meter.halves:
        os.sched_setscheduler(half.pid, os.SCHED_RR, os.sched_param(1))
    return meter


def _sending(seconds: float) -> dict[str, Any]:
    """The settings that all meters share."""
    length_ns = round(seconds * 1e9)
    return {
        "buffer_bytes": BUFFER_BYTES,
        "workload": {"kind": "bulk", "duration_ns": length_ns},
        "bin_ns": 100_000_000,
        "stall_ns": length_ns,
        "thresholds_bytes": [],
    }


def _connect(
    sites: Sites,
    emulator: Child,
    managers: Sequence[Child],
    topology: Topology,
    labels: Sequence[str],
    seed: int,
) -> None:
    """The network between the namespaces, and a full mesh of the wanted paths only."""
    named = addresses.interfaces(topology)
    interfaces = sites.devices(named)
    emulator.tell({"network": topology.network(), "seed": seed, "interfaces": interfaces})
    used = tuple(path for path in kernel_paths(topology, named) if path.label in labels)
    assignment = Assignment(pm="fullmesh", paths=used, transfer_bytes=SATURATED)
    of_sender, of_receiver = managers
    of_sender.tell({"side": "sender", "assignment": document(assignment)})
    of_receiver.tell({"side": "receiver"})
    emulator.expect("ready", STEP_S)
    sites.configure(named)
    for manager in managers:
        manager.expect("ready", STEP_S)


def _result(meter: Meter[Child], seconds: float) -> dict[str, Any]:
    result = meter.expect("result", seconds + STEP_S)
    if result["failed"] is not None:
        raise TrialError(f"meter: {result['failed']}")
    return result


def rules(ccs: Sequence[str], asked: argparse.Namespace) -> dict[str, Rules]:
    """Estimates of the three rules for each congestion control on the kernel, one for each run."""
    contests: dict[str, list[list[Future[Contest]]]] = {cc: [] for cc in ccs}
    with Awake(), bpf.loaded(ccs) as names, ThreadPoolExecutor(asked.workers) as executor:
        for run in range(asked.runs):
            for cc in ccs:
                contests[cc].append(
                    [
                        executor.submit(
                            contend,
                            load(NETWORKS / f"{network}.toml"),
                            names[cc],
                            labels,
                            rivals,
                            asked.duration,
                            asked.seed + run,
                        )
                        for network, labels, rivals in CONTESTS
                    ]
                )
        return {
            cc: estimates([[future.result() for future in run] for run in runs])
            for cc, runs in contests.items()
        }


def simulated_rules(cc: str, scheduler: str, asked: argparse.Namespace) -> Rules:
    """The same in the simulator."""
    return estimates(
        [
            [_simulate(*contest, cc, scheduler, asked, asked.seed + run) for contest in CONTESTS]
            for run in range(SIMULATED_RUNS)
        ]
    )


def _simulate(
    network: str,
    labels: tuple[str, ...],
    rivals: tuple[str, ...],
    cc: str,
    scheduler: str,
    asked: argparse.Namespace,
    seed: int,
) -> Contest:
    """One contest; pcdc keeps all but the wanted paths silent."""
    topology = load(NETWORKS / f"{network}.toml")
    others = tuple(TcpBackground(path=path, cc="reno") for path in rivals)
    trial = Trial(
        topology=msgspec.structs.replace(topology, background=others),
        pm="pcdc",
        pm_options={"active": labels},
        initial_path=labels[0],
        cc=cc,
        scheduler=scheduler,
        buffer_bytes=BUFFER_BYTES,
        seed=seed,
        workload=Bulk(duration_ns=round(asked.duration * 1e9)),
    )
    observation = testbed("simulated").run(trial)
    sent = {subflow.path: subflow.bytes for subflow in observation.subflows if subflow.path in labels}
    return Contest(sent, [flow.bytes for flow in observation.background])


def estimates(runs: Sequence[Sequence[Contest]]) -> Rules:
    """The rules from the contests of each run, given in the order of `CONTESTS`."""
    return {
        "share": [shared.total / (shared.total + shared.rivals[0]) for shared, _, _ in runs],
        "on_contended": [both.paths["B-Y"] / (both.paths["B-Y"] + sum(both.rivals)) for _, both, _ in runs],
        "gain": [both.total / alone.total for _, both, alone in runs],
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--duration", type=float, default=60.0, help="duration of a transfer, seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cc", action="append", help="only these; repeat")
    parser.add_argument("--workers", type=int, default=2 * (os.cpu_count() or 1), help="contests at once")
    parser.add_argument("--json", action="store_true", help="print the estimates and write nothing")
    asked = parser.parse_args()
    result = rules(asked.cc or CCS, asked)
    if asked.json:
        print(json.dumps(result))
        return
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    everything = {
        cc: {"kernel": outcome}
        | {f"simulated, {name}": simulated_rules(cc, name, asked) for name in SCHEDULERS}
        for cc, outcome in result.items()
    }
    columns = ("share against one Reno flow", "share of the contended path", "total over the free path alone")
    table = Table("CC", "where", *columns)
    for cc, beds in everything.items():
        for bed, outcome in beds.items():
            table.add_row(cc, bed, *(_shown(outcome[key]) for key in ("share", "on_contended", "gain")))
    Console(width=130).print(table)
    write("kernel_rules", everything)


def _shown(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    main()
