"""The interface of a testbed: `run(trial) -> Observation`, and hooks that most testbeds leave as they are.

It stands between the users of trials (campaigns, impact factors, the CLI) and the places where they are
measured (simulator, kernel namespaces, hosts). A new testbed is one file next to this one and one line in
`mptune.testbeds`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from mptune.capture import Run
from mptune.errors import InputError, MptuneError
from mptune.testbeds._today import Today, of_stack
from mptune.topology import Topology
from mptune.trial import Observation, Programs, Trial, Workload

if TYPE_CHECKING:
    from datetime import datetime

    from mptune.routes.keeping import Follower
    from mptune.routes.snapshots import Snapshot


class Testbed(ABC):
    """A testbed: it runs trials.

    Attributes
    ----------
    only_stack : the only stack that it has; None if a trial chooses.
    parallel : number of trials that can run at once without disturbing each other; None is one per core.
    set_up_s : seconds that a trial takes beside its duration.
    pace : of trials with a clock of their own, which all begin alike: real seconds that one of theirs takes,
        roughly; None where a trial costs its duration, or where there is no real time.
    anywhere : the same trial gives the same observation on any machine.
    records : `record` keeps the packets of a trial.
    counts : what is sent has a limit, so that it has to know of earlier trials (`recall`).
    cuts : a trial's script may cut paths.
    traces : its paths have routes, which it can trace between trials (`follow`).
    """

    name: str
    only_stack: str | None = None
    parallel: int | None = None
    set_up_s: float = 0.0
    pace: float | None = None
    anywhere: bool = False
    records: bool = False
    counts: bool = False
    cuts: bool = True
    traces: bool = False
    _follower: Follower | None = None

    @abstractmethod
    def run(self, trial: Trial) -> Observation:
        """Run one trial.

        Raises
        ------
        InputError : the trial itself is impossible (unknown path, buffer below one segment).
        """

    def record(self, trial: Trial) -> tuple[Observation, Run]:
        """Run one trial and keep its packets and samples of its senders; otherwise as `run`.

        Raises
        ------
        MptuneError : this testbed keeps none.
        """
        raise MptuneError(f"--testbed {self.name}: records no packets")

    # ---- before trials -----------------------------------------------------------------------------

    @staticmethod
    def notice(
        topology: Topology,
        buffer_modes: Collection[str],
        sending: Workload | None,
        sent: Mapping[tuple[str, str], int],
    ) -> str:
        """Sentences for the user before trials begin; parameters as of `mptune.testbeds.notice`."""
        return ""

    def check_network(self, topology: Topology) -> None:  # noqa: B027 - a hook
        """Refuse a network that this testbed cannot have.

        Raises
        ------
        InputError : naming the first key.
        """

    def check(self, trial: Trial) -> None:
        """Refuse a trial that this testbed cannot run, without running it.

        Raises
        ------
        InputError : naming the option or the key.
        """
        self.check_workload(trial.workload)
        self.check_network(trial.topology)

    def check_workload(self, workload: Workload) -> None:
        """Refuse a workload that this testbed lacks.

        Raises
        ------
        InputError : naming the option.
        """
        if isinstance(workload, Programs):
            expected = f"expected no programs (exec): they run with --testbed namespaces, not {self.name}"
            raise InputError("--workload", "", expected)

    def check_there(self, trial: Trial) -> None:
        """Do what `check` does, and ask the machines that would run the trial, if they are others.

        Raises
        ------
        InputError : naming the option or the key.
        MptuneError : a machine cannot be reached or used.
        """
        self.check(trial)

    def today(self, topology: Topology, members: Mapping[str, object]) -> Today:
        """Settings of the trials' hosts when mptune changes nothing; by release, except on real hosts.

        Parameters
        ----------
        members : of the stack.

        Raises
        ------
        MptuneError : a host cannot be reached.
        """
        return of_stack(members)

    # ---- around trials -----------------------------------------------------------------------------

    def session(self) -> AbstractContextManager[object]:
        """Enclose several trials."""
        return nullcontext()

    def note(self) -> str:
        """State of the testbed for the progress bar; empty if there is nothing to report."""
        return ""

    def interrupt(self) -> None:  # noqa: B027 - a hook
        """Abort the running trials, from another thread; no further one is run."""

    def be_patient(  # noqa: B027 - a hook
        self, patience_s: float, notify: Callable[[str], None]
    ) -> None:
        """Wait so long for a machine that is away, and report it by `notify`."""

    def largest_buffers(self, topology: Topology) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """Sizes up to which send and receive buffers grow at the sender and the receiver now, bytes.

        None where they are a trial's.

        Raises
        ------
        MptuneError : a machine cannot be reached or used.
        """
        return None

    # ---- routes ------------------------------------------------------------------------------------

    def trace(self, topology: Topology) -> Snapshot:
        """Routes of the paths now, in turn with trials.

        Raises
        ------
        MptuneError : this testbed has none.
        """
        raise MptuneError(f"--testbed {self.name}: has no routes")

    def follow(self, make: Callable[[], Follower]) -> None:
        """From now on trace routes when they are due, before a trial or by `follow_now`.

        Raises
        ------
        InputError : the file of routes is none.
        """
        self._follower = make()

    @property
    def due(self) -> datetime | None:
        """Time of the next tracing; None if routes are not followed."""
        return None if self._follower is None else self._follower.due

    def follow_now(self) -> None:
        """Trace the routes if they are due."""
        if self._follower is not None:
            self._follower.follow()

    # ---- what is sent ------------------------------------------------------------------------------

    @property
    def sent(self) -> Mapping[tuple[str, str], int]:
        """Bytes that were sent over interfaces with a limit, by host and interface."""
        return {}

    def recall(self, trial: Trial, observation: Observation) -> None:  # noqa: B027 - a hook
        """Count a trial that was run before this program began as sent."""
