"""Result of a probe: plain records, as `--json` shows them. Rates in bit/s, times in ns, sizes in bytes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mptune.probe.ends import Route
from mptune.probe.estimates import Estimate, Loss, Queue, RoundTrip
from mptune.probe.interfaces import Leaving, Nic
from mptune.probe.routes import Crossing, SharedHop, crossings
from mptune.probe.verdicts import Verdict
from mptune.topology import Family


class Way(msgspec.Struct, kw_only=True):
    """One direction of a path.

    Attributes
    ----------
    rate : of the narrowest link.
    how : "trains", "TCP", or why there is none.
    mtu : largest packet that arrived whole.
    mtu_next : the smallest larger one that did not; None if all that were tried arrived.
    route : its routers; None where datagrams do not pass.
    """

    rate: Estimate | None = None
    how: str = ""
    loss: Loss | None = None
    queue: Queue | None = None
    mtu: int | None = None
    mtu_next: int | None = None
    route: Route | None = None


class PathFound(msgspec.Struct, kw_only=True):
    """A path.

    Attributes
    ----------
    local, remote : numbers of its interfaces.
    family : "ipv4" or "ipv6" where both are probed; None where a path has one that its ends have in common.
    udp : datagrams pass both ways.
    rtt : of small packets, idle; `base_rtt_ns` is the smallest, without transmission times on the links.
    loaded_rtt_ns : the smallest, and the delay of the queues as far as they were filled.
    source : the address that the receiver saw.
    up : from sender to receiver; `down` from receiver to sender.
    """

    label: str
    local: int
    remote: int
    family: Family | None = None
    udp: bool = False
    rtt: RoundTrip | None = None
    base_rtt_ns: int | None = None
    loaded_rtt_ns: int | None = None
    source: str | None = None
    translated: bool = False
    up: Way = msgspec.field(default_factory=Way)
    down: Way = msgspec.field(default_factory=Way)
    core_bps: float | None = None
    mptcp: Verdict | None = None


def by_pair(paths: Sequence[PathFound]) -> list[list[PathFound]]:
    """The paths of each pair of interfaces: one, or one in each family; that over IPv4 comes first."""
    found: dict[tuple[int, int], list[PathFound]] = {}
    for path in paths:
        found.setdefault((path.local, path.remote), []).append(path)
    return list(found.values())


class InterfaceFound(msgspec.Struct, kw_only=True):
    """An interface and its access link; `up` is what its host sends."""

    nic: Nic
    up: Estimate | None = None
    down: Estimate | None = None
    queue_up: Queue | None = None
    queue_down: Queue | None = None


class SiteFound(msgspec.Struct, kw_only=True):
    """A machine; `ssh` is how it is reached."""

    name: str
    ssh: str | None
    kernel: str
    interfaces: list[InterfaceFound]


class Probed(msgspec.Struct, kw_only=True):
    """All that was found.

    Attributes
    ----------
    when : the date of the controller's clock.
    notes : for the user, one sentence each.
    shared_hops : routers on several paths, by direction.
    """

    when: str
    sender: SiteFound
    receiver: SiteFound
    paths: list[PathFound]
    leaving: list[Leaving]
    notes: list[str]
    shared_hops: list[SharedHop] = []
    seconds: float = 0.0
    bytes: int = 0

    @property
    def pairs(self) -> list[list[PathFound]]:
        """The paths of each pair of interfaces (`by_pair`)."""
        return by_pair(self.paths)

    @property
    def crossings(self) -> list[Crossing]:
        """Segments that paths share behind their access links; of a pair of interfaces its first path."""
        first = {pair[0].label: (str(pair[0].local), str(pair[0].remote)) for pair in self.pairs}
        hops = (
            msgspec.structs.replace(hop, paths=tuple(label for label in hop.paths if label in first))
            for hop in self.shared_hops
        )
        return crossings([hop for hop in hops if len(hop.paths) > 1], first)
