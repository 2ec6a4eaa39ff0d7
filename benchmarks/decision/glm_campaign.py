"""The campaign of the GLM study in the simulator, and the study's procedure on its results.

UiO-UiT, FullMesh: 40 buffer sizes x 6 congestion controls x 9 initial paths, 60 s each (IAEAC 2018,
section IV), and 10 other buffer sizes for the validation (section VI). Writes data.csv and fresh.csv in
the form `mptune fit` reads, prints what the procedure finds, and writes that as JSON. Each trial has its own
seed: the procedure assumes independent observations.

It shows whether the simulator and the procedure lead to the study's conclusions; it does not measure speed.
"""

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.shared.measure import RESULTS, write
from mptune.cli import _fit_tables
from mptune.cli._common import console
from mptune.cli._fit_document import fit_document
from mptune.papers.glm.analysis import AnalysisOptions, analyse
from mptune.runner.progress import Reporter
from mptune.runner.running import run_trials
from mptune.runner.seeds import seed_for
from mptune.table import read_measurements
from mptune.testbeds import create
from mptune.topology import Topology, load
from mptune.trial import Bulk, Trial
from mptune.trial.stacks import STACKS

CCS = ("cubic", "hybla", "olia", "reno", "scalable", "vegas")

#: Domain of Eq. 4, bytes, and the number of settings; the study does not list them.
DOMAIN, SETTINGS = (1_843_200, 92_160_000), 40

#: Interval and number of the settings of the validation (section VI).
FRESH_DOMAIN, FRESH_SETTINGS = (6_000_000, 66_000_000), 10

#: The throughput for which section VI computes a buffer, Mbit/s.
TARGET_MBPS = 20.0


def trials(
    topology: Topology, buffers: Sequence[int], runs: int, duration_s: float, seed: int, name: str
) -> list[Trial]:
    """Every buffer with every congestion control and initial path."""
    labels = [path.label for path in topology.paths]
    settings = [
        (buffer, cc, label) for buffer in buffers for cc in CCS for label in labels for _ in range(runs)
    ]
    return [
        Trial(
            topology=topology,
            pm="fullmesh",
            cc=cc,
            buffer_bytes=buffer,
            initial_path=label,
            workload=Bulk(duration_ns=round(duration_s * 1e9)),
            seed=seed_for(seed, name, number),
            **msgspec.structs.asdict(STACKS["v0.9x"]),
        )
        for number, (buffer, cc, label) in enumerate(settings)
    ]


def spaced(ends: tuple[int, int], count: int, divisor: int) -> list[int]:
    """Equally spaced buffers, bytes."""
    low, high = ends
    return [round((low + i * (high - low) / (count - 1)) / divisor) for i in range(count)]


def measure(path: Path, planned: Sequence[Trial]) -> None:
    """Run trials and write a row for each."""
    with Reporter().phase(path.stem) as progress:
        observations = run_trials(create("simulated"), planned, progress=progress)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["throughput_mbps", "buffer_bytes", "cc", "pm", "initial_path", "failed"])
        for trial, observation in zip(planned, observations, strict=True):
            throughput = "" if observation.failed is not None else observation.throughput_bps / 1e6
            writer.writerow(
                [throughput, trial.buffer_bytes, trial.cc, trial.pm, trial.initial_path, observation.failed]
            )


def main() -> None:
    """Measure, analyse, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=RESULTS / "glm_campaign")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--duration", type=float, default=60.0, help="seconds per trial")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--divisor",
        type=int,
        default=1,
        help="of the printed buffers; 9 if they are meant for all nine subflows together (errata E34)",
    )
    asked = parser.parse_args()
    asked.directory.mkdir(parents=True, exist_ok=True)
    topology = load("UiO-UiT")
    files = {name: asked.directory / f"{name}.csv" for name in ("data", "fresh")}
    for name, ends, count in (("data", DOMAIN, SETTINGS), ("fresh", FRESH_DOMAIN, FRESH_SETTINGS)):
        buffers = spaced(ends, count, asked.divisor)
        measure(files[name], trials(topology, buffers, asked.runs, asked.duration, asked.seed, name))
    data, fresh = (read_measurements(str(files[name])) for name in ("data", "fresh"))
    analysis = analyse(data, AnalysisOptions(target_mbps=TARGET_MBPS), fresh)
    _fit_tables.show(console(), analysis)
    write("glm_campaign", fit_document(analysis))


if __name__ == "__main__":
    main()
