"""Grids of this machine's kernel, measured once and kept: strategies ask them instead of a testbed.

Two path managers (FullMesh, and PCDC with the set of subflows that is the best in the simulator) x three
congestion controls x ten buffers x three runs of 10 s, in network namespaces. A grid belongs to one network
and one release of the kernel. Every trial is kept when it ends, so an interrupted grid continues. Needs what
`mptune doctor` requires.

    python -m benchmarks.decision._kernel_grids UNIS-HiN UiB-HiN      # then economy.py --kernel UNIS-HiN
"""

import argparse
import fcntl
import hashlib
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.decision import _corpus
from benchmarks.decision._corpus import Grid
from benchmarks.decision._search import Bench, Plan, buffer_grid
from benchmarks.shared.kernel import on_the_kernel
from benchmarks.shared.measure import RESULTS
from benchmarks.shared.results import measured
from mptune.linux import congestion
from mptune.response import Arm
from mptune.runner.planning import plan_trials
from mptune.runner.progress import Reporter
from mptune.runner.runner import TrialRunner
from mptune.testbeds import create as testbed
from mptune.topology import Topology, load
from mptune.trial import BIN_NS, Bulk, Observation, PlannedTrial
from mptune.trial.stacks import STACKS


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a grid; of the congestion controls, the first that this kernel has."""

    ccs: tuple[str, ...] = ("cubic", "scalable", "olia", "vegas", "reno", "hybla")
    controls: int = 3
    buffers: int = 10
    runs: int = 3
    seconds: int = 10


#: The usual one, and one with all six congestion controls.
SIZES = (Size(), Size(controls=6, runs=2))


def kernel_grid(topology: Topology, reporter: Reporter, size: Size | None = None) -> Grid:
    """The grid of a network on this kernel, measured now or before.

    Parameters
    ----------
    size : None for the one that was measured last, and if there is none, for the usual one.
    """
    if size is None:
        known = [known_size for known_size in SIZES if _path(topology, known_size).exists()]
        size = max(known, key=lambda known_size: _path(topology, known_size).stat().st_mtime, default=Size())
    path = _path(topology, size)
    if not path.exists():
        _corpus.save(path, *_measured(topology, size, reporter))
    arms, payload = _corpus.read(path, topology)
    return Grid(topology.name, "kernel", arms, buffer_grid(topology, size.buffers), payload)


def _path(topology: Topology, size: Size) -> Path:
    name = f"{topology.name}.{platform.release()}.{_digest(topology, size)}.npz"
    return RESULTS / "corpus" / "kernel" / name


def _digest(topology: Topology, size: Size) -> str:
    return hashlib.blake2b(f"{topology!r}/{size!r}".encode(), digest_size=6).hexdigest()


def _measured(topology: Topology, size: Size, reporter: Reporter) -> tuple[list[Arm], np.ndarray]:
    runner = TrialRunner(testbed("simulated"))
    bench = Bench(topology, STACKS["linux"], runner, Plan(coarse_s=5), reporter)
    managers = _corpus.sets(bench)[:2]
    ccs = [cc for cc in size.ccs if congestion.obstacle(cc) is None][: size.controls]
    arms = [_corpus.arm(topology, pm, cc, labels) for pm, labels in managers for cc in ccs]
    planned = _interleaved(bench, arms, size)
    name = f"economy.kernel.{topology.name}.{platform.release()}.{_digest(topology, size)}"
    with measured(name, fresh=False) as store:
        order = [index for index, _ in planned]
        observations = on_the_kernel(store, f"{topology.name} on the kernel", [trial for _, trial in planned])
    bins = size.seconds * 10**9 // BIN_NS
    payload = np.zeros((len(observations), bins), dtype=np.float32)
    for index, observation in zip(order, observations, strict=True):
        payload[index] = _series(topology, observation, bins)
    return arms, payload.reshape(len(arms), size.buffers, size.runs, bins)


def _interleaved(bench: Bench, arms: Sequence[Arm], size: Size) -> list[tuple[int, PlannedTrial]]:
    """Trials with their indices; first runs of all configurations come before all second ones.

    A machine that becomes slower for a while is slower for all of them.
    """
    grid = buffer_grid(bench.topology, size.buffers)
    workload = Bulk(duration_ns=size.seconds * 10**9)
    configurations = [
        _corpus.configuration(bench, arm, buffer).under(workload) for arm in arms for buffer in grid
    ]
    planned = plan_trials(
        bench.topology,
        configurations,
        purpose="sweep",
        runs=size.runs,
        base_seed=0,
    )
    return sorted(enumerate(planned), key=lambda item: (item[0] % size.runs, item[0]))


def _series(topology: Topology, observation: Observation, bins: int) -> np.ndarray:
    """Bytes by bin; nothing after a stall, but a trial that could not be run has no place in a grid."""
    if observation.failed is not None and observation.failed.kind != "stalled":
        raise SystemExit(f"{topology.name}: {observation.failed}; run it again to measure what is missing")
    row = np.zeros(bins, dtype=np.float32)
    payload = observation.bins[:bins]
    row[: len(payload)] = payload
    return row


def main() -> int:
    """Measure grids, while others who measure on this machine wait for the same file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "networks", nargs="+", metavar="NETWORK", help="a shipped scenario or a topology file"
    )
    parser.add_argument("--buffers", type=int, default=Size().buffers)
    parser.add_argument("--runs", type=int, default=Size().runs)
    parser.add_argument("--controls", type=int, default=Size().controls, help="number of congestion controls")
    parser.add_argument("--seconds", type=int, default=Size().seconds)
    parser.add_argument("--lock", type=Path, help="wait for this file, and let others wait")
    asked = parser.parse_args()
    size = Size(buffers=asked.buffers, runs=asked.runs, controls=asked.controls, seconds=asked.seconds)
    try:
        for name in asked.networks:
            topology = load(name)
            if asked.lock:
                with asked.lock.open("a") as file:
                    fcntl.flock(file, fcntl.LOCK_EX)
                    grid = kernel_grid(topology, Reporter(), size)
            else:
                grid = kernel_grid(topology, Reporter(), size)
            print(f"{topology.name}: {grid.mbps.shape} up to {grid.mbps.mean(axis=2).max():.4g} Mbit/s")
    except KeyboardInterrupt:
        print("interrupted: run it again to continue", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
