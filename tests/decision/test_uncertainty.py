"""Resampling: what it draws, that it is repeatable, and that its intervals hold the truth."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from mptune.decision.selection import BufferRange, Candidates, Optimum
from mptune.decision.uncertainty import Blur, Choice, Resampler, intervals, summarise_choices
from mptune.response import MODELS, Curve, Sample
from mptune.trial import Combination

BUFFERS = [0.5 + 1.5 * i for i in range(14)]
GRID = BufferRange(grid=tuple(BUFFERS))
TRUE = {"cubic": (100.0, 2.0), "olia": (98.0, 3.0), "hybla": (80.0, 1.0)}  # plateau, b0


def observations(noise: float, runs: int, seed: int) -> list[Sample]:
    rng = np.random.default_rng(seed)
    return [
        Sample(
            Combination("fullmesh", cc), bs, top * (1 - math.exp(-bs / b0)) + noise * float(rng.normal()), run
        )
        for (cc, (top, b0)), bs, run in itertools.product(TRUE.items(), BUFFERS, range(runs))
    ]


def choices(samples: list[Sample], model: str, resamples: int) -> tuple[Optimum, list[Choice]]:
    response = MODELS[model].fit(samples)
    drawn = Resampler(samples, response, MODELS[model]).curves(resamples, seed=1)
    best = [Candidates(curves, GRID).best() for curves in drawn]
    return Candidates(response.curves, GRID).best(), [Choice(optimum, optimum.buffer_mib) for optimum in best]


class Means:
    """A model that only remembers what it was given."""

    name, min_buffers = "means", 1

    def __init__(self) -> None:
        self.given: list[list[float]] = []

    def curves(self, configurations) -> dict[Combination, Curve]:
        self.given.append([configuration.value for configuration in configurations])
        self.squares = [configuration.squares for configuration in configurations]
        return {}


def test_resampled_means_scatter_as_means_of_runs_do() -> None:
    """Their standard deviation is the unbiased one of the runs over sqrt(n), and their mean the mean."""
    samples = [Sample(Combination("fullmesh", "a"), 1.0, y, i) for i, y in enumerate([8.0, 9.0, 13.0])]
    model = Means()
    response = MODELS["smooth"].fit([*samples, *(Sample(s.combination, 2.0, s.value) for s in samples)])
    assert len(list(Resampler(samples, response, model).curves(20_000, seed=1))) == 20_000  # type: ignore[arg-type]
    drawn = np.array(model.given)[:, 0]
    assert drawn.mean() == pytest.approx(10.0, abs=0.05)
    assert drawn.std() == pytest.approx(math.sqrt(7.0 / 3), rel=0.02)  # variance of 8, 9, 13 is 7


def test_a_single_run_is_drawn_about_its_curve() -> None:
    samples = [
        Sample(Combination("fullmesh", "a"), bs, 10 * bs + e)
        for bs, e in zip(BUFFERS, [1, -1] * 7, strict=True)
    ]
    model = Means()
    response = MODELS["quadratic"].fit(samples)
    resampler = Resampler(samples, response, model)  # type: ignore[arg-type]
    assert resampler.single_runs
    list(resampler.curves(2000, seed=1))
    drawn = np.array(model.given)
    curve = response.curves[Combination("fullmesh", "a")]
    residuals = [s.value - curve.predict(s.buffer_mib) for s in samples]
    for column, sample in enumerate(samples):
        around = drawn[:, column] - curve.predict(sample.buffer_mib)
        assert np.abs(around[:, None] - np.array(residuals)).min(axis=1).max() < 1e-9
        assert around.std() == pytest.approx(np.std(residuals), rel=0.1)


def test_the_same_seed_gives_the_same_resamples_and_another_seed_others() -> None:
    samples = observations(3.0, 3, seed=1)
    response = MODELS["smooth"].fit(samples)

    def drawn(seed: int) -> list[float]:
        curves = Resampler(samples, response, MODELS["smooth"]).curves(3, seed)
        return [curve[Combination("fullmesh", "cubic")].predict(5.0) for curve in curves]

    assert drawn(1) == drawn(1) != drawn(2)


def test_progress_counts_resamples() -> None:
    samples, seen = observations(3.0, 3, seed=1), []
    resampler = Resampler(samples, MODELS["smooth"].fit(samples), MODELS["smooth"])
    list(resampler.curves(3, 1, lambda done, total, note="": seen.append((done, total))))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_without_noise_nothing_is_uncertain() -> None:
    optimum, drawn = choices(observations(0.0, 3, seed=1), "saturating", 20)
    summary = summarise_choices(optimum, drawn, (BUFFERS[0], BUFFERS[-1]), single_runs=False)
    assert summary.obs_mib == pytest.approx((optimum.buffer_mib, optimum.buffer_mib), abs=1e-6)
    assert summary.otp_mbps == pytest.approx((optimum.throughput_mbps, optimum.throughput_mbps), abs=1e-6)
    assert summary.wins == {Combination(optimum.pm, optimum.cc): 1.0}


def test_wins_are_shares_and_ordered() -> None:
    def chosen(cc: str) -> Choice:
        return Choice(Optimum(pm="pcdc", cc=cc, buffer_mib=1.0, throughput_mbps=9.0), 1.0)

    summary = summarise_choices(
        chosen("a").optimum,
        [chosen("b"), chosen("a"), chosen("b"), chosen("b")],
        (1.0, 2.0),
        single_runs=False,
    )
    assert list(summary.wins.items()) == [(Combination("pcdc", "b"), 0.75), (Combination("pcdc", "a"), 0.25)]


def test_intervals_by_hand() -> None:
    """Throughput mirrored at the estimate; buffer over both, and cut off at the range."""
    drawn = [
        Choice(Optimum(pm="p", cc="c", buffer_mib=b, throughput_mbps=t), b)
        for b, t in [(2.0, 11.0), (6.0, 15.0)] * 50
    ]
    buffer, throughput = intervals(
        Optimum(pm="p", cc="c", buffer_mib=3.0, throughput_mbps=12.0), drawn, (0.5, 5.0)
    )
    assert throughput == (2 * 12.0 - 15.0, 2 * 12.0 - 11.0)
    assert buffer == (0.5, 5.0)  # quantiles 2 and 6, mirrored 0 and 4


@pytest.mark.parametrize(
    ("chosen", "gap"),
    [
        (3.0, (2.0, 4.0)),
        (4.0, (2.0, 4.0)),  # it suffices, and 2 does not
        (1.0, (1.0, 1.0)),  # nothing smaller was measured
    ],
)
def test_a_buffer_is_blurred_over_the_gap_of_its_own_combination(
    chosen: float, gap: tuple[float, float]
) -> None:
    samples = [Sample(Combination("p", cc), size, 1.0) for cc in "cd" for size in (1.0, 2.0, 4.0, 8.0)]
    samples.append(Sample(Combination("p", "d"), 2.5, 1.0))
    optimum = Optimum(pm="p", cc="c", buffer_mib=chosen, throughput_mbps=1.0)
    blurred = [Blur(samples)(optimum, share) for share in (0.0, 0.5, 1.0)]
    assert {choice.optimum for choice in blurred} == {optimum}
    middle = math.sqrt(gap[0] * gap[1])
    assert [choice.buffer_mib for choice in blurred] == pytest.approx([gap[0], middle, gap[1]])


@pytest.mark.parametrize(("model", "noise"), [("saturating", 3.0), ("smooth", 3.0)])
def test_the_95_percent_intervals_hold_the_true_optimum(model: str, noise: float) -> None:
    """Of 40 noisy sweeps: the throughput in about 95 % (99.9 % bounds), the buffer in at least as many."""
    known = {Combination("fullmesh", cc): Known(top, b0) for cc, (top, b0) in TRUE.items()}
    truth = Candidates(known, GRID).best()
    throughputs = buffers = 0
    for seed in range(40):
        optimum, drawn = choices(observations(noise, 3, seed=seed), model, 40)
        buffer, throughput = intervals(optimum, drawn, (BUFFERS[0], BUFFERS[-1]))
        throughputs += throughput[0] <= truth.throughput_mbps <= throughput[1]
        buffers += buffer[0] <= truth.buffer_mib <= buffer[1]
    low, high = stats.binom.interval(0.999, 40, 0.95)
    assert low <= throughputs <= high
    assert buffers >= low


class Known(Curve):
    """A curve that was not fitted."""

    def __init__(self, top: float, b0: float) -> None:
        self.top, self.b0 = top, b0

    def predict(self, buffer_mib: float) -> float:
        """Evaluate it."""
        return self.top * (1 - math.exp(-buffer_mib / self.b0))

    def interval(self, buffer_mib: float) -> None:
        """Return nothing."""

    def formula(self) -> str:
        """Name it."""
        return "known"


def test_luck_that_the_runs_share_does_not_decide_who_wins() -> None:
    """Cubic is 1 Mbit/s before OLIA in every single run, while the runs differ by 5."""
    luck = [5.0, -6.0, 2.0, -4.0, 3.0]
    rng = np.random.default_rng(3)

    def measured(shared: bool) -> list[Sample]:
        return [
            Sample(
                Combination("fullmesh", cc),
                bs,
                top * (1 - math.exp(-bs / 2)) + (luck[run] if shared else rng.permutation(luck)[0]),
                run,
            )
            for cc, top in (("cubic", 100.0), ("olia", 99.0))
            for bs in BUFFERS
            for run in range(5)
        ]

    def spread(samples: list[Sample]) -> tuple[float, float]:
        """Standard deviations over the resamples: of a difference of means, and of a mean over a curve."""
        model = Means()
        response = MODELS["smooth"].fit(samples)
        list(Resampler(samples, response, model).curves(2000, seed=1))  # type: ignore[arg-type]
        drawn = np.array(model.given)
        half = len(BUFFERS)
        return float((drawn[:, 0] - drawn[:, half]).std()), float(drawn[:, :half].mean(axis=1).std())

    difference, level = spread(measured(shared=True))
    assert difference < 1e-6
    assert level == pytest.approx(np.std(luck, ddof=1) / math.sqrt(5), rel=0.1)
    chosen = {choice.optimum.cc for choice in choices(measured(shared=True), "saturating", 200)[1]}
    assert chosen == {"cubic"}
    difference, level = spread(measured(shared=False))
    assert difference > 1 and level < 1.2
