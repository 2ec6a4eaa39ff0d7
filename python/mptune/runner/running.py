"""Runs trials with an executor (`mptune.runner.executors`): by default on all cores, in threads.

It knows no purpose and no statistics: trials in, observations out, in the same order. Trials are planned in
`mptune.runner.planning`; progress is shown by `mptune.runner.progress`.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

from mptune import interrupts
from mptune.runner.executors import Executor, Threads
from mptune.testbeds import Testbed
from mptune.trial import Observation, Ran, Trial

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
    testbed: Testbed,
    trials: Sequence[Trial],
    *,
    workers: int | None = None,
    progress: Advance | None = None,
    executor: Executor | None = None,
) -> list[Observation]:
    """Run trials and return their observations in the same order.

    A failed trial stays in its place as a failed observation; an error of the testbed becomes one, with
    the error as its reason.

    Parameters
    ----------
    workers : trials in parallel; by default the testbed's limit, which always applies, or one per core.
    progress : called in this thread after every finished trial.
    executor : where they are run; by default threads of this process, `workers` of them.

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
        testbed,
        trials,
        lambda _, __, observation: observation,
        workers=workers,
        progress=progress,
        executor=executor,
    )


def reduce_trials(
    testbed: Testbed,
    trials: Sequence[Trial],
    reduce: Callable[[int, Ran, Observation], T],
    *,
    workers: int | None = None,
    progress: Advance | None = None,
    executor: Executor | None = None,
) -> list[T]:
    """Like `run_trials`, but keep only the result of `reduce(index, ran, observation)`.

    Otherwise a campaign of thousands of trials would hold all their time series in memory.
    """
    pool = executor or Threads(workers)
    pool.check(testbed)
    for trial in trials:
        testbed.check(trial)
    if not trials:
        return []
    with testbed.session(), pool.started(testbed, trials, reduce) as futures:
        _watch(futures, progress, lambda: ", ".join(filter(None, (testbed.note(), pool.note()))))
        return [future.result() for future in futures]


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
