"""Speed and memory of the simulator: delivered data packets per wall-clock second on one core.

Cases: two disjoint paths with drop-tail queues of one bandwidth-delay product, uncoupled and
coupled, at 100 + 50 and at 1000 + 500 Mbit/s; the eight subflows of SRL-HU; and one trial of a
campaign (UNIS-HiN, about 300 Mbit/s for 30 s). Each case runs in its own process.
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

from _measure import in_fresh_process, machine, spread, write
from mptune import _core
from mptune.testbeds import MSS
from mptune.topology import load

RUNS = 5

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


def run_case(topology: list[int] | str, cc: str, seconds: int) -> dict[str, float]:
    """One trial, timed in this process."""
    network = load(topology).network() if isinstance(topology, str) else two_paths(topology)
    trial = {
        "network": network,
        "pm": "fullmesh",
        "cc": cc,
        "scheduler": "minrtt",
        "buffer_bytes": 16 << 20,
        "mss": MSS,
        "seed": 1,
        "duration_ns": seconds * 1_000_000_000,
        "deadline_ns": seconds * 1_000_000_000,
    }
    encoded = json.dumps(trial).encode()
    start = time.perf_counter()
    outcome = json.loads(_core.simulate(encoded))
    wall_s = time.perf_counter() - start
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    packets = outcome["in_order_bytes"] / MSS
    return {
        "wall_s": wall_s,
        "packets": packets,
        "packets_per_s": packets / wall_s,
        "simulated_s_per_s": seconds / wall_s,
        "events_per_packet": outcome["events"] / packets,
        "mbps": outcome["in_order_bytes"] * 8e3 / outcome["duration_ns"],
        "process_mib": peak_kib / 1024,
    }


def main() -> None:
    """Run every case and print the table."""
    console = Console(width=120)
    about = machine()
    console.print(", ".join(f"{key} {value}" for key, value in about.items()), highlight=False)
    console.print(f"one saturated connection, fullmesh, minrtt, 16 MiB of buffer; median (range) of {RUNS}")
    table = Table("case", "million packets/s", "simulated s/s", "events/packet", "wall s", "peak MiB")
    results = []
    for name, topology, cc, seconds in CASES:
        runs = [in_fresh_process(__file__, [topology, cc, seconds]) for _ in range(RUNS)]

        def column(key: str, runs: list[dict[str, Any]] = runs) -> list[float]:
            return [run[key] for run in runs]

        table.add_row(
            name,
            spread([value / 1e6 for value in column("packets_per_s")]),
            f"{statistics.median(column('simulated_s_per_s')):.0f}",
            f"{runs[0]['events_per_packet']:.2f}",
            spread(column("wall_s")),
            f"{statistics.median(column('process_mib')):.1f}",
        )
        results.append({"case": name, "cc": cc, "simulated_s": seconds, "runs": runs})
    console.print(table)
    write("simulator", results)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    case = parser.parse_args().case
    if case is None:
        main()
    else:
        json.dump(run_case(*json.loads(case)), sys.stdout)
