"""Early ends that know other trials: what they could save beyond the rule of today, replayed.

One whole trial of each configuration is measured (`_corpus.py`). A replay takes them in a random order, as a
search may, ends each at one of the rule's looks or not, and tells the rule of the next trials only what was
seen of it. Four rules compete, each with one tolerance, which is the largest at which the mean error on the
networks of `early_end.DEVELOPED_ON` is at most `AIM`:

- *today*: the rule in the core, which sees a trial alone.
- *ratios*: the error at a look is that of earlier trials of the arm, and of arms alike, at near buffers:
  the scatter of their throughputs about their estimates at this look, which also correct the estimate.
- *controls*: every seventh trial is whole whatever it looks like, and tells for each tolerance what ending
  would have cost there; each arm has the tolerance that promises most.
- *learnt*: the expected error is a regression (Poisson, logarithmic link) on the trial's own steadiness, the
  errors of earlier trials at this look, and how far the estimate is from the curve of earlier throughputs.
  What the developed-on networks say about it, quarter by quarter, is learnt from the other three quarters.

For comparison: today's rule with the tolerance at which it is as wrong as the learnt one, and with the best
tolerance of each network, or of each arm, known in hindsight. Nothing here is in the product. Prints a table
and writes JSON.
"""

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.decision._corpus import SECONDS, Extent, Grid, grid, is_kept
from benchmarks.decision.early_end import DEVELOPED_ON, LARGE, NONE, Ended, summary
from benchmarks.shared.measure import machine, write
from benchmarks.shared.random_networks import random_network
from mptune.runner.progress import Reporter
from mptune.topology import load, shipped
from mptune.trial import BIN_NS, Combination

Floats = np.ndarray

#: One run of each configuration.
ONCE = Extent(sets=2, runs=1, most_runs=1)

#: Largest mean error on the networks that the rules were developed on.
AIM = 0.02

#: Tolerances to choose from.
TOLERANCES = (0.01, 0.02, 0.025, 0.03, 0.035, 0.04, 0.05, 0.065, 0.08, 0.1)

#: The search asks for about as many trials; their errors are those of several orders.
FIRST, ORDERS = 70, (11, 12, 13, 14)

_BINS = SECONDS * 10**9 // BIN_NS


def _looks() -> tuple[int, ...]:
    """Bins at each look: those of the core, and three before them."""
    looks = [20, 25, 32, 40]
    while (after := math.ceil(looks[-1] * 5 / 4)) < _BINS:
        looks.append(after)
    return tuple(looks)


LOOKS = _looks()

#: The first look of the core's rule.
CORES = LOOKS.index(40)

#: Share of the trial that is left at each look.
LEFT = 1 - np.array(LOOKS) / _BINS


def look(bins: Floats, seen: int) -> tuple[float, float]:
    """The core's estimate of a whole trial's bytes after so many bins, and its predicted error as a share.

    The same as in `crates/mptune-core/src/early_end.rs`, which a test compares. The error is infinite
    while nothing arrives.
    """
    sums = np.concatenate([[0.0], np.cumsum(bins[:seen], dtype=np.float64)])
    third, left = seen // 3, len(bins) - seen
    rate = (sums[seen] - sums[third]) / (seen - third)
    expected = sums[seen] + rate * left
    if sums[seen] == sums[seen - 5]:
        return float(expected), math.inf
    first = np.arange(third)
    reached = np.flatnonzero((sums[first + 5] - sums[first]) / 5 >= 0.9 * rate)
    used = seen - (int(reached[0]) if len(reached) else third)
    variance = 0.0
    for batches in (2, 4, 8, 16):
        size = used // batches
        if size:
            means = np.diff(sums[seen - size * np.arange(batches, -1, -1)]) / size
            variance = max(variance, size * float(means.var(ddof=1)))
    return float(expected), left * math.sqrt(variance * (1 / used + 1 / left)) / float(expected)


class Trials(NamedTuple):
    """The whole trials of a network, and what every look at them would have shown.

    Attributes
    ----------
    estimate, whole : logarithms of bytes; shape (arms, buffers, looks), and (arms, buffers).
    error : that batch means predict, as a share, shape (arms, buffers, looks).
    alike : of two arms, shape (arms, arms): 0 the same, 1 the same subflows, 2 the same congestion control,
        3 neither.
    """

    name: str
    estimate: Floats
    error: Floats
    whole: Floats
    alike: np.ndarray

    @classmethod
    def of(cls, known: Grid) -> "Trials":
        """Look at everything."""
        payload = known.payload[:, :, 0]
        shape = payload.shape[:2]
        seen = np.array([[look(payload[at], bins) for bins in LOOKS] for at in np.ndindex(shape)])
        seen = seen.reshape(*shape, len(LOOKS), 2)
        whole = np.log(np.maximum(payload.sum(axis=-1, dtype=np.float64), 1.0))
        arms = [arm.combination for arm in known.arms]
        alike = np.array([[_alike(one, other) for other in arms] for one in arms])
        return cls(known.name, np.log(np.maximum(seen[..., 0], 1.0)), seen[..., 1], whole, alike)


def _alike(one: Combination, other: Combination) -> int:
    """See `Trials.alike`."""
    same_set = (one.pm, one.subflows) == (other.pm, other.subflows)
    return (0 if same_set else 2) if one.cc == other.cc else (1 if same_set else 3)


class Seen:
    """What earlier trials of a network have shown.

    Attributes
    ----------
    value, known : the logarithm of each trial's bytes, as it was reported, and whether it was.
    ratio, used : the logarithm of that by the estimate at each look before its end, and 1 there; 0 elsewhere.
    """

    def __init__(self, trials: Trials) -> None:
        self.trials = trials
        self.value: Floats = np.zeros(trials.whole.shape)
        self.known: Floats = np.zeros(trials.whole.shape)
        self.ratio: Floats = np.zeros(trials.error.shape)
        self.used: Floats = np.zeros(trials.error.shape)

    def add(self, at: tuple[int, int], end: int | None, value: float) -> None:
        """Add a trial that ended at this look, or at none."""
        self.value[at], self.known[at] = value, 1.0
        before = slice(0, end)
        self.ratio[at][before] = value - self.trials.estimate[at][before]
        self.used[at][before] = 1.0

    def near(self, at: tuple[int, int], shares: Sequence[float], width: float) -> Floats:
        """Weights of trials by how alike their arms are, and by distance in sizes of buffers."""
        arm, size = at
        sizes = np.arange(self.known.shape[1])
        weights: Floats = (
            np.array(shares)[self.trials.alike[arm]][:, None]
            * np.exp(-0.5 * ((sizes - size) / width) ** 2)[None]
        )
        return weights


class Rule(Protocol):
    """A rule that ends trials."""

    def __call__(self, seen: Seen, at: tuple[int, int]) -> tuple[int | None, float]:
        """The look at which this trial ends, and the logarithm of what corrects its estimate."""
        ...


Way = Callable[[float], Rule]


def first(good: Floats) -> int | None:
    """The first look at which it holds."""
    return int(good.argmax()) if good.any() else None


def today(tolerance: float) -> Rule:
    """The rule in the core."""

    def rule(seen: Seen, at: tuple[int, int]) -> tuple[int | None, float]:
        good = seen.trials.error[at] <= tolerance
        good[:CORES] = False
        return first(good), 0.0

    return rule


def ratios(tolerance: float) -> Rule:
    """Errors and corrections as earlier trials had them, worth one trial of the prior's."""

    def rule(seen: Seen, at: tuple[int, int]) -> tuple[int | None, float]:
        own = seen.trials.error[at]
        weights = seen.near(at, (1.0, 0.2, 0.2, 0.0), 3.0)[..., None] * seen.used
        count = weights.sum(axis=(0, 1))
        mean = (weights * seen.ratio).sum(axis=(0, 1)) / (count + 1)
        prior = 0.06**2 * LEFT + np.minimum(own, 1e3) ** 2
        squares = (weights * (seen.ratio - mean) ** 2).sum(axis=(0, 1))
        end = first((own <= tolerance) & ((prior + squares) / (1 + count) <= tolerance**2))
        return end, 0.0 if end is None else float(mean[end])

    return rule


#: Tolerances that an arm may have; with the first, nothing ends early.
_OF_ARMS = (0.0, *TOLERANCES, 0.2)


def outcomes(trials: Trials, at: tuple[int, int]) -> tuple[list[int | None], Floats]:
    """Where today's rule ends a trial with each of `_OF_ARMS`, and time saved and errors, a row each."""
    ends = [first((trials.error[at] <= one) & (np.arange(len(LOOKS)) >= CORES)) for one in _OF_ARMS]
    pairs = [(0.0, 0.0) if end is None else (LEFT[end], min(1.0, _off(trials, at, end))) for end in ends]
    return ends, np.array(pairs).T


def mean_outcomes(ones: Sequence[Trials]) -> Floats:
    """The means over all trials of these networks."""
    every = [outcomes(one, at)[1] for one in ones for at in np.ndindex(one.whole.shape)]
    mean: Floats = np.mean(every, axis=0)
    return mean


def controls(prior: Floats) -> Way:
    """Each arm's best tolerance by whole trials; an error of the rule's costs a seventh of a trial.

    Parameters
    ----------
    prior : `mean_outcomes` of other networks, worth eight trials of this one. Both are worth three trials of
        the arm.
    """

    def with_tolerance(tolerance: float) -> Rule:
        found: dict[tuple[int, int], Floats] = {}

        def rule(seen: Seen, at: tuple[int, int]) -> tuple[int | None, float]:
            done = int(seen.known.sum())
            if done == 0:
                found.clear()
            ends, outcome = outcomes(seen.trials, at)
            if done % 7 == 0:
                found[at] = outcome
                return None, 0.0
            weights = seen.near(at, (1.0, 0.1, 0.1, 0.0), 2.0)
            saved, off = 3 * sum(found.values(), 8 * prior) / (8 + len(found)) + sum(
                weights[place] * one for place, one in found.items()
            )
            return ends[int((saved - off / (7 * tolerance)).argmax())], 0.0

        return rule

    return with_tolerance


def hindsight(ones: Sequence[Trials], by_arm: bool) -> Ended:
    """As if the best tolerance of each network, or of each of its arms, were known and cost nothing.

    Best is what saves most time in all at a mean error of `AIM`.
    """
    groups = []
    for one in ones:
        every = np.array([outcomes(one, at)[1] for at in np.ndindex(one.whole.shape)])
        groups += np.split(every, len(one.whole) if by_arm else 1)

    def chosen(worth: float) -> Floats:
        best = (int((group[:, 0] - worth * group[:, 1]).mean(axis=0).argmax()) for group in groups)
        return np.concatenate([group[:, :, one] for group, one in zip(groups, best, strict=True)])

    low, high = 0.01, 100.0
    for _ in range(30):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if chosen(middle)[:, 1].mean() <= AIM else (middle, high)
    saved, off = chosen(high).T
    return Ended(1 - saved, off)


# ---- the regression ------------------------------------------------------------------------------


def _size(values: Floats) -> Floats:
    """Logarithm of a size; 1 % is small."""
    logarithm: Floats = np.log(np.abs(values) + 0.01)
    return logarithm


def features(seen: Seen, at: tuple[int, int]) -> Floats:
    """What is known of a trial at each look, shape (looks, features)."""
    trials, none = seen.trials, np.zeros(len(LOOKS))
    estimate, own = trials.estimate[at], np.log(np.clip(trials.error, 1e-4, 3))
    changed = np.concatenate([[math.log(0.1)], _size(np.diff(estimate))])
    columns = [own[at], np.log(LEFT), LEFT, changed]
    as_steady = np.exp(-0.5 * ((own - own[at]) / 0.7) ** 2)
    squares, prior = np.minimum(seen.ratio**2, 1.0), 0.08**2 * LEFT
    for shares in np.vstack([np.eye(4)[:3], np.ones(4)]):
        weights = seen.near(at, shares, 1.5)[..., None] * seen.used
        for used in (weights, weights * as_steady):
            count = used.sum(axis=(0, 1))
            mean = ((used * squares).sum(axis=(0, 1)) + 0.5 * prior) / (count + 0.5)
            columns.append(0.5 * np.log(mean + 1e-4))
        if shares[0] == 1:
            columns.append(np.log1p(weights.sum(axis=(0, 1))))
    arm, size = at
    sizes = np.flatnonzero(seen.known[arm])
    below, above = sizes[sizes < size], sizes[sizes > size]
    curve = [none, none, none, none]
    if len(below) and len(above):
        low, high = int(below[-1]), int(above[0])
        between = float(np.interp(size, (low, high), seen.value[arm, [low, high]]))
        curve = [_size(estimate - between), none + 1, none + math.log(high - low), none]
    elif len(sizes):
        nearest = int(below[-1] if len(below) else above[0])
        distance = math.log(abs(nearest - size) + 1)
        curve = [none, none, none + distance, _size(estimate - seen.value[arm, nearest])]
    beside = seen.near(at, (0.0, 1.0, 0.0, 0.0), 0.8) * seen.known
    if (weight := float(beside.sum())) > 0.3:
        others = [_size(estimate - float((beside * seen.value).sum()) / weight), none + 1]
    else:
        others = [none + math.log(0.3), none]
    return np.stack([*columns, *curve, *others], axis=-1)


class Learnt(NamedTuple):
    """The regression: mean and scale of its features, and its weights, the constant last."""

    mean: Floats
    scale: Floats
    weights: Floats

    def __call__(self, rows: Floats) -> Floats:
        """Expected errors, as shares."""
        scores = (rows - self.mean) / self.scale @ self.weights[:-1] + self.weights[-1]
        expected: Floats = np.exp(np.clip(scores, -9.0, 0.5))
        return expected

    @classmethod
    def of(cls, rows: Floats, errors: Floats) -> "Learnt":
        """Maximum likelihood by Newton's steps, with a small penalty."""
        mean, scale = rows.mean(axis=0), rows.std(axis=0) + 1e-6
        design = np.column_stack([(rows - mean) / scale, np.ones(len(rows))])
        weights = np.zeros(design.shape[1])
        weights[-1] = math.log(errors.mean())
        penalty = np.append(np.full(rows.shape[1], 1e-4 * len(rows) * errors.mean()), 0.0)
        for _ in range(30):
            expected = np.exp(np.clip(design @ weights, -9.0, 0.5))
            slope = design.T @ (expected - errors) + penalty * weights
            curvature = (design * expected[:, None]).T @ design + np.diag(penalty + 1e-9)
            step = np.linalg.solve(curvature, slope)
            weights = weights - step * min(1.0, 1.0 / float(np.abs(step).max() + 1e-12))
        return cls(mean, scale, weights)


def lessons(trials: Trials) -> tuple[Floats, Floats]:
    """Features at all looks of all trials, and of several beginnings, and the errors there."""
    pairs = [_lesson(trials, order, None if order == 1 else FIRST) for order in range(1, 6)]
    rows, errors = zip(*pairs, strict=True)
    return np.concatenate(rows), np.concatenate(errors)


def _lesson(trials: Trials, order: int, most: int | None) -> tuple[Floats, Floats]:
    """The lessons of one order, if a third of the trials are whole and the others end by today's rule."""
    rng, seen, ends = np.random.default_rng(order), Seen(trials), today(0.03)
    rows, errors = [], []
    for at in _order(trials, order)[:most]:
        rows.append(features(seen, at))
        off = np.expm1(np.clip(trials.estimate[at] - trials.whole[at], -1.5, 1.5))
        errors.append(np.minimum(np.abs(off), 1.0))
        end = None if rng.random() < 1 / 3 else ends(seen, at)[0]
        seen.add(at, end, float(trials.whole[at] if end is None else trials.estimate[at][end]))
    return np.concatenate(rows), np.concatenate(errors)


def learnt(model: Learnt) -> Way:
    """The rule of a regression."""

    def with_tolerance(tolerance: float) -> Rule:
        def rule(seen: Seen, at: tuple[int, int]) -> tuple[int | None, float]:
            arrives = np.isfinite(seen.trials.error[at])
            return first(arrives & (model(features(seen, at)) <= tolerance)), 0.0

        return rule

    return with_tolerance


# ---- the replay ----------------------------------------------------------------------------------


def _order(trials: Trials, order: int) -> list[tuple[int, int]]:
    """All configurations, in a random order."""
    sizes = trials.whole.shape[1]
    drawn = np.random.default_rng(order).permutation(trials.whole.size)
    return [divmod(int(number), sizes) for number in drawn]


def _off(trials: Trials, at: tuple[int, int], end: int, correction: float = 0.0) -> float:
    """Relative error of a trial that ends there."""
    return abs(math.expm1(float(trials.estimate[at][end] + correction - trials.whole[at])))


def replay(trials: Trials, rule: Rule, order: int = ORDERS[0], most: int | None = None) -> Ended:
    """All trials of a network in a random order, or its first ones; the arrays follow the order."""
    seen, share, error = Seen(trials), [], []
    for at in _order(trials, order)[:most]:
        end, correction = rule(seen, at)
        value = float(trials.whole[at] if end is None else trials.estimate[at][end] + correction)
        share.append(1.0 if end is None else 1.0 - float(LEFT[end]))
        error.append(0.0 if end is None else _off(trials, at, end, correction))
        seen.add(at, end, value)
    return Ended(np.array(share), np.array(error))


class Contest(NamedTuple):
    """The networks, by whether the rules were developed on them, and of a rule what replays it on each.

    Attributes
    ----------
    ways : of each rule, one for each network of each group.
    """

    groups: dict[str, list[Trials]]
    ways: dict[str, dict[str, list[Way]]]

    @classmethod
    def of(cls, groups: dict[str, list[Trials]]) -> "Contest":
        """Learn what is to be learnt; the first group is the one to learn from."""
        old = next(iter(groups.values()))
        taught = [lessons(trials) for trials in old]

        def model(without: int | None) -> Way:
            some = [one for number, one in enumerate(taught) if without is None or number % 4 != without]
            rows, errors = (np.concatenate([one[part] for one in some]) for part in (0, 1))
            return learnt(Learnt.of(rows, errors))

        quarters, whole, by_controls = (
            [model(one) for one in range(4)],
            model(None),
            controls(mean_outcomes(old)),
        )
        ways: dict[str, dict[str, list[Way]]] = {}
        for which, ones in groups.items():
            mine = [quarters[number % 4] if ones is old else whole for number in range(len(ones))]
            alone = {"today": today, "ratios": ratios, "controls": by_controls}
            ways[which] = {name: [way] * len(ones) for name, way in alone.items()} | {"learnt": mine}
        return cls(groups, ways)

    def replayed(self, which: str, way: str, tolerance: float, *, begun: bool = False) -> dict[str, float]:
        """The summary of a rule on a group: all trials, or several beginnings."""
        pairs = list(zip(self.groups[which], self.ways[which][way], strict=True))
        orders, most = (ORDERS, FIRST) if begun else (ORDERS[:1], None)
        return summary(
            [replay(trials, rule(tolerance), order, most) for trials, rule in pairs for order in orders]
        )

    def as_wrong(self, which: str, mean: float, *, begun: bool) -> tuple[float, dict[str, float]]:
        """Today's rule with the largest tolerance at which it is as wrong on average, and this tolerance."""
        found = 0.0, self.replayed(which, "today", 0.0, begun=begun)
        for tolerance in np.geomspace(0.003, 0.1, 40):
            row = self.replayed(which, "today", float(tolerance), begun=begun)
            if row["mean"] <= mean:
                found = round(float(tolerance), 4), row
        return found


def main() -> int:
    """Choose each rule's tolerance on the old networks, and replay it on the new ones."""
    asked = arguments()
    topologies = [*map(random_network, [*range(1, 11), *range(asked.seed, asked.seed + asked.networks)])]
    topologies += [load(name) for name in shipped()]
    groups: dict[str, list[Trials]] = {"developed on": [], "new random": [], "other scenarios": []}
    for topology in topologies:
        kind = "new random" if topology.name.startswith("random-") else "other scenarios"
        which = "developed on" if topology.name in DEVELOPED_ON else kind
        if which == "developed on" or not asked.kept or is_kept(topology, asked.stack, ONCE):
            known = grid(topology, asked.stack, Reporter(), workers=asked.jobs, extent=ONCE)
            groups[which].append(Trials.of(known))
    groups["all new"] = groups["new random"] + groups["other scenarios"]
    contest = Contest.of({which: ones for which, ones in groups.items() if ones})
    rows: list[dict[str, float | str]] = []
    for which, ones in contest.groups.items():
        for name, by_arm in (("best for each network", False), ("best for each arm", True)):
            best = summary([hindsight(ones, by_arm)])
            told: dict[str, float | str] = {"trials": "all", "rule": name, "tolerance": "hindsight"}
            rows.append({**best, "networks": which, **told})
    for way in ("today", "ratios", "controls", "learnt"):
        on_old = [contest.replayed("developed on", way, tolerance) for tolerance in TOLERANCES]
        good = [number for number, one in enumerate(on_old) if one["mean"] <= AIM]
        tolerance = TOLERANCES[max(good, default=0)]
        for which in contest.groups:
            for begun in (False, True):
                row = contest.replayed(which, way, tolerance, begun=begun)
                told = {"trials": f"first {FIRST}" if begun else "all", "rule": way, "tolerance": tolerance}
                rows.append({**row, "networks": which, **told})
                if way == "learnt":
                    equal, other = contest.as_wrong(which, row["mean"], begun=begun)
                    told = told | {"rule": "today, as wrong", "tolerance": equal}
                    rows.append({**other, "networks": which, **told})
    console = Console(width=130)
    console.print(machine(), f"stack {asked.stack}")
    console.print({which: [one.name for one in ones] for which, ones in contest.groups.items()})
    console.print(table(rows))
    write(asked.out, rows)
    return 0


def table(rows: list[dict[str, float | str]]) -> Table:
    """A line per rule."""
    words = ("networks", "trials", "rule", "tolerance")
    drawn = Table(*words, "time saved", "error: mean", "90 %", f"> {NONE:.0%}", f"> {LARGE:.0%}")
    for row in sorted(rows, key=lambda row: (str(row["networks"]), str(row["trials"]))):
        shares = (f"{row[key]:.1%}" for key in ("saved", "mean", "q90", "off", "far_off"))
        drawn.add_row(*(str(row[word]) for word in words), *shares)
    return drawn


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stack", default="linux")
    parser.add_argument("--networks", type=int, default=8, help="number of new random networks")
    parser.add_argument("--seed", type=int, default=7811, help="seed of the first new random network")
    parser.add_argument("--kept", action="store_true", help="only those new networks that were measured")
    parser.add_argument("--jobs", type=int, help="simulated trials in parallel; one per core")
    parser.add_argument("--out", default="early_end_known", help="name of the JSON file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
