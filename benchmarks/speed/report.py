"""Cost of a report, in seconds and bytes, for a full MPCOA campaign.

720 configurations (2 path managers, 6 congestion controls, 60 buffers) in 9 runs, the impact factors of 8
subflows, and the confirmation: 6,978 trials with their series. The trials are made up, as simulating them
takes an hour; everything after them (store, decision, run directory) is real. A report is the command as a
user runs it, in its own process.
"""

import argparse
import math
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.shared.measure import machine, spread, write
from mptune import testbeds
from mptune.campaign.definition import Definition
from mptune.campaign.execution import start
from mptune.impact import ImpactOptions
from mptune.optimisation.options import OptimiseOptions
from mptune.optimisation.papers import CCS, PMS
from mptune.options.buffers import parse_buffers
from mptune.testbeds import Testbed
from mptune.topology import load
from mptune.trial import BIN_NS, FIXED, Observation, SubflowObservation, Trial

SECOND = 10**9


class _MadeUp(Testbed):
    """Throughput that rises with the buffer and levels off, with noise; subflows share it unevenly."""

    name = "simulated"
    parallel: int | None = 1

    def run(self, trial: Trial) -> Observation:
        dice = random.Random(f"{trial.seed}/{trial.pm}/{trial.cc}/{trial.buffer_bytes}")
        knee_mib = 4 + 2 * len(trial.cc) - (6 if trial.pm == "pcdc" else 0)
        level = 45e6 * (1 - math.exp(-trial.buffer_bytes / 2**20 / max(knee_mib, 1))) * dice.gauss(1, 0.03)
        paths = [
            path.label
            for path in trial.topology.paths
            if path.label in trial.pm_options.get("active", (path.label,))
        ]
        silent = {action.path: action.at_ns for action in trial.script}
        bins = trial.workload.limit_ns // BIN_NS
        subflows = []
        for place, path in enumerate(paths):
            share = level / 2 ** (place + 1) * BIN_NS / 8e9
            until = silent.get(path, bins * BIN_NS)
            sizes = [round(share * dice.uniform(0.5, 1.5)) if i * BIN_NS < until else 0 for i in range(bins)]
            subflows.append(
                SubflowObservation(
                    path=path,
                    active=True,
                    bytes=sum(sizes),
                    srtt_ns=40_000_000,
                    min_rtt_ns=20_000_000,
                    retransmitted=dice.randrange(100),
                    timeouts=0,
                    bins=sizes,
                )
            )
        total = [sum(sizes) for sizes in zip(*(subflow.bins for subflow in subflows), strict=True)]
        return Observation(
            testbed=self.name,
            duration_ns=bins * BIN_NS,
            in_order_bytes=sum(total),
            bins=total,
            subflows=subflows,
        )


def campaign(directory: Path, runs: int) -> int:
    """Make the run directory; return the number of trials."""
    buffers = parse_buffers("0.5:30:0.5")
    impact = ImpactOptions(runs=10, window_ns=30 * SECOND, buffer_bytes=buffers[-1])
    options = OptimiseOptions(
        pms=PMS,
        ccs=CCS,
        buffers=buffers,
        buffer_mode=FIXED,
        runs=runs,
        duration_ns=30 * SECOND,
        impact=impact,
        confirm_runs=9,
        model="saturating",
        resamples=20,
    )
    testbeds.TESTBEDS["simulated"] = _MadeUp
    definition = Definition(name="SRL-HU", topology=load("SRL-HU"), testbed="simulated", options=options)
    result = start(definition, directory)
    assert result is not None  # the main job has a result
    return len(result.records)


def report(directory: Path, *options: str) -> tuple[float, int, int]:
    """Seconds of one `mptune report`, bytes of its page, and number of figure files."""
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-m", "mptune.cli", "report", str(directory), "--out", place, *options]
        begin = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        seconds = time.perf_counter() - begin
        return seconds, (Path(place) / "report.html").stat().st_size, len(list(Path(place).glob("figures/*")))


def main() -> None:
    """Print the table and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--repeat", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place) / "full"
        trials = campaign(directory, asked.runs)
        alone = [report(directory, "--no-figures") for _ in range(asked.repeat)]
        whole = [report(directory) for _ in range(asked.repeat)]
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    table = Table("what", "median (range)")
    for name, ones in (("page alone", alone), (f"page and {whole[0][2]} figures", whole)):
        table.add_row(f"{name} of {trials} trials, s", spread([seconds for seconds, _, _ in ones]))
    size = alone[0][1]
    table.add_row("page, MB", f"{size / 1e6:.2f}")
    Console(width=140).print(table)
    medians = [statistics.median(seconds for seconds, _, _ in ones) for ones in (alone, whole)]
    result = {"trials": trials, "page_s": medians[0], "all_s": medians[1], "page_bytes": size}
    write("report", result)


if __name__ == "__main__":
    main()
