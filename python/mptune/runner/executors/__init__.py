"""Executors: where the trials of a campaign are run. Each has its own file; this one lists them.

The options that choose one are declared here. Where trials are run is no part of a campaign: its results are
the same to the byte, and it may be resumed with another executor.
"""

import re
from collections.abc import Callable, Iterator
from typing import Annotated

from mptune._text import quoted
from mptune.options import TEXT, Option, Options, choice, time
from mptune.runner.executors._base import Executor, failed_observation, observe
from mptune.runner.executors.dask import Dask
from mptune.runner.executors.threads import Threads

__all__ = ["EXECUTORS", "Executor", "ExecutorOptions", "Threads", "failed_observation", "observe"]

#: Every executor by its name on the command line, made from its options and the number of trials at once.
EXECUTORS: dict[str, Callable[["ExecutorOptions", int | None], Executor]] = {
    Threads.name: lambda _, workers: Threads(workers),
    Dask.name: lambda options, workers: Dask(options.scheduler or "", options.timeout_ns / 1e9, workers),
}


class ExecutorOptions(Options, frozen=True, kw_only=True):
    """Executor of the trials: this process, or the workers of a dask scheduler."""

    executor: Annotated[
        str,
        Option(
            choice(lambda: EXECUTORS), "Executor of the trials.", flag="--executor", key="executor", rare=True
        ),
    ] = Threads.name
    scheduler: Annotated[
        str | None,
        Option(
            TEXT,
            "Address of dask's scheduler, such as tcp://head:8786; with --executor dask.",
            flag="--dask-scheduler",
            key="dask.scheduler",
            rare=True,
        ),
    ] = None
    timeout_ns: Annotated[
        int,
        Option(
            time(positive=True),
            "Give a trial to a second worker if the first has not finished it in this time.",
            flag="--trial-timeout",
            key="dask.trial_timeout",
            rare=True,
        ),
    ] = 600_000_000_000

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """An address belongs to dask, and dask needs one."""
        if self.executor == Dask.name and not self.scheduler:
            yield "scheduler", "expected the address of dask's scheduler, found none"
        if self.executor != Dask.name and self.scheduler:
            yield "scheduler", f"expected only with the executor {Dask.name}"
        if self.scheduler and not re.fullmatch(r"(\w+://)?[^\s/]+:[0-9]+", self.scheduler):
            yield "scheduler", f"expected an address such as tcp://host:8786, found {quoted(self.scheduler)}"

    def create(self, workers: int | None = None) -> Executor:
        """Make the executor; `workers` limits the trials at once."""
        return EXECUTORS[self.executor](self, workers)
