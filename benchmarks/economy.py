"""How much is lost by measuring less: strategies asked again and again about networks that are known already.

Dense grids of trials (`_corpus.py`) stand for the testbed: every network x FullMesh, the best sets of
subflows and plain TCP x six congestion controls x 16 buffers x 8 runs. A strategy asks, the grid answers with
one of its runs, in an order drawn anew for every replay. What it recommends is judged by the means of the
grid: its regret is the share by which its throughput misses what the sacrifice allows, and its buffer is
compared with the smallest that does it. Beside the adaptive strategy there are, with as many trials, the
sweep of the papers (as many runs and buffers as fit, evenly), trials drawn at random, and successive halving;
all three recommend by the means of what they saw.

Time counts as on a real testbed: what a trial lasts, and what it takes to set up. Prints a table and writes
JSON.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from _corpus import SECONDS, Grid, grid
from _measure import machine, write
from _random_networks import random_network
from mptune.decision.selection import SACRIFICE
from mptune.decision.selection import held as robustly
from mptune.measuring.progress import Reporter
from mptune.strategy import Ask, Question, Told, create
from mptune.topology import load, shipped

#: Seconds that a trial needs beside its duration: namespaces, connection, last data.
SET_UP_S = 1.0

#: Trials in all, at which strategies are compared: the least is 1 % of MPCOA's 6480.
BUDGETS = (64, 128, 256)

#: A regret up to this is none to speak of.
GOOD, FAIR = 0.02, 0.05

#: A buffer up to this many times the smallest that does it.
LARGER = 1.25

#: Larger buffers may give this much less than what the sacrifice allows.
COLLAPSE = 0.1


class Truth(NamedTuple):
    """What the whole grid says.

    Attributes
    ----------
    means : Mbit/s, shape (arms, buffers).
    allowed : the best less the sacrifice, Mbit/s.
    smallest : the smallest buffer that does it, bytes.
    """

    means: np.ndarray
    allowed: float
    smallest: int

    @classmethod
    def of(cls, known: Grid, sacrifice: float) -> "Truth":
        """The means over all runs; with larger buffers, or up to twice, throughput must not collapse."""
        means = known.mbps.mean(axis=2)
        allowed = (1 - sacrifice) * float(means.max())
        for reach in (math.inf, 2.0, 1.0):
            held = np.array([robustly(known.buffers, list(row), reach) for row in means])
            enough = (means >= allowed) & (held >= (1 - COLLAPSE) * allowed)
            if enough.any():
                break
        return cls(means, allowed, known.buffers[int(enough.any(axis=0).argmax())])


class Replay(NamedTuple):
    """The answer of one strategy in one replay; `certainty` is None where none is claimed."""

    regret: float
    larger: float
    trials: int
    certainty: float | None


#: What a trial of a configuration gives, Mbit/s.
Measure = Callable[[Ask], float]


def adaptive(
    known: Grid, budget: int, seed: int, sacrifice: float, measure: Measure
) -> tuple[int, int, int, float]:
    """Arm, buffer, number of trials, and the certainty that it claims."""
    question = Question(
        arms=known.arms,
        buffers=known.buffers,
        sacrifice=sacrifice,
        runs=known.payload.shape[2],
        budget_s=budget,
        seed=seed,
    )
    strategy, trials = create("adaptive", question), 0
    while asked := strategy.ask():
        strategy.tell([Told(one, measure(one)) for one in asked])
        trials += len(asked)
    verdict = strategy.verdict()
    assert verdict is not None
    return verdict.arm, verdict.size, trials, verdict.certainty


def spread(
    known: Grid, budget: int, seed: int, sacrifice: float, measure: Measure
) -> tuple[int, int, int, None]:
    """The papers' sweep, as far as the trials go: every arm, buffers evenly, the largest included."""
    arms, sizes, runs = known.mbps.shape
    each = max(1, min(sizes * runs, budget // arms))
    some = min(sizes, each)
    chosen = sorted({sizes - 1 - round(i * (sizes - 1) / max(1, some - 1)) for i in range(some)})
    seen: dict[tuple[int, int], list[float]] = {}
    for arm in range(arms):
        for size in chosen:
            seen[arm, size] = [measure(Ask(arm, size, run)) for run in range(max(1, each // some))]
    return *by_means(seen, sacrifice), sum(map(len, seen.values())), None


def at_random(
    known: Grid, budget: int, seed: int, sacrifice: float, measure: Measure
) -> tuple[int, int, int, None]:
    """Trials drawn evenly from the grid."""
    arms, sizes, runs = known.mbps.shape
    drawn = np.random.default_rng(seed).permutation(arms * sizes * runs)[:budget]
    seen: dict[tuple[int, int], list[float]] = {}
    for number in sorted(map(int, drawn)):
        arm, size, run = number // (sizes * runs), number // runs % sizes, number % runs
        seen.setdefault((arm, size), []).append(measure(Ask(arm, size, run)))
    return *by_means(seen, sacrifice), budget, None


def halving(
    known: Grid, budget: int, seed: int, sacrifice: float, measure: Measure
) -> tuple[int, int, int, None]:
    """Successive halving of the arms (Karnin, Koren and Somekh, ICML 2013), then bisection of the buffer.

    The arms are judged by their largest buffers. Half of the trials halve the arms until three are left; the
    others look for the smallest buffers of these.
    """
    arms, sizes, runs = known.mbps.shape
    seen: dict[tuple[int, int], list[float]] = {}

    def ask(arm: int, size: int) -> float:
        values = seen.setdefault((arm, size), [])
        if len(values) < runs and sum(map(len, seen.values())) < budget:
            values.append(measure(Ask(arm, size, len(values))))
        return sum(values) / len(values) if values else 0.0

    left = list(range(arms))
    rounds = max(1, math.ceil(math.log2(len(left) / 3)))
    for _ in range(rounds):
        each = max(1, budget // 2 // rounds // len(left))
        means = {arm: max(ask(arm, sizes - 1 - 3 * (turn % 3)) for turn in range(each)) for arm in left}
        left = sorted(left, key=lambda arm: (-means[arm], arm))[: max(3, len(left) // 2)]
    best = max(np.mean(values) for values in seen.values() if values)
    for arm in left:
        low, high = 0, sizes - 1
        while low < high:
            middle = (low + high) // 2
            enough = np.mean([ask(arm, middle) for _ in range(3)]) >= (1 - sacrifice) * best
            low, high = (low, middle) if enough else (middle + 1, high)
    seen = {place: values for place, values in seen.items() if values}
    return *by_means(seen, sacrifice), sum(map(len, seen.values())), None


STRATEGIES: dict[str, Callable[..., tuple[int, int, int, float | None]]] = {
    "adaptive": adaptive,
    "grid": spread,
    "random": at_random,
    "halving": halving,
}


def by_means(seen: dict[tuple[int, int], list[float]], sacrifice: float) -> tuple[int, int]:
    """The smallest buffer whose mean comes within the sacrifice of the best, and the faster of equals."""
    means = {place: sum(values) / len(values) for place, values in seen.items()}
    allowed = (1 - sacrifice) * max(means.values())
    return min((place for place in means if means[place] >= allowed), key=lambda one: (one[1], -means[one]))


def replays(known: Grid, name: str, budget: int, asked: argparse.Namespace) -> Iterator[Replay]:
    """One strategy, asked again and again; the runs of a configuration come in another order each time."""
    truth, mbps = Truth.of(known, asked.sacrifice), known.mbps
    for seed in range(asked.replays):
        random = np.random.default_rng(seed)
        order = random.permuted(np.broadcast_to(np.arange(mbps.shape[2]), mbps.shape), axis=2)

        def measure(ask: Ask, order: np.ndarray = order) -> float:
            return float(mbps[ask.arm, ask.size, order[ask.arm, ask.size, ask.run]])

        arm, size, trials, certainty = STRATEGIES[name](known, budget, seed, asked.sacrifice, measure)
        regret = max(0.0, 1 - truth.means[arm, size] / truth.allowed)
        yield Replay(regret, known.buffers[size] / truth.smallest, trials, certainty)


def main() -> int:
    """Replay everything that was asked for."""
    asked = arguments()
    drawn = [random_network(asked.seed + number) for number in range(asked.networks)]
    topologies = [*(load(name) for name in shipped()), *drawn] if not asked.random_only else drawn
    if asked.only:
        topologies = [one for one in topologies if one.name in asked.only]
    found: dict[tuple[str, int], list[Replay]] = {}
    for topology in topologies:
        known = grid(topology, asked.stack, Reporter(), workers=asked.jobs)
        for budget in BUDGETS:
            for name in STRATEGIES:
                found.setdefault((name, budget), []).extend(replays(known, name, budget, asked))
    console = Console(width=130)
    console.print(machine(), f"{len(topologies)} networks, {asked.replays} replays each, stack {asked.stack}")
    console.print(table(found))
    write(
        asked.out,
        [{"strategy": name, "budget": budget, **summary(ones)} for (name, budget), ones in found.items()],
    )
    return 0


def summary(ones: list[Replay]) -> dict[str, float | int | None]:
    """Shares of the replays; of the claims the share that is wrong."""
    regrets = np.array([one.regret for one in ones])
    claims = [one.regret > GOOD for one in ones if one.certainty is not None and one.certainty >= 0.95]
    trials = float(np.mean([one.trials for one in ones]))
    return {
        "trials": trials,
        "seconds": trials * (SECONDS + SET_UP_S),
        "median": float(np.median(regrets)),
        "q90": float(np.quantile(regrets, 0.9)),
        "good": float((regrets <= GOOD).mean()),
        "fair": float((regrets <= FAIR).mean()),
        "small": float(np.mean([one.larger <= LARGER for one in ones])),
        "claims": len(claims),
        "wrong": float(np.mean(claims)) if claims else None,
    }


def table(found: dict[tuple[str, int], list[Replay]]) -> Table:
    """A line per strategy and budget."""
    heads = ("strategy", "trials", "time", "regret: median", "90 %", f"<= {GOOD:.0%}", f"<= {FAIR:.0%}")
    drawn = Table(*heads, f"buffer <= {LARGER:g} x", "certain", "of it wrong")
    for (name, _), ones in sorted(found.items(), key=lambda one: (one[0][1], one[0][0])):
        one = summary(ones)
        drawn.add_row(
            name,
            f"{one['trials']:.0f}",
            f"{one['seconds']:.0f} s",
            *(f"{one[key]:.1%}" for key in ("median", "q90")),
            *(f"{one[key]:.0%}" for key in ("good", "fair", "small")),
            f"{one['claims']} of {len(ones)}",
            "-" if one["wrong"] is None else f"{one['wrong']:.1%}",
        )
    return drawn


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stack", default="linux")
    parser.add_argument("--networks", type=int, default=30, help="number of random networks")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first random network")
    parser.add_argument("--random-only", action="store_true", help="no shipped scenarios")
    parser.add_argument("--only", action="append", help="only networks with this name; repeat")
    parser.add_argument("--replays", type=int, default=10, help="of each strategy in each network")
    parser.add_argument("--sacrifice", type=float, default=SACRIFICE)
    parser.add_argument("--jobs", type=int, help="simulated trials in parallel; one per core")
    parser.add_argument("--out", default="economy", help="name of the JSON file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
