"""Simulated recommendations on the kernel: every shipped scenario, beside the plain default.

For each scenario the main job runs in the simulator under the stack linux, with the grid of `make demo`.
What it recommends and the default (fullmesh, cubic, the largest buffer) are then measured on the kernel,
with seeds that the job did not use, and in the simulator with the same seeds: the prediction. Trials are kept
under target/benchmarks, so that an interrupted run continues (--fresh measures everything again).
Overloaded ones are measured again, a few times; stalled ones give no number and are counted. Prints a table,
writes JSON, and with --write-docs the table into the docs. Needs what `mptune doctor` requires.
"""

import argparse
import fcntl
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.shared import docs
from benchmarks.shared.kernel import on_the_kernel
from benchmarks.shared.measure import machine, write
from benchmarks.shared.results import measured, stored_results
from mptune._text import plain_tcp
from mptune.decision.agreement import Cell, Row, summarise_runs
from mptune.linux import congestion
from mptune.optimisation.main_job import Result, optimise
from mptune.optimisation.options import OptimiseOptions
from mptune.optimisation.papers import CCS
from mptune.runner.planning import plan_trials
from mptune.runner.progress import Reporter
from mptune.runner.runner import TrialRunner
from mptune.runner.running import run_trials
from mptune.testbeds import create as testbed
from mptune.testbeds.namespaces import stall_ns
from mptune.topology import Topology, load
from mptune.topology import shipped as scenarios
from mptune.trial import PLAIN_TCP, Bulk, Configuration
from mptune.units import MIB, format_size

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "regret.md"

#: The network that one processor carries in real time, Mbit/s (docs/how-to/kernel.md).
CARRIED_MBPS = 500

#: The buffers and trials of `make demo`, all of them, and a coarse search to try this benchmark.
DEMO = OptimiseOptions(
    strategy="grid",
    pms=("fullmesh", "pcdc"),
    ccs=CCS,
    buffers=tuple(round(2.5 * step * MIB) for step in range(1, 13)),
    runs=3,
    duration_ns=30_000_000_000,
)
QUICK = OptimiseOptions(
    strategy="grid",
    pms=("fullmesh", "pcdc"),
    ccs=("cubic", "olia"),
    buffers=tuple(size * MIB for size in (2, 8, 16, 30)),
    runs=2,
    duration_ns=10_000_000_000,
    confirm_runs=3,
)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario's two configurations on both testbeds.

    Attributes
    ----------
    subflows : those that carry data in the recommended configuration.
    """

    scenario: str
    subflows: tuple[str, ...]
    recommended: Row
    default: Row

    @property
    def gain(self) -> float | None:
        """The recommended configuration's throughput on the kernel, relative to the default's."""
        ours, theirs = self.recommended.kernel.throughput_mbps, self.default.kernel.throughput_mbps
        return ours / theirs if ours is not None and theirs else None

    @property
    def holds(self) -> bool:
        """On the kernel the recommendation is at least as good as the default, and stalls no more often."""
        ours, theirs = self.recommended.kernel, self.default.kernel
        if ours.throughput_mbps is None or ours.stalled > theirs.stalled:
            return False
        return ours.throughput_mbps >= (theirs.throughput_mbps or 0.0)


def rate_mbps(topology: Topology) -> float:
    """Largest load of the emulator."""
    up = sum(interface.up_bps for interface in topology.sender.interfaces)
    down = sum(interface.down_bps for interface in topology.receiver.interfaces)
    return min(up, down, sum(path.rate_bps for path in topology.paths)) / 1e6


def recommend(topology: Topology, asked: argparse.Namespace, reporter: Reporter) -> Result:
    """The main job in the simulator, with the congestion controls that this kernel has."""
    search = QUICK if asked.quick else DEMO
    options = msgspec.structs.replace(
        search, ccs=tuple(cc for cc in search.ccs if congestion.obstacle(cc) is None), seed=asked.seed
    )
    name = f"{topology.name}{'.quick' if asked.quick else ''}"
    with stored_results("recommendations", name, fresh=asked.fresh) as store:
        runner = TrialRunner(testbed("simulated"), asked.jobs, store)
        return optimise(topology, runner, options.completed(), reporter=reporter)


@contextmanager
def alone(lock: Path | None) -> Iterator[None]:
    """While others who measure on this machine wait for the same file."""
    if lock is None:
        yield
        return
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def rows(topology: Topology, both: Sequence[Configuration], asked: argparse.Namespace) -> list[Row]:
    """Each configuration on both testbeds, with the same seeds."""
    planned = plan_trials(
        topology,
        [asked_for.under(Bulk(duration_ns=round(asked.duration * 1e9))) for asked_for in both],
        purpose="confirm",
        runs=asked.runs,
        base_seed=asked.seed + 1,  # the job has confirmed its answer with those of its own
    )
    simulated = run_trials(testbed("simulated"), [plan.trial for plan in planned], workers=asked.jobs)
    with measured("recommendations", fresh=False) as store, alone(asked.lock):
        kernel = on_the_kernel(store, f"{topology.name} on the kernel", planned)
    plans = []
    for number, chosen in enumerate(both):
        own = slice(number * asked.runs, (number + 1) * asked.runs)
        quiet = stall_ns(planned[own][0].trial)
        plans.append(
            Row(
                pm=PLAIN_TCP if chosen.protocol == PLAIN_TCP else chosen.pm,
                cc=chosen.cc,
                buffer_bytes=chosen.buffer_bytes,
                simulated=summarise_runs(simulated[own], quiet),
                kernel=summarise_runs(kernel[own], quiet),
            )
        )
    return plans


def outcome(topology: Topology, asked: argparse.Namespace, reporter: Reporter) -> Outcome:
    """Recommend, and measure."""
    result = recommend(topology, asked, reporter)
    assert result.confirmation is not None
    both = (result.confirmation.recommended, result.confirmation.default)
    recommended, default = rows(topology, both, asked)
    return Outcome(scenario=topology.name, subflows=result.subflows, recommended=recommended, default=default)


COLUMNS = (
    "scenario",
    "recommended",
    "buffer",
    "predicted",
    "kernel",
    "error",
    "default: predicted",
    "kernel",
    "error",
    "recommended / default",
)


def cell(cell: Cell) -> str:
    """Mean and range in Mbit/s, and how many runs gave no number."""
    lost = [f"{count} {why}" for why, count in (("stalled", cell.stalled), ("failed", cell.failed)) if count]
    if cell.throughput_mbps is None:
        return ", ".join(lost)
    return ", ".join([f"{cell.throughput_mbps:.3g} ({cell.low_mbps:.3g}-{cell.high_mbps:.3g})", *lost])


def cells(outcome: Outcome) -> list[str]:
    """A row of the table."""
    ours, theirs = outcome.recommended, outcome.default
    manager = f"pcdc on {', '.join(outcome.subflows)}" if ours.pm == "pcdc" else ours.pm
    if ours.pm == PLAIN_TCP:
        manager = plain_tcp(*outcome.subflows)
    errors = ["-" if row.error is None else f"{100 * row.error:+.0f} %" for row in (ours, theirs)]
    return [
        outcome.scenario,
        f"{manager}, {ours.cc}",
        format_size(ours.buffer_bytes, 3),
        cell(ours.simulated),
        cell(ours.kernel),
        errors[0],
        cell(theirs.simulated),
        cell(theirs.kernel),
        errors[1],
        "-" if outcome.gain is None else f"{outcome.gain:.2f}",
    ]


def summary(outcomes: Sequence[Outcome]) -> str:
    """Number of recommendations as good as the default, and the others."""
    worse = [outcome.scenario for outcome in outcomes if not outcome.holds]
    text = f"{len(outcomes) - len(worse)} of {len(outcomes)} at least as good on the kernel as the default"
    return f"{text}; not: {', '.join(worse)}." if worse else f"{text}."


def markdown(outcomes: Sequence[Outcome]) -> str:
    """The table for the docs."""
    lines = [COLUMNS, ["---"] * len(COLUMNS), *(cells(outcome) for outcome in outcomes)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    about = machine()
    where = f"{about['processor']}, {about['cores']} processors, Linux {str(about['kernel']).split('-')[0]}"
    return f"{table}\n\n{summary(outcomes)} Measured on {where}, with mptune {about['mptune']}."


def arguments() -> argparse.Namespace:
    """The scope of the measurement."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3, help="of each configuration on the kernel")
    parser.add_argument("--duration", type=float, default=12.0, help="of such a run, seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", help="only scenarios with this name; repeat")
    parser.add_argument("--quick", action="store_true", help="recommend after a coarse search")
    parser.add_argument("--jobs", type=int, help="simulated trials in parallel; one per core")
    parser.add_argument("--lock", type=Path, help="hold this file's lock while the kernel measures (flock)")
    parser.add_argument("--fresh", action="store_true", help="measure everything again")
    parser.add_argument("--write-docs", action="store_true", help="put the table into the docs too")
    return parser.parse_args()


def topologies(asked: argparse.Namespace) -> list[Topology]:
    """The scenarios to measure, slow ones first; prints those too fast for this machine."""
    topologies = [load(name) for name in scenarios() if not asked.only or name in asked.only]
    limit = CARRIED_MBPS * int(machine()["cores"])
    for topology in topologies:
        if rate_mbps(topology) > limit:
            print(
                f"{topology.name}: {rate_mbps(topology):.0f} Mbit/s are too much for this machine "
                "in real time"
            )
    return sorted((topology for topology in topologies if rate_mbps(topology) <= limit), key=rate_mbps)


def main() -> int:
    """Measure, print, write; exit status 1 if any recommendation is not good enough."""
    asked = arguments()
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    missing = {cc: reason for cc in DEMO.ccs if (reason := congestion.obstacle(cc)) is not None}
    for cc, reason in missing.items():
        print(f"without {cc}: {reason}", file=sys.stderr)
    if missing and asked.write_docs:
        print("the docs are written with every congestion control of make demo", file=sys.stderr)
        return 2
    if asked.fresh:
        with measured("recommendations", fresh=True):
            pass
    outcomes: list[Outcome] = []
    stopped = False
    try:
        for topology in topologies(asked):
            outcomes.append(outcome(topology, asked, Reporter()))
            print(" | ".join(cells(outcomes[-1])), flush=True)
    except KeyboardInterrupt:
        stopped = True
    table = Table(*COLUMNS, title="Recommendations on the kernel (Mbit/s)", title_justify="left")
    for result in outcomes:
        table.add_row(*cells(result))
    Console(width=200).print(table)
    print(summary(outcomes))
    write("recommendations", [msgspec.to_builtins(outcome) | {"gain": outcome.gain} for outcome in outcomes])
    if asked.write_docs:
        docs.replace(DOCS, "recommendations", markdown(outcomes))
        print(f"written to {DOCS}")
    return int(stopped or not all(outcome.holds for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
