"""Gain of PCDC over fullmesh (PCDC, section VI-A: 11.65 % with Cubic, 133 % with OLIA), on both testbeds.

From Bergen to Svalbard as the paper's tables describe it, and with losses on every path but the research
network's own; the buffer is 16 MiB as in the paper. PCDC has the paper's optional set, or only the best path.
The simulator counts a buffer's payload, or the memory that Linux charges. Overloaded trials are measured
again, a few times. The kernel's results are kept under target/benchmarks (--fresh measures them again).
Prints a table with 95 % intervals of the means and writes JSON.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.shared.kernel import valid_on_the_kernel
from benchmarks.shared.measure import machine, write
from benchmarks.shared.results import measured
from mptune.linux import bpf
from mptune.runner.seeds import seed_for
from mptune.statistics import Summary, summarise
from mptune.testbeds import create as testbed
from mptune.topology import Topology, load
from mptune.trial import Bulk, Observation, PlannedTrial, Trial

ROOT = Path(__file__).parents[1]
NETWORKS = (
    ROOT.parent / "scenarios" / "UiB-UNIS.toml",
    ROOT / "networks" / "contended" / "UiB-UNIS-lossy.toml",
)
BUFFER_BYTES = 16 * 2**20
#: Active paths: None is fullmesh, otherwise PCDC's optional set. First those of the paper (section VI-A).
ARMS: dict[str, tuple[tuple[str, ...] | None, ...]] = {
    "cubic": (None, ("U-U",)),
    "olia": (None, ("U-U", "U-T"), ("U-U",)),
}
#: Names of the simulator's two accountings and of the kernel.
BEDS = ("payload", "linux", "kernel")
#: Runs in the simulator, where they are cheap.
SIMULATED_RUNS = 10


class Case(NamedTuple):
    """One congestion control with one set of active paths on one network."""

    topology: Topology
    cc: str
    active: tuple[str, ...] | None


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a case.

    Attributes
    ----------
    throughput_mbps : on each of `BEDS`.
    gain : of the means over fullmesh's, on each; 0 for fullmesh.
    shares : of the payload by path, mean of the kernel's runs.
    """

    network: str
    cc: str
    active: tuple[str, ...] | None
    throughput_mbps: dict[str, Summary]
    gain: dict[str, float]
    shares: dict[str, float]


def trials(case: Case, asked: argparse.Namespace, runs: int) -> list[Trial]:
    """One trial for each run."""
    return [
        Trial(
            topology=case.topology,
            pm="fullmesh" if case.active is None else "pcdc",
            pm_options={} if case.active is None else {"active": case.active},
            cc=case.cc,
            buffer_bytes=BUFFER_BYTES,
            seed=seed_for(asked.seed, "sweep", run),
            workload=Bulk(duration_ns=round(asked.duration * 1e9)),
        )
        for run in range(runs)
    ]


def simulated(case: Case, asked: argparse.Namespace, accounting: str) -> list[Observation]:
    """Runs in the simulator."""
    bed = testbed("simulated")
    return [
        bed.run(msgspec.structs.replace(trial, accounting=accounting))
        for trial in trials(case, asked, SIMULATED_RUNS)
    ]


def on_kernel(cases: Sequence[Case], asked: argparse.Namespace) -> list[list[Observation]]:
    """Valid runs on the kernel, for each case."""
    planned = [
        [
            PlannedTrial(purpose="sweep", run=run, trial=trial)
            for run, trial in enumerate(trials(case, asked, asked.runs))
        ]
        for case in cases
    ]
    with (
        bpf.loaded(case.cc for case in cases),
        measured("pcdc_effect", fresh=asked.fresh) as store,
    ):
        observations = iter(valid_on_the_kernel(store, "kernel", [trial for own in planned for trial in own]))
        return [
            [observation for observation in (next(observations) for _ in own) if observation is not None]
            for own in planned
        ]


def row(case: Case, observed: dict[str, list[Observation]], first: Row | None) -> Row:
    """Sum up a case; `first` is fullmesh's row, None for fullmesh itself."""
    throughputs = {
        bed: summarise([observation.throughput_bps / 1e6 for observation in observed[bed]]) for bed in BEDS
    }
    carried: dict[str, int] = {}
    for observation in observed["kernel"]:
        for subflow in observation.subflows:
            carried[subflow.path] = carried.get(subflow.path, 0) + subflow.bytes
    base = throughputs if first is None else first.throughput_mbps
    return Row(
        network=case.topology.name,
        cc=case.cc,
        active=case.active,
        throughput_mbps=throughputs,
        gain={bed: throughputs[bed].mean / base[bed].mean - 1 for bed in BEDS},
        shares={path: size / sum(carried.values()) for path, size in carried.items()},
    )


def print_rows(rows: Sequence[Row]) -> None:
    """Throughputs with their intervals, gains, and each path's share on the kernel."""
    columns = ("network", "CC", "active", *BEDS, "shares on the kernel")
    table = Table(*columns, title="Mbit/s, and PCDC's gain over fullmesh", title_justify="left")
    for row in rows:
        cells = []
        for bed in BEDS:
            summary = row.throughput_mbps[bed]
            half = "" if summary.high is None else f" ± {summary.high - summary.mean:.1f}"
            gain = "" if row.active is None else f" ({100 * row.gain[bed]:+z.0f} %)"
            cells.append(f"{summary.mean:.1f}{half}{gain}")
        shares = ", ".join(f"{path} {100 * share:.0f} %" for path, share in row.shares.items())
        table.add_row(row.network, row.cc, " ".join(row.active or ("all",)), *cells, shares)
    Console(width=150).print(table)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3, help="runs on the kernel")
    parser.add_argument("--duration", type=float, default=30.0, help="duration of a trial, seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fresh", action="store_true", help="measure the kernel again")
    asked = parser.parse_args()
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    cases = [
        Case(load(path), cc, active) for path in NETWORKS for cc, arms in ARMS.items() for active in arms
    ]
    kernel = on_kernel(cases, asked)
    rows: list[Row] = []
    for case, observed in zip(cases, kernel, strict=True):
        if not observed:
            print(f"{case.topology.name}, {case.cc}, {case.active}: no valid result from the kernel")
            continue
        sides = {bed: simulated(case, asked, bed) for bed in BEDS[:2]} | {"kernel": observed}
        fullmesh = [
            row
            for row in rows
            if row.active is None and (row.network, row.cc) == (case.topology.name, case.cc)
        ]
        rows.append(row(case, sides, fullmesh[0] if case.active is not None else None))
    print_rows(rows)
    write("pcdc_effect", [msgspec.to_builtins(row) for row in rows])


if __name__ == "__main__":
    main()
