"""Dense grids of trials with their series, measured once: strategies ask them instead of a testbed.

Not a benchmark. A grid belongs to one network, one stack and one build of the simulator; it is kept under
target/benchmarks/corpus and made again when one of these changes.
"""

import hashlib
import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.decision._judge import tcp
from benchmarks.decision._search import CCS, WORKLOAD, Bench, Plan, buffer_grid, subset
from benchmarks.shared.measure import RESULTS
from mptune import _core
from mptune.runner.planning import plan_run
from mptune.runner.progress import Reporter
from mptune.runner.runner import TrialRunner
from mptune.runner.running import reduce_trials
from mptune.strategy import Arm
from mptune.testbeds import create as testbed
from mptune.topology import Topology
from mptune.trial import BIN_NS, PLAIN_TCP, Bulk, Combination, Configuration, Observation, Ran
from mptune.trial.stacks import STACKS

#: Congestion controls of MPCOA's question.
SIX = ("reno", "cubic", "hybla", "scalable", "vegas", "olia")

#: Buffers and seconds of a grid.
SIZES, SECONDS = 16, 20

#: Runs of every configuration; more where they scatter, until the standard error of the best means is 1.5 %.
#: Otherwise the truth would be the luck of the luckiest, and a strategy that is right would seem wrong.
RUNS, MOST_RUNS, TRUE_TO = 8, 64, 0.015

#: Sets of subflows besides all of them, and paths for plain TCP.
SETS, TCP_PATHS = 3, 1


class Extent(NamedTuple):
    """Size of a grid: buffers, seconds of a trial, sets of subflows, and runs, at first and at most.

    Attributes
    ----------
    true_to : standard error of the best means, as a share, to which there are more runs.
    """

    sizes: int = SIZES
    seconds: int = SECONDS
    sets: int = SETS
    runs: int = RUNS
    most_runs: int = MOST_RUNS
    true_to: float = TRUE_TO


#: A grid that takes a sixteenth of the time, for many networks; its truth is known less well.
WHOLE, SMALL = Extent(), Extent(12, 10, 2, 4, 12, 0.025)

#: The best means are those that miss the highest by this share at most.
_BEST = 0.1

#: Search for these sets: one short trial of each set with these congestion controls and the largest buffer.
_SEARCH = Plan(coarse_s=5)


class Grid(NamedTuple):
    """A measured grid.

    Attributes
    ----------
    buffers : bytes, ascending.
    payload : bytes in each bin of 100 ms, shape (arms, buffers, runs, bins); 0 after a stall.
    """

    name: str
    stack: str
    arms: tuple[Arm, ...]
    buffers: tuple[int, ...]
    payload: np.ndarray

    @property
    def seconds(self) -> float:
        """Duration of a trial."""
        return float(self.payload.shape[-1] * BIN_NS / 1e9)

    @property
    def mbps(self) -> np.ndarray:
        """Throughput of whole trials, Mbit/s, shape (arms, buffers, runs)."""
        mbps: np.ndarray = self.payload.sum(axis=-1) * 8e-6 / self.seconds
        return mbps


def grid(
    topology: Topology,
    stack: str,
    reporter: Reporter,
    *,
    workers: int | None = None,
    extent: Extent = WHOLE,
) -> Grid:
    """The grid of a network, measured now or before."""

    def part(first: int, runs: int) -> tuple[tuple[Arm, ...], np.ndarray]:
        path = _path(topology, stack, first, runs, extent)
        if not path.exists():
            save(path, *_measured(topology, stack, reporter, workers, range(first, runs), extent))
        return read(path, topology)

    arms, payload = part(0, extent.runs)
    if (runs := _enough(payload, extent)) > extent.runs:
        payload = np.concatenate([payload, part(extent.runs, runs)[1]], axis=2)
    return Grid(topology.name, stack, arms, buffer_grid(topology, extent.sizes), payload)


def _enough(payload: np.ndarray, extent: Extent) -> int:
    """Runs that separate the means of the best configurations; a multiple of those at first."""
    if extent.most_runs <= extent.runs:
        return extent.runs
    runs = payload.sum(axis=-1, dtype=float)
    means = runs.mean(axis=2)
    best = means >= (1 - _BEST) * means.max()
    scatter = float(np.median(runs.std(axis=2, ddof=1)[best] / means[best]))
    wanted = (scatter / extent.true_to) ** 2 / extent.runs
    return min(extent.most_runs, extent.runs * max(1, math.ceil(wanted - 1e-9)))


def save(path: Path, arms: Sequence[Arm], payload: np.ndarray) -> None:
    """Write a grid completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    words = np.array([[*arm.combination[:2], "+".join(arm.combination.subflows)] for arm in arms])
    part = path.with_suffix(".part.npz")
    np.savez_compressed(part, arms=words, payload=payload)
    part.rename(path)


def read(path: Path, topology: Topology) -> tuple[tuple[Arm, ...], np.ndarray]:
    """Arms and payload of a grid that was saved."""
    with np.load(path) as kept:
        arms = [
            arm(topology, pm, cc, tuple(filter(None, labels.split("+")))) for pm, cc, labels in kept["arms"]
        ]
        return tuple(arms), kept["payload"]


def is_kept(topology: Topology, stack: str, extent: Extent = WHOLE) -> bool:
    """True if the grid was measured before."""
    path = _path(topology, stack, 0, extent.runs, extent)
    if not path.exists():
        return False
    runs = _enough(read(path, topology)[1], extent)
    return runs == extent.runs or _path(topology, stack, extent.runs, runs, extent).exists()


def _path(topology: Topology, stack: str, first: int, runs: int, extent: Extent) -> Path:
    """The file of the runs of a grid from the first one on."""
    build = hashlib.blake2b(Path(str(_core.__file__)).read_bytes(), digest_size=6).hexdigest()
    sizes, seconds, sets_ = extent[:3]
    asked = f"{topology!r}/{sizes}/{first}-{runs}/{seconds}/{sets_}/{TCP_PATHS}".encode()
    digest = hashlib.blake2b(asked, digest_size=6).hexdigest()
    return RESULTS / "corpus" / build / f"{topology.name}.{stack}.{digest}.npz"


def arm(topology: Topology, pm: str, cc: str, subflows: Sequence[str]) -> Arm:
    """An arm of this network."""
    active = frozenset(subflows or (path.label for path in topology.paths))
    return Arm(Combination(str(pm), str(cc), tuple(map(str, subflows))), active)


def _measured(
    topology: Topology, stack: str, reporter: Reporter, workers: int | None, runs: range, extent: Extent
) -> tuple[list[Arm], np.ndarray]:
    runner = TrialRunner(testbed("simulated"), workers=workers)
    bench = Bench(topology, STACKS[stack], runner, _SEARCH, reporter)
    arms = [arm(topology, pm, cc, labels) for pm, labels in sets(bench, extent.sets) for cc in SIX]
    configurations = [
        configuration(bench, arm, size) for arm in arms for size in buffer_grid(topology, extent.sizes)
    ]
    workload = Bulk(duration_ns=extent.seconds * 10**9)
    planned = [
        plan_run(topology, configuration.under(workload), purpose="sweep", run=run, base_seed=0)
        for configuration in configurations
        for run in runs
    ]
    bins = extent.seconds * 10**9 // BIN_NS

    def series(_: int, __: Ran, observation: Observation) -> np.ndarray:
        row = np.zeros(bins, dtype=np.float32)
        if observation.failed is None or observation.failed.kind == "stalled":
            series = observation.bins[:bins]
            row[: len(series)] = series
        return row

    with reporter.phase(f"{topology.name}, {stack}: grid") as progress:
        rows = reduce_trials(
            runner.testbed, [plan.trial for plan in planned], series, workers=workers, progress=progress
        )
    return arms, np.array(rows).reshape(len(arms), extent.sizes, len(runs), bins)


def sets(bench: Bench, most: int = SETS) -> list[tuple[str, tuple[str, ...]]]:
    """FullMesh, the `most` best sets of subflows by a short search, and plain TCP on the fastest path."""
    labels = [path.label for path in bench.topology.paths]
    size = buffer_grid(bench.topology, SIZES)[-1]
    some = [combination for n in range(1, len(labels)) for combination in itertools.combinations(labels, n)]
    asked = [subset(bench.topology, active, cc, size, bench.stack) for active in some for cc in CCS]
    best: dict[tuple[str, ...], float] = {}
    for measured in bench.measure(asked, "coarse", 1, seconds=_SEARCH.coarse_s):
        active = measured.configuration.active or ()
        best[active] = max(best.get(active, 0.0), measured.mbps)
    fastest = sorted(best, key=lambda active: (-best[active], active))
    single = sorted((active for active in best if len(active) == 1), key=lambda active: -best[active])
    return [
        ("fullmesh", ()),
        *(("pcdc", active) for active in fastest[:most]),
        *((PLAIN_TCP, active) for active in single[:TCP_PATHS]),
    ]


def configuration(bench: Bench, arm: Arm, size: int) -> Configuration:
    combination = arm.combination
    if combination.is_tcp:
        return tcp(bench, combination.subflows[0], combination.cc, size)
    if not combination.subflows:
        return Configuration(
            pm=combination.pm, cc=combination.cc, buffer_bytes=size, workload=WORKLOAD, stack=bench.stack
        )
    return subset(bench.topology, combination.subflows, combination.cc, size, bench.stack)
