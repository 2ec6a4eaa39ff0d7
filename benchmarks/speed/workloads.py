"""Speed of simulated trials by workload: payload per second of processor time, beside a saturated sender.

Two paths of 100 and 50 Mbit/s, fullmesh and cubic, the stack linux. A packet is a full segment of payload, so
that short responses, which need a request and ACKs of their own, look slower than they are.
"""

import argparse
import json
import statistics
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.shared.measure import machine, write
from benchmarks.speed.simulator import STACKS, two_paths
from mptune import _core
from mptune.trial import MSS

SECOND = 1_000_000_000
SECONDS, RUNS = 60, 5

_ASKING = {"kind": "requests", "request_bytes": 400, "patience_ns": 10 * SECOND}
WORKLOADS: dict[str, dict[str, Any]] = {
    "bulk": {"kind": "bulk"},
    "requests, 1 MiB": {**_ASKING, "response_bytes": 2**20},
    "requests, 64 KiB, two at once": {**_ASKING, "response_bytes": 2**16, "at_once": 2},
    "requests, 64 KiB, think 1 s": {**_ASKING, "response_bytes": 2**16, "think_ns": SECOND},
    "requests, 1 KiB": {**_ASKING, "response_bytes": 2**10},
}


def packets_per_s(workload: dict[str, Any]) -> float:
    """Full segments of payload that one trial delivers per second of processor time."""
    trial = {
        "network": two_paths([100, 50]),
        "pm": "fullmesh",
        "cc": "cubic",
        "buffer_bytes": 4 << 20,
        "mss": MSS,
        "seed": 1,
        "workload": {**workload, "duration_ns": SECONDS * SECOND},
        **STACKS["linux"],
    }
    encoded = json.dumps(trial).encode()
    start = time.process_time()
    outcome = json.loads(_core.simulate(encoded))
    return float(outcome["in_order_bytes"] / MSS / (time.process_time() - start))


def main() -> None:
    """Time every workload in turn, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    runs = parser.parse_args().runs
    rates: dict[str, list[float]] = {name: [] for name in WORKLOADS}
    for _ in range(runs):
        for name, workload in WORKLOADS.items():
            rates[name].append(packets_per_s(workload))
    bulk = statistics.median(rates["bulk"])
    table = Table("workload", "million packets/s", "of bulk")
    for name, measured in rates.items():
        median = statistics.median(measured)
        table.add_row(name, f"{median / 1e6:.2f}", f"{median / bulk:.2f}")
    console = Console(width=100)
    console.print(", ".join(f"{key} {value}" for key, value in machine().items()), highlight=False)
    console.print(table)
    write("speed_workloads", {"packets_per_s": rates})


if __name__ == "__main__":
    main()
