"""Trials in threads: order, failures that stay failures, and a clean end whatever happens."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from mptune import interrupts
from mptune.errors import Failure, InputError, TrialError
from mptune.runner.running import reduce_trials, run_trials
from mptune.testbeds import Testbed
from mptune.topology import Topology
from mptune.trial import Bulk, Observation, Trial


def trials(network: Topology, count: int) -> list[Trial]:
    return [
        Trial(
            topology=network,
            pm="fullmesh",
            cc="cubic",
            buffer_bytes=10**6,
            workload=Bulk(duration_ns=10**8),
            seed=seed,
        )
        for seed in range(count)
    ]


class Scripted(Testbed):
    """Testbed that does what a function of the seed gives; the observation carries the seed."""

    name = "scripted"

    def __init__(self, act: Any = lambda seed: None, parallel: int | None = None) -> None:
        self.parallel = parallel
        self.act, self.started, self.finished = act, 0, 0

    def run(self, trial: Trial) -> Observation:
        self.started += 1
        self.act(trial.seed)
        self.finished += 1
        return Observation(testbed=self.name, duration_ns=1, in_order_bytes=trial.seed, bins=[], subflows=[])


def test_observations_come_in_the_order_of_the_trials(network: Topology) -> None:
    """Although the first trial ends last: it waits for all the others."""
    others = threading.Semaphore(0)

    def act(seed: int) -> None:
        if seed == 0:
            for _ in range(19):
                others.acquire()
        else:
            others.release()

    got = run_trials(Scripted(act), trials(network, 20), workers=2)
    assert [observation.in_order_bytes for observation in got] == list(range(20))


def test_all_trials_are_within_one_session_of_the_testbed(network: Topology) -> None:
    """However it ends: with results or with an error."""
    events: list[str] = []

    @contextmanager
    def session() -> Iterator[None]:
        events.append("begins")
        try:
            yield
        finally:
            events.append("ends")

    def act(seed: int) -> None:
        events.append("trial")
        if seed == 1:
            raise InputError("trial", "", "impossible")

    bed = Scripted(act)
    bed.session = session  # type: ignore[method-assign]
    run_trials(bed, trials(network, 1))
    assert events == ["begins", "trial", "ends"]
    with pytest.raises(InputError):
        run_trials(bed, trials(network, 2), workers=1)
    assert events[3:] == ["begins", "trial", "trial", "ends"]
    run_trials(bed, [])
    assert len(events) == 7


def test_trials_do_run_side_by_side(network: Topology) -> None:
    """Three trials that wait for each other can only end if three threads run them."""
    meeting = threading.Barrier(3, timeout=30)
    assert len(run_trials(Scripted(lambda seed: meeting.wait()), trials(network, 3), workers=3)) == 3


def test_the_limit_of_the_testbed_holds(network: Topology) -> None:
    busy = threading.Lock()

    def act(seed: int) -> None:
        assert busy.acquire(blocking=False), "two trials at once"
        busy.release()

    observations = run_trials(Scripted(act, parallel=1), trials(network, 50), workers=8)
    assert [observation.failed for observation in observations] == [None] * 50


def test_errors_of_a_testbed_become_failed_observations(network: Topology) -> None:
    def act(seed: int) -> None:
        if seed == 1:
            raise TrialError("the link went down")
        if seed == 2:
            raise OSError("no such device")

    got = run_trials(Scripted(act), trials(network, 4))
    died = [Failure("died", reason) for reason in ("the link went down", "OSError: no such device")]
    assert [observation.failed for observation in got] == [None, *died, None]


#: Ctrl-C may arrive where Python discards it, in the callbacks of an executor's threads: then it is noted.
MAY_BE_DISCARDED = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set once the pending trials are cancelled: what runs until then was running before."""
    event, shutdown = threading.Event(), ThreadPoolExecutor.shutdown

    def announce(self: ThreadPoolExecutor, wait: bool = True, *, cancel_futures: bool = False) -> None:
        shutdown(self, wait=False, cancel_futures=cancel_futures)
        event.set()
        shutdown(self, wait=wait)

    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", announce)
    return event


def test_an_impossible_trial_ends_the_campaign(network: Topology, stopped: threading.Event) -> None:
    def act(seed: int) -> None:
        if seed == 3:
            raise InputError("--buffer", "", "expected more")
        if seed > 3:
            assert stopped.wait(30)

    testbed = Scripted(act)
    with pytest.raises(InputError, match="expected more"):
        run_trials(testbed, trials(network, 50), workers=2)
    assert testbed.started <= 6  # 0 to 3, and one more in each thread


def test_a_testbed_that_knows_refuses_before_anything_is_measured(network: Topology) -> None:
    class Choosy(Scripted):
        def check(self, trial: Trial) -> None:
            if trial.seed == 3:
                raise InputError("--cc", "", "expected another")

    testbed = Choosy()
    with pytest.raises(InputError, match="expected another"):
        run_trials(testbed, trials(network, 4))
    assert testbed.started == 0


@MAY_BE_DISCARDED
def test_ctrl_c_lets_running_trials_finish_and_starts_no_more(
    network: Topology, stopped: threading.Event
) -> None:
    def act(seed: int) -> None:
        if seed == 3:
            os.kill(os.getpid(), signal.SIGINT)
        if seed >= 3:
            assert stopped.wait(30)

    testbed = Scripted(act)
    with interrupts.noting(), pytest.raises(KeyboardInterrupt):
        run_trials(testbed, trials(network, 50), workers=2)
    assert testbed.started == testbed.finished <= 5  # 0 to 3, and perhaps one in the other thread
    assert not any(thread.name.startswith("trial") for thread in threading.enumerate())


@MAY_BE_DISCARDED
def test_ctrl_c_breaks_off_what_would_take_its_time(network: Topology) -> None:
    """Of a testbed in real time; what was waiting is not begun."""
    broken_off = threading.Event()

    class Slow(Scripted):
        def interrupt(self) -> None:
            broken_off.set()

    def act(seed: int) -> None:
        if seed == 1:
            os.kill(os.getpid(), signal.SIGINT)
        if seed >= 1 and broken_off.wait(30):
            raise KeyboardInterrupt

    testbed = Slow(act)
    with interrupts.noting(), pytest.raises(KeyboardInterrupt):
        run_trials(testbed, trials(network, 50), workers=2)
    assert broken_off.is_set() and testbed.started <= 3


def test_a_ctrl_c_that_python_discards_breaks_off_too(
    network: Topology, lose_ctrl_c: Callable[[], None]
) -> None:
    broken_off = threading.Event()

    class Slow(Scripted):
        def interrupt(self) -> None:
            broken_off.set()

    def act(seed: int) -> None:
        if seed >= 1 and broken_off.wait(30):
            raise KeyboardInterrupt

    with interrupts.noting(), pytest.raises(KeyboardInterrupt):
        run_trials(
            Slow(act), trials(network, 3), workers=2, progress=lambda done, total, note="": lose_ctrl_c()
        )
    assert broken_off.is_set()


def test_progress_counts_every_trial(network: Topology) -> None:
    seen: list[tuple[int, int]] = []
    run_trials(
        Scripted(), trials(network, 10), progress=lambda done, total, note="": seen.append((done, total))
    )
    assert seen[-1] == (10, 10)
    assert seen == sorted(set(seen))


def test_only_what_is_asked_for_is_kept(network: Topology) -> None:
    got = reduce_trials(
        Scripted(), trials(network, 3), lambda index, _, observation: (index, observation.in_order_bytes)
    )
    assert got == [(0, 0), (1, 1), (2, 2)]
