"""First divergence of simulator and kernel in the drawn configurations that the simulator misses.

Each is recorded on both sides, three runs with the same seeds, and compared as `mptune diverge` does. What
was found is kept, so that it can be interrupted. States what happened first and what it looks like, no cause.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from benchmarks.fidelity._drawn import Case
from benchmarks.fidelity._drawn_report import Judged
from mptune.capture.divergence import find, paragraph, side
from mptune.errors import TrialError
from mptune.runner.progress import Reporter
from mptune.runner.recording import record
from mptune.testbeds import Testbed
from mptune.testbeds import create as testbed
from mptune.testbeds.simulated import SimulatedTestbed

#: An error is a miss if it is larger than this, and than this many standard errors of both sides' means.
FAR, CLEARLY = 0.2, 3.0
RUNS = 3
COLUMNS = ("configuration", "", "kernel (Mbit/s)", "simulated", "first divergence")


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a comparison."""

    name: str
    said: str


def missed(judged: Sequence[Judged]) -> list[Judged]:
    """The configurations that the simulator misses, the worst first."""
    return sorted(filter(_is_missed, judged), key=lambda judged: -abs(judged.error or 0.0))


def _is_missed(judged: Judged) -> bool:
    sides = [[value for value in runs if value is not None] for runs in (judged.simulated, judged.kernel)]
    if judged.error is None or min(map(len, sides)) < RUNS:
        return False
    kernel = statistics.mean(sides[1])
    scatter = math.hypot(*(statistics.stdev(runs) / math.sqrt(len(runs)) for runs in sides)) / kernel
    return abs(judged.error) > max(FAR, CLEARLY * scatter)


def compare(
    missed: Sequence[Judged],
    cases: Mapping[str, Case],
    seed: int,
    keep: Path,
    reporter: Reporter,
    testbed_name: str,
    kernel: str,
) -> dict[str, str]:
    """The divergence of each by name; measures those without a result."""
    measured = testbed(testbed_name)
    kept = (
        [msgspec.json.decode(line, type=Found) for line in keep.read_bytes().splitlines()]
        if keep.exists()
        else []
    )
    sentences = {entry.name: entry.said for entry in kept}
    left = [judged for judged in missed if judged.name not in sentences]
    with reporter.phase("first divergences") as progress:
        for number, case in enumerate(left, 1):
            try:
                sentences[case.name] = _said(cases[case.name], seed, measured, kernel)
            except TrialError as error:
                print(f"{case.name}: {error}")
                continue
            with keep.open("ab") as file:
                file.write(msgspec.json.encode(Found(name=case.name, said=sentences[case.name])) + b"\n")
            if progress is not None:
                progress(number, len(left))
    return sentences


def _said(case: Case, seed: int, bed: Testbed, kernel: str) -> str:
    recorded = {
        "simulated": record(SimulatedTestbed(), case.simulated_runs(seed, RUNS, kernel)),
        bed.name: record(bed, case.runs(seed, RUNS)),
    }
    until_s = min(run.duration_ns for side in recorded.values() for run in side.runs) / 1e9
    simulated, measured = (side(name, one, until_s) for name, one in recorded.items())
    return paragraph(find(measured, simulated), measured, simulated)


def rows(missed: Sequence[Judged], sentences: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Of the table, in the order of `COLUMNS`."""
    for judged in missed:
        means = (
            statistics.mean(value for value in runs if value is not None)
            for runs in (judged.kernel, judged.simulated)
        )
        kernel, simulated = (f"{mean:.3g}" for mean in means)
        text = sentences.get(judged.name, "not compared")
        text = text.partition(": ")[2].partition(f" The {RUNS} runs of")[0] or text
        yield (
            judged.name,
            judged.about,
            kernel,
            f"{simulated} ({judged.error or 0:+.0%})",
            text.removeprefix("first divergence "),
        )


def markdown(table: Sequence[Sequence[str]]) -> str:
    """The table for the docs."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (COLUMNS, ["---"] * len(COLUMNS), *table))
