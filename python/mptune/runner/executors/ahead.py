"""Trials before they are asked for, on cores that are idle while a strategy thinks or a last trial runs.

Which ones is a guess of the caller's, and no result depends on it: what was guessed rightly is handed over
when it is asked for, the rest is forgotten. It is for testbeds where the same trial always gives the same
observation and costs nothing but processor time. An executor as in `mptune.runner.executors`, but never one
that a user chooses.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from types import TracebackType
from typing import Self, TypeVar

from mptune.runner.executors._base import observe
from mptune.runner.executors.threads import Threads
from mptune.testbeds import Testbed
from mptune.trial import Observation, Ran, Trial

T = TypeVar("T")

#: Guesses whose results are kept; the oldest are forgotten first. Each holds the time series of a trial.
_KEPT = 64


class _Job:
    """A trial that waits, runs or is done."""

    def __init__(self, testbed: Testbed, trial: Trial) -> None:
        self.testbed, self.trial = testbed, trial
        self.done: Future[tuple[Ran, Observation]] = Future()

    def run(self) -> None:
        """Run it in this thread."""
        started = time.time()
        try:
            observation = observe(self.testbed, self.trial)
        except BaseException as error:  # as in any future, whoever asks for the result sees it
            self.done.set_exception(error)
        else:
            self.done.set_result((Ran(started, time.time()), observation))


class Ahead(Threads):
    """Runs what is asked for on all cores, and guesses where nothing that was asked for waits.

    A guess is right if the very same `Trial` object is asked for later. Within a `with`, whose end waits for
    running trials.

    Parameters
    ----------
    most : trials at once.
    foresee : the trials to guess, the likeliest first; called once what was asked for has begun. It may name
        the same ones again.
    """

    name = "ahead"

    def __init__(self, most: int, foresee: Callable[[], Iterable[Trial]]) -> None:
        super().__init__(most)
        self._most, self._foresee = most, foresee
        self._pool = ThreadPoolExecutor(max_workers=self._most, thread_name_prefix="trial")
        self._lock = Lock()
        self._running = 0
        self._is_awaited = False
        #: What was asked for and waits; the guesses that wait; and all guesses, by the trial's identity.
        self._asked: deque[_Job] = deque()
        self._guesses: deque[_Job] = deque()
        self._guessed: dict[int, _Job] = {}

    def __enter__(self) -> Self:
        """Nothing begins yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Forget the guesses."""
        with self._lock:
            self._guesses.clear()
        self._pool.shutdown(wait=True, cancel_futures=True)

    @contextmanager
    def started(
        self, testbed: Testbed, trials: Sequence[Trial], keep: Callable[[int, Ran, Observation], T]
    ) -> Iterator[Sequence[Future[T]]]:
        """As in `Executor`; `keep` runs in the thread of the trial, or here if it was guessed."""
        asked = time.time()
        jobs = [self._job(testbed, trial) for trial in trials]
        futures = [_kept(job, asked, index, keep) for index, job in enumerate(jobs)]
        with self._lock:
            self._is_awaited = True
        self._begin()
        try:
            self._guess(testbed)
            yield futures
        finally:
            with self._lock:
                self._is_awaited = False
                self._asked.clear()

    def _job(self, testbed: Testbed, trial: Trial) -> _Job:
        """The guess that this trial is, or a new one that waits."""
        with self._lock:
            job = self._guessed.pop(id(trial), None)
            if job is None:
                job = _Job(testbed, trial)
                self._asked.append(job)
            elif job in self._guesses:
                self._guesses.remove(job)
                self._asked.append(job)
            return job

    def _guess(self, testbed: Testbed) -> None:
        """Let the newest guesses wait instead of older ones that have not begun."""
        guesses = list(self._foresee())
        with self._lock:
            for job in self._guesses:
                self._guessed.pop(id(job.trial), None)
            self._guesses.clear()
            for trial in guesses:
                if id(trial) not in self._guessed:
                    self._guesses.append(_Job(testbed, trial))
                    self._guessed[id(trial)] = self._guesses[-1]
            while len(self._guessed) > _KEPT:
                del self._guessed[next(iter(self._guessed))]
        self._begin()

    def _begin(self) -> None:
        """Begin as much as there are cores for; one is left to whoever thinks."""
        with self._lock:
            while True:
                if self._asked and self._running < self._most:
                    job = self._asked.popleft()
                elif self._guesses and self._running < self._most - (not self._is_awaited):
                    job = self._guesses.popleft()
                else:
                    return
                self._running += 1
                self._pool.submit(self._run, job)

    def _run(self, job: _Job) -> None:
        job.run()
        with self._lock:
            self._running -= 1
        self._begin()


def _kept(job: _Job, asked: float, index: int, keep: Callable[[int, Ran, Observation], T]) -> Future[T]:
    """What `keep` makes of the job's result, as if it had begun when it was asked for.

    Stored trials have their order from their beginnings, and a guess is no part of it before it is asked for.
    """
    kept: Future[T] = Future()

    def settle(done: Future[tuple[Ran, Observation]]) -> None:
        try:
            ran, observation = done.result()
            late = max(0.0, asked - ran.started)
            kept.set_result(keep(index, Ran(ran.started + late, ran.finished + late), observation))
        except BaseException as error:
            kept.set_exception(error)

    job.done.add_done_callback(settle)
    return kept
