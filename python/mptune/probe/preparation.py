"""First step of a probe: interfaces are chosen, both agents started, and the paths between them numbered.

It also sees by which interfaces packets leave. Nothing is sent between the machines yet.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from mptune.errors import TrialError
from mptune.linux.talker import Talker
from mptune.probe import interfaces, joins
from mptune.probe.ends import ENDS, LEAST_BYTES, End, Ends, Path
from mptune.probe.interfaces import Leaving, Nic
from mptune.topology import OVER_IPV6, Family


class Machine(joins.Changing, Protocol):
    """Machine of a probe (`mptune.machines.Machine` and others)."""

    name: str

    def look(self, names: Sequence[str] = (), pairs: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
        """Facts."""
        ...


class Wish(NamedTuple):
    """The user's request.

    Attributes
    ----------
    data_bytes, time_s : limits.
    interfaces : by end, devices; none for all that qualify.
    family : 4, 6, or None for either.
    both_families : each pair of interfaces is probed in each family that both ends have.
    ssh : how the machines are reached, for the topology.
    """

    data_bytes: int = 20_000_000
    time_s: float = 60.0
    interfaces: Mapping[End, Sequence[str]] = {"sender": (), "receiver": ()}
    family: int | None = None
    both_families: bool = False
    ssh: Mapping[End, str | None] = {"sender": None, "receiver": None}
    port: int = 0


@dataclass(frozen=True)
class Prepared:
    """Two machines that are ready, and the paths between them, which all later steps number alike.

    Attributes
    ----------
    facts, nics : of the machine at each end; what it is, and its interfaces.
    ends : the agents.
    leaving : packets that would leave by another interface.
    notes : for the user, one sentence each.
    began_s : on the monotonic clock.
    """

    machines: Mapping[End, Machine]
    wish: Wish
    facts: Mapping[End, Mapping[str, Any]]
    nics: Mapping[End, list[Nic]]
    paths: list[Path]
    addresses: Mapping[End, list[str]]
    ends: Ends
    leaving: list[Leaving]
    notes: list[str]
    began_s: float

    @property
    def possible(self) -> list[int]:
        """Paths whose ends have a family of addresses in common."""
        return [number for number, path in enumerate(self.paths) if path.addresses is not None]

    @property
    def left_s(self) -> float:
        """Seconds of the time that are left."""
        return self.began_s + self.wish.time_s - time.monotonic()

    def label(self, path: int) -> str:
        """Name of a path; over IPv6 it is marked where both families are probed."""
        near, far = (self.nics[end] for end in ENDS)
        label = f"{near[self.paths[path].local].abbr}-{far[self.paths[path].remote].abbr}"
        return label + (OVER_IPV6 if self.wish.both_families and self.family(path) == 6 else "")

    def family(self, path: int) -> int:
        """The family of a path's addresses, 4 or 6."""
        addresses = self.paths[path].addresses
        return 6 if addresses is not None and ":" in addresses[0] else 4

    def named_family(self, path: int) -> Family | None:
        """The family of a path where both are probed; None otherwise, or if it has none."""
        if not self.wish.both_families or self.paths[path].addresses is None:
            return None
        return "ipv6" if self.family(path) == 6 else "ipv4"

    def least_bytes(self, path: int) -> int:
        """The smallest packet of a path."""
        return LEAST_BYTES[self.family(path)]

    def number(self, end: End, path: int, *, near: bool) -> int:
        """Number of the interface of a path where it is sent (by this end), or where it arrives."""
        local = (end == "sender") == near
        return self.paths[path].local if local else self.paths[path].remote

    def nic(self, end: End, path: int) -> Nic:
        """The interface of a path at an end."""
        return self.nics[end][self.number(end, path, near=True)]

    def nothing_in_common(self, path: int) -> str:
        """That the interfaces of a path have no family of addresses in common."""
        nic, other = (self.nic(end, path) for end in ENDS)
        return interfaces.nothing_in_common(nic.device, [nic], other.device, [other])


def prepare(
    machines: Mapping[End, Machine], wish: Wish, stack: ExitStack, interrupted: Callable[[], bool]
) -> Prepared:
    """Choose interfaces, start both agents, and number the paths.

    Parameters
    ----------
    stack : ends the agents.

    Raises
    ------
    InputError : an interface that the user asked for does not exist.
    TrialError : the machines have no family of addresses in common, or one of them refuses.
    """
    began_s = time.monotonic()
    facts = {end: machines[end].look() for end in ENDS}
    nics, notes = {}, []
    for end in ENDS:
        asked = facts[end], wish.interfaces[end]
        option, host = f"--{end}-interfaces", machines[end].name
        nics[end] = interfaces.choose(*asked, wish.family, option, host)
        if wish.both_families:
            interfaces.check_both(nics[end], option, host)
    for end in ENDS:
        if note := interfaces.left_out(
            facts[end], wish.interfaces[end], f"--{end}-interfaces", machines[end].name
        ):
            notes.append(note)
    paths = _paths(nics, wish)
    pairs = [path.addresses for path in paths if path.addresses is not None]
    if not pairs:
        names = [machines[end].name for end in ENDS]
        because = interfaces.nothing_in_common(names[0], nics["sender"], names[1], nics["receiver"])
        raise TrialError(because, "refused")
    addresses = {end: list(dict.fromkeys(pair[number] for pair in pairs)) for number, end in enumerate(ENDS)}
    leaving = _leaving(machines, nics, pairs)
    talkers: dict[End, Talker] = {end: stack.enter_context(machines[end].start("probe")) for end in ENDS}
    both = wish.both_families
    ends = Ends(talkers, addresses, both_families=both, port=wish.port, interrupted=interrupted)
    ends.join(paths)
    return Prepared(machines, wish, facts, nics, paths, addresses, ends, leaving, notes, began_s)


def _paths(nics: Mapping[End, Sequence[Nic]], wish: Wish) -> list[Path]:
    """All pairs of interfaces; over both families in IPv4, then in IPv6, and at last those in neither."""
    pairs = [
        (i, j, near, far) for i, near in enumerate(nics["sender"]) for j, far in enumerate(nics["receiver"])
    ]
    if not wish.both_families:
        return [Path(i, j, interfaces.endpoints(near, far, wish.family)) for i, j, near, far in pairs]
    found = [
        Path(i, j, addresses)
        for family in interfaces.FAMILIES
        for i, j, near, far in pairs
        if (addresses := interfaces.endpoints(near, far, family)) is not None
    ]
    apart = [(i, j) for i, j, near, far in pairs if interfaces.endpoints(near, far, None) is None]
    return found + [Path(i, j, None) for i, j in apart]


def _leaving(
    machines: Mapping[End, Machine], nics: Mapping[End, list[Nic]], pairs: Sequence[tuple[str, str]]
) -> list[Leaving]:
    """Packets that would leave by another interface than that of their address, at either end."""
    found = []
    for number, end in enumerate(ENDS):
        turned = [(pair[number], pair[1 - number]) for pair in pairs]
        facts = machines[end].look(pairs=turned)
        found += interfaces.leaving(facts, nics[end], turned, machines[end].name)
    return found
