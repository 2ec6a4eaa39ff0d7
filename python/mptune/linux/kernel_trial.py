"""One trial on the kernel: its processes are started, instructed, watched and ended.

This module combines a venue (two sites and the network between them), path manager and both halves of the
meter, and runs the trial's script. It is the same course whether the sites are namespaces or hosts. Its input
is in the processes' own format, and its output is what they report; `mptune.testbeds` translates trials and
observations.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

import msgspec

from mptune.errors import Failure, TrialError
from mptune.linux import assignment
from mptune.linux.addresses import Side, other_side
from mptune.linux.assignment import Assignment
from mptune.linux.kernel_beside import Beside, Others
from mptune.linux.meter import STEP_S, Meter
from mptune.linux.preload.statistics import collected
from mptune.linux.programs import Job, Programs
from mptune.linux.talker import Message, Talker, await_any
from mptune.linux.venue import About, Venue

#: Seconds by which a trial may exceed its own limit before it is aborted.
_MARGIN_S = 20.0
#: Seconds between two readings of how long the meter waited for a processor.
_LOOK_S = 0.5

#: Scripted actions for the path manager, by its own names.
_OF_PATHS = {"standby": "withdraw", "active": "readmit", "remove": "remove", "add": "add"}


class Action(NamedTuple):
    """An action on a path, `at_s` seconds after the connection was requested."""

    at_s: float
    action: str
    path: int
    label: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Instructions for one trial.

    Attributes
    ----------
    assignment : of the path manager, as the sender sees the paths.
    meter : instructions for both halves of the meter.
    opener : site that opens the connection: the sender's ("local"), or the receiver's where it is a client.
    initial : local and remote address of the initial path, as the opener sees them; routes choose an
        empty local one.
    address : where the connection arrives: the other one's own address on the initial path.
    joins : the other one's own addresses where subflows may arrive, including `address`.
    script : in order of time.
    limit_s : the trial's own limit.
    beside : further connections of the trial.
    managed : the assignment's path manager is used; otherwise the kernel's own, as it is set up.
    programs : run instead of the meter; None without any.
    """

    assignment: Assignment
    meter: Mapping[str, Any]
    initial: tuple[str, str]
    address: str
    joins: tuple[str, ...]
    script: tuple[Action, ...]
    limit_s: float
    opener: Side = "local"
    beside: tuple[Beside, ...] = ()
    managed: bool = True
    programs: Job | None = None

    @property
    def openers(self) -> list[Side]:
        """Sites that open connections, that of the first connection first."""
        return list(dict.fromkeys((self.opener, *(one.opener for one in self.beside if one.is_measured))))


class Outcome(msgspec.Struct, kw_only=True):
    """Result of one trial, possibly incomplete.

    Attributes
    ----------
    failed : why the trial could not be run to its end; the meter may report another reason.
    result : the meter's; None if there is none.
    beside : results of the further connections, in the order of the plan; None without one.
    report : the network's, if it is emulated; None if there is none.
    managed : the path manager's report of the connection; its times are CLOCK_MONOTONIC of the opener.
    started_ns : when the connection was requested, by that clock, which need not be this machine's.
    meter_waited_ns : the meter was ready to run for this long, but got no processor; None if not known.
    about : what could explain the result, from the venue.
    """

    failed: Failure | None = None
    result: Message | None = None
    beside: list[Message | None] = []
    report: Message | None = None
    managed: list[Message] = []
    started_ns: int = 0
    meter_waited_ns: int | None = 0
    about: About = {}


class _Pair(NamedTuple):
    """The path managers of the connections that one site opens: its own, and that of the other site."""

    opener: Side
    opening: Talker
    accepting: Talker


def run(plan: Plan, venue: Venue, interrupted: Callable[[], bool] = lambda: False) -> Outcome:
    """Run a plan. Any failure is in `Outcome.failed`; nothing is left behind.

    Parameters
    ----------
    interrupted : called regularly; True aborts the trial.

    Raises
    ------
    KeyboardInterrupt : it was aborted.
    """
    outcome = Outcome(about=venue.about)
    try:
        with ExitStack() as stack:
            stack.enter_context(venue)
            try:
                _Course(plan, venue, outcome, stack, interrupted).run()
            except KeyboardInterrupt:
                venue.hurry()  # before anybody is waited for
                raise
    except TrialError as error:
        outcome.failed = error.failure
    return outcome


def _meter(plan: Plan, venue: Venue, stack: ExitStack) -> Meter[Talker] | Programs:
    """The measuring programs: both halves of the meter, or the two of the user."""
    if plan.programs is None:
        return Meter(
            stack.enter_context(venue.start("sender", "local")),
            stack.enter_context(venue.start("receiver", "remote")),
            receiver_opens=plan.opener == "remote",
        )
    return Programs(
        stack.enter_context(venue.start("program", "local", "client")),
        stack.enter_context(venue.start("program", "remote", "server")),
        plan.programs,
        (stack.enter_context(collected()), stack.enter_context(collected())),
    )


class _Course:
    """The processes of one trial, and its state."""

    def __init__(
        self,
        plan: Plan,
        venue: Venue,
        outcome: Outcome,
        stack: ExitStack,
        interrupted: Callable[[], bool],
    ) -> None:
        self._plan, self._outcome, self._interrupted = plan, outcome, interrupted
        self._venue = venue
        # All at once: each takes a tenth of a second to start.
        # Two: the acceptor's kernel accepts subflows from the opener only while a process listens there.
        self._managers = [
            _Pair(
                opener,
                stack.enter_context(venue.start("paths", opener, "path manager")),
                stack.enter_context(venue.start("paths", other_side(opener), "path manager")),
            )
            for opener in plan.openers
            if plan.managed
        ]
        self._meter = _meter(plan, venue, stack)
        self._others = Others(plan.beside, venue, stack)
        self._script = list(plan.script)
        self._handshake_ns = 0
        #: Ends that do not have the connection yet.
        self._waiting_for = {"connected", "accepted"}
        self._closed = False

    def run(self) -> None:
        """Run all steps in order, and fill the outcome.

        Raises
        ------
        TrialError : a process died, refused or did not answer.
        """
        try:
            self._set_up()
            self._begin()
            self._watch()
        except TrialError:
            if self._outcome.result is None:
                self._outcome.result = self._meter.salvage()  # measured so far
            self._others.salvage()
            self._outcome.beside = self._others.results
            self._blame()
            raise
        self._conclude()

    def _conclude(self) -> None:
        """Collect the final reports of the processes."""
        outcome = self._outcome
        self._others.conclude()
        outcome.beside = self._others.results
        outcome.meter_waited_ns = self._venue.waited_ns
        for manager in self._all_managers:
            manager.tell({"action": "stop"})
        outcome.report = self._venue.conclude()
        for pair in self._managers[:1]:
            outcome.managed = pair.opening.expect("report", STEP_S)["connections"]
        if outcome.managed:  # it was noticed as soon as its handshake was done
            outcome.started_ns = outcome.managed[0]["created_ns"] - self._handshake_ns

    def _blame(self) -> None:
        """Report a killed process as the reason, instead of the errors it causes in others.

        Raises
        ------
        TrialError : a process was killed.
        """
        for half in (
            *self._venue.foundations,
            *self._all_managers,
            *self._meter.halves,
            *self._others.halves,
        ):
            if half.killed:
                raise TrialError(half.death(), half.kind) from None

    def _set_up(self) -> None:
        plan, venue = self._plan, self._venue
        venue.prepare()
        venue.lay_out()
        self._meter.listen(plan.meter, plan.address, plan.joins)
        self._others.listen()
        venue.open()
        # Programs may have several, which nobody knows.
        own = self._meter.port
        for pair in self._managers:
            ports = [] if own is None else self._others.ports(pair.opener)
            if own is not None and pair.opener == plan.opener:
                ports.insert(0, own)
            seen = assignment.seen_from(pair.opener, plan.assignment)
            # Who opens connections is the sender to the role, whichever way the data go.
            pair.opening.tell({"side": "sender", "assignment": assignment.document(seen), "ports": ports})
            pair.accepting.tell({"side": "receiver", "ports": ports})
        venue.confirm()
        for manager in self._all_managers:
            manager.expect("ready", STEP_S)

    def _begin(self) -> None:
        """Start the network's clock and the meter's connection at the same time."""
        self._venue.begin((*self._meter.halves, *self._others.halves))
        self._meter.connect(*self._plan.initial)
        self._started = time.monotonic()

    def _watch(self) -> None:
        """Follow the script and the processes until the meter has its result."""
        end = self._started + self._plan.limit_s + _MARGIN_S
        others = (*self._venue.companions, *self._all_managers)
        while self._outcome.result is None or not self._others.done:
            now = time.monotonic()
            if self._interrupted():
                raise KeyboardInterrupt
            if now > end:
                raise TrialError(f"the meter gave no result within {end - self._started:.1f} s")
            self._act(now - self._started)
            scripted = (action.at_s for action in self._script[:1])
            due = min([end, *(self._started + at_s for at_s in (*scripted, *self._others.due_s))])
            self._venue.look()
            speaking = [half for half in self._meter.halves if not half.ended]
            speaking += [*self._others.speaking, *others]
            await_any(speaking, min(due - now, _LOOK_S))
            for message in self._meter.take():
                self._hear_meter(message)
            self._others.hear()
            self._close()
            for talker in others:
                for message in talker.take():
                    self._hear(talker, message)
                if talker.ended and not (self._outcome.result and self._others.done):
                    raise TrialError(talker.death(), talker.kind)
            if self._outcome.result is None:
                self._meter.check()

    def _act(self, elapsed_s: float) -> None:
        """Run the actions of the script that are due, and begin the connections that are."""
        self._others.act(elapsed_s)
        while self._script and self._script[0].at_s <= elapsed_s:
            _, action, path, label = self._script.pop(0)
            if action in ("down", "up"):
                self._venue.cut(action, path)
            else:
                for pair in self._managers:
                    pair.opening.tell({"action": _OF_PATHS[action], "path": label})

    def _hear_meter(self, message: Message) -> None:
        self._waiting_for.discard(message["event"])
        match message["event"]:
            case "result":
                self._outcome.result = message
            case "connected":
                # Its clock starts with the connect call; from here on the script uses that clock.
                self._handshake_ns = message["handshake_ns"]
                self._started = time.monotonic() - self._handshake_ns / 1e9
            case "sent":
                for pair in self._managers[:1]:
                    pair.opening.tell({"action": "sent", "bytes": message["bytes"]})
            case "error":
                raise TrialError(message["reason"], "refused")

    def _close(self) -> None:
        """Later connections are no longer the path managers', once both ends have all of the trial's."""
        if not (self._closed or self._waiting_for or self._others.connecting):
            self._closed = True
            self._venue.close()

    @property
    def _all_managers(self) -> list[Talker]:
        return [manager for pair in self._managers for manager in (pair.opening, pair.accepting)]

    def _hear(self, talker: Talker, message: Message) -> None:
        if message.get("event") == "error":
            raise TrialError(f"{talker.name}: {message.get('reason')}", "refused")
