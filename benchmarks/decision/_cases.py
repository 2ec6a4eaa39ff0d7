"""The contenders of a comparison, and their results in each network.

Not a benchmark; the replays of `economy.py`, which are kept until something that they depend on changes.
"""

import argparse
import hashlib
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

import mptune
from benchmarks.decision import _peers, _replay
from benchmarks.decision._corpus import SMALL, WHOLE, Extent, Grid, grid
from benchmarks.decision._kernel_grids import kernel_grid
from benchmarks.decision._replay import Answer, Asking, Course, Planned, Player, Prior, Setting, Truth, World
from benchmarks.shared.measure import RESULTS
from mptune.optimisation.learnt_prior import SHIPPED, LearntPrior
from mptune.runner.progress import Reporter
from mptune.topology import Topology

#: Seconds at which answers are noted; the strategy's part of 1 % of MPCOA's 6480 trials of 30 s; the most.
MARKS = (
    *(22, 33, 44, 55, 66, 84, 105, 126, 147, 168, 200, 231, 265, 300, 340, 378, 414, 450, 520, 600, 690, 780),
    *(972, 1134, 1296, 1470, 1650, 1944, 2300, 2700, 3300, 3888),
)
MAIN = 1650
MOST = MARKS[-1]

#: Small grids are asked for no longer: trials are half as long, and there are fewer to choose from.
SMALL_MOST = 780

#: Slow optimisers have this much, and are replayed less often.
SLOW_MOST = 1944

#: Without a limit there is one: ten times the budget. A strategy that is not certain by then claims nothing.
PATIENCE_S = 19_440.0

#: How much longer it will take is noted then, and compared with how long it took.
EARLY = 780

#: The certainty that is asked for, and that counts as a claim.
CERTAIN = 0.95


class Contestant(NamedTuple):
    """A strategy that is compared.

    Attributes
    ----------
    make : a player.
    prior : "", "prior", "stated prior" (one whose error is known), "wrong prior", "learnt prior" or "wrong
        learnt prior".
    anytime : whether it can be asked at any time; else it is replayed for each.
    slow : whether it thinks for long.
    ending : whether the first trials of its configurations end early, as `mptune optimise` has them.
    peer : which needs packages.
    """

    make: Callable[[Setting, Truth, argparse.Namespace], Player]
    prior: str = ""
    anytime: bool = True
    slow: bool = False
    ending: bool = False
    peer: _peers.Peer | None = None


def planned(plan: Callable[[Setting], _replay.Plan]) -> Callable[..., Player]:
    """A plan, and the reading that was asked for."""

    def make(setting: Setting, _: Truth, asked: argparse.Namespace) -> Player:
        reading = _replay.by_belief if asked.reading == "belief" else _replay.by_means
        return Planned(setting, plan(setting), reading)

    return make


def adaptive(setting: Setting, _: Truth, __: argparse.Namespace) -> Player:
    """About all arms."""
    return Asking(setting)


def oracle(setting: Setting, truth: Truth, _: argparse.Namespace) -> Player:
    """About the two best arms alone."""
    return Asking(setting, arms=truth.best_two)


CONTESTANTS: dict[str, Contestant] = {
    "adaptive": Contestant(adaptive),
    "adaptive, prior": Contestant(adaptive, prior="prior"),
    "adaptive, wrong prior": Contestant(adaptive, prior="wrong prior"),
    "adaptive, learnt prior": Contestant(adaptive, prior="learnt prior"),
    "adaptive, wrong learnt prior": Contestant(adaptive, prior="wrong learnt prior"),
    "adaptive, ending early": Contestant(adaptive, ending=True),
    "adaptive, prior, ending early": Contestant(adaptive, prior="prior", ending=True),
    "adaptive, stated prior, ending early": Contestant(adaptive, prior="stated prior", ending=True),
    "adaptive, learnt prior, ending early": Contestant(adaptive, prior="learnt prior", ending=True),
    "oracle": Contestant(oracle),
    "oracle, ending early": Contestant(oracle, ending=True),
    "even grid": Contestant(planned(_replay.spread), anytime=False),
    "random": Contestant(planned(_replay.at_random)),
    "halving": Contestant(planned(_replay.halving), anytime=False),
    **{
        name: Contestant(planned(peer.plan), slow=peer.slow, peer=peer) for name, peer in _peers.PEERS.items()
    },
}


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A contestant in a network: regret, and the multiple of the smallest sufficient buffer.

    Attributes
    ----------
    regrets, larger : by replay and mark; None where there was no answer yet.
    claims : likewise, whether a certain answer was right; None if it was not certain.
    rooms : likewise, the share of the throughput by which it stated that it may miss.
    more_s : likewise, the seconds after which it expected to be certain; None if it gave none.
    trials, spent_s, thinking_s : by replay, in the end; of those that know their time, for the main mark.
    """

    network: str
    stack: str
    contestant: str
    marks: list[float]
    regrets: list[list[float | None]]
    larger: list[list[float | None]]
    claims: list[list[bool | None]]
    rooms: list[list[float | None]]
    more_s: list[list[float | None]]
    trials: list[int]
    spent_s: list[float]
    thinking_s: list[float]

    def at(self, mark: float) -> list[tuple[float, float]]:
        """Regret and multiple of the buffer by replay; without an answer, everything is lost."""
        if mark not in self.marks:
            return []
        index = self.marks.index(mark)
        return [
            (1.0, math.inf)
            if regret[index] is None
            else (float(regret[index] or 0), float(larger[index] or 0))
            for regret, larger in zip(self.regrets, self.larger, strict=True)
        ]


class Network(NamedTuple):
    """The source of a grid; kernel grids have the stack "kernel"."""

    topology: Topology
    stack: str
    extent: Extent = WHOLE

    @property
    def known(self) -> Grid:
        """Its grid."""
        if self.stack == "kernel":
            return kernel_grid(self.topology, Reporter())
        return grid(self.topology, self.stack, Reporter(), extent=self.extent)


def prior(name: str, topology: Topology, known: Grid, truth: Truth, seed: int) -> Prior:
    """The prior of this name."""
    if name.endswith("learnt prior"):
        learnt = LearntPrior(topology, grown=False)
        rows = np.array(learnt.rows(known.arms, known.buffers))
        error = learnt.error(known.arms, known.buffers)
        return Prior(_replay.reversed_ranks(rows) if name.startswith("wrong") else rows, error)
    expected = _replay.misjudged(truth.means, known, seed)
    if name == "wrong prior":
        return Prior(_replay.reversed_ranks(expected))
    if name == "stated prior":
        return Prior(expected, _replay.MISJUDGED)
    return Prior(expected) if name else Prior()


def case(network: Network, name: str, asked: argparse.Namespace) -> Case:
    """Replay one contestant in one network; the runs of a configuration come in another order each time."""
    known, contestant = network.known, CONTESTANTS[name]
    truth = Truth.of(known, asked.sacrifice)
    most = SMALL_MOST if network.extent == SMALL else SLOW_MOST if contestant.slow else MOST
    marks: list[float] = [mark for mark in MARKS if mark <= most]
    if asked.claims:
        marks = [EARLY, PATIENCE_S]
    scores: dict[str, list[Any]] = {
        key: []
        for key in ("regrets", "larger", "claims", "rooms", "more_s", "trials", "spent_s", "thinking_s")
    }
    for seed in range(asked.slow_replays if contestant.slow else asked.replays):

        def replayed(horizon: float, times: Sequence[float], seed: int = seed) -> Course:
            setting = Setting(
                known=known,
                horizon_s=horizon,
                seed=seed + 1,
                sacrifice=asked.sacrifice,
                short=asked.short,
                prior=prior(contestant.prior, network.topology, known, truth, seed),
            )
            world = World(known, seed, _replay.ending() if contestant.ending else None)
            return _replay.course(
                contestant.make(setting, truth, asked), world, setting.trial_s, horizon, times
            )

        if asked.claims or contestant.anytime:
            last = replayed(marks[-1], marks)
            answers = last.answers
        else:
            courses = [replayed(mark, [mark]) for mark in marks]
            last, answers = (
                courses[marks.index(MAIN) if MAIN in marks else -1],
                [course.answers[0] for course in courses],
            )
        scores["regrets"].append([None if a is None else truth.regret(a.arm, a.size) for a in answers])
        smallest = known.buffers[truth.size]
        scores["larger"].append([None if a is None else known.buffers[a.size] / smallest for a in answers])
        scores["claims"].append([claim(answer, truth) for answer in answers])
        scores["rooms"].append([None if answer is None else answer.room for answer in answers])
        scores["more_s"].append([None if answer is None else answer.more_s for answer in answers])
        for key in ("trials", "spent_s", "thinking_s"):
            scores[key].append(getattr(last, key))
    return Case(
        network=network.topology.name,
        stack=network.stack,
        contestant=name,
        marks=list(map(float, marks)),
        **scores,
    )


def claim(answer: Answer | None, truth: Truth) -> bool | None:
    """Truth of a claim; None if there is none."""
    if answer is None or answer.certainty is None or answer.certainty < CERTAIN:
        return None
    return truth.regret(answer.arm, answer.size) <= answer.room


def stored_case(network: Network, name: str, asked: argparse.Namespace, by: bytes) -> Case:
    """The case, replayed now or before; run in a process of its own.

    Parameters
    ----------
    by : `sources` when this program began: files may have changed since.
    """
    _peers.reachable(asked.peers)
    replays = asked.slow_replays if CONTESTANTS[name].slow else asked.replays
    how = asked.sacrifice, asked.short, asked.reading, asked.claims, replays, MARKS
    settings = (network.topology, network.extent, *how)
    digest = hashlib.blake2b(repr(settings).encode(), digest_size=8)
    digest.update(by)
    path = RESULTS / "economy" / digest.hexdigest() / f"{network.topology.name}.{network.stack}.{name}.json"
    if path.exists():
        return msgspec.json.decode(path.read_bytes(), type=Case)
    outcome = case(network, name, asked)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_bytes(msgspec.json.encode(outcome))
    part.rename(path)
    return outcome


def sources() -> bytes:
    """A digest of everything that replays depend on."""
    here = Path(__file__).parent
    package = Path(str(mptune.__file__)).parent
    files = [
        *(here / f"{name}.py" for name in ("_cases", "_replay", "_peers", "_corpus")),
        *sorted(package.glob("strategy/*.py")),
        *sorted(package.glob("response/*.py")),
        *sorted(package.glob("optimisation/learnt_*.py")),
        SHIPPED,
    ]
    return hashlib.blake2b(b"".join(file.read_bytes() for file in files)).digest()
