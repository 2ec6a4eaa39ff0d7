"""Trials before they are asked for: handed over when they are, forgotten otherwise, and never in the way."""

import threading
from collections.abc import Iterable
from contextlib import contextmanager
from typing import Any

import pytest

from mptune.errors import InputError
from mptune.runner.executors.ahead import Ahead
from mptune.runner.executors.threads import Threads
from mptune.runner.planning import plan_trials
from mptune.runner.runner import TrialRunner
from mptune.runner.running import reduce_trials
from mptune.testbeds import Testbed
from mptune.topology import Topology
from mptune.trial import Bulk, Configuration, Observation, Ran, Trial

#: Longest wait for a thread, seconds: of a test that fails.
LONG_S = 60


def trials(network: Topology, count: int) -> list[Trial]:
    planned = plan_trials(
        network,
        [Configuration(pm="fullmesh", cc="cubic", buffer_bytes=10**6, workload=Bulk(duration_ns=10**8))],
        purpose="sweep",
        runs=count,
        base_seed=1,
    )
    return [one.trial for one in planned]


class Counting(Testbed):
    """A testbed that records the seeds of its trials, and holds some of them until the test lets them go."""

    name = "counting"
    anywhere = True

    def __init__(self, blocked: Iterable[int] = ()) -> None:
        self.ran: list[int] = []
        self.blocked = {seed: threading.Event() for seed in blocked}
        self._changed = threading.Condition()

    def run(self, trial: Trial) -> Observation:
        with self._changed:
            self.ran.append(trial.seed)
            self._changed.notify_all()
        if trial.seed in self.blocked:
            assert self.blocked[trial.seed].wait(LONG_S)
        return Observation(testbed=self.name, duration_ns=1, in_order_bytes=trial.seed, bins=[], subflows=[])

    def wait_for(self, *seeds: int) -> None:
        """Return when these have begun."""
        with self._changed:
            assert self._changed.wait_for(lambda: set(seeds) <= set(self.ran), LONG_S)


def measured(testbed: Testbed, asked: list[Trial], ahead: Ahead) -> list[tuple[int, Ran]]:
    return reduce_trials(
        testbed, asked, lambda _, ran, observation: (observation.in_order_bytes, ran), executor=ahead
    )


def test_what_was_guessed_is_run_once_and_begins_when_it_is_asked_for(network: Topology) -> None:
    first, second, third = trials(network, 3)
    testbed, guesses = Counting(), [[third, second], []]
    with Ahead(2, lambda: guesses.pop(0)) as ahead:
        before = measured(testbed, [first], ahead)
        testbed.wait_for(second.seed, third.seed)
        after = measured(testbed, [second, third], ahead)
    assert [seed for seed, _ in before + after] == [first.seed, second.seed, third.seed]
    assert sorted(testbed.ran) == sorted([first.seed, second.seed, third.seed])
    # Stored trials have their order from their beginnings.
    assert before[0][1].finished <= min(ran.started for _, ran in after)


def test_what_was_asked_for_goes_first(network: Topology) -> None:
    first, second, third, guess = trials(network, 4)
    testbed = Counting()
    with Ahead(2, lambda: [guess]) as ahead:
        measured(testbed, [first, second, third], ahead)
    assert set(testbed.ran[:3]) == {first.seed, second.seed, third.seed}


def test_no_more_run_at_once_than_there_are_workers(network: Topology) -> None:
    first, *guesses = trials(network, 4)
    testbed = Counting(blocked=[trial.seed for trial in guesses])
    try:
        with Ahead(2, lambda: guesses) as ahead:
            measured(testbed, [first], ahead)
            testbed.wait_for(guesses[0].seed)
            assert guesses[2].seed not in testbed.ran
            for event in testbed.blocked.values():
                event.set()
    finally:
        for event in testbed.blocked.values():
            event.set()


def test_wrong_guesses_are_forgotten_and_not_waited_for(network: Topology) -> None:
    first, wrong, second, late = trials(network, 4)
    testbed = Counting(blocked=[wrong.seed])
    guesses = [[wrong, late], []]
    with Ahead(2, lambda: guesses.pop(0)) as ahead:
        measured(testbed, [first], ahead)
        testbed.wait_for(wrong.seed)
        assert measured(testbed, [second], ahead)[0][0] == second.seed
        testbed.blocked[wrong.seed].set()


def test_a_guess_that_fails_fails_when_it_is_asked_for(network: Topology) -> None:
    first, second, third = trials(network, 3)

    class Refusing(Counting):
        def run(self, trial: Trial) -> Observation:
            observation = super().run(trial)
            if trial.seed == second.seed:
                raise InputError("network", "path", "expected another one")
            return observation

    testbed = Refusing()
    guesses = [[second], [], []]
    with Ahead(2, lambda: guesses.pop(0)) as ahead:
        measured(testbed, [first], ahead)
        testbed.wait_for(second.seed)
        assert measured(testbed, [third], ahead)[0][0] == third.seed
        with pytest.raises(InputError, match="another one"):
            measured(testbed, [second], ahead)


@contextmanager
def executor_of(testbed: Testbed, workers: int | None, executor: Any = None) -> Any:
    with TrialRunner(testbed, workers, None, executor).ahead(list) as runner:
        yield runner.executor


def test_only_trials_that_cost_processor_time_alone_run_ahead(network: Topology) -> None:
    class Paced(Counting):
        pace = 0.5

    class Here(Counting):
        anywhere = False

    with executor_of(Counting(), 2) as executor:
        assert isinstance(executor, Ahead)
    with executor_of(Counting(), 2, Threads(2)) as executor:
        assert isinstance(executor, Ahead)
    for testbed, workers, given in (
        (Paced(), 2, None),
        (Here(), 2, None),
        (Counting(), 1, None),
        (Counting(), 2, object()),
    ):
        with executor_of(testbed, workers, given) as executor:
            assert executor is given
