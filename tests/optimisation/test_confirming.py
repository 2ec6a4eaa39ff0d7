"""The rest of a budget confirms the answer, and an answer that misses its target gets another try."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from mptune.decision.confirmation import TIGHT, Confirmation
from mptune.errors import Failure, LimitReached
from mptune.optimisation.main_job import Result, optimise
from mptune.result import wording
from mptune.runner.runner import TrialRunner
from mptune.runner.seeds import seed_for
from mptune.testbeds import Testbed
from mptune.topology import Topology
from mptune.trial import Observation, Trial
from tests.optimisation.test_learning import MIB, SECOND, changed, seconds

CONFIRMING = [seed_for(1, "confirm", run, 0) for run in range(100)]


def run(network: Topology, testbed: Any, **changes: Any) -> tuple[Result, Confirmation]:
    """The main job where there is no time for a shortlist."""
    result = optimise(network, TrialRunner(testbed, 1), changed(confirm_runs=1, **changes))
    assert result.confirmation is not None
    return result, result.confirmation


def weak(trials: Callable[[int, Trial], bool]) -> Callable[[Trial, float], float]:
    """Some confirming trials, by their number, give 30 % less than all others."""

    def drift(trial: Trial, at_s: float) -> float:
        number = CONFIRMING.index(trial.seed) if trial.seed in CONFIRMING else None
        return 0.7 if number is not None and trials(number, trial) else 1.0

    return drift


@pytest.mark.parametrize("mode", ["fixed", "auto"])
@pytest.mark.parametrize("noise", [0.02, 0.05])
def test_what_is_left_of_a_budget_confirms_the_answer(
    network: Topology, fake_testbed: Any, mode: str, noise: float
) -> None:
    fake_testbed.noise, budget_s = noise, 150
    result, confirmation = run(network, fake_testbed, budget_ns=budget_s * SECOND, buffer_mode=mode)
    left_s = budget_s - seconds(result)
    each = len(confirmation.records) // confirmation.runs
    assert left_s >= 0 and confirmation.runs > 1
    assert confirmation.is_tight or left_s < each
    confirmed = confirmation.confirmed
    assert confirmed is not None and confirmed.n == confirmation.runs
    if confirmation.is_tight:
        assert confirmed.low is not None and confirmed.mean - confirmed.low <= TIGHT * confirmed.mean


def test_without_a_budget_there_are_as_many_runs_as_asked_for(network: Topology, fake_testbed: Any) -> None:
    assert run(network, fake_testbed)[1].runs == 1


@pytest.mark.parametrize("mode", ["fixed", "auto"])
def test_one_unlucky_run_is_followed_by_others(network: Topology, fake_testbed: Any, mode: str) -> None:
    fake_testbed.drift = weak(lambda number, trial: number == 0)
    result, confirmation = run(network, fake_testbed, budget_ns=150 * SECOND, buffer_mode=mode)
    assert confirmation.runs > 2
    assert not any("misses its target" in warning or "too few" in warning for warning in result.warnings)


@pytest.mark.parametrize("mode", ["fixed", "auto"])
def test_an_answer_that_misses_its_target_gets_a_larger_buffer(
    network: Topology, fake_testbed: Any, mode: str
) -> None:
    """All confirming runs with a buffer below 9 MiB are worse than the sweep, whatever it found."""
    fake_testbed.drift = weak(lambda number, trial: trial.buffer_bytes < 9 * MIB)
    result, confirmation = run(network, fake_testbed, budget_ns=300 * SECOND, buffer_mode=mode)
    assert seconds(result) <= 300
    assert result.buffer_bytes == confirmation.recommended.buffer_bytes >= 9 * MIB
    assert result.optimum.buffer_mib * MIB >= 9 * MIB
    (warning_text,) = (warning for warning in result.warnings if "the buffer was enlarged to" in warning)
    assert warning_text.startswith("With ") and "less than the target of" in warning_text
    assert not any("misses its target" in warning for warning in result.warnings)


def test_where_no_larger_buffer_is_better_the_first_answer_stays(
    network: Topology, fake_testbed: Any
) -> None:
    fake_testbed.drift = weak(lambda number, trial: True)
    result, confirmation = run(network, fake_testbed, budget_ns=300 * SECOND)
    assert seconds(result) <= 300 and result.buffer_bytes < 9 * MIB
    assert result.buffer_bytes == confirmation.recommended.buffer_bytes
    assert any("misses its target" in warning for warning in result.warnings)


def test_a_single_run_decides_nothing_about_the_target(network: Topology, fake_testbed: Any) -> None:
    fake_testbed.drift = weak(lambda number, trial: True)
    result, confirmation = run(network, fake_testbed)
    assert confirmation.runs == 1
    assert any("One run is too few to judge" in warning for warning in result.warnings)
    assert not any("misses its target" in warning for warning in result.warnings)


def test_the_answers_subflows_are_those_of_any_confirming_run(network: Topology, fake_testbed: Any) -> None:
    """A first run that died has none."""
    measured = fake_testbed.run

    def dying(trial: Trial) -> Observation:
        observation: Observation = measured(trial)
        if trial.seed != CONFIRMING[0]:
            return observation
        died = Failure("died", "the agent was killed")
        return msgspec.structs.replace(observation, subflows=[], failed=died)

    fake_testbed.run = dying
    options = changed(confirm_runs=3, pms=("ndiffports",))
    assert optimise(network, TrialRunner(fake_testbed, 1), options).subflows


def test_a_limit_of_the_user_ends_what_is_only_an_addition(network: Topology, fake_testbed: Any) -> None:
    class Limited(Testbed):
        """Sends no more after the first confirming run of all."""

        name = "fake"
        parallel: int | None = 1

        def run(self, trial: Trial) -> Observation:
            if trial.seed in CONFIRMING[1:]:
                raise LimitReached("max_data", "", "expected less")
            observation: Observation = fake_testbed.run(trial)
            return observation

    fake_testbed.noise = 0.1
    _, confirmation = run(network, Limited(), budget_ns=150 * SECOND)
    assert confirmation.runs == 1


def test_the_words_name_where_the_rest_of_the_budget_went(network: Topology, fake_testbed: Any) -> None:
    fake_testbed.noise = 0.3
    result, _ = run(network, fake_testbed, budget_ns=40 * SECOND)
    text = " ".join(wording.answer(result))
    assert "Budget exhausted: " in text and "(the rest of 40 s went into confirmation)" in text
    assert result.reached is not None
    without = msgspec.structs.replace(result.reached, budget_s=None)
    assert "what was left" not in " ".join(wording.answer(msgspec.structs.replace(result, reached=without)))
