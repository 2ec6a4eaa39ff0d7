"""How the interfaces of a topology appear inside the two namespaces: devices, addresses, routing tables.

An address pair names a path: interface i of the sender has 10.64.i.1 and fd64:0:i::1, interface j of
the receiver 10.65.j.1 and fd65:0:j::1, and packets from an address leave by its own device.
Nothing here touches the kernel: `mptune.linux.sandbox.namespace_process` does.
"""

from ipaddress import IPv6Address
from typing import Literal

import msgspec

from mptune.topology import Site, Topology

Side = Literal["local", "remote"]
SIDES: tuple[Side, Side] = ("local", "remote")

_NETWORK = {"local": 64, "remote": 65}
#: Routing table of the first interface. A site has at most 64 interfaces; the kernel's begin at 253.
_FIRST_TABLE = 100


class NamedInterface(msgspec.Struct, frozen=True, kw_only=True):
    """One interface of a site as its namespace knows it; `table` is its routing table."""

    side: Side
    index: int
    device: str
    ipv4: str
    ipv6: str
    table: int

    def address(self, family: str) -> str:
        """Its address of a family (`mptune.testbeds.FAMILIES`)."""
        return self.ipv6 if family == "ipv6" else self.ipv4


def interface(side: Side, index: int) -> NamedInterface:
    """Names and addresses of the interface `index` of a site."""
    network = _NETWORK[side]
    return NamedInterface(
        side=side,
        index=index,
        device=f"if{index}",
        ipv4=f"10.{network}.{index}.1",
        ipv6=str(IPv6Address(f"fd{network}:0:{index}::1")),  # as the kernel prints it
        table=_FIRST_TABLE + index,
    )


def interfaces(topology: Topology) -> dict[Side, tuple[NamedInterface, ...]]:
    """All interfaces of both sites, in the order of the topology."""
    return {"local": _of(topology.sender, "local"), "remote": _of(topology.receiver, "remote")}


def paths(topology: Topology) -> dict[tuple[str, str], str]:
    """Label of the path by its pair of local and remote address, IPv4 and IPv6."""
    named = interfaces(topology)
    labels = {}
    for path in topology.paths:
        local, remote = named["local"][path.local_index], named["remote"][path.remote_index]
        labels[local.ipv4, remote.ipv4] = labels[local.ipv6, remote.ipv6] = path.label
    return labels


def _of(site: Site, side: Side) -> tuple[NamedInterface, ...]:
    return tuple(interface(side, index) for index in range(len(site.interfaces)))
