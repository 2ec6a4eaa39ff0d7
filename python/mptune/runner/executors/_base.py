"""Interface of executors: one runs the trials of a testbed, and hands each over as it ends.

A new executor is one file next to this one and one line in `mptune.runner.executors`. An executor plans
nothing, keeps nothing and knows no purpose.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from mptune.errors import Failure, InputError, TrialError
from mptune.testbeds import Testbed
from mptune.trial import Observation, Ran, Trial

T = TypeVar("T")


class Executor(Protocol):
    """Executor of a campaign's trials."""

    name: str

    def check(self, testbed: Testbed) -> None:
        """Refuse a testbed whose trials cannot be run there.

        Raises
        ------
        InputError : naming the option.
        """
        ...

    def started(
        self, testbed: Testbed, trials: Sequence[Trial], keep: Callable[[int, Ran, Observation], T]
    ) -> AbstractContextManager[Sequence[Future[T]]]:
        """Start the trials; the futures have what `keep(index, ran, observation)` returns.

        `keep` runs in this process, in any thread. At the end of the block no further trial begins, and none
        is handed over any more.
        """
        ...

    def note(self) -> str:
        """Note beside the progress; empty if there is nothing."""
        ...


def observe(testbed: Testbed, trial: Trial) -> Observation:
    """One observation, failed if the testbed could not run the trial.

    Raises
    ------
    InputError : the trial is impossible.
    """
    try:
        return testbed.run(trial)
    except InputError:
        raise
    except TrialError as error:
        failed = error.failure
    except Exception as error:  # no error of a testbed may end the campaign
        failed = Failure("died", f"{type(error).__name__}: {error}")
    return failed_observation(testbed.name, failed)


def failed_observation(testbed: str, failed: Failure) -> Observation:
    """The observation of a trial that could not be run."""
    return Observation(testbed=testbed, duration_ns=0, in_order_bytes=0, bins=[], subflows=[], failed=failed)
