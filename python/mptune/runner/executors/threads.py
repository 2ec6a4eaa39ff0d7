"""Trials in threads of this process: a testbed spends its time outside the interpreter lock."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from mptune.runner.executors._base import observe
from mptune.testbeds import Testbed
from mptune.trial import Observation, Ran, Trial

T = TypeVar("T")


class Threads:
    """As many trials at once as asked for, or one per core, within the testbed's limit if it has one."""

    name = "threads"

    def __init__(self, workers: int | None = None) -> None:
        self._workers = workers

    def check(self, testbed: Testbed) -> None:
        """Every testbed runs here."""

    def note(self) -> str:
        """Nothing: what runs here is known."""
        return ""

    @contextmanager
    def started(
        self, testbed: Testbed, trials: Sequence[Trial], keep: Callable[[int, Ran, Observation], T]
    ) -> Iterator[Sequence[Future[T]]]:
        """As in `Executor`; `keep` runs in the thread of the trial, and running trials end with the block."""

        def one(index: int) -> T:
            started = time.time()
            observation = observe(testbed, trials[index])
            return keep(index, Ran(started, time.time()), observation)

        pool = ThreadPoolExecutor(max_workers=self._at_once(testbed), thread_name_prefix="trial")
        try:
            yield [pool.submit(one, index) for index in range(len(trials))]
        except KeyboardInterrupt:
            # Otherwise trials in real time would run to their end, and an interrupted one let the next begin.
            pool.shutdown(wait=False, cancel_futures=True)
            testbed.interrupt()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _at_once(self, testbed: Testbed) -> int:
        limit, asked = testbed.parallel, self._workers
        if limit is None:
            return max(1, asked or len(os.sched_getaffinity(0)))
        return max(1, min(asked or limit, limit))
