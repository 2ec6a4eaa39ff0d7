"""Capacity of the network emulator in real time, its cost, and the accuracy of its delays.

The kernel's MPTCP runs over two emulated paths at rising rates. A third path carries only probes: datagrams
timestamped by their sender and, on arrival, by the kernel. Their time beyond the delay of their links is the
emulator's error, without the queues that the load fills on its own paths. Needs root, what `mptune doctor`
requires, and a machine that does nothing else.
"""

import argparse
import json
import os
import socket
import struct
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.shared.measure import in_fresh_process, machine, spread, write
from mptune.linux import assignment, bpf
from mptune.linux.addresses import SIDES, interfaces
from mptune.linux.kernel_trial import Plan
from mptune.linux.meter import Meter
from mptune.linux.namespace_venue import Links
from mptune.linux.processor_load import Load
from mptune.linux.sandbox.namespaces import STEP_S, Sites
from mptune.linux.sandbox.processes import Child
from mptune.statistics import quantile
from mptune.testbeds._kernel_plan import links, plan
from mptune.topology import Topology, load
from mptune.trial import Bulk, Trial
from tests.plugins.netlink import inside

RUNS = 3
SECONDS = 10

#: Rates of the two paths, Mbit/s; none: only probes.
CASES: list[list[int]] = [
    *([], [20, 10], [100, 50], [350, 150], [700, 300], [800, 400]),
    *([1000, 500], [1500, 700], [2000, 1000]),
]

#: Round-trip times of the two paths, milliseconds; one-way delay of the path of the probes.
RTTS_MS = (20, 40)
PROBE_MS = 15
#: Low, or the probes alone would make it a fast network (`FAST` in the emulator), Mbit/s.
PROBE_MBPS = 100
PROBE_GAP_S = 0.005
#: A probe's content: when it was sent, CLOCK_REALTIME in nanoseconds.
_STAMP = struct.Struct("=Q")
#: include/uapi/asm-generic/socket.h: the kernel's time of arrival, CLOCK_REALTIME.
SO_TIMESTAMPNS = 35

INTERFACE = """
[[sites.S.interfaces]]
isp = "{abbr}"
abbr = "{abbr}"
up = "{rate} Mbit/s"
down = "{rate} Mbit/s"
delay = "0 ms"
queue_up = "{queue} kB"
"""


def topology(rates: list[int]) -> Topology:
    """Two paths with queues of one bandwidth-delay product, and the path of the probes."""
    text = """
        name = "emulator"
        description = "two paths with load and one with probes"
        source = "made up"
        sender = "S"
        receiver = "R"
        [sites.R]
        name = "receiver"
        location = "there"
        [[sites.R.interfaces]]
        isp = "X"
        abbr = "X"
        up = "100 Gbit/s"
        down = "100 Gbit/s"
        delay = "0 ms"
        [sites.S]
        name = "sender"
        location = "here"
    """
    segments = ""
    both = (*(rates or [100, 50]), PROBE_MBPS), (*RTTS_MS, 2 * PROBE_MS)
    for abbr, rate, rtt in zip("ABP", *both, strict=True):
        text += INTERFACE.format(abbr=abbr, rate=rate, queue=rate * rtt // 8)
        segments += f'[[core.segments]]\npath = "{abbr}-X"\nrtt = "{rtt} ms"\nloss = "0 %"\n'
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "emulator.toml")
        path.write_text(text + segments, encoding="utf-8")
        return load(path)


class Probes:
    """Datagrams on the last path, and each one's time beyond its delay."""

    def __init__(self, sites: Sites, between: Links, stack: ExitStack) -> None:
        ends = []
        for side in SIDES:
            end = inside(sites.of(side), lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            ends.append(stack.enter_context(end))
            end.bind((between.interfaces[side][-1].ipv4, 0))
        self._sender, self._receiver = ends
        self._sender.connect(self._receiver.getsockname())
        self._receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._receiver.setblocking(False)
        self.errors_us: list[float] = []
        self.sent = 0

    def exchange(self) -> None:
        """Send one, and take those that have arrived."""
        self._sender.send(_STAMP.pack(time.time_ns()))
        self.sent += 1
        with suppress(BlockingIOError):
            while True:
                data, ancillary, _, _ = self._receiver.recvmsg(64, 64)
                seconds, nanoseconds = struct.unpack("=qq", ancillary[0][2])
                took = seconds * 1_000_000_000 + nanoseconds - _STAMP.unpack(data)[0]
                self.errors_us.append(took / 1e3 - PROBE_MS * 1e3)


def run_case(rates: list[int], seconds: int) -> dict[str, Any]:
    """Load and probes for this many seconds."""
    trial = Trial(
        topology=topology(rates),
        pm="pcdc",
        cc="cubic",
        buffer_bytes=max(1 << 20, 2 * sum(rates) * RTTS_MS[1] * 1000 // 8),
        seed=1,
        workload=Bulk(duration_ns=seconds * 1_000_000_000),
        pm_options={"active": ("A-X", "B-X")},
        initial_path="A-X",
    )
    with ExitStack() as stack:
        names = stack.enter_context(bpf.loaded([trial.cc]))
        named = interfaces(trial.topology)
        planned, between = plan(trial, names[trial.cc], named), links(trial, named)
        sites = stack.enter_context(Sites())
        emulator = stack.enter_context(sites.start_emulator())
        set_up(emulator, sites, between)
        probes = Probes(sites, between, stack)
        meter = start_load(sites, planned, stack) if rates else None
        before, end = Load.now(), time.monotonic() + seconds
        with suppress(PermissionError):  # otherwise the probes would be late, not the emulator
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        while time.monotonic() < end:
            probes.exchange()
            time.sleep(PROBE_GAP_S)
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        busy = before.share_until(Load.now())
        result = meter.expect("result", STEP_S) if meter else {}
        emulator.tell({"action": "stop"})
        report = emulator.expect("report", STEP_S)
    probes.errors_us.sort()
    return summary(report, result, probes) | {"busy_share": busy}


def set_up(emulator: Child, sites: Sites, between: Links) -> None:
    """Devices with their addresses, and the start of the network."""
    devices = sites.devices(between.interfaces)
    emulator.tell({"network": between.network, "seed": between.seed, "interfaces": devices})
    emulator.expect("ready", STEP_S)
    sites.configure(between.interfaces)
    emulator.tell({"action": "start"})


def start_load(sites: Sites, planned: Plan, stack: ExitStack) -> Meter[Child]:
    """Start a saturated connection on the first two paths; return the meter that will report its result."""
    manager, acceptor = (stack.enter_context(sites.start_agent("paths", side)) for side in SIDES)
    manager.tell({"side": "sender", "assignment": assignment.document(planned.assignment)})
    acceptor.tell({"side": "receiver"})
    for child in (manager, acceptor):
        child.expect("ready", STEP_S)
    meter = Meter(
        stack.enter_context(sites.start_agent("sender", "local")),
        stack.enter_context(sites.start_agent("receiver", "remote")),
    )
    for half in meter.halves:
        with suppress(PermissionError):
            os.sched_setscheduler(half.pid, os.SCHED_RR, os.sched_param(1))
    meter.listen(planned.meter, planned.address, planned.joins)
    meter.connect(*planned.initial)
    meter.expect("connected", STEP_S)
    return meter


def summary(report: dict[str, Any], result: dict[str, Any], probes: Probes) -> dict[str, Any]:
    """The result of a run."""
    packets, cpu_ns = report["packets"], report["cpu_ns"]
    return {
        "mbps": result["in_order_bytes"] * 8e3 / result["duration_ns"] if result else 0.0,
        "failed": result.get("failed"),
        "packets": packets,
        "processor_share": cpu_ns / report["elapsed_ns"],
        "us_per_packet": cpu_ns / 1e3 / packets,
        "late_us": {name: report[f"late_{name}_ns"] / 1e3 for name in ("p50", "p99", "max")},
        "probe_error_us": {
            "p50": quantile(probes.errors_us, 0.5),
            "p99": quantile(probes.errors_us, 0.99),
            "least": min(probes.errors_us),
        },
        "probes": probes.sent,
        "overflow": report["overflow"],
        "scheduling": report["scheduling"],
    }


def main(runs: int, seconds: int) -> None:
    """Run every case and print the table."""
    console = Console(width=150)
    console.print(", ".join(f"{key} {value}" for key, value in machine().items()), highlight=False)
    console.print(
        f"MPTCP, cubic, buffer of twice the rates times the larger RTT, two paths of {RTTS_MS[0]} and "
        f"{RTTS_MS[1]} ms for {seconds} s, probes on a third of {2 * PROBE_MS} ms; median (range) of {runs}"
    )
    table = Table(
        "paths, Mbit/s",
        "payload, Mbit/s",
        "emulator, processors",
        "us per packet",
        "late p50, us",
        "late p99, us",
        "probes +p50, us",
        "probes +p99, us",
        "overflow",
    )
    results: list[dict[str, Any]] = []
    for rates in CASES:
        measured = [in_fresh_process("benchmarks.speed.emulator", [rates, seconds]) for _ in range(runs)]

        def column(
            name: str, part: str | None = None, measured: list[dict[str, Any]] = measured
        ) -> list[float]:
            return [run[name] if part is None else run[name][part] for run in measured]

        table.add_row(
            " + ".join(map(str, rates)) or "only probes",
            spread(column("mbps"), 0),
            spread(column("processor_share")),
            spread(column("us_per_packet"), 1),
            spread(column("late_us", "p50"), 0),
            spread(column("late_us", "p99"), 0),
            spread(column("probe_error_us", "p50"), 0),
            spread(column("probe_error_us", "p99"), 0),
            f"{max(column('overflow'))}",
        )
        results.append({"rates_mbps": rates, "runs": measured})
    console.print(table)
    for result in results:
        for run in result["runs"]:
            if run["failed"]:
                console.print(f"{result['rates_mbps']}: the meter failed: {run['failed']}", style="yellow")
    write("emulator", {"seconds": seconds, "cases": results})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--seconds", type=int, default=SECONDS)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case is None:
        main(arguments.runs, arguments.seconds)
    else:
        json.dump(run_case(*json.loads(arguments.case)), sys.stdout)
