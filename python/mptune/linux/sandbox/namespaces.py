"""Two sites as two anonymous network namespaces, for the time of one trial.

Nothing here has a name in the file system and nothing has to be undone: the namespaces exist as long as
their holder (the agent's role `namespaces`), which dies with this program, and the devices as long as the
emulator.
"""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from mptune.linux import agent
from mptune.linux.addresses import NamespaceInterface, Side
from mptune.linux.sandbox import leftovers, processes, sysctls
from mptune.linux.sandbox.processes import Child

#: Longest time for any step of the set-up, seconds. Steps take a tenth of a second.
STEP_S = 20.0


class Sites:
    """The namespaces of the local site (the data sender's) and of the remote one.

    Use it as a context manager; inside the block:

    Attributes
    ----------
    run : mark of everything that belongs to them.
    local, remote : paths of the network namespaces.
    user : path of the user namespace that owns them; None if this program itself is privileged.
    settings : sysctls inside, by name.
    holder : the process that holds them.
    """

    holder: Child
    local: str
    remote: str
    user: str | None
    settings: dict[str, str]

    def __init__(self, changes: Mapping[str, str] | None = None) -> None:
        """With these sysctls instead of the usual ones."""
        self.run = leftovers.new_run()
        self._changes = dict(changes or {})

    def __enter__(self) -> Self:
        self.holder = Child("namespace holder", agent.command("namespaces"), self.run)
        order = {
            "settings": {**sysctls.SETTINGS, **self._changes},
            "dispensable": sysctls.DISPENSABLE,
            "telling": sysctls.TELLING,
        }
        try:
            self.holder.tell(order)
            held = self.holder.expect("held", STEP_S)
        except BaseException:
            self._release()
            raise
        self.local, self.remote = held["local"], held["remote"]
        self.user, self.settings = held["user"], held["settings"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    def _release(self) -> None:
        """Release the namespaces; the holder has nothing to finish, so it gets no time to do so."""
        self.holder.end(grace_s=0)

    def of(self, side: Side) -> str:
        """Path of a site's network namespace."""
        return self.local if side == "local" else self.remote

    def start_emulator(self) -> Child:
        """Start the network between them, which enters them for its devices."""
        return Child("emulator", agent.command("emulator", user_namespace=self.user), self.run)

    def start(self, name: str, module: str) -> Child:
        """Start a module of mptune that may enter the namespaces."""
        return Child(name, processes.module(module, self.user), self.run)

    def start_agent(self, role: str, side: Side, name: str | None = None) -> Child:
        """Start the agent in a role on a site; messages use `name` instead of the role, if given.

        Raises
        ------
        MptuneError : the agent is missing.
        """
        return Child(name or role, agent.command(role, self.of(side), self.user), self.run)

    def devices(self, interfaces: Mapping[Side, Sequence[NamespaceInterface]]) -> list[dict[str, object]]:
        """The interfaces of both sites in the emulator's format."""
        return [
            {
                "side": interface.side,
                "index": interface.index,
                "netns": self.of(interface.side),
                "device": interface.device,
                "ipv4": interface.ipv4,
                "ipv6": interface.ipv6,
            }
            for named in interfaces.values()
            for interface in named
        ]

    def configure(
        self,
        interfaces: Mapping[Side, Sequence[NamespaceInterface]],
        preferred: Mapping[Side, int] | None = None,
    ) -> dict[str, str]:
        """Give the devices, which must exist, their addresses and routes; return their offloads.

        Parameters
        ----------
        preferred : by side, the interface of programs that choose no address; without one they have no route.

        Raises
        ------
        TrialError : a device is missing, or the kernel refuses something.
        """
        offloads: dict[str, str] = {}
        for side, named in interfaces.items():
            orders = [
                {
                    "device": interface.device,
                    "ipv4": interface.ipv4,
                    "ipv6": interface.ipv6,
                    "table": interface.table,
                    "preferred": (preferred or {}).get(side) == interface.index,
                }
                for interface in named
            ]
            self.holder.tell({"side": side, "interfaces": orders})
        for side in interfaces:
            reported = self.holder.expect("configured", STEP_S)["offloads"]
            offloads |= {f"{side} {device}": features for device, features in reported.items()}
        return offloads
