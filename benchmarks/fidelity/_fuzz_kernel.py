"""Random trials on a kernel in virtual time, and the properties that each has to have (`make fuzz-kernel`).

Not a benchmark. Networks and configurations are those of `_drawn`, half of them with a path that is cut for a
while. Payload arrives as it was sent and all of it, the connection does not stand still and stays MPTCP, and
the kernel lives on. A trial that is too slow, or unreachable through the losses of its path, is none that
fails. What fails is reduced (`mptune shrink`) and printed as a command; the rest of the time goes on.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.fidelity import _drawn
from benchmarks.shared.random_networks import Draw
from mptune import testbeds
from mptune.errors import InputError
from mptune.options import build, by_flag
from mptune.runner.one_trial import RunOptions, trial_of
from mptune.runner.shrinking import command, fault, shrink
from mptune.topology import load
from mptune.trial import Observation, ScriptedAction, Transfer, Trial

FOLDER = Path("target") / "fuzz-kernel"
#: Failures of a kernel, by their kinds; the others can be the network's.
FAULTS = ("stalled", "corrupt", "died", "fallback", "refused")
#: Networks and configurations of a round, and ns for which a trial sends.
NETWORKS, CONFIGURATIONS, DURATION_NS = 4, 4, 4_000_000_000
#: A path is cut at some ms, for some ms.
CUT_AT_MS, CUT_FOR_MS = (200, 2000), (100, 1500)
#: Seeds for each step of reducing one trial, and time for all of them, ns.
SEEDS, BUDGET_NS = 5, 180_000_000_000


class Drawn(NamedTuple):
    """A trial of a round: its topology file and its options."""

    file: Path
    options: RunOptions


def drawn(seed: int, folder: Path) -> Iterator[Drawn]:
    """The trials of a round, whose topology files are written into the folder."""
    for place, network in enumerate(_drawn.networks(seed, NETWORKS, CONFIGURATIONS, DURATION_NS, folder)):
        for case in network.cases:
            draw = Draw(1000 * seed + CONFIGURATIONS * place + case.index)
            yield Drawn(network.file, _options(case.trial, seed, draw))


def _options(trial: Trial, seed: int, draw: Draw) -> RunOptions:
    """The trial as `mptune run` is given it, perhaps with a cut."""
    values: dict[tuple[str, ...], Any] = {
        ("pm_options", trial.pm, name): tuple(value) if isinstance(value, list) else value
        for name, value in trial.pm_options.items()
    }
    for name in ("pm", "cc", "buffer_bytes", "buffer_mode", "initial_path"):
        values[(name,)] = getattr(trial, name)
    if isinstance(trial.workload, Transfer):
        values["transfer_bytes",] = trial.workload.bytes
    else:
        values["duration_ns",] = trial.workload.limit_ns
    if draw.below(2):
        label = trial.topology.paths[draw.below(len(trial.topology.paths))].label
        at_ms = int(draw.uniform(*CUT_AT_MS))
        until_ms = at_ms + int(draw.uniform(*CUT_FOR_MS))
        values["script",] = (
            ScriptedAction(at_ns=at_ms * 1_000_000, action="down", path=label),
            ScriptedAction(at_ns=until_ms * 1_000_000, action="up", path=label),
        )
    return build(RunOptions, {**values, ("seed",): seed}, by_flag)


def broken(trial: Trial, observation: Observation) -> str | None:
    """The property that a trial does not have: a kind of failure, or what is missing; None if it has all."""
    kind = fault(observation)
    if observation.failed is not None:
        return kind if kind in FAULTS else None
    size = trial.workload.bytes if isinstance(trial.workload, Transfer) else None
    if size is not None and observation.in_order_bytes != size:
        return f"{observation.in_order_bytes} of {size} bytes arrived, and no failure was noticed"
    return None


def main() -> int:
    """Fuzz until the time is up; 1 if anything failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--testbed", default="virtual", help="virtual[:RELEASE], or simulated")
    parser.add_argument("--seed", type=int, help="of the first round; the others follow")
    asked = parser.parse_args()
    seed = int(time.time()) if asked.seed is None else asked.seed
    end = time.monotonic() + 60 * asked.minutes
    trials = failures = 0
    while time.monotonic() < end:
        ran, failed = fuzz(seed, asked.testbed, end, FOLDER / str(seed))
        trials, failures, seed = trials + ran, failures + failed, seed + 1
        _say(f"{trials} random trials, {failures} failed")
    return 1 if failures else 0


def fuzz(seed: int, testbed: str, end: float, folder: Path) -> tuple[int, int]:
    """Run a round, or as much of it as there is time for: numbers of trials, and of those that failed.

    Parameters
    ----------
    end : seconds of the monotonic clock.
    """
    bed = testbeds.create(testbed)
    _say(f"round of seed {seed} on {testbed}")
    ran = failed = 0
    for file, options in drawn(seed, folder):
        if time.monotonic() > end:
            break
        try:
            trial = trial_of(load(file), options, testbed)
            bed.check(trial)
        except InputError:
            continue
        observation = bed.run(trial)
        ran += 1
        what = broken(trial, observation)
        if what is None:
            continue
        failed += 1
        shown = command("run", str(file), options, testbed=testbed)
        _say(f"FAILED, {what}: {observation.failed or ''}\n  {shown}")
        if observation.failed is not None:
            _reduce(file, options, testbed, folder / f"{file.stem}-{ran}.toml")
    return ran, failed


def _reduce(file: Path, options: RunOptions, testbed: str, target: Path) -> None:
    shrunk = shrink(
        file,
        options,
        testbed=testbed,
        folder=target.parent,
        name=target.stem,
        seeds=SEEDS,
        budget_ns=BUDGET_NS,
    )
    target.write_text(shrunk.text, encoding="utf-8")
    shown = command("run", str(target), shrunk.options, testbed=testbed)
    ended = "" if shrunk.complete else ", and more steps were possible"
    paths = len(shrunk.topology.paths)
    _say(f"  with {paths} of {shrunk.paths_before} paths after {shrunk.trials} trials{ended}:\n  {shown}")


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
