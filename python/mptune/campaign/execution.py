"""Runs a campaign in its directory: from the first trial or from where it was interrupted.

The store exists from the first trial on, the results when all trials are done. After any interruption,
`resume` runs the missing trials and ends with the same results. Campaigns are defined in
`mptune.campaign.definition`; the caller draws the report with `mptune.report`.
"""

import platform
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from mptune import __version__, interrupts, testbeds
from mptune.campaign.definition import Definition, SweepOptions, check, expanded, fitted, from_settings
from mptune.campaign.following import follow, keep_networks, waiting
from mptune.campaign.possible import possible
from mptune.campaign.sending import recall, to_come
from mptune.errors import InputError, MptuneError
from mptune.impact import Impact, measure_impact
from mptune.optimisation import modes
from mptune.optimisation.budget import shortened
from mptune.optimisation.by_objective import ObjectiveResult, optimise_by_objective
from mptune.optimisation.by_size import SizesResult, optimise_by_size
from mptune.optimisation.main_job import Result, optimise
from mptune.optimisation.on_kernel import confirming
from mptune.optimisation.options import OptimiseOptions
from mptune.optimisation.outcomes import Outcome
from mptune.optimisation.over_time import TABLE, rows_over_time
from mptune.optimisation.rounds import Round, changes
from mptune.options import Place, by_flag
from mptune.result.making import write_impacts, write_result, write_table
from mptune.result.making_by_objective import write_objective
from mptune.result.making_by_size import write_sizes
from mptune.runner.executors import Executor
from mptune.runner.planning import plan_trials
from mptune.runner.progress import Reporter
from mptune.runner.runner import TrialRunner
from mptune.store import Campaign, Store, create, open_store
from mptune.store.directory import (
    STORE,
    publish,
    started,
    write_config,
    write_observations,
)
from mptune.testbeds import Testbed
from mptune.trial import Record

#: Waits until a time; replaced in tests.
Wait = Callable[[datetime], None]


def wait_until(time: datetime) -> None:
    """Sleep until a time; Ctrl-C ends it."""
    never = threading.Event()
    while (left := (time - datetime.now().astimezone()).total_seconds()) > 0:
        interrupts.raise_lost()
        never.wait(min(left, 1.0))


def start(
    definition: Definition,
    directory: Path,
    *,
    force: bool = False,
    workers: int | None = None,
    executor: Executor | None = None,
    reporter: Reporter | None = None,
    wait: Wait = wait_until,
    place: Place = by_flag,
) -> Outcome | None:
    """Run a campaign in a new directory.

    Defaults that its testbed lacks are left out, with a notice.

    Parameters
    ----------
    place : where its options were written.

    Returns
    -------
    The result of the main job, by size if it was asked about transfers; None for a sweep, which has only
    observations.

    Raises
    ------
    InputError : the definition is not possible, or the directory cannot be used.
    MptuneError : the store cannot be written, or too many trials failed for an answer.
    """
    definition = expanded(definition)
    check(definition, place)
    shown = reporter or Reporter(quiet=True)
    testbed = _testbed(definition, shown)
    if executor is not None:
        executor.check(testbed)
    definition, left_out = possible(definition, testbed)
    definition = fitted(definition, testbed, place, at_once=TrialRunner(testbed, workers).at_once)
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
    with started(directory, force=force), create(directory / STORE, campaign, locked=True) as store:
        keep_networks(definition.routes, directory)
        for sentence in (
            left_out,
            *_shortened(definition),
            *_planned(definition),
            *definition.topology.ruled_out,
        ):
            shown.notice(sentence)
        return _Run(definition, directory, store, testbed, (workers, executor), shown, wait).run()


def _planned(definition: Definition) -> list[str]:
    """Number of a sweep's trials, and its factors: a file need not name every factor."""
    options = definition.options
    return [options.in_words()] if isinstance(options, SweepOptions) else []


def _shortened(definition: Definition) -> list[str]:
    """That a budget made trials shorter, as a sentence."""
    options = definition.options
    return shortened(options) if isinstance(options, OptimiseOptions) else []


def resume(
    directory: Path,
    *,
    workers: int | None = None,
    executor: Executor | None = None,
    reporter: Reporter | None = None,
    wait: Wait = wait_until,
) -> Outcome | None:
    """Continue an interrupted campaign, or write the results of a finished one again.

    Raises
    ------
    InputError : there is no campaign in the directory.
    MptuneError : as `start`.
    """
    with open_store(directory / STORE) as store:
        definition = from_settings(store.campaign().settings, str(store.path))
        shown = reporter or Reporter(quiet=True)
        testbed = _testbed(definition, shown)
        return _Run(definition, directory, store, testbed, (workers, executor), shown, wait).run()


def _testbed(definition: Definition, reporter: Reporter) -> Testbed:
    """The testbed of a campaign."""
    testbed = testbeds.create(definition.testbed)
    if definition.options.for_ns is not None:
        # A campaign of days outlives a night in which a host is switched off.
        testbed.be_patient(definition.options.for_ns / 1e9, reporter.notice)
    return testbed


def _confirming(definition: Definition, store: Store, workers: int | None) -> TrialRunner | None:
    """Runner that confirms the simulator's answer, if anything does: guests are this machine's."""
    options = definition.options
    if not isinstance(options, OptimiseOptions):
        return None
    testbed = confirming(options, definition.testbed)
    return None if testbed is None else TrialRunner(testbed, workers, store)


class _Run:
    """One campaign with its open store."""

    def __init__(
        self,
        definition: Definition,
        directory: Path,
        store: Store,
        testbed: Testbed,
        where: tuple[int | None, Executor | None],
        reporter: Reporter,
        wait: Wait,
    ) -> None:
        self._definition, self._directory, self._store = definition, directory, store
        # Limits hold for all of a campaign, however often it is interrupted.
        self._lasted_ns = recall(definition, store, testbed)
        self._runner = TrialRunner(testbed, where[0], store, where[1])
        self._kernel = _confirming(definition, store, where[0])
        follow(definition.routes, definition.topology, testbed, directory)
        self._reporter, self._wait = reporter, waiting(testbed, wait)

    def run(self) -> Outcome | None:
        options = self._definition.options
        self._reporter.notice(self._notice())
        if isinstance(options, OptimiseOptions) and options.transfers:
            return self._by_size(options)
        if isinstance(options, OptimiseOptions) and options.workload is not None:
            return self._by_objective(options)
        if isinstance(options, OptimiseOptions):
            return self._optimise(options)
        self._sweep(options)
        return None

    def _notice(self) -> str:
        """Notice to the user before the first trial."""
        definition, options = self._definition, self._definition.options
        used = options.modes if isinstance(options, SweepOptions) else (options.mode_of_trials,)
        return testbeds.notice(
            definition.testbed,
            definition.topology,
            buffer_modes=used,
            sending=to_come(definition, self._store, self._lasted_ns),
            sent=self._runner.testbed.sent,
        )

    def _optimise(self, options: OptimiseOptions) -> Result:
        result = self._rounds(options)
        topology, testbed = self._definition.topology, self._runner.testbed
        series = list(rows_over_time(topology, testbed, result, options))
        with publish(self._directory) as directory:
            write_result(directory, result, self._asked(), self._created())
            if series:
                write_table(directory / TABLE, series)
        return result

    def _rounds(self, options: OptimiseOptions) -> Result:
        """The result of the last round that has one, with all rounds; of the only one without a repetition.

        Nothing waits in the simulator and for guests: their only time of day is the network's.
        """
        if options.every_ns is None:
            return optimise(
                self._definition.topology,
                self._runner,
                options,
                reporter=self._reporter,
                kernel=self._kernel,
            )
        testbed = self._definition.testbed
        waits = testbeds.only_stack(testbed) is not None and not testbeds.own_clock(testbed)
        previous: Result | None = None
        rounds: list[Round] = []
        records: list[Record] = []
        for number in range(options.rounds):
            at_ns = number * options.every_ns
            if number and waits:
                self._wait(self._created() + timedelta(microseconds=at_ns / 1000))
            topology = self._definition.topology.later(at_ns)
            try:
                new = optimise(
                    topology,
                    self._runner,
                    options,
                    reporter=self._reporter,
                    round_=number,
                    # What is recommended is the last round's answer.
                    kernel=self._kernel if number == options.rounds - 1 else None,
                )
            except InputError:
                raise
            except MptuneError as error:
                # What one bad hour gives is no reason to end a campaign of days.
                rounds.append(Round(number=number, at_ns=at_ns, answered=None, failed=str(error)))
                continue
            changed = () if previous is None else changes(previous.answered, new.answered)
            rounds.append(Round(number=number, at_ns=at_ns, answered=new.answered, changes=changed))
            # One mode throughout: what changes between rounds is then the network's doing.
            options = modes.in_mode(options, new.mode)
            records += new.records
            previous = new
        if previous is None:
            raise MptuneError(f"no round has an answer (the first: {rounds[0].failed})")
        topology = self._definition.topology
        return replace(previous, topology=topology, rounds=tuple(rounds), records=tuple(records))

    def _by_size(self, options: OptimiseOptions) -> SizesResult:
        result = optimise_by_size(self._definition.topology, self._runner, options, reporter=self._reporter)
        with publish(self._directory) as directory:
            write_sizes(directory, result, self._asked(), self._created())
        return result

    def _by_objective(self, options: OptimiseOptions) -> ObjectiveResult:
        topology = self._definition.topology
        result = optimise_by_objective(topology, self._runner, options, reporter=self._reporter)
        with publish(self._directory) as directory:
            write_objective(directory, result, self._asked(), self._created())
        return result

    def _sweep(self, options: SweepOptions) -> None:
        impacts, records = self._impacts(options)
        sets = {impact.cc: impact.sets for impact in impacts}
        settings = self._definition.settings()
        for round_ in range(options.rounds):
            if round_ and options.every_ns is not None:
                self._wait(self._created() + timedelta(microseconds=round_ * options.every_ns / 1000))
            planned = plan_trials(
                self._definition.topology.later(round_ * (options.every_ns or 0)),
                options.configurations(sets),
                purpose="sweep",
                runs=options.runs,
                base_seed=options.seed,
                round_=round_,
            )
            name = "sweep" if options.rounds == 1 else f"round {round_ + 1} of {options.rounds}"
            with self._reporter.phase(name) as progress:
                records += self._runner.measure(planned, progress=progress)
        with publish(self._directory) as directory:
            write_config(directory, self._asked(), settings["topology"], self._created())
            write_observations(directory, records)
            write_impacts(directory, impacts)

    def _impacts(self, options: SweepOptions) -> tuple[list[Impact], list[Record]]:
        """Impact factors of every congestion control, if PCDC's sets are to be measured."""
        if options.impact is None:
            return [], []
        with self._reporter.phase("impact factors") as progress:
            return measure_impact(
                self._definition.topology,
                self._runner,
                options.ccs,
                options.impact,
                stack=options.stack.chosen(),
                progress=progress,
            )

    def _asked(self) -> dict[str, Any]:
        """Options as `config.json` contains them."""
        return {"testbed": self._definition.testbed, **self._definition.settings()["options"]}

    def _created(self) -> datetime:
        return datetime.fromisoformat(self._store.campaign().created)
