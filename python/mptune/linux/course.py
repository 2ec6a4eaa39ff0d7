"""The course of one trial on the kernel: processes are started, told, watched and ended.

Namespaces, emulator, path manager and meter are put together here, and the trial's script is carried out.
What is asked for arrives as the processes understand it and what comes out is what they said: the trial and
the observation are `mptune.testbeds.namespaces`'s.
"""

import os
import select
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

import msgspec

from mptune.errors import TrialError
from mptune.linux.addresses import NamedInterface, Side
from mptune.linux.assignment import Assignment
from mptune.linux.machine import Waiting
from mptune.linux.namespaces import STEP_S, Sites
from mptune.linux.processes import Child, Message

#: Seconds by which a trial may outlast its own limit before it is broken off.
_MARGIN_S = 20.0
#: Seconds the meter has to tell what it measured in a trial that failed.
_SALVAGE_S = 2.0

#: Real-time priority of the meter, the lowest there is. The emulator sees to its own.
_PRIORITY = 1
#: Seconds between two looks at how long the meter waited for a processor.
_LOOK_S = 0.5

#: Scripted actions that are the path manager's, in its words.
_PRIORITIES = {"standby": "withdraw", "active": "readmit"}


class Action(NamedTuple):
    """Something to do to a path `at_s` seconds after the connection was asked for."""

    at_s: float
    action: str
    path: int
    label: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done.

    Attributes
    ----------
    interfaces : of both sites.
    network : the core's description of the links, and `seed` of all that is random on them.
    assignment : of the path manager.
    meter : configuration of the meter, but for the namespaces, by the addresses of the initial path.
    initial : local and remote address of the initial path.
    script : in order of time.
    limit_s : the trial's own limit.
    """

    interfaces: Mapping[Side, tuple[NamedInterface, ...]]
    network: Mapping[str, Any]
    seed: int
    assignment: Assignment
    meter: Mapping[str, Any]
    initial: tuple[str, str]
    script: tuple[Action, ...]
    limit_s: float


class Outcome(msgspec.Struct, kw_only=True):
    """What came out, as far as it got.

    Attributes
    ----------
    failed : why the trial could not be carried through; the meter may have reasons of its own.
    result : the meter's; None if it gave none.
    report : the emulator's; None if it gave none.
    managed : the path manager's report of the connection; its times are CLOCK_MONOTONIC.
    started_ns : when the connection was asked for, by that clock.
    settings : sysctls inside.
    meter_waited_ns : the meter was ready to run for so long and got no processor.
    offloads : what devices join and split for the stack, by site and name.
    rootless : the namespaces are in a user namespace.
    """

    failed: str | None = None
    result: Message | None = None
    report: Message | None = None
    managed: list[Message] = []
    started_ns: int = 0
    settings: dict[str, str] = {}
    meter_waited_ns: int = 0
    offloads: dict[str, str] = {}
    rootless: bool = False


def run(plan: Plan, interrupted: Callable[[], bool] = lambda: False) -> Outcome:
    """Carry a plan out. Whatever goes wrong ends up in `Outcome.failed`; nothing is left behind.

    Parameters
    ----------
    interrupted : asked every now and then whether to break off.

    Raises
    ------
    KeyboardInterrupt : it was broken off.
    """
    outcome = Outcome()
    try:
        with ExitStack() as stack:
            _Course(plan, outcome, stack, interrupted).run()
    except TrialError as error:
        outcome.failed = str(error)
    return outcome


class _Course:
    """The processes of one trial, and where it stands."""

    def __init__(
        self, plan: Plan, outcome: Outcome, stack: ExitStack, interrupted: Callable[[], bool]
    ) -> None:
        self._plan, self._outcome, self._interrupted = plan, outcome, interrupted
        self._sites = stack.enter_context(Sites())
        outcome.settings, outcome.rootless = self._sites.settings, self._sites.user is not None
        # All at once: each takes a tenth of a second to be there.
        self._emulator = self._start(stack, "emulator")
        self._manager = self._start(stack, "path manager", "path_manager")
        self._meter = self._start(stack, "meter")
        self._script = list(plan.script)
        with suppress(PermissionError):  # without root it runs like everything else
            os.sched_setscheduler(self._meter.pid, os.SCHED_RR, os.sched_param(_PRIORITY))
        self._waiting = Waiting(self._meter.pid)

    def _start(self, stack: ExitStack, name: str, module: str | None = None) -> Child:
        return stack.enter_context(self._sites.start(name, f"mptune.linux.{module or name}"))

    def run(self) -> None:
        """Everything in its order; the outcome is filled on the way.

        Raises
        ------
        TrialError : a process died, refused or said nothing.
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
        """Collect what the processes have to say in the end."""
        outcome = self._outcome
        outcome.meter_waited_ns = self._waiting.total_ns
        for child in (self._emulator, self._manager):
            child.tell({"action": "stop"})
        outcome.report = self._emulator.expect("report", STEP_S)
        outcome.managed = self._manager.expect("report", STEP_S)["connections"]
        outcome.started_ns = round(self._started * 1e9)

    def _salvage(self) -> None:
        """Ask the meter for what it has measured so far, although the trial has failed."""
        self._meter.tell({"action": "stop"})
        with suppress(TrialError):
            self._outcome.result = self._meter.expect("result", _SALVAGE_S)

    def _blame(self) -> None:
        """What the others complain of when one process is killed is not the reason.

        Raises
        ------
        TrialError : one was killed.
        """
        for child in (self._sites.holder, self._emulator, self._manager, self._meter):
            if child.killed:
                raise TrialError(child.death()) from None

    def _set_up(self) -> None:
        plan, sites = self._plan, self._sites
        interfaces = sites.devices(plan.interfaces)
        self._emulator.tell({"network": plan.network, "seed": plan.seed, "interfaces": interfaces})
        assignment = msgspec.to_builtins(plan.assignment)
        self._manager.tell({"assignment": assignment, "sender": sites.local, "receiver": sites.remote})
        self._emulator.expect("ready", STEP_S)
        self._outcome.offloads = sites.configure(plan.interfaces)
        self._manager.expect("ready", STEP_S)

    def _begin(self) -> None:
        """The network begins to age, and the meter to connect, at the same time."""
        sites, (local, remote) = self._sites, self._plan.initial
        self._emulator.tell({"action": "start"})
        self._meter.tell(
            {
                **self._plan.meter,
                "sender": {"netns": sites.local, "address": local},
                "receiver": {"netns": sites.remote, "address": remote},
            }
        )
        self._started = time.monotonic()

    def _watch(self) -> None:
        """Follow the script and the processes until the meter has its result."""
        end = self._started + self._plan.limit_s + _MARGIN_S
        children = (self._meter, self._emulator, self._manager)
        while self._outcome.result is None:
            now = time.monotonic()
            if self._interrupted():
                raise KeyboardInterrupt
            if now > end:
                raise TrialError(f"the meter gave no result within {end - self._started:.1f} s")
            self._act(now - self._started)
            due = min([end, *(self._started + action.at_s for action in self._script[:1])])
            self._waiting.look()
            select.select(children, [], [], min(max(0.0, due - now), _LOOK_S))
            for child in children:
                for message in child.take():
                    self._hear(child, message)
                if child.ended and self._outcome.result is None:
                    raise TrialError(child.death())

    def _act(self, elapsed_s: float) -> None:
        """Carry out what is due of the script."""
        while self._script and self._script[0].at_s <= elapsed_s:
            _, action, path, label = self._script.pop(0)
            if action in ("down", "up"):
                self._emulator.tell({"action": action, "path": path})
            else:
                self._manager.tell({"action": _PRIORITIES[action], "path": label})

    def _hear(self, child: Child, message: Message) -> None:
        match message.get("event"):
            case "result":
                self._outcome.result = message
            case "connected":
                # Its clock starts with the connect call: from here on the script keeps to that.
                self._started = time.monotonic() - message["t_ns"] / 1e9
            case "sent":
                self._manager.tell({"action": "sent", "bytes": message["bytes"]})
            case "error":
                raise TrialError(f"{child.name}: {message.get('reason')}")
