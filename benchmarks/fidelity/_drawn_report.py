"""Figures of the simulator in drawn networks, over all configurations and by regime.

Not a benchmark, and pure statistics. Every figure has the kernel's own beside it, the floor: the runs of each
configuration are split into two parts, the larger one in the place of the simulator. All splits count; the
floor is the mean of their figures, and of the bias, whose sign means nothing then, the root mean square.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from mptune.decision.agreement import bias, spearman
from mptune.statistics import half_width, model_error_needed, prediction_half_width, quantile

#: Number of worst configurations listed.
WORST = 10

#: Throughputs of runs, Mbit/s; None is a run that stalled.
Runs = tuple[float | None, ...]


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration with its runs on both testbeds; other failures are left out.

    Attributes
    ----------
    saturated : nothing of fixed size is sent.
    about : what it is, in words.
    expected : the interval that the shipped model error gives the kernel's mean, Mbit/s; None if it knows no
        error for the kind.
    """

    name: str
    network: str
    saturated: bool
    about: str
    factors: dict[str, tuple[str, ...]]
    simulated: Runs
    kernel: Runs
    expected: tuple[float, float] | None = None

    @property
    def error(self) -> float | None:
        """Simulated mean relative to the kernel's, minus 1."""
        return Pair(self, self.simulated, self.kernel).error


class Pair(NamedTuple):
    """A configuration with what predicts and what is predicted."""

    judged: Judged
    predicting: Runs
    predicted: Runs

    @property
    def error(self) -> float | None:
        """Relative error of the means; None unless both sides have a number."""
        simulated, other = mean(self.predicting), mean(self.predicted)
        return None if simulated is None or not other else simulated / other - 1

    @property
    def inside(self) -> bool | None:
        """The mean lies inside the 95 % prediction interval; None if there is none."""
        half = prediction_half_width(numbers(self.predicting), max(1, len(numbers(self.predicted))))
        simulated, other = mean(self.predicting), mean(self.predicted)
        return None if half is None or simulated is None or other is None else abs(simulated - other) <= half

    @property
    def as_expected(self) -> bool | None:
        """The mean lies inside the interval with the model's error; None if there is none."""
        within, mean_ = self.judged.expected, mean(self.predicted)
        return None if within is None or mean_ is None else within[0] <= mean_ <= within[1]

    @property
    def model_error(self) -> float | None:
        """Model error with which it would."""
        other = mean(self.predicted)
        if other is None:
            return None
        return model_error_needed(numbers(self.predicting), other, len(numbers(self.predicted)))


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of some configurations; errors are relative, and None where too few have numbers.

    Attributes
    ----------
    n : configurations with numbers on both sides, which all figures are about.
    networks : of which they are.
    median, q90 : of the absolute errors.
    bias : signed (`mptune.decision.agreement.bias`); `bias_half` is half of its 95 % interval, from the means
        of the networks, whose configurations are not independent of each other.
    inside : share of the predicted means inside the 95 % prediction intervals.
    as_expected : share of them inside the shipped intervals, which have the model's error in them; of the
        floor None.
    expected : how many configurations have such an interval.
    width : median width of those intervals, high / low - 1.
    model_error : standard deviation of a model's error that would put 95 % of them inside.
    """

    n: int
    networks: int
    median: float | None
    q90: float | None
    bias: float | None
    bias_half: float | None
    inside: float | None
    model_error: float | None
    as_expected: float | None = None
    expected: int = 0
    width: float | None = None


class Regime(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a regime, and the kernel's own."""

    factor: str
    regime: str
    figures: Figures
    floor: Figures


class Whole(msgspec.Struct, frozen=True, kw_only=True):
    """Figures over everything.

    Attributes
    ----------
    rank_correlation : Spearman's, of the mean throughputs of all configurations.
    regret_median, regret_q90, regret_max : share of the kernel's best throughput in a network that is lost
        where its configuration is chosen by the prediction; saturated ones only, a run that stalled counts as
        nothing.
    stalls : share of the runs that stalled, on either side.
    stalls_agree : share of the configurations that stall on both sides or on none.
    """

    figures: Figures
    rank_correlation: float | None
    regret_median: float | None
    regret_q90: float | None
    regret_max: float | None
    stalls: tuple[float, float]
    stalls_agree: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is shown.

    Attributes
    ----------
    perfect_median, perfect_q90 : errors that a simulator without any would show, because the few runs of the
        kernel scatter: the floor's, scaled to as many runs as there are.
    """

    whole: Whole
    floor: Whole
    perfect_median: float | None
    perfect_q90: float | None
    regimes: tuple[Regime, ...]
    worst: tuple[Judged, ...]


def numbers(runs: Runs) -> list[float]:
    """Of the runs that gave one."""
    return [run for run in runs if run is not None]


def mean(runs: Runs) -> float | None:
    """Of the runs that gave a number."""
    values = numbers(runs)
    return math.fsum(values) / len(values) if values else None


def yields(runs: Runs) -> float:
    """Mean of all runs; one that stalled gives nothing."""
    return math.fsum(numbers(runs)) / len(runs) if runs else 0.0


def report(judged: Sequence[Judged]) -> Report:
    """All figures."""
    pairs = [Pair(case, case.simulated, case.kernel) for case in judged]
    split = list(splits(judged))
    regimes = []
    for factor in dict.fromkeys(name for case in judged for name in case.factors):
        for value in sorted({value for case in judged for value in case.factors.get(factor, ())}):
            here = _having(factor, value)
            floor = _floor([figures([pair for pair in part if here(pair)]) for part in split])
            regimes.append(
                Regime(
                    factor=factor, regime=value, figures=figures([p for p in pairs if here(p)]), floor=floor
                )
            )
    errors = [(abs(case.error), case) for case in judged if case.error is not None]
    errors.sort(key=lambda pair: -pair[0])
    perfect = sorted(value for part in split for value in _scaled(part))
    return Report(
        whole=whole(pairs),
        floor=_whole_floor([whole(part) for part in split]),
        perfect_median=quantile(perfect, 0.5) if perfect else None,
        perfect_q90=quantile(perfect, 0.9) if perfect else None,
        regimes=tuple(regimes),
        worst=tuple(case for _, case in errors[:WORST]),
    )


def figures(pairs: Sequence[Pair]) -> Figures:
    """Figures of some configurations."""
    compared = [(pair, error) for pair in pairs if (error := pair.error) is not None]
    absolute = sorted(abs(error) for _, error in compared)
    inside = [held for pair, _ in compared if (held := pair.inside) is not None]
    expected = [held for pair, _ in compared if (held := pair.as_expected) is not None]
    within = [pair.judged.expected for pair, _ in compared if pair.judged.expected is not None]
    widths = sorted(high / low - 1 for low, high in within)
    needed = sorted(half for pair, _ in compared if (half := pair.model_error) is not None)
    by_network: dict[str, list[float]] = {}
    for pair, error in compared:
        if error > -1:
            by_network.setdefault(pair.judged.network, []).append(math.log1p(error))
    return Figures(
        n=len(compared),
        networks=len(by_network),
        median=quantile(absolute, 0.5) if absolute else None,
        q90=quantile(absolute, 0.9) if absolute else None,
        bias=bias([error for _, error in compared if error > -1]),
        bias_half=half_width([math.fsum(values) / len(values) for values in by_network.values()]),
        inside=sum(inside) / len(inside) if inside else None,
        model_error=quantile(needed, 0.95) if needed else None,
        as_expected=sum(expected) / len(expected) if expected else None,
        expected=len(expected),
        width=quantile(widths, 0.5) if widths else None,
    )


def whole(pairs: Sequence[Pair]) -> Whole:
    """Figures over everything."""
    means = [
        (simulated, other)
        for pair in pairs
        if (simulated := mean(pair.predicting)) is not None and (other := mean(pair.predicted)) is not None
    ]
    lost = sorted(regrets(pairs).values())
    predicting = [run for pair in pairs for run in pair.predicting]
    predicted = [run for pair in pairs for run in pair.predicted]
    agreeing = [(None in pair.predicting) == (None in pair.predicted) for pair in pairs]
    return Whole(
        figures=figures(pairs),
        rank_correlation=spearman([simulated for simulated, _ in means], [other for _, other in means]),
        regret_median=quantile(lost, 0.5) if lost else None,
        regret_q90=quantile(lost, 0.9) if lost else None,
        regret_max=lost[-1] if lost else None,
        stalls=(_share_of_stalls(predicting), _share_of_stalls(predicted)),
        stalls_agree=sum(agreeing) / len(agreeing) if agreeing else 1.0,
    )


def regrets(pairs: Sequence[Pair]) -> dict[str, float]:
    """Loss in each network with at least two saturated configurations."""
    by_network: dict[str, list[Pair]] = {}
    for pair in pairs:
        if pair.judged.saturated and pair.predicting and pair.predicted:
            by_network.setdefault(pair.judged.network, []).append(pair)
    regrets = {}
    for network, here in by_network.items():
        best = max(yields(pair.predicted) for pair in here)
        if len(here) >= 2 and best:
            chosen = max(here, key=lambda pair: yields(pair.predicting))
            regrets[network] = 1 - yields(chosen.predicted) / best
    return regrets


def splits(judged: Sequence[Judged]) -> Iterator[list[Pair]]:
    """The kernel against itself: every way to put the smaller half of the runs aside.

    A configuration with fewer runs than others has fewer ways, which are then taken again.
    """
    ways = [
        list(itertools.combinations(range(len(case.kernel)), len(case.kernel) // 2))
        if len(case.kernel) > 1
        else []
        for case in judged
    ]
    for number in range(max((len(way) for way in ways), default=0)):
        pairs = []
        for case, way in zip(judged, ways, strict=True):
            if way:
                aside = way[number % len(way)]
                kept = tuple(run for place, run in enumerate(case.kernel) if place not in aside)
                pairs.append(Pair(case, kept, tuple(case.kernel[place] for place in aside)))
        yield pairs


def _scaled(pairs: Sequence[Pair]) -> Iterator[float]:
    """Errors of a split, as they would be between all runs of both sides."""
    for pair in pairs:
        error = pair.error
        here = len(numbers(pair.predicting)), len(numbers(pair.predicted))
        there = len(numbers(pair.judged.simulated)), len(numbers(pair.judged.kernel))
        if error is not None and all(here) and all(there):
            yield abs(error) * math.sqrt((1 / there[0] + 1 / there[1]) / (1 / here[0] + 1 / here[1]))


def _having(factor: str, value: str) -> Callable[[Pair], bool]:
    return lambda pair: value in pair.judged.factors.get(factor, ())


def _share_of_stalls(runs: Sequence[float | None]) -> float:
    return sum(run is None for run in runs) / len(runs) if runs else 0.0


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _floor(floors: Sequence[Figures]) -> Figures:
    """Figures of all splits in one."""
    signed = [figures.bias for figures in floors if figures.bias is not None]
    return Figures(
        n=max((figures.n for figures in floors), default=0),
        networks=max((figures.networks for figures in floors), default=0),
        median=_mean([figures.median for figures in floors]),
        q90=_mean([figures.q90 for figures in floors]),
        bias=math.sqrt(math.fsum(bias * bias for bias in signed) / len(signed)) if signed else None,
        bias_half=None,
        inside=_mean([figures.inside for figures in floors]),
        model_error=_mean([figures.model_error for figures in floors]),
    )


def _whole_floor(floors: Sequence[Whole]) -> Whole:
    stalls = _mean([whole.stalls[1] for whole in floors]) or 0.0
    return Whole(
        figures=_floor([whole.figures for whole in floors]),
        rank_correlation=_mean([whole.rank_correlation for whole in floors]),
        regret_median=_mean([whole.regret_median for whole in floors]),
        regret_q90=_mean([whole.regret_q90 for whole in floors]),
        regret_max=_mean([whole.regret_max for whole in floors]),
        stalls=(stalls, stalls),
        stalls_agree=_mean([whole.stalls_agree for whole in floors]) or 1.0,
    )
