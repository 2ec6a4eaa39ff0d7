"""Error of the simulator against the Linux kernel: the same trials on both.

    python -m benchmarks.fidelity.throughput                            # eight chosen networks
    python -m benchmarks.fidelity.throughput --random 24 --seed 1       # drawn ones, to work with
    python -m benchmarks.fidelity.throughput --random 24 --report-seed S    # fresh ones
    python -m benchmarks.fidelity.throughput --random 24 --report-seed S --testbed virtual:7.3
    python -m benchmarks.fidelity.throughput --random 24 --seed 1 --kept --write-error    # learn the error

Drawn networks (`_drawn`): all effects of links, two to eight paths, all congestion controls and path managers
that the kernel has, 0.1 to 8 products of buffer. Each of their configurations runs 5 times on the kernel and
20 times in the simulator. The kernel's results are kept in benchmarks/fidelity/kernel and measured only once;
--kept measures nothing and needs no kernel. Prints every figure by regime beside the kernel against itself,
and the worst configurations; --divergences prints where the two part in what is missed.
`docs/reference/fidelity.md` explains the figures.

Chosen networks: every network of `networks/` x reno, cubic x 5 buffers (multiples of the sum of the rates
times the largest RTT), fullmesh, and transfers of fixed size. The kernel's results are kept in a campaign
store under target/benchmarks and measured only once (--fresh measures them again); the simulator runs again
each time. Both sides have the same seeds, so the same packets are lost at random. Where a single loss in a
full queue decides between full speed and a collapse of seconds, on both sides, only means over many runs are
meaningful (--simulated-runs 20 shows the simulator's). Tables show means and, in parentheses, the slowest and
fastest run. Prints a table per network and the summary over all, and writes both as JSON. Needs what `mptune
doctor` requires, and a machine that does nothing else: overloaded trials are marked and left out.
"""

import argparse
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.fidelity import _drawn_run
from benchmarks.shared.kernel import believed
from benchmarks.shared.measure import machine, write
from benchmarks.shared.results import measured
from mptune.decision.agreement import Comparison, Row, compare, summarise_runs
from mptune.decision.comparison import CompareOptions, trial
from mptune.runner.progress import Reporter
from mptune.runner.runner import TrialRunner
from mptune.statistics import quantile
from mptune.store import Store
from mptune.testbeds import create as testbed
from mptune.testbeds.namespaces import stall_ns
from mptune.topology import Topology, load
from mptune.trial import FIXED, Observation, PlannedTrial, Trial
from mptune.trial.stacks import STACKS
from mptune.units import format_size

NETWORKS = Path(__file__).parents[1] / "networks"
CCS = ("reno", "cubic")

#: Buffers as multiples of the sum of the rates times the largest RTT.
MULTIPLES = (0.25, 0.5, 1.0, 2.0, 4.0)

#: Runs of each configuration.
RUNS = 3

#: Networks and sizes of the transfers, with the largest buffer.
TRANSFERS = tuple(
    itertools.product(
        ("two-unlike", "two-lossy", "two-slow", "four-shared", "three-unequal"), (256 * 1024, 4 * 1024**2)
    )
)


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration with its runs on the kernel and in the simulator."""

    network: str
    pm: str
    cc: str
    buffer_bytes: int
    transfer_bytes: int | None
    planned: tuple[PlannedTrial, ...]
    simulated: tuple[Trial, ...]


def buffers(topology: Topology) -> tuple[int, ...]:
    """Buffer sizes of a network, whole KiB."""
    paths = sum(path.rate_bps for path in topology.paths)
    up = sum(interface.up_bps for interface in topology.sender.interfaces)
    down = sum(interface.down_bps for interface in topology.receiver.interfaces)
    whole = min(paths, up, down) * max(path.base_rtt_ns for path in topology.paths) / 8e9
    return tuple(max(32, round(multiple * whole / 1024)) * 1024 for multiple in MULTIPLES)


def cases(topology: Topology, asked: argparse.Namespace) -> Iterator[Case]:
    """Every saturated case of a network, then its transfers."""
    runs, sizes = asked.runs, buffers(topology)
    chosen: list[tuple[str, int, int | None]] = [(cc, size, None) for cc in CCS for size in sizes]
    chosen += [("cubic", sizes[-1], transfer) for name, transfer in TRANSFERS if name == topology.name]
    for cc, size, transfer in chosen:
        options = CompareOptions(
            pms=("fullmesh",),
            ccs=(cc,),
            buffers=(size,),
            buffer_mode=asked.buffer_mode,
            runs=runs,
            duration_ns=None if transfer else round(asked.duration * 1e9),
            transfer_bytes=transfer,
            seed=asked.seed,
        )
        trials = [
            trial(topology, options, "fullmesh", cc, size, run)
            for run in range(max(runs, asked.simulated_runs))
        ]
        yield Case(
            network=topology.name,
            pm="fullmesh",
            cc=cc,
            buffer_bytes=size,
            transfer_bytes=transfer,
            planned=planned(trials[:runs]),
            simulated=tuple(
                msgspec.structs.replace(trial, accounting=asked.accounting)
                for trial in trials[: asked.simulated_runs]
            ),
        )


def planned(trials: Sequence[Trial]) -> tuple[PlannedTrial, ...]:
    """Runs of a configuration on the kernel."""
    return tuple(PlannedTrial(purpose="sweep", run=run, trial=trial) for run, trial in enumerate(trials))


def on_kernel(store: Store, planned: Sequence[Case], reporter: Reporter) -> list[list[Observation]]:
    """Observations on the kernel, from the store or fresh."""
    runner = TrialRunner(testbed("namespaces"), None, store)
    with reporter.phase("kernel") as progress:
        runner.measure(
            [planned_trial for case in planned for planned_trial in case.planned], progress=progress
        )
    return [
        [store.observation(store.key("namespaces", planned_trial)) for planned_trial in case.planned]
        for case in planned
    ]


def simulated(planned: Sequence[Case]) -> list[list[Observation]]:
    """Observations in the simulator."""
    bed = testbed("simulated")
    return [[bed.run(trial) for trial in case.simulated] for case in planned]


def row(case: Case, simulator: Sequence[Observation], kernel: Sequence[Observation]) -> Row:
    """Both sides of a case."""
    quiet = stall_ns(case.planned[0].trial)
    return Row(
        pm=case.pm,
        cc=case.cc,
        buffer_bytes=case.buffer_bytes,
        simulated=summarise_runs(simulator, quiet),
        kernel=summarise_runs(believed(kernel), quiet),
    )


def cell_text(cell: Any) -> str:
    """A cell of the table: throughput, or why there is none."""
    if cell.throughput_mbps is None:
        return "stalled" if cell.stalled else (cell.reason or "overloaded")[:30]
    span = f"{cell.throughput_mbps:.1f} ({cell.low_mbps:.0f}-{cell.high_mbps:.0f})"
    return span + (", stalls" if cell.stalled else "")


def print_rows(name: str, planned: Sequence[Case], rows: Sequence[Row]) -> None:
    """Table of one network."""
    columns = ("CC", "buffer", "transfer", "simulated (Mbit/s)", "kernel (Mbit/s)", "error")
    table = Table(*columns, title=name, title_justify="left")
    for case, row in zip(planned, rows, strict=True):
        table.add_row(
            case.cc,
            format_size(case.buffer_bytes),
            "" if case.transfer_bytes is None else format_size(case.transfer_bytes),
            cell_text(row.simulated),
            cell_text(row.kernel),
            "-" if row.error is None else f"{100 * row.error:+.1f} %",
        )
    Console(width=110).print(table)


def summary(comparison: Comparison) -> str:
    """The numbers that have targets."""
    if comparison.median_error is None or comparison.q90_error is None:
        return "nothing to compare"
    correlation = comparison.rank_correlation
    return (
        f"{comparison.compared} configurations: median error {100 * comparison.median_error:.1f} %, "
        f"90th percentile {100 * comparison.q90_error:.1f} %, rank correlation "
        f"{'-' if correlation is None else f'{correlation:.3f}'}, stalls agree in "
        f"{100 * comparison.stalls_agree:.0f} %"
    )


def repeated(repetitions: Sequence[list[Observation]]) -> list[float]:
    """Repeatability of the kernel: each case's error of the second run against the first, sorted."""
    pairs = [believed([run for run in runs if run.failed is None])[:2] for runs in repetitions]
    return sorted(
        abs(pair[1].throughput_bps / pair[0].throughput_bps - 1) for pair in pairs if len(pair) == 2
    )


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--random", type=int, metavar="N", help="draw this many networks")
    parser.add_argument(
        "--testbed", default="namespaces", help="of drawn networks: namespaces, or virtual:RELEASE"
    )
    parser.add_argument("--configurations", type=int, default=8, help="of each drawn network")
    parser.add_argument(
        "--senders",
        type=int,
        default=2,
        help="further ones, in which the size is the sender's and the receiver's buffer grows to 32 MiB",
    )
    parser.add_argument(
        "--report-seed", type=int, metavar="S", help="a draw to report on, which nobody may have worked with"
    )
    parser.add_argument(
        "--kept",
        action="store_true",
        help="of drawn networks: measure nothing, take the kernel's kept results",
    )
    parser.add_argument("--write-docs", action="store_true", help="drawn networks into the docs")
    parser.add_argument(
        "--divergences",
        action="store_true",
        help="record what is missed in drawn networks on both sides, and say where they part",
    )
    parser.add_argument(
        "--learn-error",
        action="store_true",
        help="of a working draw: learn the simulator's error by kind, and check it on networks left out",
    )
    parser.add_argument("--write-error", action="store_true", help="the same, and ship it with mptune")
    parser.add_argument(
        "--runs", type=int, help=f"on the kernel: {RUNS}, of drawn networks {_drawn_run.RUNS}"
    )
    parser.add_argument("--simulated-runs", type=int, help="runs in the simulator, if different")
    parser.add_argument("--duration", type=float, default=10.0, help="duration of a saturated trial, seconds")
    usual = STACKS["linux"].accounting
    parser.add_argument("--accounting", default=usual, help="the simulator's: payload or linux")
    parser.add_argument(
        "--buffer-mode", default=FIXED, help="fixed, or auto: the buffers are limits of autotuning"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the trials; of drawn networks to work with")
    parser.add_argument("--fresh", action="store_true", help="measure the kernel again")
    parser.add_argument(
        "--only", action="append", help="only networks, or drawn configurations, with this name; repeat"
    )
    asked = parser.parse_args()
    if asked.random:
        _drawn_run.run(asked)
        return
    if (
        asked.report_seed is not None
        or asked.kept
        or asked.write_docs
        or asked.learn_error
        or asked.write_error
    ):
        parser.error(
            "--report-seed, --kept, --write-docs, --learn-error and --write-error: "
            "expected --random N beside it"
        )
    asked.runs = asked.runs or RUNS
    asked.simulated_runs = asked.simulated_runs or asked.runs
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    topologies = [load(path) for path in sorted(NETWORKS.glob("*.toml"))]
    topologies = [topology for topology in topologies if not asked.only or topology.name in asked.only]
    reporter = Reporter()
    everything: list[Row] = []
    agreements, kept = [], []
    observed: list[list[Observation]] = []
    with measured("fidelity", fresh=asked.fresh) as store:
        for topology in topologies:
            planned = list(cases(topology, asked))
            kernel = on_kernel(store, planned, reporter)
            observed += kernel
            rows = [row(*parts) for parts in zip(planned, simulated(planned), kernel, strict=True)]
            print_rows(f"{topology.name}: {topology.description}", planned, rows)
            saturated = [row for case, row in zip(planned, rows, strict=True) if case.transfer_bytes is None]
            comparison = compare(saturated)
            print(f"{summary(comparison)}; same optimum: {comparison.same_optimum}\n")
            agreements.append(comparison.same_optimum)
            kept.append(comparison.kept)
            everything += rows
    whole = compare(everything)
    print(f"Over all networks: {summary(whole)}")
    own = repeated(observed)
    if own:
        print(
            f"The kernel against itself, second run against first, {len(own)} configurations: median "
            f"{100 * quantile(own, 0.5):.1f} %, 90th percentile {100 * quantile(own, 0.9):.1f} %."
        )
    lost = sorted(1 - share for share in kept if share is not None)
    same = sum(agreement is True for agreement in agreements)
    print(f"The same optimum in {same} of {len(agreements)} networks.")
    if lost:
        print(
            f"What the simulator's optimum costs on the kernel: median {100 * quantile(lost, 0.5):.1f} % "
            f"of the throughput, at most {100 * lost[-1]:.1f} %."
        )
    write(
        "fidelity" if asked.buffer_mode == FIXED else f"fidelity-{asked.buffer_mode}",
        {
            "rows": [msgspec.to_builtins(row) for row in everything],
            "median_error": whole.median_error,
            "q90_error": whole.q90_error,
            "rank_correlation": whole.rank_correlation,
        },
    )


if __name__ == "__main__":
    main()
