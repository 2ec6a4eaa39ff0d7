"""Interfaces of a topology on the machines of the two sites: devices and addresses.

An address pair names a path. Inside the two namespaces the names are agreed: interface i of the sender has
10.64.i.1 and fd64:0:i::1, interface j of the receiver 10.65.j.1 and fd65:0:j::1, and packets from an address
leave by its own device. Hosts have names and addresses of their own (`mptune.testbeds.hosts`).
Nothing here touches the kernel: the agent's role `namespaces` does.
"""

from collections.abc import Mapping, Sequence
from ipaddress import IPv6Address
from typing import Literal

import msgspec

from mptune.topology import FAMILIES, Site, Topology

Side = Literal["local", "remote"]
SIDES: tuple[Side, Side] = ("local", "remote")

_OTHER: Mapping[Side, Side] = {"local": "remote", "remote": "local"}

_NETWORK = {"local": 64, "remote": 65}
#: Routing table of the first interface. A site has at most 64 interfaces; the kernel's begin at 253.
_FIRST_TABLE = 100


class NamedInterface(msgspec.Struct, frozen=True, kw_only=True):
    """One interface of a site as its machine knows it.

    Attributes
    ----------
    ipv4, ipv6 : its own addresses; None without one.
    public : by family, the address at which the other site reaches it, where that is another one (NAT).
    """

    side: Side
    index: int
    device: str
    ipv4: str | None = None
    ipv6: str | None = None
    public: Mapping[str, str] = {}

    def address(self, family: str) -> str | None:
        """Its own address of a family (`mptune.trial.FAMILIES`)."""
        return self.ipv6 if family == "ipv6" else self.ipv4

    def reached_at(self, family: str) -> str | None:
        """Address at which the other site reaches it."""
        return self.public.get(family, self.address(family))


class NamespaceInterface(NamedInterface, frozen=True, kw_only=True):
    """One of a namespace, which has both addresses; `table` is its routing table."""

    ipv4: str
    ipv6: str
    table: int

    def address(self, family: str) -> str:
        """Its address of a family."""
        return self.ipv6 if family == "ipv6" else self.ipv4


def other_side(side: Side) -> Side:
    """The other site."""
    return _OTHER[side]


#: The interfaces of both sites, in the order of the topology.
Named = Mapping[Side, Sequence[NamedInterface]]


def interface(side: Side, index: int) -> NamespaceInterface:
    """Names and addresses of the interface `index` of a site inside its namespace."""
    network = _NETWORK[side]
    return NamespaceInterface(
        side=side,
        index=index,
        device=f"if{index}",
        ipv4=f"10.{network}.{index}.1",
        ipv6=str(IPv6Address(f"fd{network}:0:{index}::1")),  # as the kernel prints it
        table=_FIRST_TABLE + index,
    )


def interfaces(topology: Topology) -> dict[Side, tuple[NamespaceInterface, ...]]:
    """All interfaces of both sites inside the namespaces."""
    return {"local": _of(topology.sender, "local"), "remote": _of(topology.receiver, "remote")}


def pairs(
    local: NamedInterface, remote: NamedInterface, families: Sequence[str] = FAMILIES
) -> tuple[tuple[str, str], ...]:
    """Local and remote address of a path as its sender sees them, for each family that both ends have."""
    both = ((local.address(family), remote.reached_at(family)) for family in families)
    return tuple((ours, theirs) for ours, theirs in both if ours is not None and theirs is not None)


def _of(site: Site, side: Side) -> tuple[NamespaceInterface, ...]:
    return tuple(interface(side, index) for index in range(len(site.interfaces)))
