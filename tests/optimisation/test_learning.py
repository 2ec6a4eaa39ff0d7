"""The main job as the adaptive strategy asks for it: its answer, its budget, and interruptions."""

import math
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mptune.errors import Failure, InputError, Interrupted, MptuneError
from mptune.impact import ImpactOptions
from mptune.optimisation.arms import Arms, geometric
from mptune.optimisation.job import Job
from mptune.optimisation.main_job import Result, optimise
from mptune.optimisation.options import OptimiseOptions
from mptune.optimisation.reached import so_far
from mptune.options.stacks import StackOptions
from mptune.result import wording
from mptune.runner.runner import TrialRunner
from mptune.store import Campaign, Store, create
from mptune.strategy import Verdict
from mptune.testbeds import Testbed, Today
from mptune.topology import Topology
from mptune.trial import Observation, Trial

SECOND = 1_000_000_000
MIB = 2**20
OPTIONS = OptimiseOptions(
    pms=("fullmesh", "pcdc"),
    ccs=("cubic", "reno"),
    buffers=tuple(i * MIB for i in range(1, 17)),
    runs=4,
    duration_ns=SECOND,
    impact=ImpactOptions(runs=2, window_ns=SECOND, buffer_bytes=16 * MIB),
    confirm_runs=3,
    off_by=0.0,
)


def changed(**changes: Any) -> OptimiseOptions:
    return msgspec.structs.replace(OPTIONS, **changes)


def seconds(result: Result) -> float:
    """Duration of all trials on the testbed, which needs no time to set one up."""
    return math.fsum(record.settings["duration_ns"] / 1e9 for record in result.records)


@pytest.fixture
def noisy(fake_testbed: Any) -> Any:
    """Reno needs 4 MiB for what Cubic needs 8 for; C drags 10 of 100 Mbit/s down."""
    fake_testbed.noise, fake_testbed.knee_mib = 0.02, {"cubic": 8.0, "reno": 4.0}
    return fake_testbed


def test_it_finds_what_the_grid_finds_with_fewer_trials(network: Topology, noisy: Any) -> None:
    grid = optimise(network, TrialRunner(noisy), changed(strategy="grid", extend=False))
    result = optimise(network, TrialRunner(noisy), OPTIONS)
    assert (result.optimum.cc, grid.optimum.cc) == ("reno", "reno")
    assert result.subflows == grid.subflows == ("A-X", "B-X")
    # 93 % of the plateau need 3.7 MiB; buffers are a quarter of an octave apart.
    assert 0.93 * 4 <= result.optimum.buffer_mib <= 1.25 * 4
    swept = [sum(record.purpose == "sweep" for record in job.records) for job in (result, grid)]
    assert swept[0] < swept[1] / 3
    assert result.reached is not None
    assert result.reached.ended == "certain"
    assert result.reached.steps[-1].certainty >= 0.95


def test_the_same_seed_asks_for_the_same_trials(network: Topology, noisy: Any) -> None:
    ones, others = (optimise(network, TrialRunner(noisy, workers), OPTIONS) for workers in (1, 2))
    assert ones.records == others.records
    assert ones.reached == others.reached


def test_the_trade_off_does_not_contradict_the_answer(network: Topology, noisy: Any) -> None:
    decision = optimise(network, TrialRunner(noisy), OPTIONS).decision
    assert decision.optimum in [point.optimum for point in decision.front]
    buffers = [point.optimum.buffer_mib for point in decision.front]
    assert buffers == sorted(buffers, reverse=True)


@pytest.mark.parametrize("budget_s", [60, 120])
def test_a_budget_holds_for_everything_together(network: Topology, noisy: Any, budget_s: int) -> None:
    noisy.noise = 0.1
    result = optimise(network, TrialRunner(noisy), changed(budget_ns=budget_s * SECOND, off_by=0.2))
    assert seconds(result) <= budget_s
    assert {record.purpose for record in result.records} == {"impact", "sweep", "screen", "confirm"}
    assert result.reached is not None
    assert result.reached.spent_s <= budget_s


def test_a_budget_that_ends_first_lists_what_is_open(network: Topology, noisy: Any) -> None:
    noisy.noise = 0.3
    result = optimise(network, TrialRunner(noisy), changed(budget_ns=40 * SECOND))
    assert result.reached is not None
    assert result.reached.ended == "budget"
    text = " ".join(wording.answer(result))
    assert "Budget exhausted: " in text
    assert "The buffer lies between" in text
    # A single buffer that is left lies between no two.
    (size, _), more_s = result.reached.steps[-1].buffers, 83.0
    last = msgspec.structs.replace(result.reached.steps[-1], buffers=(size, size), more_s=more_s)
    sole = msgspec.structs.replace(result.reached, steps=(last,))
    text = " ".join(wording.answer(msgspec.structs.replace(result, reached=sole)))
    assert "lies between" not in text and "About 83 s more would settle it." in text
    # Certain of the throughput, but perhaps a smaller buffer would do.
    last = msgspec.structs.replace(result.reached.steps[-1], room=0.02)
    sure = msgspec.structs.replace(result.reached, steps=(last,))
    text = " ".join(wording.answer(msgspec.structs.replace(result, reached=sure)))
    assert "Budget exhausted before a smaller buffer was ruled out: " in text
    # What competes with the answer is named, and not the answer itself, whatever else the strategy preferred.
    chosen = result.decision.optimum.combination
    other = chosen._replace(cc="vegas")
    last = msgspec.structs.replace(last, contenders=(chosen, other), combination=other)
    open_ = msgspec.structs.replace(result.reached, steps=(last,))
    text = " ".join(wording.answer(msgspec.structs.replace(result, reached=open_)))
    assert f"Statistically tied: {other.manager} with vegas." in text


def test_a_budget_too_short_for_one_look_at_every_candidate_is_refused(network: Topology, noisy: Any) -> None:
    words = r"--budget: expected at least \d+ s, for a trial of \d+ s of each of 4 .*; fewer candidates take"
    with pytest.raises(InputError, match=words):
        optimise(network, TrialRunner(noisy), changed(budget_ns=10 * SECOND))
    assert not noisy.trials


def test_without_extension_only_the_stated_buffers_are_measured(network: Topology, noisy: Any) -> None:
    result = optimise(network, TrialRunner(noisy), changed(extend=False))
    assert {record.buffer_bytes for record in result.records if record.purpose == "sweep"} <= set(
        OPTIONS.buffers
    )


def test_an_answer_below_the_stated_buffers_is_reached(network: Topology, noisy: Any) -> None:
    stated = tuple(i * MIB for i in (8, 12, 16))
    result = optimise(network, TrialRunner(noisy), changed(buffers=stated))
    assert 0.93 * 4 <= result.optimum.buffer_mib <= 1.25 * 4


class Stops(Testbed):
    """A testbed on which Ctrl-C comes after some trials."""

    name = "fake"
    parallel: int | None = 1

    def __init__(self, inner: Any, after: int) -> None:
        self._inner, self._left = inner, after

    def run(self, trial: Trial) -> Observation:
        if not self._left:
            raise KeyboardInterrupt
        self._left -= 1
        observation: Observation = self._inner.run(trial)
        return observation


def stored(path: Path) -> AbstractContextManager[Store]:
    return create(path, Campaign(name="toy", settings={}, environment={}))


@pytest.mark.parametrize("after", [7, 20, 41])
def test_after_ctrl_c_it_goes_on_to_the_same_result(
    network: Topology, noisy: Any, tmp_path: Path, after: int
) -> None:
    whole = optimise(network, TrialRunner(noisy, 1), OPTIONS)
    with stored(tmp_path / "campaign.sqlite") as store:
        with pytest.raises(KeyboardInterrupt) as stopped:
            optimise(network, TrialRunner(Stops(noisy, after), 1, store), OPTIONS)
        assert isinstance(stopped.value, Interrupted)
        noisy.trials.clear()
        again = optimise(network, TrialRunner(noisy, 1, store), OPTIONS)
    of_search = [trial for trial in noisy.trials if trial.buffer_mode == "fixed"]
    assert len(of_search) <= len(whole.records) - after + 4
    assert (again.records, again.reached) == (whole.records, whole.reached)


def test_ctrl_c_prints_the_best_answer_so_far(network: Topology, noisy: Any) -> None:
    with pytest.raises(Interrupted) as stopped:
        optimise(network, TrialRunner(Stops(noisy, 25), 1), OPTIONS)
    assert "best answer after" in stopped.value.so_far
    assert "with reno and" in stopped.value.so_far
    assert so_far([]) == ""


class Unreachable(Testbed):
    """A testbed that reaches the other end in a part of its trials only."""

    name = "fake"
    parallel: int | None = 1

    def __init__(self, inner: Any, each: int) -> None:
        self._inner, self._each, self._count = inner, each, 0

    def run(self, trial: Trial) -> Observation:
        self._count += 1
        observation: Observation = self._inner.run(trial)
        if trial.script or self._count % self._each:
            return observation
        return msgspec.structs.replace(observation, failed=Failure("unreachable", "no connection"))


def test_a_testbed_that_fails_half_of_the_trials_still_gives_the_answer(
    network: Topology, noisy: Any
) -> None:
    result = optimise(network, TrialRunner(Unreachable(noisy, 2), 1), changed(confirm_runs=6))
    assert (result.optimum.cc, result.subflows) == ("reno", ("A-X", "B-X"))
    assert 0.93 * 4 <= result.optimum.buffer_mib <= 1.25 * 4
    assert any("failed" in text for text in result.warnings)


def test_without_any_trial_there_is_no_answer(network: Topology, noisy: Any) -> None:
    with pytest.raises(MptuneError, match="every trial of the sweep failed"):
        optimise(network, TrialRunner(Unreachable(noisy, 1), 1), OPTIONS)


def test_where_time_is_limited_the_confirmation_decides_about_plain_tcp(
    network: Topology, noisy: Any
) -> None:
    options = changed(budget_ns=300 * SECOND, off_by=0.2, confirm_runs=4)
    noisy.tcp_gives = {"A-X": 130.0}
    faster = optimise(network, TrialRunner(noisy), options)
    assert (faster.optimum.pm, faster.subflows) == ("tcp", ("A-X",))
    noisy.tcp_gives = {}
    slower = optimise(network, TrialRunner(noisy), options)
    assert slower.optimum.pm == "pcdc"
    assert slower.confirmation is not None and slower.confirmation.against_tcp is not None
    assert slower.confirmation.against_tcp.tcp.initial_path == "A-X"


def test_where_time_is_limited_the_hosts_own_congestion_control_is_tried_on_the_best_path(
    network: Topology, noisy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the best plain TCP may be half as fast as the same machines today."""
    monkeypatch.setattr(noisy, "today", lambda *_: Today(cc="bbr", whose="these"))
    noisy.knee_mib = {**noisy.knee_mib, "bbr": 1.0}
    noisy.tcp_gives = {"A-X": 40.0, "B-X": 10.0, "C-X": 10.0}
    result = optimise(network, TrialRunner(noisy), changed(budget_ns=300 * SECOND, off_by=0.2))
    alone = [record for record in result.records if record.purpose == "screen"]
    assert [(record.settings["initial_path"], record.cc) for record in alone[3:]] == [("A-X", "bbr")]
    confirmed = result.confirmation
    assert confirmed is not None and confirmed.against_tcp is not None
    assert confirmed.against_tcp.tcp.cc == "bbr"


def test_what_is_repeated_because_a_machine_was_busy_counts_twice(network: Topology, noisy: Any) -> None:
    class Busy(Testbed):
        name = "namespaces"
        parallel: int | None = 1

        def run(self, trial: Trial) -> Observation:
            observation: Observation = noisy.run(trial)
            return msgspec.structs.replace(observation, metadata={**observation.metadata, "repeated": 1})

    options = changed(budget_ns=300 * SECOND, off_by=0.0, confirm_runs=2, pms=("fullmesh",))
    once = optimise(network, TrialRunner(noisy, 1), options).reached
    twice = optimise(network, TrialRunner(Busy(), 1), options).reached
    assert once is not None and twice is not None
    seconds = [[step.seconds / step.trials for step in job.steps] for job in (once, twice)]
    assert seconds[1][0] == pytest.approx(2 * seconds[0][0])


def test_buffers_are_a_quarter_of_an_octave_apart_and_have_the_ends() -> None:
    ladder = geometric((MIB, 4 * MIB))
    assert (ladder[0], ladder[-1], len(ladder)) == (MIB, 4 * MIB, 9)
    assert all(size % 1024 == 0 for size in ladder)
    assert geometric((MIB,)) == (MIB,)


@pytest.mark.parametrize(("largest", "beyond"), [(0, True), (1, True), (2, False)])
def test_buffers_beyond_the_largest_compete_where_the_answer_may_be_near_it(
    network: Topology, noisy: Any, largest: int, beyond: bool
) -> None:
    """Where throughput still rises, single runs make the last buffer but one look like enough as often."""
    arms = Arms(Job.on(network, TrialRunner(noisy), OPTIONS), ())
    before, last = arms.buffers, len(arms.buffers) - 1
    verdict = Verdict(
        arm=0,
        size=last - 4,
        value=50.0,
        interval=(40.0, 60.0),
        certainty=0.95,
        room=0.05,
        contenders=(0,),
        shares=(1.0,),
        sizes=(last - 6, last - largest),
    )
    assert arms.widen(verdict) == beyond
    assert arms.buffers[: last + 1] == before
    assert (arms.buffers[-1] == 2 * before[-1]) == beyond


def test_what_was_learnt_guides_the_simulator_only_if_asked_for(network: Topology, noisy: Any) -> None:
    plain = optimise(network, TrialRunner(noisy), OPTIONS)
    guided = optimise(network, TrialRunner(noisy), changed(learnt_prior=True))
    assert plain.reached is not None and guided.reached is not None
    assert {step.prior for step in plain.reached.steps} == {""}
    assert {step.prior for step in guided.reached.steps} <= {"learnt, followed", "learnt, dropped"}
    assert guided.optimum.cc == plain.optimum.cc == "reno"
    assert wording.PREDICTION[guided.reached.steps[-1].prior].find("learnt from random networks") > 0


def test_nothing_was_learnt_of_another_stack(network: Topology, noisy: Any) -> None:
    stack = StackOptions(stack="v0.9x")
    result = optimise(network, TrialRunner(noisy), changed(learnt_prior=True, stack=stack))
    assert result.reached is not None
    assert {step.prior for step in result.reached.steps} == {""}
