"""Runs trials on all cores, in threads: a testbed spends its time outside the interpreter lock.

It knows no purpose and no statistics: trials in, observations out, in the same order. Trials are planned in
`mptune.measuring.planning`; progress is shown by `mptune.measuring.progress`.
"""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

from mptune import interrupts
from mptune.errors import Failure, InputError, TrialError
from mptune.testbeds import Observation, Testbed, Trial

T = TypeVar("T")


class Advance(Protocol):
    """Called after every finished trial with the number done, the total, and a note."""

    def __call__(self, done: int, total: int, note: str = "") -> None:
        """Show the progress."""
        ...


#: Longest wait of the main thread, seconds. Otherwise a signal that arrives just before the wait, or is lost,
#: would not be noticed until the next trial ends.
_LOOK_UP_S = 0.5


def run_trials(
    testbed: Testbed, trials: Sequence[Trial], *, workers: int | None = None, progress: Advance | None = None
) -> list[Observation]:
    """Run trials and return their observations in the same order.

    A failed trial stays in its place as a failed observation; an error of the testbed becomes one, with
    the error as its reason.

    Parameters
    ----------
    workers : trials in parallel; by default the testbed's limit, which always applies, or one per core.
    progress : called in this thread after every finished trial.

    Raises
    ------
    InputError : a trial is impossible. A testbed with a `check` reports it before the first trial starts;
        otherwise no further trial is started, and running ones may finish.
    KeyboardInterrupt : Ctrl-C, handled in the same way; the `interrupt` of a testbed that has one aborts
        running trials.

    All of it is within the `session` of a testbed that has one, and the `note` of one that has any is shown
    with the progress.
    """
    return reduce_trials(
        testbed, trials, lambda _, __, observation: observation, workers=workers, progress=progress
    )


def reduce_trials(
    testbed: Testbed,
    trials: Sequence[Trial],
    reduce: Callable[[int, float, Observation], T],
    *,
    workers: int | None = None,
    progress: Advance | None = None,
) -> list[T]:
    """Like `run_trials`, but keep only the result of `reduce(index, started, observation)`.

    `started` is when the trial began, seconds since 1970.
    Otherwise a campaign of thousands of trials would hold all their time series in memory.
    """

    def one(index: int) -> T:
        started = time.time()
        return reduce(index, started, _observe(testbed, trials[index]))

    check: Callable[[Trial], None] = getattr(testbed, "check", lambda trial: None)
    for trial in trials:
        check(trial)
    if not trials:
        return []
    session: Callable[[], AbstractContextManager[object]] = getattr(testbed, "session", nullcontext)
    with session():
        executor = ThreadPoolExecutor(max_workers=_workers(testbed, workers), thread_name_prefix="trial")
        try:
            futures = [executor.submit(one, index) for index in range(len(trials))]
            _watch(futures, progress, getattr(testbed, "note", str))
            return [future.result() for future in futures]
        except KeyboardInterrupt:
            # Otherwise trials in real time would run to their end.
            getattr(testbed, "interrupt", lambda: None)()
            raise
        finally:
            executor.shutdown(wait=True, cancel_futures=True)


def _observe(testbed: Testbed, trial: Trial) -> Observation:
    """One observation, failed if the testbed could not run the trial."""
    try:
        return testbed.run(trial)
    except InputError:
        raise
    except TrialError as error:
        failed = error.failure
    except Exception as error:  # no error of a testbed may end the campaign
        failed = Failure("died", f"{type(error).__name__}: {error}")
    return Observation(
        testbed=testbed.name, duration_ns=0, in_order_bytes=0, bins=[], subflows=[], failed=failed
    )


def _watch(futures: Sequence[Future[T]], progress: Advance | None, note: Callable[[], str]) -> None:
    """Wait for all futures, report the progress, and raise the first error as soon as it occurs."""
    finished: SimpleQueue[Future[T]] = SimpleQueue()
    for future in futures:
        future.add_done_callback(finished.put)
    done = 0
    while done < len(futures):
        interrupts.raise_lost()
        try:
            finished.get(timeout=_LOOK_UP_S).result()
        except Empty:
            continue
        done += 1
        if progress is not None:
            progress(done, len(futures), note())


def _workers(testbed: Testbed, wanted: int | None) -> int:
    """Threads to use: as requested or one per core, within the testbed's limit if it has one."""
    limit = testbed.parallel
    if limit is None:
        return max(1, wanted or len(os.sched_getaffinity(0)))
    return max(1, min(wanted or limit, limit))
