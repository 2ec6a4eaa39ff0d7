"""The replay of benchmarks/decision/early_end_known.py: today's rule is the core's; none sees the future."""

import math

import numpy as np
import pytest

from benchmarks.decision._corpus import Extent, Grid, _enough
from benchmarks.decision.early_end_known import (
    AIM,
    LEFT,
    LOOKS,
    Learnt,
    Trials,
    controls,
    hindsight,
    learnt,
    lessons,
    look,
    mean_outcomes,
    ratios,
    replay,
    today,
)
from mptune.strategy import Arm
from mptune.testbeds.early_end import replayed
from mptune.trial import Combination

DURATION_NS = 20 * 10**9
ORDER = 5


def payload(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Series that scatter, some of which change their rate or fall silent."""
    rng = np.random.default_rng(seed)
    rates = rng.uniform(2e4, 2e6, (*shape, 1))
    scatter = rng.choice([0.01, 0.1, 0.5], (*shape, 1))
    series = rates * np.exp(scatter * rng.standard_normal((*shape, 200)))
    changes = rng.integers(5, 195, (*shape, 1))
    after = rng.choice([1.0, 1.0, 0.3, 2.0], (*shape, 1))
    series = np.where(np.arange(200) < changes, series, after * series)
    silent = rng.integers(0, 400, (*shape, 1))
    quiet = (np.arange(200) >= silent) & (np.arange(200) < silent + 15)
    return np.where(quiet, 0.0, series).round().astype(np.float32)


@pytest.fixture(scope="module")
def trials() -> Trials:
    arms = tuple(
        Arm(Combination(pm, cc, ()), frozenset("ab"))
        for pm in ("fullmesh", "pcdc")
        for cc in ("reno", "cubic")
    )
    return Trials.of(Grid("drawn", "linux", arms, tuple(range(1, 9)), payload(1, (4, 8, 1))))


def test_todays_rule_is_the_cores():
    ended = 0
    for bins in payload(2, (60,)):
        looks = [look(bins, seen) for seen in LOOKS]
        ends = [seen for seen, (_, error) in zip(LOOKS, looks, strict=True) if seen >= 40 and error <= 0.03]
        core = replayed(bins, DURATION_NS)
        assert (core is not None) == bool(ends)
        if core is not None:
            ended += 1
            assert core.duration_ns == ends[0] * 10**8
            expected = looks[LOOKS.index(ends[0])][0]
            assert core.expected_bps * 20 / 8 == pytest.approx(expected, rel=1e-6)
    assert 10 < ended < 60


def test_while_nothing_arrives_the_error_is_infinite():
    bins = np.full(200, 1e5)
    bins[34:42] = 0
    assert look(bins, 40)[1] == math.inf
    assert look(bins, 50)[1] < math.inf


def test_rules_see_only_what_was_measured_before(trials):
    taught = Learnt.of(*lessons(trials))
    arms, sizes = trials.whole.shape
    order = np.random.default_rng(ORDER).permutation(arms * sizes)
    later = np.zeros(arms * sizes, dtype=bool)
    later[order[20:]] = True
    later = later.reshape(arms, sizes)
    changed = trials._replace(
        whole=np.where(later, trials.whole + 1, trials.whole),
        error=np.where(later[..., None], 10 * trials.error, trials.error),
    )
    for way in (today, ratios, controls(mean_outcomes([trials])), learnt(taught)):
        one, other = (replay(drawn, way(0.06), ORDER) for drawn in (trials, changed))
        np.testing.assert_array_equal(one.share[:20], other.share[:20])
        np.testing.assert_array_equal(one.error[:20], other.error[:20])
        assert not np.array_equal(one.share[20:], other.share[20:])


def test_ratios_of_the_arm_forbid_an_end_that_the_trial_alone_allows(trials):
    # Steady at every look, and then twice the rate: one whole trial gives it away.
    steady = trials._replace(error=np.full_like(trials.error, 0.01))
    doubled = steady._replace(estimate=steady.whole[..., None] - np.log(2) * LEFT)
    assert (replay(doubled, today(0.03), ORDER).share < 1).all()
    assert (replay(doubled, ratios(0.03), ORDER).share > 0.7).mean() > 0.7


def test_hindsight_keeps_the_aim_and_knows_more_of_arms(trials):
    network, arm = (hindsight([trials], by_arm) for by_arm in (False, True))
    assert max(network.error.mean(), arm.error.mean()) <= AIM
    assert arm.share.mean() <= network.share.mean()


def test_a_grid_of_one_run_is_not_repeated():
    assert _enough(payload(3, (2, 3, 1)), Extent(runs=1, most_runs=1)) == 1
