"""Makes the learnt prior: trials of random networks, what is learnt from them, and its error elsewhere.

Trials are simulated in random networks: any subflows with a path manager (FullMesh, PCDC, plain TCP), one of
six congestion controls, a buffer, fixed ones or such that grow at the sender, 10 s, stack `linux`. They are
kept under target/benchmarks/learnt, so that an interrupted run continues. Small networks of rectified units
learn the square root of the throughput, as a share of what the links give. One network in eight is not learnt
from: the error there is in the file too, and printed beside that of a guess that all links are full, and
with --again beside that of another run.

    python -m benchmarks.decision.learning [--networks N] [--again N] [--write]
"""

import argparse
import base64
import itertools
import math
import random
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

import mptune
from benchmarks.decision._corpus import SIX, SIZES, arm, configuration
from benchmarks.decision._search import Bench, Plan, buffer_grid
from benchmarks.decision._training import Course, trained
from benchmarks.shared.measure import RESULTS
from benchmarks.shared.random_networks import random_network
from mptune.optimisation.learnt_features import (
    CONTROLS,
    VERSION,
    Floats,
    Subflows,
    of_configuration,
    of_subflows,
)
from mptune.optimisation.learnt_prior import LEAST, SHIPPED, Learnt
from mptune.runner.planning import plan_run
from mptune.runner.progress import Reporter
from mptune.runner.runner import TrialRunner
from mptune.runner.running import reduce_trials
from mptune.testbeds import create
from mptune.topology import Topology
from mptune.trial import FIXED, PLAIN_TCP, SENDER, Bulk, Observation, Ran
from mptune.trial.stacks import STACKS

#: The first network's seed, and trials of each.
FIRST, TRIALS = 7_004_000, 30

#: Seconds of a trial.
SECONDS = 10

#: Shares of trials of FullMesh, of plain TCP, of buffers that grow, and of those of a wide range.
_MESH, _PLAIN, _GROWN, _WIDE = 0.3, 0.15, 0.4, 0.4

#: The wide range, bytes, and what the receiver's buffer grows to where the sender's is searched.
_RANGE, _RECEIVE = (64 << 10, 30 << 20), 32 << 20

#: One network in so many is not learnt from.
HELD_OUT = 8

#: Networks of units.
NETWORKS = 5

KEPT = RESULTS / "learnt" / "trials.jsonl"


class Drawn(NamedTuple):
    """A configuration of a network; no subflows are all of them."""

    pm: str
    subflows: tuple[str, ...]
    cc: str
    buffer_bytes: int
    mode: str


def drawn(topology: Topology, seed: int) -> Iterator[Drawn]:
    """The configurations that are tried."""
    chance, labels = random.Random(seed), [path.label for path in topology.paths]
    grid = buffer_grid(topology, SIZES)
    for number in range(TRIALS):
        kind, pm, subflows = chance.random(), "pcdc", tuple[str, ...]()
        if kind < _MESH:
            pm = "fullmesh"
        elif kind < _MESH + _PLAIN:
            pm, subflows = PLAIN_TCP, (chance.choice(labels),)
        else:
            count = chance.randint(1, max(1, len(labels) - 1))
            subflows = tuple(label for label in labels if label in chance.sample(labels, count))
        mode = SENDER if chance.random() < _GROWN else FIXED
        low, high = _RANGE if mode == SENDER and chance.random() < _WIDE else (grid[0], grid[-1])
        size = math.ceil(low * (high / low) ** chance.random() / 1024) * 1024
        if pm == "fullmesh" or subflows:
            yield Drawn(pm, subflows, SIX[number % len(SIX)], size, mode)


class Trial(NamedTuple):
    """A trial that was done; no throughput (Mbit/s) is that of a failed one."""

    seed: int
    drawn: Drawn
    mbps: float | None


def measured(seed: int, base_seed: int = 3) -> list[Trial]:
    """Trials of a network."""
    topology, ones = random_network(seed), []
    bench = Bench(topology, STACKS["linux"], TrialRunner(create("simulated"), workers=1), Plan(), Reporter())
    for one in drawn(topology, seed):
        asked = configuration(bench, arm(topology, one.pm, one.cc, one.subflows), one.buffer_bytes)
        if one.mode == SENDER:
            receive = max(_RECEIVE, one.buffer_bytes)
            asked = msgspec.structs.replace(asked, buffer_mode="auto", receive_buffer_bytes=receive)
        ones.append(asked.under(Bulk(duration_ns=SECONDS * 10**9)))

    def throughput(_: int, __: Ran, observation: Observation) -> float | None:
        if observation.failed is not None and observation.failed.kind != "stalled":
            return None
        return math.fsum(observation.bins) * 8e-6 / SECONDS

    planned = [plan_run(topology, one, purpose="train", run=0, base_seed=base_seed).trial for one in ones]
    values = reduce_trials(bench.runner.testbed, planned, throughput, workers=1)
    every = zip(drawn(topology, seed), values, strict=True)
    return [Trial(seed, one, value) for one, value in every]


def trials(networks: int) -> list[Trial]:
    """Trials of so many networks, done now or before."""
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    kept = KEPT.read_bytes().splitlines() if KEPT.exists() else []
    known = [trial for line in kept for trial in msgspec.json.decode(line, type=list[Trial])]
    with KEPT.open("ab") as file:
        for number in range(len(kept), networks):
            ones = measured(FIRST + number)
            file.write(msgspec.json.encode(ones) + b"\n")
            file.flush()
            known += ones
            if number % 50 == 0:
                print(f"{number} of {networks} networks", file=sys.stderr, flush=True)
    return [trial for trial in known if trial.seed < FIRST + networks]


class Data(NamedTuple):
    """Trials as they are learnt from.

    Attributes
    ----------
    features : shape (trials, features).
    shares : throughput as a share of the rate of all its subflows together.
    mbps : that rate, Mbit/s.
    seeds : of the networks.
    """

    features: Floats
    shares: Floats
    mbps: Floats
    seeds: np.ndarray

    @classmethod
    def of(cls, ones: Sequence[Trial]) -> "Data":
        """Of trials that did not fail."""
        rows, shares, totals, seeds = [], [], [], []
        for seed, some in itertools.groupby(ones, key=lambda trial: trial.seed):
            topology, known = random_network(seed), dict[frozenset[str], Subflows]()
            for trial in some:
                if trial.mbps is None:
                    continue
                one = trial.drawn
                active = arm(topology, one.pm, one.cc, one.subflows).active
                if active not in known:
                    known[active] = of_subflows(topology, active)
                rows.append(features(known[active], one))
                totals.append(known[active].total_bps / 1e6)
                shares.append(trial.mbps / totals[-1])
                seeds.append(seed)
        return cls(np.array(rows), np.array(shares), np.array(totals), np.array(seeds))

    def some(self, which: np.ndarray) -> "Data":
        """Those trials alone."""
        return Data(*(column[which] for column in self))


def features(subflows: Subflows, one: Drawn) -> list[float]:
    """Features of a configuration."""
    mesh, plain, grown = one.pm == "fullmesh", one.pm == PLAIN_TCP, one.mode == SENDER
    return of_configuration(subflows, one.cc, one.buffer_bytes, mesh=mesh, plain=plain, grown=grown)


def learn(data: Data) -> Learnt:
    """Train on most networks; the error is that of the others."""
    held_out = data.seeds % HELD_OUT == 0
    known = data.some(~held_out)
    centre, spread = known.features.mean(axis=0), known.features.std(axis=0) + 1e-6
    inputs = ((known.features - centre) / spread).astype(np.float32)
    targets = np.sqrt(np.maximum(known.shares, LEAST)).astype(np.float32)
    networks = [trained(inputs, targets, seed, Course()) for seed in range(NETWORKS)]
    learnt = Learnt(
        features=VERSION,
        mptune=mptune.__version__,
        networks=len(set(known.seeds.tolist())),
        trials=len(known.seeds),
        error=(1.0, 1.0),
        centre=tuple(centre.tolist()),
        spread=tuple(spread.tolist()),
        layers=tuple(tuple(map(_written, matrices)) for matrices in networks),
        shapes=tuple(matrix.shape for matrix in networks[0]),
    )
    ends = np.quantile(errors(learnt, data.some(held_out)), (0.5, 0.9))
    return msgspec.structs.replace(learnt, error=tuple(round(float(end), 4) for end in ends))


def _written(matrix: np.ndarray) -> str:
    return base64.b64encode(matrix.astype("<f4").tobytes()).decode()


def errors(learnt: Learnt, data: Data) -> Floats:
    """Errors as shares of the largest throughput of each network, its level being known."""
    return apart(learnt.predicted(data.features) * data.mbps, data)


def apart(expected: Floats, data: Data) -> Floats:
    """The same of any expectation, Mbit/s."""
    found: list[Floats] = []
    for seed in np.unique(data.seeds):
        own = data.seeds == seed
        truth, guess = data.shares[own] * data.mbps[own], expected[own]
        if truth.max() > 0:
            found.append(np.abs(guess * (guess @ truth) / (guess @ guess) - truth) / truth.max())
    return np.concatenate(found)


def main() -> int:
    """Trials, training, error."""
    asked = arguments()
    data = Data.of(trials(asked.networks))
    learnt = learn(data)
    print(f"learnt from {learnt.trials} trials of {learnt.networks} networks")
    others = data.some(data.seeds % HELD_OUT == 0)
    far = errors(learnt, others)
    nothing = apart(others.mbps, others)
    kinds = {
        "all": np.full(len(far), True),
        **{f"cc {cc}": others.features[:, place] > 0 for place, cc in enumerate(CONTROLS, -9)},
        "FullMesh": others.features[:, -3] > 0,
        "plain TCP": others.features[:, -2] > 0,
        "buffer grows": others.features[:, -1] > 0,
    }
    for name, which in kinds.items():
        print(
            f"{name:14} {which.sum():6} trials: {_ends(far[which])}; all links full: {_ends(nothing[which])}"
        )
    if asked.again:
        seeds = np.unique(others.seeds)[: asked.again]
        once = others.some(np.isin(others.seeds, seeds))
        twice = Data.of([trial for seed in seeds.tolist() for trial in measured(seed, base_seed=4)])
        print(
            f"{'another run':14} {len(once.seeds):6} trials: {_ends(apart(twice.shares * twice.mbps, once))}"
        )
        print(f"{'the learnt':14} {len(once.seeds):6} trials: {_ends(errors(learnt, once))}")
    text = msgspec.json.encode(learnt)
    print(f"{len(text) / 1e6:.2f} MB")
    if asked.write:
        SHIPPED.write_bytes(text + b"\n")
        print(f"written to {SHIPPED}")
    return 0


def _ends(far: Floats) -> str:
    """Median and 90th percentile."""
    return "{:.3f}, {:.3f}".format(*np.quantile(far, (0.5, 0.9)))


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", type=int, default=578, help="number of networks")
    parser.add_argument("--again", type=int, default=0, help="networks whose trials are done twice")
    parser.add_argument("--write", action="store_true", help="write the shipped file too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
