"""Cost of growth: campaigns of 10,000, 100,000 and 1,000,000 trials, from the store to the report.

Trials of 30 s over six subflows, with their series; all have the same observation, as simulating a million of
them takes nine hours. Everything after the testbed is real: the store is filled by the campaign itself, and
status, resume, export and report are commands as a user runs them, each with its time and peak memory.
"""

import argparse
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.shared.measure import in_fresh_process, machine, write
from mptune import testbeds
from mptune.campaign.definition import read_definition
from mptune.campaign.execution import start
from mptune.store.directory import CONFIG, STORE
from mptune.testbeds import Testbed
from mptune.trial import Observation, Trial

CAMPAIGN = """
name = "growth"
topology = "UNIS-HiN"
kind = "sweep"
[factors]
pm = ["fullmesh"]
cc = ["cubic", "olia", "balia", "wvegas"]
buffers = "1:25:1"
[trials]
runs = {runs}
duration = "30s"
"""
CONFIGURATIONS = 4 * 25

#: Trials that are missing where a campaign is continued.
MISSING = 10


class _Remembered(Testbed):
    """The simulator, which simulates once."""

    name = "simulated"
    parallel: int | None = 1

    def __init__(self, simulated: Testbed) -> None:
        self._simulated, self._known = simulated, dict[None, Observation]()

    def run(self, trial: Trial) -> Observation:
        if None not in self._known:
            self._known[None] = self._simulated.run(trial)
        return self._known[None]


class Cost(NamedTuple):
    """Seconds, and bytes of peak memory."""

    seconds: float
    memory: int


def fill(trials: int, directory: Path) -> Cost:
    """Run the campaign; in a process of its own, whose peak memory belongs to it."""
    file = directory.with_suffix(".toml")
    file.write_text(CAMPAIGN.format(runs=trials // CONFIGURATIONS), encoding="utf-8")
    remembered = _Remembered(testbeds.create("simulated"))
    testbeds.TESTBEDS["simulated"] = lambda: remembered
    begin = time.perf_counter()
    start(read_definition(str(file)), directory)
    seconds = time.perf_counter() - begin
    return Cost(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def command(*words: object) -> Cost:
    """One command of mptune."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "mptune.cli", *map(str, words)], stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    if status:
        raise SystemExit(f"mptune {' '.join(map(str, words))} ended with {os.waitstatus_to_exitcode(status)}")
    return Cost(seconds, used.ru_maxrss * 1024)


def interrupt(directory: Path) -> None:
    """Make a finished campaign one that was interrupted before its last trials."""
    (directory / CONFIG).unlink()
    store = sqlite3.connect(directory / STORE)
    with store:
        last = f"(SELECT id FROM trial ORDER BY id DESC LIMIT {MISSING})"
        store.execute(f"DELETE FROM subflow WHERE trial IN {last}")
        store.execute(f"DELETE FROM trial WHERE id IN {last}")
    store.close()


def growth(trials: int, place: Path) -> dict[str, Cost | int]:
    """Every cost of a campaign of this size."""
    directory = place / "run"
    case = {"trials": trials, "directory": str(directory)}
    costs: dict[str, Cost | int] = {
        "filling the store": Cost(**in_fresh_process("benchmarks.speed.growth", case))
    }
    costs["size of the store"] = (directory / STORE).stat().st_size
    costs["status"] = command("campaign", "status", directory)
    costs["report"] = command("report", directory, "--no-figures")
    costs["size of the page"] = (directory / "report.html").stat().st_size
    costs["resume, finished"] = command("campaign", "resume", directory, "--quiet")
    for kind in ("csv", "parquet"):
        out = place / kind
        words = ("--format", kind, "--out", out)
        costs[f"export, {kind}"] = command("campaign", "export", directory, *words)
        shutil.rmtree(out)
    interrupt(directory)
    costs[f"resume, {MISSING} missing"] = command("campaign", "resume", directory, "--quiet")
    shutil.rmtree(directory)
    return costs


def cost_text(cost: Cost | int) -> str:
    """Seconds and MB."""
    if isinstance(cost, int):
        return f"{cost / 1e6:.1f} MB"
    return f"{cost.seconds:.2f} s, {cost.memory / 1e6:.0f} MB"


def main() -> None:
    """Print the table and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--case", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.case is not None:
        case = json.loads(asked.case)
        print(json.dumps(fill(case["trials"], Path(case["directory"]))._asdict()))
        return
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    grown = {}
    for size in asked.sizes:
        with tempfile.TemporaryDirectory() as place:
            grown[size] = growth(size, Path(place))
    table = Table("what", *(f"{size:,} trials" for size in asked.sizes))
    for name in grown[asked.sizes[0]]:
        table.add_row(name, *(cost_text(costs[name]) for costs in grown.values()))
    Console(width=140).print(table)
    write("growth", grown)


if __name__ == "__main__":
    main()
