"""Runs a campaign in its directory: from the first trial or from where it was interrupted.

The store is there from the first trial on, the results when all trials are done. Interrupted in any way,
`resume` goes on with what is missing and ends with the same results. What a campaign is stands in
`mptune.definition`, what is shown on a terminal in `mptune.cli`.
"""

import platform
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from mptune import __version__, testbeds
from mptune.campaign.bench import Bench
from mptune.campaign.directory import (
    STORE,
    publish,
    start_directory,
    write_config,
    write_observations,
)
from mptune.campaign.planning import plan
from mptune.campaign.progress import Reporter
from mptune.campaign.records import Record
from mptune.campaign.store import Campaign, Store, create, open_store
from mptune.definition import Definition, SweepOptions, check, from_settings
from mptune.optimise import OptimiseOptions, Result, optimise
from mptune.report.documents import write_result
from mptune.report.files import write_page
from mptune.report.reading import read_run

#: Waits until a time; replaced in tests.
Wait = Callable[[datetime], None]


def wait_until(time: datetime) -> None:
    """Sleep until a time; Ctrl-C ends it."""
    never = threading.Event()
    while (left := (time - datetime.now().astimezone()).total_seconds()) > 0:
        never.wait(min(left, 1.0))


def start(
    definition: Definition,
    directory: Path,
    *,
    force: bool = False,
    workers: int | None = None,
    reporter: Reporter | None = None,
    wait: Wait = wait_until,
) -> Result | None:
    """Run a campaign in a new directory.

    Returns
    -------
    The result of the main job; None of a sweep, which has no answer but its observations.

    Raises
    ------
    InputError : something in the definition cannot be, or the directory cannot be used.
    MptuneError : the store cannot be written; so many trials failed that there is no answer.
    """
    check(definition)
    start_directory(directory, force=force)
    campaign = Campaign(
        name=definition.name,
        settings=definition.settings(),
        environment={
            "mptune": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "host": platform.node(),
        },
    )
    with create(directory / STORE, campaign) as store:
        return _Run(definition, directory, store, workers, reporter or Reporter(quiet=True), wait).run()


def resume(
    directory: Path,
    *,
    workers: int | None = None,
    reporter: Reporter | None = None,
    wait: Wait = wait_until,
) -> Result | None:
    """Go on with an interrupted campaign, or write the results of a finished one again.

    Raises
    ------
    InputError : there is no campaign in the directory.
    MptuneError : as `start`.
    """
    with open_store(directory / STORE) as store:
        definition = from_settings(store.campaign().settings)
        return _Run(definition, directory, store, workers, reporter or Reporter(quiet=True), wait).run()


class _Run:
    """One campaign with its open store."""

    def __init__(
        self,
        definition: Definition,
        directory: Path,
        store: Store,
        workers: int | None,
        reporter: Reporter,
        wait: Wait,
    ) -> None:
        self._definition, self._directory, self._store = definition, directory, store
        self._bench = Bench(testbeds.create(definition.testbed), workers, store)
        self._reporter, self._wait = reporter, wait

    def run(self) -> Result | None:
        options = self._definition.options
        if isinstance(options, OptimiseOptions):
            return self._optimise(options)
        self._sweep(options)
        return None

    def _optimise(self, options: OptimiseOptions) -> Result:
        result = optimise(self._definition.topology, self._bench, options, reporter=self._reporter)
        with publish(self._directory) as directory:
            write_result(directory, result, self._asked(), self._created())
        self._report()
        return result

    def _sweep(self, options: SweepOptions) -> None:
        records: list[Record] = []
        settings = self._definition.settings()
        for round_ in range(options.rounds):
            if round_ and options.every_ns is not None:
                self._wait(self._created() + timedelta(microseconds=round_ * options.every_ns / 1000))
            planned = plan(
                self._definition.topology,
                options.configurations(),
                purpose="sweep",
                runs=options.runs,
                duration_ns=options.duration_ns,
                base_seed=options.seed,
                round_=round_,
            )
            name = "sweep" if options.rounds == 1 else f"round {round_ + 1} of {options.rounds}"
            with self._reporter.phase(name) as progress:
                records += self._bench.measure(planned, progress=progress)
        with publish(self._directory) as directory:
            write_config(directory, self._asked(), settings["topology"], self._created())
            write_observations(directory, records)
        self._report()

    def _report(self) -> None:
        """Write the page of the report; the run is complete without it (see `mptune.report`)."""
        write_page(read_run(self._directory, self._directory.resolve().name), self._directory)

    def _asked(self) -> dict[str, Any]:
        """What was asked for, in the words of `config.json`."""
        return {"testbed": self._definition.testbed, **self._definition.settings()["options"]}

    def _created(self) -> datetime:
        return datetime.fromisoformat(self._store.campaign().created)
