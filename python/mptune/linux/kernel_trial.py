"""One trial on the kernel: its processes are started, instructed, watched and ended.

This module combines namespaces, emulator, path manager and both halves of the meter, and runs the trial's
script. Its input is in the processes' own format, and its output is what they report;
`mptune.testbeds.namespaces` translates trials and observations.
"""

import os
import select
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

import msgspec

from mptune.errors import Failure, TrialError
from mptune.linux import assignment
from mptune.linux.addresses import SIDES, NamedInterface, Side
from mptune.linux.assignment import Assignment
from mptune.linux.meter import Meter
from mptune.linux.processor_load import Waiting
from mptune.linux.sandbox.namespaces import STEP_S, Sites
from mptune.linux.sandbox.processes import Child, Message

#: Seconds by which a trial may exceed its own limit before it is aborted.
_MARGIN_S = 20.0
#: Real-time priority of the meter, the lowest possible. The emulator sets its own.
_PRIORITY = 1
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
    interfaces : of both sites.
    network : the core's description of the links; `seed` is for everything random on them.
    assignment : of the path manager.
    meter : instructions for both halves of the meter.
    family : of the addresses of all subflows.
    initial : local and remote address of the initial path.
    script : in order of time.
    limit_s : the trial's own limit.
    settings : sysctls of both namespaces that differ from the usual ones.
    """

    interfaces: Mapping[Side, tuple[NamedInterface, ...]]
    network: Mapping[str, Any]
    seed: int
    assignment: Assignment
    meter: Mapping[str, Any]
    family: str
    initial: tuple[str, str]
    script: tuple[Action, ...]
    limit_s: float
    settings: Mapping[str, str] = {}


class Outcome(msgspec.Struct, kw_only=True):
    """Result of one trial, possibly incomplete.

    Attributes
    ----------
    failed : why the trial could not be run to its end; the meter may report another reason.
    result : the meter's; None if there is none.
    report : the emulator's; None if there is none.
    managed : the path manager's report of the connection; its times are CLOCK_MONOTONIC.
    started_ns : when the connection was requested, by that clock.
    settings : sysctls inside the namespaces.
    meter_waited_ns : the meter was ready to run for this long, but got no processor.
    offloads : segmentation and aggregation by the devices, by site and device name.
    rootless : the namespaces are in a user namespace.
    """

    failed: Failure | None = None
    result: Message | None = None
    report: Message | None = None
    managed: list[Message] = []
    started_ns: int = 0
    settings: dict[str, str] = {}
    meter_waited_ns: int = 0
    offloads: dict[str, str] = {}
    rootless: bool = False


def run(plan: Plan, interrupted: Callable[[], bool] = lambda: False) -> Outcome:
    """Run a plan. Any failure is in `Outcome.failed`; nothing is left behind.

    Parameters
    ----------
    interrupted : called regularly; True aborts the trial.

    Raises
    ------
    KeyboardInterrupt : it was aborted.
    """
    outcome = Outcome()
    try:
        with ExitStack() as stack:
            _Course(plan, outcome, stack, interrupted).run()
    except TrialError as error:
        outcome.failed = error.failure
    return outcome


class _Course:
    """The processes of one trial, and its state."""

    def __init__(
        self, plan: Plan, outcome: Outcome, stack: ExitStack, interrupted: Callable[[], bool]
    ) -> None:
        self._plan, self._outcome, self._interrupted = plan, outcome, interrupted
        self._sites = stack.enter_context(Sites(plan.settings))
        outcome.settings, outcome.rootless = self._sites.settings, self._sites.user is not None
        # All at once: each takes a tenth of a second to start.
        self._emulator = stack.enter_context(self._sites.start("emulator", "mptune.linux.emulator"))
        # Two: the receiver's kernel accepts subflows from the sender only while a process listens there.
        self._manager, self._acceptor = (
            stack.enter_context(self._sites.start_agent("paths", side, "path manager")) for side in SIDES
        )
        self._meter = Meter(
            stack.enter_context(self._sites.start_agent("sender", "local")),
            stack.enter_context(self._sites.start_agent("receiver", "remote")),
        )
        self._script = list(plan.script)
        for half in self._meter.halves:
            with suppress(PermissionError):  # without root it has normal priority
                os.sched_setscheduler(half.pid, os.SCHED_RR, os.sched_param(_PRIORITY))
        self._waiting: list[Waiting] = []

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
            self._salvage()
            self._blame()
            raise
        self._conclude()

    def _conclude(self) -> None:
        """Collect the final reports of the processes."""
        outcome = self._outcome
        outcome.meter_waited_ns = sum(waiting.total_ns for waiting in self._waiting)
        for child in (self._emulator, self._manager, self._acceptor):
            child.tell({"action": "stop"})
        outcome.report = self._emulator.expect("report", STEP_S)
        outcome.managed = self._manager.expect("report", STEP_S)["connections"]
        outcome.started_ns = round(self._started * 1e9)

    def _salvage(self) -> None:
        """Ask the meter for what it has measured so far, although the trial has failed."""
        self._outcome.result = self._meter.salvage()

    def _blame(self) -> None:
        """Report a killed process as the reason, instead of the errors it causes in others.

        Raises
        ------
        TrialError : a process was killed.
        """
        for child in (
            self._sites.holder,
            self._emulator,
            self._manager,
            self._acceptor,
            *self._meter.halves,
        ):
            if child.killed:
                raise TrialError(child.death()) from None

    def _set_up(self) -> None:
        plan, sites = self._plan, self._sites
        interfaces = sites.devices(plan.interfaces)
        self._emulator.tell({"network": plan.network, "seed": plan.seed, "interfaces": interfaces})
        self._manager.tell({"side": "sender", "assignment": assignment.told(plan.assignment)})
        self._acceptor.tell({"side": "receiver"})
        self._emulator.expect("ready", STEP_S)
        self._outcome.offloads = sites.configure(plan.interfaces)
        joins = [interface.address(plan.family) for interface in plan.interfaces["remote"]]
        self._meter.listen(plan.meter, plan.initial[1], joins)
        for manager in (self._manager, self._acceptor):
            manager.expect("ready", STEP_S)

    def _begin(self) -> None:
        """Start the network's clock and the meter's connection at the same time."""
        self._waiting = [Waiting(half.pid) for half in self._meter.halves]
        self._emulator.tell({"action": "start"})
        self._meter.connect(*self._plan.initial)
        self._started = time.monotonic()

    def _watch(self) -> None:
        """Follow the script and the processes until the meter has its result."""
        end = self._started + self._plan.limit_s + _MARGIN_S
        others = (self._emulator, self._manager, self._acceptor)
        while self._outcome.result is None:
            now = time.monotonic()
            if self._interrupted():
                raise KeyboardInterrupt
            if now > end:
                raise TrialError(f"the meter gave no result within {end - self._started:.1f} s")
            self._act(now - self._started)
            due = min([end, *(self._started + action.at_s for action in self._script[:1])])
            for waiting in self._waiting:
                waiting.look()
            select.select([*self._meter.halves, *others], [], [], min(max(0.0, due - now), _LOOK_S))
            for message in self._meter.take():
                self._hear_meter(message)
            for child in others:
                for message in child.take():
                    self._hear(child, message)
                if child.ended and self._outcome.result is None:
                    raise TrialError(child.death())
            if self._outcome.result is None:
                self._meter.check()

    def _act(self, elapsed_s: float) -> None:
        """Run the actions of the script that are due."""
        while self._script and self._script[0].at_s <= elapsed_s:
            _, action, path, label = self._script.pop(0)
            if action in ("down", "up"):
                self._emulator.tell({"action": action, "path": path})
            else:
                self._manager.tell({"action": _OF_PATHS[action], "path": label})

    def _hear_meter(self, message: Message) -> None:
        match message["event"]:
            case "result":
                self._outcome.result = message
            case "connected":
                # Its clock starts with the connect call; from here on the script uses that clock.
                self._started = time.monotonic() - message["handshake_ns"] / 1e9
            case "sent":
                self._manager.tell({"action": "sent", "bytes": message["bytes"]})
            case "error":
                raise TrialError(message["reason"], "refused")

    def _hear(self, child: Child, message: Message) -> None:
        if message.get("event") == "error":
            raise TrialError(f"{child.name}: {message.get('reason')}", "refused")
