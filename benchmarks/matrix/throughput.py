"""Throughput of several releases of Linux on the same networks, in guests, beside the simulator's stacks.

    python benchmarks/matrix/throughput.py                # what is not kept yet, then the table
    python benchmarks/matrix/throughput.py --only 6.12    # of one release, or one stack
    python benchmarks/matrix/throughput.py --kept         # the table alone

Needs the kernels (`mptune kernel build 6.12`); neither root nor a quiet machine, because a guest has its own
clock. Results are kept in benchmarks/matrix/results/throughput.jsonl, one line a trial; a failed one has its
kind.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

# The other benchmarks' modules, in the folder above.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.shared.docs import replace, table
from mptune.errors import MptuneError
from mptune.runner.running import run_trials
from mptune.testbeds import create
from mptune.topology import load
from mptune.trial import Bulk, Trial
from mptune.trial.stacks import MEMBERS, STACKS
from mptune.units import format_size

HERE = Path(__file__).resolve().parent
KEPT = HERE / "results" / "throughput.jsonl"
PAGE = HERE.parents[1] / "docs" / "reference" / "kernels.md"
#: The columns: stacks of the simulator, and releases.
SIMULATED = ("linux", "linux-7.3")
RELEASES = ("6.1", "6.12", "6.18", "7.3")
#: Networks of the papers, from 0.9 to 350 Mbit/s, each with a buffer of about the sum of its rates times its
#: largest RTT, or more.
BUFFERS = {
    "UiT-HAW": 64 * 2**10,
    "HU-KRU.calibrated": 256 * 2**10,
    "UiB-HiN": 2 * 2**20,
    "UNIS-HiN": 3 * 2**20,
}
COMBINATIONS = (("fullmesh", "cubic"), ("fullmesh", "bbr"), ("fullmesh", "olia"), ("default", "cubic"))
#: Runs of each case, by path manager: with a single subflow hardly anything is left to chance.
RUNS = {"fullmesh": 5, "default": 1}
_DURATION_S = 8


class Case(NamedTuple):
    """A row of the table."""

    network: str
    pm: str
    cc: str

    def trial(self, column: str, seed: int) -> Trial:
        """One of its trials; in a guest the stack is the kernel's."""
        stack = STACKS.get(column, STACKS["linux"])
        return Trial(
            topology=load(self.network),
            pm=self.pm,
            cc=self.cc,
            buffer_bytes=BUFFERS[self.network],
            seed=seed,
            workload=Bulk(duration_ns=_DURATION_S * 10**9),
            **{member: getattr(stack, member) for member in MEMBERS},
        )

    @property
    def seeds(self) -> range:
        """Those of its runs."""
        return range(1, RUNS[self.pm] + 1)


CASES = [Case(network, pm, cc) for network in BUFFERS for pm, cc in COMBINATIONS]


class Kept(msgspec.Struct, frozen=True):
    """A line of the file."""

    column: str
    network: str
    pm: str
    cc: str
    seed: int
    #: Kernel of a guest; None for the simulator.
    kernel: str | None
    mbps: float
    failed: str | None


def _key(line: Kept) -> tuple[str, Case, int]:
    return line.column, Case(line.network, line.pm, line.cc), line.seed


def kept() -> dict[tuple[str, Case, int], Kept]:
    """Measurements so far; of a repeated trial the last."""
    lines = KEPT.read_text().splitlines() if KEPT.exists() else []
    return {_key(line): line for line in (msgspec.json.decode(text, type=Kept) for text in lines)}


def _measured(column: str, todo: Sequence[tuple[Case, int]], jobs: int) -> Iterator[Kept]:
    bed = create("simulated" if column in SIMULATED else f"virtual:{column}")
    for start in range(0, len(todo), jobs):
        part = todo[start : start + jobs]
        observations = run_trials(bed, [case.trial(column, seed) for case, seed in part], workers=jobs)
        for (case, seed), seen in zip(part, observations, strict=True):
            kernel: Any = seen.metadata.get("kernel")
            failed = None if seen.failed is None else seen.failed.kind
            yield Kept(column, *case, seed, kernel, round(seen.throughput_bps / 1e6, 4), failed)


def measure(columns: Iterable[str], jobs: int) -> None:
    """Run what is not kept, one seed of every column after the other, and keep each result at once."""
    done = kept()
    for seed in range(1, max(RUNS.values()) + 1):
        for column in columns:
            todo = [(case, seed) for case in CASES if seed in case.seeds and (column, case, seed) not in done]
            for line in _measured(column, todo, jobs):
                with KEPT.open("a") as file:
                    file.write(json.dumps(msgspec.to_builtins(line)) + "\n")
                print(
                    f"{line.column:10} {line.network:18} {line.pm:9} {line.cc:6} {line.seed} {line.mbps:.2f}",
                    flush=True,
                )


def write() -> None:
    """Put the table into the page."""
    lines = kept()
    columns = [column for column in (*SIMULATED, *RELEASES) if any(column == key[0] for key in lines)]
    named = [f"`{column}`" if column in SIMULATED else f"Linux {column}" for column in columns]
    rows = [["network", "buffer", "path manager", "CC", *named]]
    for case in CASES:
        cells = [
            _cell([line for seed in case.seeds if (line := lines.get((column, case, seed)))], len(case.seeds))
            for column in columns
        ]
        rows.append([case.network, format_size(BUFFERS[case.network]), case.pm, case.cc, *cells])
    replace(PAGE, "throughput", "\n".join(table(rows)))


def _cell(lines: Sequence[Kept], runs: int) -> str:
    """Mean and range of those that gave a number; how many there are, if not all."""
    good = [line.mbps for line in lines if line.failed is None]
    failed = sorted({line.failed for line in lines if line.failed is not None})
    if not good:
        return ", ".join(failed) or "-"
    span = f" ({min(good):.3g}-{max(good):.3g})" if runs > 1 else ""
    parts = [f"{statistics.fmean(good):.3g}{span}"]
    if len(good) < runs:
        parts.append(f"{len(good)} of {runs}")
    return ", ".join([*parts, *failed])


def main() -> None:
    """Measure, keep, write."""
    columns = (*SIMULATED, *RELEASES)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=columns, help="of these columns")
    parser.add_argument(
        "--kept", action="store_true", help="measure nothing, write the table from what is kept"
    )
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="trials at a time [default: %(default)s]"
    )
    asked = parser.parse_args()
    if not asked.kept:
        measure(asked.only or columns, asked.jobs)
    write()


if __name__ == "__main__":
    try:
        main()
    except MptuneError as error:
        raise SystemExit(str(error)) from None
