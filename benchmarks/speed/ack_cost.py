"""Cost of an ACK in the BPF congestion controls: run time of their hooks, as the kernel counts it.

Each algorithm sends over networks of two, four and six paths on the namespaces testbed while the kernel keeps
statistics of BPF programs (switched off again afterwards, even after a kill). Each time includes the two
clock readings of the statistics; caches are as cold as real traffic leaves them. Prints a table and writes
JSON. Needs root and what `mptune doctor` requires.
"""

import argparse
import statistics
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.shared.measure import machine, spread, write
from mptune.linux import bpf
from mptune.testbeds import create as testbed
from mptune.topology import load
from mptune.trial import Bulk, Trial

NETWORKS = Path(__file__).parents[1] / "networks"
CASES = (("two-alike", 2), ("four-shared", 4), ("six-mixed", 6))
BUFFER_BYTES = 4 * 2**20
#: The kernel counts calls and times of BPF programs while this is 1.
COUNTING = Path("/proc/sys/kernel/bpf_stats_enabled")


def measure(cc: str, network: str, duration_ns: int, seed: int) -> dict[str, Any]:
    """Calls and ns per call of each hook in one trial, by the hook's name as the kernel truncates it."""
    trial = Trial(
        topology=load(NETWORKS / f"{network}.toml"),
        pm="fullmesh",
        cc=cc,
        buffer_bytes=BUFFER_BYTES,
        seed=seed,
        workload=Bulk(duration_ns=duration_ns),
    )
    COUNTING.write_text("1")
    try:
        with bpf.loaded([cc]) as names:
            observation = testbed("namespaces").run(trial)
            (link,) = [program for program in bpf.registered() if program["name"] == names[cc]]
            hooks = [hook for hook in link["hooks"] if hook["calls"]]
    finally:
        COUNTING.write_text("0")
    return {
        "mbit_s": observation.throughput_bps / 1e6,
        "hooks": {
            hook["name"].removeprefix(f"{cc}_"): {"calls": hook["calls"], "ns": hook["ns"] / hook["calls"]}
            for hook in hooks
        },
        "total_ns": sum(hook["ns"] for hook in hooks),
        "acks": max(hook["calls"] for hook in hooks),
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cc", help="congestion controls, with commas (every one that has a program)")
    parser.add_argument("--duration", type=float, default=5.0, help="duration of a trial, seconds")
    asked = parser.parse_args()
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    table = Table("CC", "subflows", "calls", "cong_avoid (ns)", "all hooks (ns per ACK)")
    results = []
    for cc in asked.cc.split(",") if asked.cc else bpf.programs():
        for network, subflows in CASES:
            runs = [measure(cc, network, round(asked.duration * 1e9), seed) for seed in range(asked.runs)]
            growth = [
                hook["ns"] for run in runs for name, hook in run["hooks"].items() if name.startswith("cong")
            ]
            whole = [run["total_ns"] / run["acks"] for run in runs]
            calls = statistics.median(run["acks"] for run in runs)
            table.add_row(cc, str(subflows), f"{calls:.0f}", spread(growth, 0), spread(whole, 0))
            results.append({"cc": cc, "subflows": subflows, "runs": runs})
    Console(width=110).print(table)
    write("ack_cost", results)


if __name__ == "__main__":
    main()
