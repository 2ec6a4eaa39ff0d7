"""The contract of every strategy, whatever the question and the answers."""

import math
import random
from collections.abc import Callable, Mapping
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mptune.response.process import CURVES, with_prediction
from mptune.strategy import STRATEGIES, Arm, Ask, Question, Told, Verdict, create
from mptune.trial import Combination

KIB = 1024
BUFFERS = tuple(round(64 * 2 ** (i / 2)) * KIB for i in range(12))

#: Throughput of an arm (index in the question) with a buffer, in a run, Mbit/s; None where the trial failed.
World = Callable[[Arm, int, int], float | None]


def arms(*names: str) -> tuple[Arm, ...]:
    """Arms on paths of their own, named "cc" or "cc@path+path"."""
    tests = []
    for name in names:
        cc, _, labels = name.partition("@")
        paths = tuple(filter(None, labels.split("+")))
        tests.append(Arm(Combination("pcdc" if paths else "fullmesh", cc, paths), frozenset(paths)))
    return tuple(tests)


def question(*names: str, **changes: object) -> Question:
    usual: dict[str, object] = {"buffers": BUFFERS, "sacrifice": 0.01, "runs": 4, "budget_s": 200}
    return Question(arms=arms(*names), **(usual | changes))  # type: ignore[arg-type]


def rising(plateaus: Mapping[str, tuple[float, int]], noise: float = 0.0, seed: int = 1) -> World:
    """Throughput that rises with the buffer up to a plateau: congestion control -> Mbit/s, bytes."""

    def world(arm: Arm, size: int, run: int) -> float:
        level, enough = plateaus[arm.combination.cc]
        luck = random.Random(f"{seed}/{arm.combination}/{size}/{run}").gauss(0, noise)
        return level * min(1.0, BUFFERS[size] / enough) * max(0.0, 1 + luck)

    return world


def play(name: str, asked: Question, world: World) -> tuple[list[Ask], Verdict | None]:
    """Ask and tell until nothing is asked."""
    done: list[Ask] = []
    strategy = create(name, asked)
    while batch := strategy.ask():
        assert len(batch) <= asked.batch
        strategy.tell([Told(ask, world(asked.arms[ask.arm], ask.size, ask.run)) for ask in batch])
        done += batch
        assert len(done) <= 10_000
    return done, strategy.verdict()


FOUR = ("cubic", "reno", "cubic@A+B", "vegas@A")
WORLD = rising({"cubic": (100, 512 * KIB), "reno": (80, 256 * KIB), "vegas": (97, 128 * KIB)}, 0.03)


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("batch", [1, 5])
def test_it_asks_for_nothing_twice_and_ends(name, batch):
    asked = question(*FOUR, batch=batch)
    done, _ = play(name, asked, WORLD)
    assert len(set(done)) == len(done) <= 200
    assert all(ask.run < asked.runs for ask in done)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_budget_is_kept_and_the_most_is_every_run_of_everything(name):
    few, _ = play(name, question(*FOUR, budget_s=7, batch=3), WORLD)
    assert len(few) == 7
    every, _ = play(name, question("reno", "cubic", runs=2, budget_s=None), WORLD)
    assert len(every) <= 2 * 2 * len(BUFFERS)


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("batch", [1, 4])
def test_after_an_interruption_it_goes_on_with_the_same_trials(name, batch):
    asked = question(*FOUR, budget_s=40, batch=batch)
    whole, verdict = play(name, asked, WORLD)
    for at in (1, 13, 40):
        known = whole[:at]
        again = create(name, asked)
        # Finished trials come back from a store in whatever order.
        again.tell([Told(ask, WORLD(asked.arms[ask.arm], ask.size, ask.run)) for ask in reversed(known)])
        if at % batch == 0:
            assert list(again.ask()) == whole[at : at + batch]
        if at == len(whole):
            assert again.verdict() == verdict


def foreseen_share(name: str, asked: Question, world: World, most: int) -> float:
    """Share of the trials that were foreseen before they were asked for."""
    strategy, foreseen, right, done = create(name, asked), set[Ask](), 0, 0
    while batch := strategy.ask():
        right += sum(ask in foreseen for ask in batch)
        done += len(batch)
        after = strategy.foreseen(batch, most)
        assert len(after) <= most
        assert not set(after) & set(batch)
        foreseen.update(after)
        strategy.tell([Told(ask, world(asked.arms[ask.arm], ask.size, ask.run)) for ask in batch])
    return right / done


def test_grid_foresees_all_but_its_first_batch():
    asked = question("a", "b", batch=4)
    assert foreseen_share("grid", asked, lambda *_: 1.0, 4) == 1 - 4 / (2 * len(BUFFERS) * 4)


def test_adaptive_foresees_a_third_of_its_trials_and_asks_for_the_same_ones():
    world = rising({"a": (100.0, 400 * KIB), "b": (90.0, 200 * KIB), "c": (60.0, 100 * KIB)}, noise=0.05)
    asked = question("a", "b", "c", batch=4, runs=12, budget_s=None)
    guessed = foreseen_share("adaptive", asked, world, 4)
    assert guessed > 1 / 3
    strategy, done = create("adaptive", asked), list[Ask]()
    while batch := strategy.ask():
        strategy.foreseen(batch, 8)
        strategy.tell([Told(ask, world(asked.arms[ask.arm], ask.size, ask.run)) for ask in batch])
        done += batch
    assert done == play("adaptive", asked, world)[0]


def test_grid_is_arm_by_arm_buffer_by_buffer_run_by_run():
    asked = question("reno", "cubic", runs=2, budget_s=None, batch=7)
    done, verdict = play("grid", asked, WORLD)
    assert done == sorted(done)
    assert len(done) == 2 * 2 * len(BUFFERS)
    assert verdict is None


def test_the_order_of_the_arms_does_not_matter():
    asked = question(*FOUR, budget_s=60)
    turned = question(*FOUR[::-1], budget_s=60)
    ones, verdict = play("adaptive", asked, WORLD)
    others, other = play("adaptive", turned, WORLD)
    assert [(asked.arms[a], *rest) for a, *rest in ones] == [(turned.arms[a], *rest) for a, *rest in others]
    assert verdict is not None
    assert other is not None
    assert asked.arms[verdict.arm] == turned.arms[other.arm]
    assert (verdict.size, verdict.certainty) == (other.size, other.certainty)


def test_it_finds_the_smallest_buffer_of_the_best_in_a_fraction_of_the_grid():
    plateaus = {"cubic": (100, 512 * KIB), "reno": (80, 256 * KIB), "vegas": (90, 128 * KIB)}
    asked = question(*FOUR, runs=9, budget_s=None, sacrifice=0.05)
    done, verdict = play("adaptive", asked, rising(plateaus, 0.01))
    assert verdict is not None
    assert asked.arms[verdict.arm].combination.cc == "cubic"
    assert 512 * KIB <= BUFFERS[verdict.size] <= 1.25 * 512 * KIB
    assert verdict.certainty >= 0.95
    assert len(done) < 0.3 * 4 * len(BUFFERS) * 9


def test_it_measures_more_where_runs_scatter_more():
    plateaus = {"cubic": (100, 512 * KIB), "reno": (80, 256 * KIB), "vegas": (97, 128 * KIB)}
    lengths = [len(play("adaptive", question(*FOUR, runs=9), rising(plateaus, n))[0]) for n in (0.0, 0.05)]
    assert lengths[0] < lengths[1]


def test_where_all_runs_that_matter_are_used_up_it_ends():
    # With a single run of each, noise leaves open which buffer is enough; slow arms cannot decide it.
    plateaus = {"cubic": (100.0, 512 * KIB), "reno": (20.0, 512 * KIB)}
    names = ("cubic@A", *(f"reno@{label}" for label in "BCDEFGHIJ"))
    done, verdict = play("adaptive", question(*names, runs=1, budget_s=None), rising(plateaus, 0.1))
    assert verdict is not None
    assert len(done) < 0.5 * len(names) * len(BUFFERS)


def test_among_equals_it_ends_with_any_of_them():
    world = rising(dict.fromkeys(("cubic", "reno", "vegas"), (50, 256 * KIB)))
    asked = question(*FOUR)
    done, verdict = play("adaptive", asked, world)
    assert verdict is not None
    assert BUFFERS[verdict.size] >= 256 * KIB
    assert len(done) < 100


def test_one_candidate_is_the_answer_and_its_buffer_is_sought():
    done, verdict = play("adaptive", question("cubic"), WORLD)
    assert verdict is not None
    assert verdict.contenders == (0,)
    assert BUFFERS[verdict.size] >= 500 * KIB
    assert len(done) < 30


def test_a_throughput_that_collapses_with_larger_buffers_is_no_answer():
    def world(arm, size, run):
        if arm.combination.cc == "reno":
            return 100.0 if BUFFERS[size] < 512 * KIB else 20.0
        return 98.0 * min(1.0, BUFFERS[size] / (1024 * KIB))

    asked = question("cubic@A", "reno@B", sacrifice=0.05)
    _, verdict = play("adaptive", asked, world)
    assert verdict is not None
    assert asked.arms[verdict.arm].combination.cc == "cubic"


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_a_testbed_that_fails_costs_trials_and_no_answer(share):
    def world(arm, size, run):
        lost = random.Random(f"{arm.combination}/{size}/{run}").random() < share
        return None if lost else WORLD(arm, size, run)

    _, verdict = play("adaptive", question(*FOUR, runs=9), world)
    assert (verdict is None) == (share == 1.0)
    if verdict is not None:
        assert BUFFERS[verdict.size] >= 500 * KIB


def test_runs_that_failed_are_no_evidence():
    """As many runs that gave something claim as much, whatever else was tried and failed."""

    def alone(arm, size, run):
        return WORLD(arm, size, run) if run == 0 else None

    _, once = play("adaptive", question("cubic", "reno", runs=1), alone)
    _, often = play("adaptive", question("cubic", "reno", runs=9), alone)
    assert once is not None and often is not None
    assert often.room >= 0.95 * once.room


def test_stalls_are_results():
    # Every second run with less than 512 KiB stalls: what they give on average is no answer.
    def world(arm, size, run):
        return 0.0 if BUFFERS[size] < 512 * KIB and run % 2 else 100.0

    _, verdict = play("adaptive", question("cubic", "reno", runs=9), world)
    assert verdict is not None
    assert BUFFERS[verdict.size] >= 512 * KIB


@settings(max_examples=25, deadline=None)
@given(
    levels=st.lists(st.floats(0, 1000), min_size=1, max_size=4),
    noise=st.floats(0, 0.5),
    sacrifice=st.floats(0, 0.5),
    batch=st.integers(1, 6),
    count=st.integers(1, 6),
)
def test_it_ends_whatever_the_results(levels, noise, sacrifice, batch, count):
    names = [f"cubic@{label}" for label in "ABCD"[: len(levels)]]
    asked = question(*names, buffers=BUFFERS[:count], sacrifice=sacrifice, batch=batch, runs=2, budget_s=None)

    def world(arm, size, run):
        (label,) = arm.active
        luck = random.Random(f"{arm.combination}/{size}/{run}").gauss(0, noise)
        return max(0.0, levels["ABCD".index(label)] * (1 + luck) * (size + 1) / count)

    done, verdict = play("adaptive", asked, world)
    assert len(set(done)) == len(done)
    assert verdict is not None
    assert math.isfinite(verdict.value)


PLATEAUS = {"cubic": (100, 512 * KIB), "reno": (80, 256 * KIB), "vegas": (97, 128 * KIB)}


def predictions(asked, world, *, turned=False):
    """Results of the world's first run, half as much; or that of the arms in the wrong order."""
    arms = asked.arms[::-1] if turned else asked.arms
    return tuple(tuple(world(arm, size, 0) / 2 for size in range(len(BUFFERS))) for arm in arms)


def with_times(asked, world, *, slower_from_s=float("inf"), factor=1.0):
    """As `play`, a trial a second, on a network that gives another throughput from a moment on."""
    strategy, now_s, done = create("adaptive", asked), 0.0, []
    while batch := strategy.ask():
        results = []
        for ask in batch:
            now_s += 1
            mbps = world(asked.arms[ask.arm], ask.size, ask.run)
            results.append(Told(ask, mbps * (factor if now_s > slower_from_s else 1), 1.0, now_s))
        strategy.tell(results)
        done += results
    return done, strategy.verdict()


def test_a_good_prior_saves_trials_and_is_followed():
    asked = question(*FOUR, runs=9, budget_s=None)
    world = rising(PLATEAUS, 0.02)
    alone, _ = play("adaptive", asked, world)
    helped = question(*FOUR, runs=9, budget_s=None, prior=predictions(asked, rising(PLATEAUS)))
    trials, verdict = play("adaptive", helped, world)
    assert len(trials) < len(alone)
    assert verdict is not None
    assert verdict.prior == "followed"


def test_a_prior_with_the_wrong_ranks_is_dropped_and_the_answer_holds():
    plateaus = {"cubic": (100, 512 * KIB), "reno": (40, 256 * KIB), "vegas": (20, 128 * KIB)}
    names = ("cubic@A", "reno@B", "vegas@C")
    asked = question(*names, runs=9, budget_s=None)
    wrong = predictions(asked, rising(plateaus), turned=True)
    _, verdict = play(
        "adaptive", question(*names, runs=9, budget_s=None, prior=wrong), rising(plateaus, 0.01)
    )
    assert verdict is not None
    assert verdict.prior == "dropped"
    assert asked.arms[verdict.arm].combination.cc == "cubic"


def test_a_prior_of_a_small_error_saves_more_than_one_of_a_large_error():
    asked = question(*FOUR, runs=9, budget_s=None)
    prior = predictions(asked, rising(PLATEAUS))
    needed = []
    for error in ((0.005, 0.02), (0.3, 1.0)):
        helped = question(*FOUR, runs=9, budget_s=None, prior=prior, prior_error=error)
        trials, verdict = play("adaptive", helped, rising(PLATEAUS, 0.02))
        assert verdict is not None
        needed.append(len(trials))
    assert needed[0] < needed[1]


def test_a_wrong_prior_is_dropped_however_small_its_stated_error():
    plateaus = {"cubic": (100, 512 * KIB), "reno": (40, 256 * KIB), "vegas": (20, 128 * KIB)}
    names = ("cubic@A", "reno@B", "vegas@C")
    asked = question(*names, runs=9, budget_s=None)
    wrong = predictions(asked, rising(plateaus), turned=True)
    asked = question(*names, runs=9, budget_s=None, prior=wrong, prior_error=(0.0, 0.0))
    _, verdict = play("adaptive", asked, rising(plateaus, 0.01))
    assert verdict is not None
    assert verdict.prior == "dropped"
    assert asked.arms[verdict.arm].combination.cc == "cubic"


def test_an_error_of_a_prior_is_met_by_two_hypotheses_beside_that_of_the_mean_alone():
    """A half of a normal error lies within 0.6745 standard deviations, nine tenths within 1.6449."""
    narrow, wide, mean_alone = sorted({step.error or 0.0 for step in with_prediction((0.1, 0.3))})
    assert narrow * CURVES == pytest.approx(0.1 / 0.6745) and wide * CURVES == pytest.approx(0.3 / 1.6449)
    assert mean_alone == 1.0
    assert {step.error for step in with_prediction((9.0, 99.0))} == {1.0}


def test_a_prior_that_is_far_off_for_one_arm_is_still_followed_for_the_others():
    levels = {"cubic": 100, "reno": 85, "vegas": 70, "olia": 55, "hybla": 40, "scalable": 25}
    plateaus = {cc: (level, 512 * KIB) for cc, level in levels.items()}
    names = [f"{cc}@{path}" for cc, path in zip(levels, "ABCDEF", strict=True)]
    expected = rising({**plateaus, "reno": (40, 512 * KIB)})
    prior = predictions(question(*names), expected)
    asked = question(*names, runs=9, budget_s=None, prior=prior, prior_error=(0.01, 0.02))
    _, verdict = play("adaptive", asked, rising(plateaus, 0.01))
    assert verdict is not None
    assert verdict.prior == "followed"


@pytest.mark.parametrize("certainty", [0.5, 0.8, 0.95, 0.999])
def test_it_states_what_it_reached_with_the_certainty_asked_for(certainty):
    asked = question(*FOUR, certainty=certainty, budget_s=30)
    _, verdict = play("adaptive", asked, rising(PLATEAUS, 0.3))
    assert verdict is not None
    assert verdict.certainty >= certainty
    assert 0.02 <= verdict.room <= 1


def test_more_certainty_is_more_room():
    verdicts = [
        play("adaptive", question(*FOUR, certainty=mark, budget_s=1), rising(PLATEAUS, 0.3))[1]
        for mark in (0.6, 0.99)
    ]
    rooms = [verdict.room for verdict in verdicts if verdict is not None]
    assert rooms == sorted(rooms)


@pytest.mark.parametrize("seed", range(8))
def test_no_claim_is_narrower_than_all_trials_together_could_prove(seed):
    noise, trials = 0.25, 40
    asked = question("cubic@A", "reno@B", "vegas@A", "cubic@B", sacrifice=0.07, budget_s=trials, runs=32)
    world = rising(
        {"cubic": (100, 2048 * KIB), "reno": (97, 1024 * KIB), "vegas": (90, 512 * KIB)}, noise, seed
    )
    done, verdict = play("adaptive", asked, world)
    assert len(done) == trials
    assert verdict is not None
    # The scatter itself is only known to a third or so.
    assert verdict.room >= 2 / 3 * NormalDist().inv_cdf(verdict.certainty) * noise / math.sqrt(trials)


def test_of_equals_the_steadier_one():
    def world(arm, size, run):
        noise = 0.3 if arm.combination.cc == "reno" else 0.0
        return 100 * (1 + random.Random(f"{size}/{run}").gauss(0, noise))

    _, verdict = play("adaptive", question("cubic@A", "reno@B", runs=9, budget_s=60), world)
    assert verdict is not None
    assert verdict.arm == 0
    assert verdict.scatter < 10


def test_a_network_that_slows_down_is_noticed_and_a_steady_one_is_not():
    asked = question(*FOUR, runs=9, budget_s=150, certainty=0.999)
    world = rising(PLATEAUS, 0.03)
    _, steady = with_times(asked, world)
    _, changed = with_times(asked, world, slower_from_s=40, factor=0.5)
    assert steady is not None
    assert steady.drift is None
    assert changed is not None
    assert changed.drift is not None
    assert changed.drift.change == pytest.approx(-0.5, abs=0.15)


def test_times_do_not_depend_on_the_order_of_results():
    asked = question(*FOUR, budget_s=60)
    done, verdict = with_times(asked, WORLD)
    again = create("adaptive", asked)
    again.tell(done[:30][::-1])
    assert list(again.ask()) == [done[30].ask]
    again.tell(done[30:])
    assert again.verdict() == verdict


def test_very_many_trials_are_no_trouble():
    asked = question(*FOUR, runs=100, budget_s=None)
    every = [(arm, size, run) for arm in range(4) for size in range(len(BUFFERS)) for run in range(100)]
    strategy = create("adaptive", asked)
    strategy.tell([Told(Ask(*ask), WORLD(asked.arms[ask[0]], *ask[1:])) for ask in every])
    assert strategy.verdict() is not None
    assert not list(strategy.ask())
