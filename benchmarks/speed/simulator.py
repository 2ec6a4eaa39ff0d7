"""Speed and memory of the simulator: delivered data packets per second of one core.

Each case runs under two stacks: with buffers of payload and the scheduler minrtt, and as upstream Linux,
with socket memory and the kernel's scheduler. The last two columns are the time per packet delivered in
order, and per packet sent, over that of the first stack. What is sent includes retransmissions and what
another subflow repeats. A packet delivered stands for a segment's worth of payload in order, of which Linux
sends a little less in each. Seconds are those of the processor, which others on the machine lengthen least.
Cases: two disjoint paths with drop-tail queues of one bandwidth-delay product, uncoupled and coupled, at
100 + 50 and at 1000 + 500 Mbit/s; the eight subflows of SRL-HU; and one trial of a campaign (UNIS-HiN,
about 300 Mbit/s for 30 s). Each case has its own process.
"""

import argparse
import json
import resource
import statistics
import sys
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.shared.measure import in_fresh_process, machine, spread, write
from mptune import _core
from mptune.topology import load
from mptune.trial import MSS

RUNS = 5

#: Members of the trial by the name of its column.
STACKS: dict[str, dict[str, str]] = {
    "payload": {"scheduler": "minrtt", "accounting": "payload"},
    "linux": {"scheduler": "kernel", "accounting": "linux"},
}

#: Packets per second of processor time: delivered in order, and sent.
RATES = ("packets_per_s", "packets_sent_per_s")

#: name, topology (Mbit/s of two paths, or a shipped scenario), congestion control, simulated seconds
CASES: list[tuple[str, list[int] | str, str, int]] = [
    ("100 + 50 Mbit/s, uncoupled", [100, 50], "reno", 600),
    ("100 + 50 Mbit/s, coupled", [100, 50], "olia", 600),
    ("1000 + 500 Mbit/s, uncoupled", [1000, 500], "reno", 60),
    ("1000 + 500 Mbit/s, coupled", [1000, 500], "olia", 60),
    ("SRL-HU, 8 subflows", "SRL-HU", "cubic", 300),
    ("UNIS-HiN, one trial of a campaign", "UNIS-HiN", "cubic", 30),
]


def two_paths(rates_mbps: list[int]) -> dict[str, Any]:
    """Disjoint paths of 10 and 20 ms one-way delay, queues of one bandwidth-delay product."""
    links, paths = [], []
    for number, (rate, delay_ms) in enumerate(zip(rates_mbps, (10, 20), strict=True)):
        queue = rate * 1_000_000 // 8 * 2 * delay_ms // 1000
        for direction in ("there", "back"):
            links.append(
                {
                    "name": f"path {number} {direction}",
                    "rate_bps": rate * 1_000_000,
                    "delay_ns": delay_ms * 1_000_000,
                    "queue_bytes": queue,
                }
            )
        label = f"{number}-0"
        ways = {"forward": [2 * number], "reverse": [2 * number + 1]}
        paths.append({"label": label, "local": number, "remote": 0, **ways})
    return {"links": links, "paths": paths}


def run_case(topology: list[int] | str, cc: str, seconds: int, stack: str) -> dict[str, float]:
    """One trial over the two paths or the scenario."""
    network = load(topology).network() if isinstance(topology, str) else two_paths(topology)
    return timed(network, cc, seconds, stack)


def timed(network: dict[str, Any], cc: str, seconds: int, stack: str) -> dict[str, float]:
    """One trial over this network (as the core's JSON has it), timed in this process."""
    trial = {
        "network": network,
        "pm": "fullmesh",
        "cc": cc,
        "buffer_bytes": 16 << 20,
        "mss": MSS,
        "seed": 1,
        "workload": {"kind": "bulk", "duration_ns": seconds * 1_000_000_000},
        **STACKS[stack],
    }
    encoded = json.dumps(trial).encode()
    start, start_cpu = time.perf_counter(), time.process_time()
    outcome = json.loads(_core.simulate(encoded))
    wall_s, cpu_s = time.perf_counter() - start, time.process_time() - start_cpu
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    packets = outcome["in_order_bytes"] / MSS
    sent = sum(subflow["sent"] for subflow in outcome["subflows"])
    return {
        "wall_s": wall_s,
        "packets": packets,
        "packets_sent": sent,
        "cpu_s": cpu_s,
        "packets_per_s": packets / cpu_s,
        "packets_sent_per_s": sent / cpu_s,
        "simulated_s_per_s": seconds / cpu_s,
        "events_per_packet": outcome["events"] / packets,
        "mbps": outcome["in_order_bytes"] * 8e3 / outcome["duration_ns"],
        "process_mib": peak_kib / 1024,
    }


def of(runs: list[dict[str, Any]], key: str, factor: float = 1.0) -> list[float]:
    """One figure of every run."""
    return [run[key] * factor for run in runs]


def slower(results: dict[str, list[dict[str, Any]]], rate: str) -> str:
    """Time per packet under the stack linux relative to payload accounting."""
    payload, linux = (statistics.median(of(results[stack], rate)) for stack in STACKS)
    return f"x {payload / linux:.2f}"


def main() -> None:
    """Run every case and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument(
        "--part", type=float, default=1.0, help="part of the simulated time, for a short look"
    )
    asked = parser.parse_args()
    if asked.case is not None:
        json.dump(run_case(*json.loads(asked.case)), sys.stdout)
        return
    console = Console(width=180)
    about = machine()
    console.print(", ".join(f"{key} {value}" for key, value in about.items()), highlight=False)
    console.print(f"one saturated connection, fullmesh, 16 MiB of buffer; median (range) of {asked.runs}")
    columns = ("million packets/s", "sent/packet", "simulated s/s", "events/packet", "wall s", "peak MiB")
    table = Table("case", "stack", "Mbit/s", *columns, "time per packet", "per packet sent")
    results = []
    for name, topology, cc, whole_s in CASES:
        seconds = max(1, round(asked.part * whole_s))
        by_stack: dict[str, list[dict[str, Any]]] = {stack: [] for stack in STACKS}
        for _ in range(asked.runs):  # taking turns: what else the machine does concerns both
            for stack, runs in by_stack.items():
                runs.append(in_fresh_process("benchmarks.speed.simulator", [topology, cc, seconds, stack]))
        for stack, runs in by_stack.items():
            table.add_row(
                *(name if stack == "payload" else "", stack, f"{runs[0]['mbps']:.1f}"),
                spread(of(runs, "packets_per_s", 1e-6)),
                f"{runs[0]['packets_sent'] / runs[0]['packets']:.2f}",
                f"{statistics.median(of(runs, 'simulated_s_per_s')):.0f}",
                f"{runs[0]['events_per_packet']:.2f}",
                spread(of(runs, "wall_s")),
                f"{statistics.median(of(runs, 'process_mib')):.1f}",
                *("" if stack == "payload" else slower(by_stack, per) for per in RATES),
            )
        results.append({"case": name, "cc": cc, "simulated_s": seconds, "runs": by_stack})
    console.print(table)
    write("simulator", results)


if __name__ == "__main__":
    main()
