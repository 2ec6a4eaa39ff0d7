"""Delays of messages and completion times of transfers under path policies, on drawn networks of two paths.

Each path has a rate of 1 to 100 Mbit/s, an RTT of 10 to 300 ms (log-uniform), a queue of half a
bandwidth-delay product to four, and every second one a loss of 0.01 % to 1 %; the first is the initial path.
Buffers grow as hosts' do. Messages come for a minute. A row compares the window algorithm alone with its
pairs, network by network: geometric means of the figures and of their ratios to it, and the ratio that 95 %
of the networks stay below.

The rules were tried on the networks from seed 7000 on; FIRST_SEED has others. With --write-docs the table
goes to docs/explanation/scheduling.md. `--testbed virtual:7.3` takes a kernel for guests.
"""

import argparse
import statistics
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.decision._ratios import quantile
from benchmarks.decision.path_policies import DOCS
from benchmarks.shared import docs
from benchmarks.shared.measure import machine, write
from benchmarks.shared.random_networks import LOSS_PPB, QUEUE_BDPS, Draw, wide_site
from mptune.testbeds import create as testbed
from mptune.topology import CoreSegment, Path, Topology
from mptune.trial import Messages, Transfer, Trial

FIRST_SEED = 20261129
NETWORKS = 200
LIMIT = 4 * 2**20
_MBPS, _MS, _S = 1_000_000, 1_000_000, 1_000_000_000
RATE_BPS = (1 * _MBPS, 100 * _MBPS)
RTT_NS = (10 * _MS, 300 * _MS)
LEAST_QUEUE = 15_000
POLICIES = ("hold", "quick")
WORKLOADS: dict[str, Messages | Transfer] = {
    "200 B every 100 ms": Messages(bytes=200, interval_ns=100 * _MS, duration_ns=60 * _S),
    "5 kB every 100 ms": Messages(bytes=5_000, interval_ns=100 * _MS, duration_ns=60 * _S),
    "20 kB every 250 ms": Messages(bytes=20_000, interval_ns=250 * _MS, duration_ns=60 * _S),
    "transfer of 30 kB": Transfer(bytes=30_000),
    "transfer of 300 kB": Transfer(bytes=300_000),
    "transfer of 3 MB": Transfer(bytes=3_000_000),
}
#: What stands for a message or transfer that never arrives.
NEVER_NS = 60 * _S


class Job(NamedTuple):
    """A trial."""

    seed: int
    workload: str
    cc: str
    testbed: str


class Comparison(NamedTuple):
    """A figure of a workload: for each congestion control its values, ms, by network."""

    workload: str
    figure: str
    values: dict[str, list[float]]


def network(seed: int) -> Topology:
    """Two paths with bottlenecks of their own."""
    draw = Draw(seed)
    sender, receiver = wide_site("S", "AB"), wide_site("R", "X")
    paths = tuple(
        Path(
            label=f"{local.abbr}-X",
            local_index=number,
            remote_index=0,
            local=local,
            remote=receiver.interfaces[0],
            core=_core(draw),
        )
        for number, local in enumerate(sender.interfaces)
    )
    return Topology(
        name=f"messages-{seed}",
        description="two paths with bottlenecks of their own",
        sender=sender,
        receiver=receiver,
        paths=paths,
        initial_path=paths[0].label,
        lsrr_honoured=False,
        provenance={},
        file="",
    )


def _core(draw: Draw) -> CoreSegment:
    rate, rtt = int(draw.uniform(*RATE_BPS)), int(draw.uniform(*RTT_NS))
    loss = int(draw.uniform(LOSS_PPB[0], 2 * LOSS_PPB[1])) if draw.below(2) else 0
    product = rate * rtt // (8 * _S)
    return CoreSegment(
        forward_ns=rtt // 2,
        reverse_ns=rtt - rtt // 2,
        jitter_ns=0,
        loss_ppb=loss,
        rate_bps=rate,
        queue_bytes=max(int(draw.uniform(*QUEUE_BDPS) * product), LEAST_QUEUE),
    )


def figures(job: Job) -> dict[str, float]:
    """Figures of a trial, ms: the median and the 99th percentile, or the completion time."""
    trial = Trial(
        topology=network(job.seed),
        pm="fullmesh",
        cc=job.cc,
        buffer_mode="auto",
        buffer_bytes=LIMIT,
        seed=1,
        workload=WORKLOADS[job.workload],
    )
    observation = testbed(job.testbed).run(trial)
    if isinstance(trial.workload, Transfer):
        return {"completion": (observation.completion_ns or NEVER_NS) / _MS}
    delays = observation.delays_ns or [NEVER_NS]
    return {"median": quantile(delays, 0.5) / _MS, "99 %": quantile(delays, 0.99) / _MS}


def compare(arguments: argparse.Namespace) -> list[Comparison]:
    """All trials."""
    ccs = [arguments.cc, *(f"{arguments.cc}+{policy}" for policy in POLICIES)]
    seeds = range(FIRST_SEED, FIRST_SEED + arguments.networks)
    jobs = [Job(seed, name, cc, arguments.testbed) for name in WORKLOADS for cc in ccs for seed in seeds]
    with ProcessPoolExecutor() as pool:
        found = pool.map(figures, jobs, chunksize=1)
        done = list(track(found, "trials", total=len(jobs), console=Console(stderr=True)))
    values: dict[tuple[str, str], dict[str, list[float]]] = {}
    for job, figure in zip(jobs, done, strict=True):
        for name, ms in figure.items():
            values.setdefault((job.workload, name), {}).setdefault(job.cc, []).append(ms)
    return [Comparison(workload, name, by_cc) for (workload, name), by_cc in values.items()]


def table(comparisons: Sequence[Comparison]) -> list[list[str]]:
    """A row for each figure."""
    alone, *pairs = comparisons[0].values
    heads = [[f"{pair}, ms", f"of {alone}", "95 %", "lowest", "highest"] for pair in pairs]
    rows = [["workload", "figure", f"{alone}, ms", *(cell for head in heads for cell in head)]]
    for workload, figure, values in comparisons:
        row = [workload, figure, f"{statistics.geometric_mean(values[alone]):.1f}"]
        for pair in pairs:
            ratios = [ms / other for ms, other in zip(values[pair], values[alone], strict=True)]
            row += [
                f"{statistics.geometric_mean(values[pair]):.1f}",
                f"{statistics.geometric_mean(ratios):.2f}",
            ]
            row += [f"{number:.2f}" for number in (quantile(ratios, 0.95), min(ratios), max(ratios))]
        rows.append(row)
    return rows


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--testbed", default="simulated", help="simulated or virtual:RELEASE (simulated)")
    parser.add_argument("--cc", default="cubic", help="window algorithm (cubic)")
    parser.add_argument("--networks", type=int, default=NETWORKS, help=f"how many ({NETWORKS})")
    parser.add_argument("--write-docs", action="store_true", help=f"write the table into {DOCS.name}")
    arguments = parser.parse_args()
    comparisons = compare(arguments)
    lines = table(comparisons)
    printed = Table(*lines[0])
    for line in lines[1:]:
        printed.add_row(*line)
    Console(width=200).print(printed)
    kept = {"machine": machine(), "networks": arguments.networks, "table": lines}
    kept["comparisons"] = msgspec.to_builtins([comparison._asdict() for comparison in comparisons])
    name = arguments.testbed.partition(":")[0]
    write(f"messages-{name}", kept)
    if arguments.write_docs:
        content = "\n".join([f"{arguments.networks} networks:", "", *docs.table(lines)])
        docs.replace(DOCS, f"messages, {name}", content)


if __name__ == "__main__":
    main()
