"""Figures by which benchmarks/decision/economy.py judges strategies."""

import argparse
import importlib
import math
from typing import NamedTuple

import numpy as np
import pytest

from mptune.strategy import Arm, Ask
from mptune.trial import Combination

#: Of a trial of the grid below: a second, and its set-up.
TRIAL_S = 2.0


@pytest.fixture
def economy():
    return importlib.import_module("benchmarks.decision.economy")


@pytest.fixture
def replay():
    return importlib.import_module("benchmarks.decision._replay")


@pytest.fixture
def cases():
    return importlib.import_module("benchmarks.decision._cases")


def grid(means, ccs=("cubic", "reno", "olia"), scatter=1.0):
    """Arms x four buffers x two runs of a second."""
    means = np.array(means, dtype=float)
    runs = np.stack([means - scatter, means + scatter], axis=2)
    payload = np.repeat(runs[..., None] * 1e6 / 80, 10, axis=3)
    arms = tuple(Arm(Combination("fullmesh", cc), frozenset("A")) for cc in ccs[: len(means)])
    return importlib.import_module("benchmarks.decision._corpus").Grid(
        "two", "linux", arms, (1000, 2000, 4000, 8000), payload
    )


@pytest.fixture
def known():
    """One arm rises to 100 Mbit/s, the other collapses."""
    return grid([[40.0, 80, 98, 100], [60, 99, 30, 20]])


def setting(replay, known, horizon_s=32.0, **others):
    return replay.Setting(known=known, horizon_s=horizon_s, seed=1, sacrifice=0.05, **others)


class Scripted:
    """Asks for the buffers of one arm in order, and recommends the one that it was given last."""

    def __init__(self, sizes):
        self.left, self.last = list(sizes), None

    def ask(self):
        return Ask(0, self.left[0], 0) if self.left else None

    def tell(self, result):
        self.left.pop(0)
        self.last = result.ask.size

    def answer(self):
        return (
            None
            if self.last is None
            else importlib.import_module("benchmarks.decision._replay").Answer(0, self.last)
        )


def test_the_truth_is_the_smallest_buffer_that_holds_the_target_with_larger_ones_too(replay, known):
    truth = replay.Truth.of(known, 0.05)
    assert truth.allowed == pytest.approx(95)
    assert (truth.arm, truth.size) == (0, 2)
    assert replay.Truth.of(known, 0.2).size == 1


def test_the_regret_counts_from_what_the_sacrifice_allows(replay, known):
    truth = replay.Truth.of(known, 0.05)
    assert truth.regret(0, 2) == 0
    assert truth.regret(0, 1) == pytest.approx(15 / 95)


def test_the_answer_at_a_mark_is_that_of_finished_trials(replay, known):
    world = replay.World(known, 1)
    course = replay.course(Scripted([3, 2, 1]), world, 10.0, 100.0, [5, 10, 19.9, 20, 60])
    assert [answer and answer.size for answer in course.answers] == [None, 3, 3, 2, 1]
    assert (course.trials, course.spent_s) == (3, 30.0)


def test_a_trial_that_does_not_fit_is_not_begun(replay, known):
    course = replay.course(Scripted([3, 2, 1]), replay.World(known, 1), 10.0, 25.0, [25.0])
    assert course.answers[0].size == 2
    assert course.spent_s == 20.0


def test_a_trial_that_is_ended_early_costs_its_seconds_and_has_the_value_of_the_rule(replay, known):
    def half(bins):
        return float(bins[:5].sum()) * 8 / 0.5 / 1e6, 0.5

    world = replay.World(known, 1, half)
    result = world.measure(Ask(0, 3, 0))
    assert result.seconds == 0.5 + replay.SET_UP_S
    assert result.value == pytest.approx(100, abs=1.1)
    assert replay.course(Scripted([3, 2]), world, TRIAL_S, 100.0, [100.0]).spent_s == 3.0


def test_a_part_of_a_trial_costs_and_gives_its_part(replay, known):
    class Part(NamedTuple):
        arm: int
        size: int
        run: int
        part: float

    known.payload[0, 3, :, :5] = 0
    world = replay.World(known, 1)
    first, whole = (world.measure(Part(0, 3, 0, part)) for part in (0.5, 1.0))
    assert (first.value, first.seconds) == (0, 0.5 + replay.SET_UP_S)
    assert whole.value == pytest.approx(50, abs=1)


def test_runs_come_in_another_order_with_another_seed_but_each_once(replay):
    known = grid([[40.0, 80, 98, 100]] * 3)
    every = [(arm, size) for arm in range(3) for size in range(4)]

    def first(seed):
        world = replay.World(known, seed)
        return [world.measure(Ask(*place, 0)).value for place in every]

    assert first(1) == first(1) != first(2)
    for place in every:
        world = replay.World(known, 3)
        values = sorted(world.measure(Ask(*place, run)).value for run in range(2))
        assert values == pytest.approx(sorted(known.mbps[place]))


@pytest.mark.parametrize("name", ["adaptive", "even grid", "random", "halving"])
@pytest.mark.parametrize("reading", ["means", "belief"])
def test_a_strategy_that_may_see_everything_finds_it(cases, replay, known, name, reading):
    truth, settings = replay.Truth.of(known, 0.05), argparse.Namespace(reading=reading)
    told_to = setting(replay, known)
    player = cases.CONTESTANTS[name].make(told_to, truth, settings)
    course = replay.course(player, replay.World(known, 1), TRIAL_S, 32.0, [32.0])
    answer = course.answers[0]
    assert course.spent_s <= 32.0
    # By means alone the arm that collapses is taken for the best; it too misses nothing with its own buffer.
    assert truth.regret(answer.arm, answer.size) == pytest.approx(0, abs=0.02)


def test_the_oracle_asks_for_the_two_best_arms_alone(cases, replay):
    known = grid([[10.0, 20, 30, 40], [40, 80, 98, 100], [50, 97, 98, 98]])
    truth = replay.Truth.of(known, 0.05)
    player = cases.CONTESTANTS["oracle"].make(setting(replay, known), truth, None)
    world, asked = replay.World(known, 1), set()
    while ask := player.ask():
        asked.add(ask.arm)
        player.tell(world.measure(ask))
    assert asked == {1, 2}
    # The smallest sufficient buffer is the third arm's, the highest throughput the second's.
    assert truth.best_two == (2, 1)
    assert truth.regret(*player.answer()[:2]) == pytest.approx(0, abs=0.02)


def test_a_reversed_prior_has_the_best_row_for_the_worst_arm(replay):
    prior = np.array([[1.0, 5.0], [3.0, 9.0], [2.0, 7.0]])
    wrong = replay.reversed_ranks(prior)
    assert wrong.tolist() == [[3.0, 9.0], [1.0, 5.0], [2.0, 7.0]]
    assert replay.reversed_ranks(wrong).tolist() == prior.tolist()


def test_a_prior_is_wrong_as_the_simulator_is(replay):
    """By a tenth in the median, three tenths at the 90th percentile; neighbouring buffers alike."""
    known = grid(np.full((3, 4), 50.0))
    errors = np.array(
        [np.log(replay.misjudged(known.mbps.mean(axis=2), known, seed) / 50) for seed in range(800)]
    )
    assert np.quantile(np.abs(errors), 0.5) == pytest.approx(0.1, abs=0.02)
    assert np.quantile(np.abs(errors), 0.9) == pytest.approx(0.3, abs=0.05)
    apart = np.median(np.abs(errors[:, :, 1] - errors[:, :, 0]))
    assert apart < 0.5 * np.median(np.abs(errors[:, 1] - errors[:, 0]))


def case(cases, contestant="adaptive", network="a", **values):
    """One replay at three marks."""
    every = {
        "network": network,
        "stack": "linux",
        "contestant": contestant,
        "marks": [300.0, 1650.0, 3888.0],
        "regrets": [[None, 0.01, 0.0]],
        "larger": [[None, 1.0, 1.0]],
        "claims": [[None, None, None]],
        "rooms": [[0.02, 0.02, 0.02]],
        "more_s": [[None, None, None]],
        "trials": [100],
        "spent_s": [1600.0],
        "thinking_s": [1.0],
    }
    return cases.Case(**(every | values))


def test_the_predicted_time_is_compared_with_what_was_needed(economy, cases):
    early = cases.EARLY
    some = case(
        cases,
        marks=[float(early), cases.PATIENCE_S],
        more_s=[[200.0, 0.0], [300.0, 0.0], [None, 0.0], [50.0, None], [10.0, 0.0]],
        claims=[[None, True], [None, False], [None, True], [None, None], [None, True]],
        # The third stated none, the fourth was never certain, the last was certain by then.
        spent_s=[early + 100.0, early + 300.0, early + 1.0, cases.PATIENCE_S, early - 100.0],
    )
    assert economy.foretold([some]) == ("1.5", "1.1 to 1.9")
    assert economy.foretold([case(cases)]) == ("-", "-")


def test_a_wrong_claim_is_counted(economy, cases, replay, known):
    truth = replay.Truth.of(known, 0.05)
    right, wrong = replay.Answer(0, 2, 0.96), replay.Answer(0, 1, 0.96)
    assert cases.claim(right, truth) is True
    assert cases.claim(wrong, truth) is False
    assert cases.claim(wrong._replace(certainty=0.94), truth) is None
    # A claim is about the room that it names.
    assert cases.claim(wrong._replace(room=0.2), truth) is True
    ones = [case(cases, claims=[[None, claimed, None]]) for claimed in (True, False, None)]
    summary = economy.summary(ones, 1650)
    assert (summary["claims"], summary["wrong"]) == (2, 0.5)
    # A claim that may miss by a fifth is not certain of 2 %.
    wide = case(cases, claims=[[None, True, None]], rooms=[[0.02, 0.2, 0.02]])
    assert economy.summary([wide], 1650)["claims"] == 0


def test_calibration_counts_wide_claims_apart(economy, cases):
    def ended(right, room):
        at = {"marks": [cases.PATIENCE_S], "regrets": [[0.1]], "larger": [[1.0]]}
        return case(cases, claims=[[right]], rooms=[[room]], **at)

    ones = [ended(True, 0.2), ended(False, 0.02), ended(True, 0.02), ended(None, 0.02)]
    own, every = economy.claim_rows(ones)
    assert own[1:6] == every[1:6] == ["4", "3", "1 (33.3 %)", "2", "1 (50.0 %)"]


def test_no_answer_loses_everything(cases):
    assert case(cases).at(300.0) == [(1.0, math.inf)]
    assert case(cases).at(1650.0) == [(0.01, 1.0)]


def test_scatter_excuses_what_the_oracle_misses_too(economy, cases):
    missed = case(cases, regrets=[[None, 0.03, 0.03]])
    assert economy.networks_within([missed], [], 0.02) == 0
    scattered = case(cases, "oracle", regrets=[[None, 0.021, 0.0]])
    assert economy.networks_within([missed], [scattered], 0.02) == 1
    elsewhere = case(cases, "oracle", network="b", regrets=[[None, 0.021, 0.0]])
    assert economy.networks_within([missed], [elsewhere], 0.02) == 0


def test_time_to_equal_loss_lasts_until_the_loss_stays_low(economy, cases):
    own = case(cases, regrets=[[0.01, 0.01, 0.0]], larger=[[1.0, 1.0, 1.0]])
    lucky = case(cases, "random", regrets=[[0.01, 0.2, 0.0]], larger=[[1.0, 1.0, 1.0]])
    assert economy.reached(own, 0.02, own.marks) == 300
    assert economy.reached(lucky, 0.02, own.marks) == 3888
    # Too large a buffer is a loss as well.
    large = case(cases, "even grid", regrets=[[0.0, 0.0, 0.0]], larger=[[9.0, 9.0, 1.0]])
    assert economy.reached(large, 0.02, own.marks) == 3888


def test_how_much_faster_is_the_median_over_networks_within_the_time_that_both_had(economy, cases):
    def in_networks(contestant, regrets, **others):
        return [
            case(cases, contestant, network=name, regrets=[regret], larger=[[1.0, 1.0, 1.0]], **others)
            for name, regret in zip("abc", regrets, strict=True)
        ]

    own = in_networks("adaptive", [[0.01, 0.01, 0.0]] * 3)
    steady = in_networks("random", [[0.3, 0.0, 0.0]] * 3)
    fickle = in_networks("halving", [[0.0, 0.0, 0.0], [0.3, 0.3, 0.0], [0.3, 0.3, 0.0]])
    slow = in_networks("SMAC3", [[0.3, 0.3]] * 3, marks=[300.0, 1650.0])
    gains = economy.speeds(own, [*steady, *fickle, *slow])
    assert gains == pytest.approx({"random": 1650 / 300, "halving": 3888 / 300, "SMAC3": 1650 / 300})


def test_what_peers_minimise_follows_the_best_that_was_seen(replay):
    peers = importlib.import_module("benchmarks.decision._peers")
    known = grid([[40.0, 80, 98, 100]])._replace(buffers=(1000, 1250, 2000, 8000))
    objective = peers.Objective(setting(replay, known), weight=1.0)
    assert objective.noted((0, 0), 50)
    assert objective.loss((0, 0), 50) == 0
    assert not objective.noted((0, 1), 50.2)
    assert objective.noted((0, 1), 150)
    # 95 Mbit/s are allowed now: what misses is worth less than any buffer that does not.
    assert objective.loss((0, 0), 50) > objective.loss((0, 3), 100) > objective.loss((0, 1), 100)
    assert objective.loss((0, 1), 100) == pytest.approx(replay.ROOM)
    throughput = peers.Objective(setting(replay, known), weight=0.0)
    throughput.noted((0, 3), 100)
    assert throughput.loss((0, 3), 100) == 0 < throughput.loss((0, 0), 99)


def test_peers_choose_every_arm_once(replay, known):
    space = importlib.import_module("benchmarks.decision._peers").Space.of(setting(replay, known))
    assert sorted(space.arms.values()) == [0, 1]
    assert (len(space.sets), space.ccs, space.sizes) == (1, ("cubic", "reno"), 4)
