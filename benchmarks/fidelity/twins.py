"""Likeness of twins: a congestion control's BPF program on the kernel, its original in the simulator.

Every algorithm with a program runs over the networks of `networks/`, with fullmesh, a buffer of the sum of
the rates times the largest RTT and the same seeds on both sides; so do the kernel's own reno and cubic, whose
differences are not due to the programs. Twins agree in a network when mean throughputs differ by at most 10 %
and no subflow's share of the payload by more than 10 points. Overloaded trials are measured again, a few
times. The kernel's results are kept under target/benchmarks (--fresh measures them again). Prints tables and
writes JSON.
"""

import argparse
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.fidelity.throughput import NETWORKS, buffers, planned
from benchmarks.shared.kernel import valid_on_the_kernel
from benchmarks.shared.measure import machine, write
from benchmarks.shared.results import measured
from mptune.decision.comparison import CompareOptions, trial
from mptune.linux import bpf
from mptune.testbeds import create as testbed
from mptune.topology import Topology, load
from mptune.trial import Observation, PlannedTrial

#: The buffer of a network: the sum of the rates times the largest RTT.
BUFFER = 2
#: Largest difference of throughputs, and of shares, at which twins agree.
AGREE, AGREE_SHARE = 0.10, 0.10


class Case(NamedTuple):
    """An algorithm on a network, with its runs."""

    topology: Topology
    cc: str
    planned: tuple[PlannedTrial, ...]


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Results of both testbeds: means over the valid runs of the `runs` planned.

    Attributes
    ----------
    error : the simulator's, as a fraction of the kernel's throughput.
    share_error : largest difference of a subflow's share of the payload.
    """

    network: str
    cc: str
    runs: int
    counted: int
    simulated_mbps: float
    kernel_mbps: float
    error: float
    share_error: float

    @property
    def agrees(self) -> bool:
        """True if the twins are as alike as required."""
        return abs(self.error) <= AGREE and self.share_error <= AGREE_SHARE


def cases(topologies: Sequence[Topology], ccs: Sequence[str], asked: argparse.Namespace) -> list[Case]:
    """Every algorithm on every network."""
    cases = []
    for topology in topologies:
        size = buffers(topology)[BUFFER]
        for cc in ccs:
            options = CompareOptions(
                pms=("fullmesh",),
                ccs=(cc,),
                buffers=(size,),
                runs=asked.runs,
                duration_ns=round(asked.duration * 1e9),
                seed=asked.seed,
            )
            trials = [trial(topology, options, "fullmesh", cc, size, run) for run in range(asked.runs)]
            cases.append(Case(topology, cc, planned(trials)))
    return cases


def shares(observations: Sequence[Observation]) -> dict[str, float]:
    """Each subflow's share of the payload, mean over the runs."""
    shares: dict[str, list[float]] = {}
    for observation in observations:
        total = sum(subflow.bytes for subflow in observation.subflows) or 1
        for subflow in observation.subflows:
            shares.setdefault(subflow.path, []).append(subflow.bytes / total)
    return {path: sum(values) / len(observations) for path, values in shares.items()}


def pair(case: Case, kernel: Sequence[Observation | None]) -> Pair | None:
    """Both sides of a case; None without a valid result from the kernel."""
    both = [
        (planned.trial, observation)
        for planned, observation in zip(case.planned, kernel, strict=True)
        if observation is not None
    ]
    if not both:
        return None
    bed = testbed("simulated")
    original = [bed.run(trial) for trial, _ in both]
    twin = [observation for _, observation in both]
    simulated_bps, kernel_bps = (
        statistics.mean(observation.throughput_bps for observation in side) for side in (original, twin)
    )
    ours, theirs = shares(original), shares(twin)
    return Pair(
        network=case.topology.name,
        cc=case.cc,
        runs=len(case.planned),
        counted=len(both),
        simulated_mbps=simulated_bps / 1e6,
        kernel_mbps=kernel_bps / 1e6,
        error=simulated_bps / kernel_bps - 1,
        share_error=max(abs(ours.get(path, 0) - theirs.get(path, 0)) for path in ours | theirs),
    )


def print_pairs(pairs: Sequence[Pair]) -> None:
    """A table of all cases, and how many agree for each algorithm."""
    console = Console(width=110)
    columns = (
        "CC",
        "network",
        "runs",
        "simulated (Mbit/s)",
        "kernel (Mbit/s)",
        "error",
        "largest share error",
        "",
    )
    table = Table(*columns)
    for pair in pairs:
        table.add_row(
            pair.cc,
            pair.network,
            f"{pair.counted} of {pair.runs}",
            f"{pair.simulated_mbps:.1f}",
            f"{pair.kernel_mbps:.1f}",
            f"{100 * pair.error:+.1f} %",
            f"{100 * pair.share_error:.1f} points",
            "agree" if pair.agrees else "differ",
        )
    console.print(table)
    summary = Table("CC", "agree", "median error", "largest error", "largest share error")
    for cc in dict.fromkeys(pair.cc for pair in pairs):
        own = [pair for pair in pairs if pair.cc == cc]
        errors = sorted(abs(pair.error) for pair in own)
        summary.add_row(
            cc,
            f"{sum(pair.agrees for pair in own)} of {len(own)}",
            f"{100 * statistics.median(errors):.1f} %",
            f"{100 * errors[-1]:.1f} %",
            f"{100 * max(pair.share_error for pair in own):.1f} points",
        )
    console.print(summary)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--duration", type=float, default=20.0, help="duration of a trial, seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cc", action="append", help="only these; repeat")
    parser.add_argument("--only", action="append", help="only networks with this name; repeat")
    parser.add_argument("--fresh", action="store_true", help="measure the kernel again")
    asked = parser.parse_args()
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    topologies = [load(path) for path in sorted(NETWORKS.glob("*.toml"))]
    topologies = [topology for topology in topologies if not asked.only or topology.name in asked.only]
    topologies.sort(key=lambda topology: sum(path.rate_bps for path in topology.paths))
    chosen = cases(topologies, asked.cc or ["reno", "cubic", *bpf.programs()], asked)
    with (
        bpf.loaded(case.cc for case in chosen),
        measured("twins", fresh=asked.fresh) as store,
    ):
        kernel = [
            observation
            for topology in topologies
            for observation in valid_on_the_kernel(
                store,
                topology.name,
                [
                    planned_trial
                    for case in chosen
                    if case.topology is topology
                    for planned_trial in case.planned
                ],
            )
        ]
    pairs = [
        pair(case, kernel[number * asked.runs : (number + 1) * asked.runs])
        for number, case in enumerate(chosen)
    ]
    known = sorted((pair for pair in pairs if pair is not None), key=lambda pair: (pair.cc, pair.network))
    print_pairs(known)
    result: list[dict[str, Any]] = [msgspec.to_builtins(pair) | {"agrees": pair.agrees} for pair in known]
    write("twins", result)


if __name__ == "__main__":
    main()
