"""Limits of buffers that the daemon's rule adapts, beside a fixed answer and beside a kernel's default.

For each drawn network a run's curve is measured first: FullMesh with Cubic on Linux, buffers that grow up to
a limit. The fixed answer is the first limit of the curve that gives 95 % of its maximum. Then the rule of
`[buffers]` has that curve, begins at 256 KiB, and sees 40 intervals: each is a trial of a connection of its
own under the limit of then. All this on the network as it was measured, and on the same with round trips that
have become three times as long, of which the curve knows nothing. Prints a table and writes JSON; with
--write-docs the table goes into the docs.
"""

import argparse
import math
import statistics
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from benchmarks.shared import docs
from benchmarks.shared.measure import machine, write
from benchmarks.shared.random_networks import random_network
from mptune._core import LimitRule
from mptune.runner.planning import plan_trials
from mptune.runner.running import run_trials
from mptune.testbeds import create as testbed
from mptune.topology import Topology
from mptune.trial import Bulk, Configuration, Observation
from mptune.trial.stacks import STACKS
from mptune.units import MIB, format_size

DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "daemon.md"

#: Bounds of the limit, and the limits of the curve: octaves.
LEAST, MOST = MIB // 16, 16 * MIB
SIZES = tuple(LEAST << power for power in range(9))
#: The limit at first, that of older kernels for receive buffers, and the share that is enough.
FIRST, DEFAULT, TARGET = MIB // 4, 6 * MIB, 0.95
#: Intervals of the rule; the last ones count, as they show what it has come to.
INTERVALS, LAST = 40, 5
#: Round trips on the network that has changed, as a multiple.
LONGER = 3
SECONDS = 10

NETWORKS = ("as measured", "round trips 3 times as long")
LIMITS = ("adapted", "fixed answer", "6 MiB")


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A limit on a network.

    Attributes
    ----------
    network : which of `NETWORKS`.
    limit_bytes : the limit; of the rule, the mean of the last intervals.
    mbps : throughput, Mbit/s.
    best_mbps : the highest throughput of all limits there, Mbit/s.
    """

    topology: str
    network: str
    limit: str
    limit_bytes: float
    mbps: float
    best_mbps: float


def longer(topology: Topology) -> Topology:
    """The same with round trips that are longer."""
    paths = (
        replace(
            path,
            core=replace(
                path.core, forward_ns=path.core.forward_ns * LONGER, reverse_ns=path.core.reverse_ns * LONGER
            ),
        )
        for path in topology.paths
    )
    return replace(topology, paths=tuple(paths))


def observed(topology: Topology, limit: int, first: int, runs: int = 1) -> list[Observation]:
    """Trials under a limit, with seeds by the number of the run."""
    configuration = Configuration(
        pm="fullmesh",
        cc="cubic",
        buffer_bytes=limit,
        buffer_mode="auto",
        workload=Bulk(duration_ns=SECONDS * 10**9),
        stack=STACKS["linux"],
    )
    planned = plan_trials(topology, [configuration], purpose="sweep", runs=runs, base_seed=1, first=first)
    return run_trials(testbed("simulated"), [each.trial for each in planned], workers=1)


def rate(observations: Sequence[Observation]) -> float:
    """Mean throughput, Mbit/s; a failed trial counts as what it delivered."""
    return statistics.fmean(observation.throughput_bps for observation in observations) / 1e6


def curve(topology: Topology, runs: int) -> list[tuple[int, float]]:
    """Throughput over the limit, points of bytes and Mbit/s."""
    return [(size, rate(observed(topology, size, 0, runs))) for size in SIZES]


def adapted(topology: Topology, points: list[tuple[int, float]]) -> tuple[float, float]:
    """Limit (bytes) and throughput (Mbit/s) of the last intervals under the rule."""
    rule, limit = LimitRule(LEAST, MOST, TARGET, FIRST, points), FIRST
    seen: list[tuple[int, float]] = []
    for interval in range(INTERVALS):
        (observation,) = observed(topology, limit, 1000 + interval)
        mbps = observation.throughput_bps / 1e6
        seen.append((limit, mbps))
        pipe = math.fsum(flow.bytes * flow.min_rtt_ns for flow in observation.subflows)
        held = float(observation.metadata["window_limited_ns"])
        limit, _ = rule.step(mbps, pipe / observation.duration_ns, held / observation.duration_ns)
    last = seen[-LAST:]
    return statistics.fmean(size for size, _ in last), statistics.fmean(mbps for _, mbps in last)


def smallest(points: Sequence[tuple[int, float]]) -> int:
    """The first measured limit that gives the target."""
    goal = TARGET * max(mbps for _, mbps in points)
    return next(size for size, mbps in points if mbps >= goal)


def cases(number: int, runs: int) -> list[Case]:
    """All limits on a drawn network, as it was measured and as it has become."""
    topology = random_network(number)
    points = curve(topology, runs)
    answer = smallest(points)
    rows = []
    for network, there in zip(NETWORKS, (topology, longer(topology)), strict=True):
        truth = points if there is topology else curve(there, runs)
        limit, mbps = adapted(there, points)
        fixed = (rate(observed(there, size, 1000 + INTERVALS - LAST, LAST)) for size in (answer, DEFAULT))
        measured = {
            "adapted": (limit, mbps),
            **dict(zip(LIMITS[1:], zip((answer, DEFAULT), fixed, strict=True), strict=True)),
        }
        best = max(mbps for _, mbps in truth)
        rows += [
            Case(
                topology=topology.name,
                network=network,
                limit=name,
                limit_bytes=size,
                mbps=mbps,
                best_mbps=best,
            )
            for name, (size, mbps) in measured.items()
        ]
    return rows


COLUMNS = ("network", "limit", "median of the best throughput", "lowest", "below 90 %", "median limit")


def table(found: Sequence[Case]) -> list[list[str]]:
    """A row for each limit on each network."""
    rows = []
    for network in NETWORKS:
        for name in LIMITS:
            chosen = [case for case in found if (case.network, case.limit) == (network, name)]
            shares = [case.mbps / case.best_mbps for case in chosen]
            size = statistics.median(case.limit_bytes for case in chosen)
            rows.append(
                [
                    network,
                    name,
                    f"{statistics.median(shares):.2f}",
                    f"{min(shares):.2f}",
                    f"{sum(share < 0.9 for share in shares)} of {len(shares)}",
                    format_size(round(size), 2),
                ]
            )
    return rows


def arguments() -> argparse.Namespace:
    """The scope of the measurement."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--first", type=int, default=52_000, help="seed of the first network")
    parser.add_argument("--networks", type=int, default=20)
    parser.add_argument("--runs", type=int, default=3, help="of each limit of a curve")
    parser.add_argument("--jobs", type=int, default=2, help="networks in parallel")
    parser.add_argument("--write-docs", action="store_true", help="put the table into the docs too")
    return parser.parse_args()


def main() -> int:
    """Measure, print, write; the exit status is 0 if the rule has 90 % of the best at the median."""
    asked = arguments()
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    found: list[Case] = []
    with ThreadPoolExecutor(asked.jobs) as executor:
        numbers = range(asked.first, asked.first + asked.networks)
        for rows in executor.map(partial(cases, runs=asked.runs), numbers):
            found += rows
            for case in rows:
                size = format_size(round(case.limit_bytes), 2)
                words = f"{case.mbps:.4g} of {case.best_mbps:.4g} Mbit/s with {size}"
                print(f"{case.topology}, {case.network}, {case.limit}: {words}", flush=True)
    lines = table(found)
    shown = Table(*COLUMNS, title="Limits of buffers", title_justify="left")
    for line in lines:
        shown.add_row(*line)
    Console(width=140).print(shown)
    write("limits", [msgspec.to_builtins(case) for case in found])
    if asked.write_docs:
        text = "\n".join(
            f"| {' | '.join(line)} |" for line in [list(COLUMNS), ["---"] * len(COLUMNS), *lines]
        )
        last = asked.first + asked.networks - 1
        command = "`python -m benchmarks.decision.limits`"
        about = f"Networks {asked.first} to {last}, mptune {machine()['mptune']}, {command}."
        docs.replace(DOCS, "daemon-limits", f"{text}\n\n{about}")
        print(f"written to {DOCS}")
    medians = [float(line[2]) for line in lines if line[1] == "adapted"]
    return int(min(medians) < 0.9)


if __name__ == "__main__":
    sys.exit(main())
