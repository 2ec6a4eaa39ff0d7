"""Input of the kernel's path manager: settings of each end, and the network between the two."""

import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

import msgspec

#: Beside the first subflow, and addresses accepted: what a network namespace begins with (`pm_nl_init_net`).
USUAL = (2, 0)
#: Most endpoints, and most of either limit, where nobody has read it (MPTCP_PM_ADDR_MAX until Linux 6.18).
MOST = 8
#: First releases with endpoints `laminar`, and whose `fullmesh` endpoints leave nothing to routing.
_LAMINAR, _MESH_ALONE = (6, 18), (7, 0)
#: Name and value of the setting by which the kernel manages paths: since Linux 6.15, and before.
KERNEL = (("net.mptcp.path_manager", "kernel"), ("net.mptcp.pm_type", "0"))
#: Permission to join the address where connections begin: flag C of MP_CAPABLE (RFC 8684, section 3.1).
JOINS = "net.mptcp.allow_join_initial_addr_port"
ENABLED = "net.mptcp.enabled"


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint; `port` is 0 for that of the connection."""

    address: str
    flags: tuple[str, ...]
    id: int
    port: int = 0
    device: str | None = None


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a connection: subflows beyond the first, and announced addresses that are used."""

    subflows: int = USUAL[0]
    add_addr_accepted: int = USUAL[1]


class End(msgspec.Struct, frozen=True, kw_only=True):
    """One end.

    Attributes
    ----------
    addresses : its own.
    outside : by own address, the one by which the other end reaches it, if that is another one (NAT).
    endpoints : in the kernel's order.
    joins : `net.mptcp.allow_join_initial_addr_port`.
    managed : the kernel's path manager has new connections.
    enabled : `net.mptcp.enabled`.
    most_endpoints, most_subflows : what its kernel takes.
    release : of its kernel.
    """

    addresses: tuple[str, ...]
    outside: Mapping[str, str] = {}
    endpoints: tuple[Endpoint, ...] = ()
    limits: Limits = Limits()
    joins: bool = True
    managed: bool = True
    enabled: bool = True
    most_endpoints: int = MOST
    most_subflows: int = MOST
    release: tuple[int, int] = (6, 18)

    @property
    def has_laminar(self) -> bool:
        """Its kernel knows endpoints `laminar`."""
        return self.release >= _LAMINAR

    @property
    def mesh_alone(self) -> bool:
        """With endpoints `fullmesh` nothing else answers an announced address."""
        return self.release >= _MESH_ALONE

    def seen(self, address: str) -> str:
        """The address by which the other end sees one of its own."""
        return self.outside.get(address, address)

    def own(self, seen: str) -> str | None:
        """Its own address behind one that the other end sees; None if it is not reached there."""
        for inside, outside in self.outside.items():
            if outside == seen:
                return inside
        return seen if seen in self.addresses and seen not in self.outside else None

    def endpoint(self, address: str, port: int = 0) -> Endpoint | None:
        """The endpoint of an address."""
        return next(
            (endpoint for endpoint in self.endpoints if (endpoint.address, endpoint.port) == (address, port)),
            None,
        )


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """Network between two ends.

    Attributes
    ----------
    blocked : by own address of an end and the address that it sends to, why packets do not arrive.
    selected : by an address that somebody sends to, the own address that routing selects, None without a
        route; where it is not named, that on which connections begin, or the first of that family.
    dual : the socket is one of IPv6, which alone has subflows of both families.
    """

    blocked: Mapping[tuple[str, str], str] = {}
    selected: Mapping[str, str | None] = {}
    dual: bool = False


def end_of(
    looked: Mapping[str, Any], addresses: tuple[str, ...], outside: Mapping[str, str] | None = None
) -> End | None:
    """An end from the answer of its agent ("look"); None if that has no endpoints and limits.

    Parameters
    ----------
    looked : with the sysctls of `NAMES`.
    """
    if looked.get("endpoints") is None or looked.get("limits") is None:
        return None
    sysctls: Mapping[str, str | None] = looked["sysctls"]
    manager = next(
        ((sysctls[name], value) for name, value in KERNEL if sysctls.get(name) is not None), ("", "")
    )
    release = re.match(r"(\d+)\.(\d+)", str(looked["kernel"]))
    most = looked.get("most") or {}
    return End(
        addresses=addresses,
        outside=outside or {},
        endpoints=tuple(
            Endpoint(
                address=str(ip_address(row["address"])),
                flags=tuple(row["flags"]),
                id=row["id"],
                port=row["port"],
                device=row["device"],
            )
            for row in looked["endpoints"]
        ),
        limits=msgspec.convert(looked["limits"], Limits),
        joins=sysctls.get(JOINS) != "0",
        managed=manager[0] == manager[1],
        enabled=sysctls.get(ENABLED) != "0",
        most_endpoints=most.get("endpoints") or MOST,
        most_subflows=most.get("subflows") or MOST,
        release=(int(release[1]), int(release[2])) if release else (0, 0),
    )


#: Sysctls that `end_of` reads.
NAMES = (ENABLED, JOINS, *(name for name, _ in KERNEL))
