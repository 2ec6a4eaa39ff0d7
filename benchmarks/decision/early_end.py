"""Time saved by ending trials early, and its cost: the rule replayed on series of whole trials.

The series are those of the dense grids of `_corpus.py`, measured now or before. The error is that of a trial
that ended early against the same trial measured to its end: share of the whole trial's throughput. For
comparison: trials that all end after the same time, and what could be saved with hindsight, if every trial
ended when its estimate has come within 2 % and stays there. Prints a table and writes JSON.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.decision._corpus import SECONDS, SIZES, Grid, grid
from benchmarks.shared.measure import machine, write
from benchmarks.shared.random_networks import random_network
from mptune.runner.progress import Reporter
from mptune.testbeds.early_end import replayed
from mptune.topology import load, shipped
from mptune.trial import BIN_NS

#: The rule was developed on these shipped scenarios, on the random networks 1 to 10, and on no others.
DEVELOPED_ON = frozenset(
    (
        *(f"random-{seed}" for seed in range(1, 11)),
        *("CLOUD-HOME.day", "HOME-CLOUD.droptail", "HU-KRU", "KU-HiG.buffersizes", "NTNU-HiN.buffersizes"),
        "SRL-HU",
    )
)

#: Fixed durations to compare with, s.
FIXED_S = (5, 8, 10, 12)

#: Buffers of each arm at which the rule is checked by a whole trial.
CHECKS = 4

#: Error that counts as none, and one that counts as large.
NONE, LARGE = 0.02, 0.1

_BINS = SECONDS * 10**9 // BIN_NS


class Ended(NamedTuple):
    """Trials as they ended.

    Attributes
    ----------
    share : of the whole trial that each lasted, shape (arms, buffers, runs).
    error : relative error of their throughputs, of the same shape.
    """

    share: np.ndarray
    error: np.ndarray


def by_rule(known: Grid) -> Ended:
    """The rule, trial by trial."""
    share, error = np.ones(known.payload.shape[:3]), np.zeros(known.payload.shape[:3])
    for index in np.ndindex(share.shape):
        bins = known.payload[index]
        ended = replayed(bins, SECONDS * 10**9)
        if ended is not None:
            whole = max(float(bins.sum(dtype=np.float64)), 1.0)
            share[index] = ended.duration_ns / (SECONDS * 1e9)
            error[index] = abs(ended.expected_bps * SECONDS / 8 - whole) / whole
    return Ended(share, error)


def checked(rule: Ended) -> Ended:
    """All but the first runs, if only arms end early whose first runs at `CHECKS` buffers allow it.

    These are whole, and the rule must be right in each.
    """
    sizes = np.linspace(0, SIZES - 1, CHECKS).astype(int)
    right = np.all(rule.error[:, sizes, :1] <= NONE, axis=1, keepdims=True)
    return Ended(np.where(right, rule.share, 1.0)[..., 1:], np.where(right, rule.error, 0.0)[..., 1:])


def at(known: Grid, bins: int) -> Ended:
    """Every trial ends after as many bins; its throughput is estimated as by the rule."""
    sums = known.payload.cumsum(axis=-1, dtype=np.float64)
    third = bins // 3
    rate = (sums[..., bins - 1] - sums[..., third - 1]) / (bins - third)
    whole = np.maximum(sums[..., -1], 1.0)
    error = abs(sums[..., bins - 1] + rate * (_BINS - bins) - whole) / whole
    return Ended(np.full(error.shape, bins / _BINS), error)


def with_hindsight(known: Grid) -> Ended:
    """Every trial ends when its estimate comes within `NONE` for good."""
    share, error = np.ones(known.payload.shape[:3]), np.zeros(known.payload.shape[:3])
    good = np.full(share.shape, True)
    for bins in range(_BINS - 1, 9, -1):
        outcome = at(known, bins)
        good &= outcome.error <= NONE
        share, error = np.where(good, outcome.share, share), np.where(good, outcome.error, error)
    return Ended(share, error)


def main() -> int:
    """Replay everything that was asked for."""
    asked = arguments()
    drawn = [random_network(asked.seed + number) for number in range(asked.networks)]
    topologies = [*(load(name) for name in shipped()), *drawn] if not asked.random_only else drawn
    ended: dict[tuple[str, str], list[Ended]] = {}
    for topology in topologies:
        known = grid(topology, asked.stack, Reporter(), workers=asked.jobs)
        which = "developed on" if topology.name in DEVELOPED_ON else "others"
        rule = by_rule(known)
        ended.setdefault((which, "the rule"), []).append(rule)
        for quarter in range(4):
            sizes = slice(quarter * SIZES // 4, (quarter + 1) * SIZES // 4)
            part = Ended(rule.share[:, sizes], rule.error[:, sizes])
            ended.setdefault((which, f"the rule, buffers in quarter {quarter + 1}"), []).append(part)
        ended.setdefault((which, "the rule, arms checked"), []).append(checked(rule))
        for seconds in FIXED_S:
            row = at(known, seconds * 10**9 // BIN_NS)
            ended.setdefault((which, f"all after {seconds} s"), []).append(row)
        ended.setdefault((which, "with hindsight"), []).append(with_hindsight(known))
    rows: list[dict[str, float | str]] = [
        {"networks": which, "ending": ending, **summary(ones)} for (which, ending), ones in ended.items()
    ]
    console = Console(width=130)
    console.print(machine(), f"{len(topologies)} networks, stack {asked.stack}, trials of {SECONDS} s")
    console.print(table(rows))
    write(asked.out, rows)
    return 0


def summary(ones: Sequence[Ended]) -> dict[str, float]:
    """Shares over all trials."""
    share = np.concatenate([ended.share.ravel() for ended in ones])
    error = np.concatenate([ended.error.ravel() for ended in ones])
    return {
        "trials": len(error),
        "saved": 1 - float(share.mean()),
        "mean": float(error.mean()),
        **{f"q{q:g}": float(np.quantile(error, q / 100)) for q in (50, 90, 99)},
        "off": float((error > NONE).mean()),
        "far_off": float((error > LARGE).mean()),
    }


def table(rows: list[dict[str, float | str]]) -> Table:
    """A line per way to end trials."""
    heads = ("networks", "ending", "time saved", "error: mean", "median", "90 %", "99 %")
    drawn = Table(*heads, f"> {NONE:.0%}", f"> {LARGE:.0%}")
    keys = ("saved", "mean", "q50", "q90", "q99", "off", "far_off")
    for row in sorted(rows, key=lambda row: str(row["networks"])):
        drawn.add_row(str(row["networks"]), str(row["ending"]), *(f"{row[key]:.1%}" for key in keys))
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
    parser.add_argument("--jobs", type=int, help="simulated trials in parallel; one per core")
    parser.add_argument("--out", default="early_end", help="name of the JSON file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
