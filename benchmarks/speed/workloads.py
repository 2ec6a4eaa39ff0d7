"""Speed of simulated trials by workload: payload per second of processor time, beside a saturated sender.

Two paths of 100 and 50 Mbit/s, fullmesh and cubic, the stack linux. A packet is a full segment of payload, so
that short responses, which need a request and ACKs of their own, look slower than they are: the events of a
packet, and what each takes, tell the two apart. The outcome is read as the testbed does it.
"""

import argparse
import json
import statistics
import time
from typing import Any, NamedTuple

import msgspec
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


class Timed(NamedTuple):
    """A trial: full segments of payload, events of the simulation, and seconds of processor time."""

    packets: float
    events: int
    seconds: float


def timed(workload: dict[str, Any]) -> Timed:
    """Run one trial."""
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
    outcome = msgspec.json.decode(_core.simulate(encoded))
    seconds = time.process_time() - start
    return Timed(outcome["in_order_bytes"] / MSS, outcome["events"], seconds)


def main() -> None:
    """Time every workload in turn, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    runs = parser.parse_args().runs
    trials: dict[str, list[Timed]] = {name: [] for name in WORKLOADS}
    for _ in range(runs):
        for name, workload in WORKLOADS.items():
            trials[name].append(timed(workload))
    rates = {name: [one.packets / one.seconds for one in measured] for name, measured in trials.items()}
    bulk = statistics.median(rates["bulk"])
    table = Table("workload", "million packets/s", "of bulk", "events/packet", "million events/s")
    for name, measured in trials.items():
        median = statistics.median(rates[name])
        events = statistics.median(one.events / one.seconds for one in measured)
        per_packet = measured[0].events / measured[0].packets
        row = f"{median / 1e6:.2f}", f"{median / bulk:.2f}", f"{per_packet:.2f}", f"{events / 1e6:.2f}"
        table.add_row(name, *row)
    console = Console(width=100)
    console.print(", ".join(f"{key} {value}" for key, value in machine().items()), highlight=False)
    console.print(table)
    write("speed_workloads", {"packets_per_s": rates})


if __name__ == "__main__":
    main()
