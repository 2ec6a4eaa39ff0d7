"""A trial between two namespaces of this machine, over a network that the emulator runs in real time.

The network is the core's description of it; the addresses are the agreed ones (`mptune.linux.addresses`).
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Any, Self

import msgspec

from mptune.linux import congestion
from mptune.linux.addresses import NamespaceInterface, Side
from mptune.linux.processor_load import Waiting
from mptune.linux.sandbox.namespaces import STEP_S, Sites
from mptune.linux.sandbox.processes import Child
from mptune.linux.talker import Message, Talker
from mptune.linux.venue import About, Foundation

#: Real-time priority of the meter, the lowest possible. The emulator sets its own.
_PRIORITY = 1


class Links(msgspec.Struct, frozen=True, kw_only=True):
    """Network between the namespaces.

    Attributes
    ----------
    interfaces : of both sites.
    network : the core's description of the links; `seed` is for everything random on them.
    settings : sysctls of both namespaces that differ from the usual ones.
    recording : file of the packets' records, and most of them (`recorder.rs`); None records nothing.
    preferred : by side, the interface of programs that choose no address of their own.
    """

    interfaces: Mapping[Side, tuple[NamespaceInterface, ...]]
    network: Mapping[str, Any]
    seed: int
    settings: Mapping[str, str] = {}
    recording: Mapping[str, Any] | None = None
    preferred: Mapping[Side, int] = {}


class NamespaceVenue:
    """The venue of one trial; see `mptune.linux.venue`.

    Parameters
    ----------
    ready : called when all is set up, before the network's clock starts.
    """

    def __init__(self, links: Links, ready: Callable[[], None] = lambda: None) -> None:
        self.about: About = {}
        self._links = links
        self._ready = ready
        self._stack = ExitStack()
        self._waiting: list[Waiting] = []

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._sites = stack.enter_context(Sites(self._links.settings))
            self._emulator = stack.enter_context(self._sites.start_emulator())
            self._stack = stack.pop_all()
        self.about |= {
            "kernel": os.uname().release,
            "machine": os.uname().machine,
            "scheduler": self._sites.settings.get("net.mptcp.scheduler", "default"),
            "rootless": int(self._sites.user is not None),
            "congestion_controls": " ".join(congestion.available()),
        }
        self.about |= {f"sysctl {name}": value for name, value in self._sites.settings.items()}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def start(self, role: str, side: Side, name: str | None = None) -> Child:
        """Start the agent in a role on a site; the meter's halves get priority over other programs."""
        child = self._sites.start_agent(role, side, name)
        if role in ("sender", "receiver"):
            with suppress(PermissionError):  # without root it has normal priority
                os.sched_setscheduler(child.pid, os.SCHED_RR, os.sched_param(_PRIORITY))
        return child

    def namespaces(self, side: Side) -> tuple[str, str | None]:
        """Paths of a site's network namespace, and of the user namespace that owns it, if there is one."""
        return self._sites.of(side), self._sites.user

    @property
    def foundations(self) -> Sequence[Foundation]:
        """The holder of the namespaces, and the emulator, which has the devices."""
        return self._sites.holder, self._emulator

    @property
    def companions(self) -> Sequence[Talker]:
        """The emulator."""
        return (self._emulator,)

    def prepare(self) -> None:
        """Send the emulator what it is to run."""
        links = self._links
        interfaces = self._sites.devices(links.interfaces)
        order = {"network": links.network, "seed": links.seed, "interfaces": interfaces}
        if links.recording is not None:
            order["recording"] = dict(links.recording)
        self._emulator.tell(order)

    def lay_out(self) -> None:
        """Give the emulator's devices their addresses and routes."""
        self._emulator.expect("ready", STEP_S)
        offloads = self._sites.configure(self._links.interfaces, self._links.preferred)
        self.about |= {f"offloads {device}": features for device, features in offloads.items()}

    def open(self) -> None:
        """Nothing: every connection in the namespaces is the trial's."""

    def confirm(self) -> None:
        """Nothing: nothing was changed."""

    def begin(self, halves: Sequence[Talker]) -> None:
        """Start the network's clock."""
        self._waiting = [Waiting(half.pid) for half in halves if isinstance(half, Child)]
        self._ready()
        self._emulator.tell({"action": "start"})

    def close(self) -> None:
        """Nothing: every connection in the namespaces is the trial's."""

    def look(self) -> None:
        """Read how long the meter waited for a processor."""
        for waiting in self._waiting:
            waiting.look()

    def cut(self, action: str, path: int) -> None:
        """Cut or restore a path of the emulated network."""
        self._emulator.tell({"action": action, "path": path})

    def hurry(self) -> None:
        """Nothing: processes of this machine end, or are killed."""

    def conclude(self) -> Message:
        """The emulator's report."""
        self._emulator.tell({"action": "stop"})
        return self._emulator.expect("report", STEP_S)

    @property
    def waited_ns(self) -> int:
        """Nanoseconds of both halves together."""
        return sum(waiting.total_ns for waiting in self._waiting)
