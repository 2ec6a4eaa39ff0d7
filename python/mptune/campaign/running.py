"""Runs trials on all cores, in threads: a testbed spends its time outside the interpreter lock.

It knows no purpose and no statistics: trials in, observations out, in the same order. What the trials
are is `mptune.campaign.planning`; how progress looks is `mptune.campaign.progress`.
"""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

from mptune.errors import InputError, TrialError
from mptune.testbeds import Observation, Testbed, Trial

T = TypeVar("T")


class Advance(Protocol):
    """Called after every finished trial with the number done, the total, and what else there is to say."""

    def __call__(self, done: int, total: int, note: str = "") -> None:
        """Take the news."""
        ...


#: Longest wait of the main thread, seconds. A signal that arrives just before it begins to wait would
#: otherwise not be noticed until the next trial ends.
_LOOK_UP_S = 0.5


def run_trials(
    testbed: Testbed, trials: Sequence[Trial], *, workers: int | None = None, progress: Advance | None = None
) -> list[Observation]:
    """Run trials and return their observations in the same order.

    A failed trial stays in its place as a failed observation; an error of the testbed becomes one, with
    the error as its reason.

    Parameters
    ----------
    workers : trials side by side; by default what the testbed sets as its limit, which holds in any case, or
        one per core.
    progress : called in this thread after every finished trial.

    Raises
    ------
    InputError : a trial is impossible. A testbed with a `check` says so before the first one is started;
        otherwise no further trial is started, and running ones are let finish.
    KeyboardInterrupt : Ctrl-C, handled likewise; a testbed with an `interrupt` is told to break them off.
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
    """Like `run_trials`, but keep only what `reduce(index, started, observation)` makes of each observation.

    `started` is when the trial began, seconds since 1970.
    A campaign of thousands of trials would otherwise hold all their time series in memory.
    """

    def one(index: int) -> T:
        started = time.time()
        return reduce(index, started, _observe(testbed, trials[index]))

    check: Callable[[Trial], None] = getattr(testbed, "check", lambda trial: None)
    for trial in trials:
        check(trial)
    executor = ThreadPoolExecutor(max_workers=_workers(testbed, workers), thread_name_prefix="trial")
    try:
        futures = [executor.submit(one, index) for index in range(len(trials))]
        _watch(futures, progress)
        return [future.result() for future in futures]
    except KeyboardInterrupt:
        # What is measured in real time would otherwise be waited for.
        getattr(testbed, "interrupt", lambda: None)()
        raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _observe(testbed: Testbed, trial: Trial) -> Observation:
    """One observation, failed if the testbed could not carry the trial out."""
    try:
        return testbed.run(trial)
    except InputError:
        raise
    except TrialError as error:
        reason = str(error)
    except Exception as error:  # whatever a testbed dies of must not end the campaign
        reason = f"{type(error).__name__}: {error}"
    return Observation(
        testbed=testbed.name, duration_ns=0, in_order_bytes=0, bins=[], subflows=[], failed=reason
    )


def _watch(futures: Sequence[Future[T]], progress: Advance | None) -> None:
    """Wait for all futures, tell the progress, and raise the first error as soon as it happens."""
    finished: SimpleQueue[Future[T]] = SimpleQueue()
    for future in futures:
        future.add_done_callback(finished.put)
    done = 0
    while done < len(futures):
        try:
            finished.get(timeout=_LOOK_UP_S).result()
        except Empty:
            continue
        done += 1
        if progress is not None:
            progress(done, len(futures))


def _workers(testbed: Testbed, wanted: int | None) -> int:
    """Threads to use: what was asked for or one per core, but the testbed's limit if it has one."""
    limit = testbed.parallel
    if limit is None:
        return max(1, wanted or len(os.sched_getaffinity(0)))
    return max(1, min(wanted or limit, limit))
