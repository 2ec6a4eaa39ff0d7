"""The messages of the kernel's generic-netlink family `mptcp_pm`, version 1, for IPv4 and IPv6.

The language of include/uapi/linux/mptcp_pm.h: commands as pyroute2 messages to send, events as typed
records. It opens no socket (`mptune.linux.mptcp_netlink` does) and decides nothing.
"""

import ipaddress
import socket
from typing import Any, Literal

import msgspec
from pyroute2.netlink import genlmsg, nla

FAMILY = "mptcp_pm"
EVENTS = "mptcp_pm_events"
_VERSION = 1
_NLA_F_NESTED = 0x8000  # include/uapi/linux/netlink.h

# Commands that manage subflows from user space.
SET_FLAGS = 7
ANNOUNCE = 8
REMOVE = 9
SUBFLOW_CREATE = 10
SUBFLOW_DESTROY = 11
# Flags of an address.
SIGNAL = 1 << 0
BACKUP = 1 << 2


class Endpoint(msgspec.Struct, frozen=True):
    """An address, IPv4 or IPv6 as text, and a port; port 0 where it does not matter."""

    address: str
    port: int = 0

    @property
    def family(self) -> socket.AddressFamily:
        """AF_INET or AF_INET6."""
        return socket.AF_INET6 if ":" in self.address else socket.AF_INET


class Pair(msgspec.Struct, frozen=True):
    """The two ends of a subflow, seen from this side."""

    local: Endpoint
    remote: Endpoint


class ConnectionEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A connection was created (its first handshake is under way) or fully established.

    `token` names it in all later messages; `server_side` tells that the peer opened it.
    """

    kind: Literal["created", "established"]
    token: int
    pair: Pair
    server_side: bool


class ConnectionClosed(msgspec.Struct, frozen=True, kw_only=True):
    """A connection is gone."""

    token: int


class AddressAnnounced(msgspec.Struct, frozen=True, kw_only=True):
    """The peer told one more of its addresses (ADD_ADDR); port 0 if it named none."""

    token: int
    address_id: int
    address: Endpoint


class AddressRemoved(msgspec.Struct, frozen=True, kw_only=True):
    """The peer took an address back (REMOVE_ADDR)."""

    token: int
    address_id: int


class SubflowEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A subflow was established or closed, or the peer changed its priority (MP_PRIO).

    `backup` is what the *peer* asked for; what this side asked for is in the socket statistics. `error`
    is the errno that closed it, 0 without one; `reset_reason` that of RFC 8684 section 3.6, if it was told.
    """

    kind: Literal["sub_established", "sub_closed", "sub_priority"]
    token: int
    pair: Pair
    local_id: int
    remote_id: int
    backup: bool
    error: int = 0
    reset_reason: int | None = None


class ListenerEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A listening MPTCP socket was created or closed."""

    kind: Literal["listener_created", "listener_closed"]
    address: Endpoint


Event = ConnectionEvent | ConnectionClosed | AddressAnnounced | AddressRemoved | SubflowEvent | ListenerEvent

_CONNECTION: dict[int, Literal["created", "established"]] = {1: "created", 2: "established"}
_CLOSED, _ANNOUNCED, _REMOVED = 3, 6, 7
_SUBFLOW: dict[int, Literal["sub_established", "sub_closed", "sub_priority"]] = {
    10: "sub_established",
    11: "sub_closed",
    13: "sub_priority",
}
_LISTENER: dict[int, Literal["listener_created", "listener_closed"]] = {
    15: "listener_created",
    16: "listener_closed",
}


def _attributes(prefix: str, *named: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """Attributes numbered from 0, as pyroute2 wants them."""
    return tuple((f"{prefix}_{name}", kind) for name, kind in (("UNSPEC", "none"), *named))


class Command(genlmsg):  # type: ignore[misc] # pyroute2 is not typed
    """A command; pyroute2's `mptcp_msg` lacks the attributes of the userspace ones."""

    prefix = "MPTCP_PM_ATTR_"
    nla_map = _attributes(
        "MPTCP_PM_ATTR",
        ("ADDR", "address"),
        ("RCV_ADD_ADDRS", "uint32"),
        ("SUBFLOWS", "uint32"),
        ("TOKEN", "uint32"),
        ("LOC_ID", "uint8"),
        ("ADDR_REMOTE", "address"),
    )

    class address(nla):  # type: ignore[misc]
        """An address; the port is in host order here, unlike in events."""

        prefix = "MPTCP_PM_ADDR_ATTR_"
        nla_map = _attributes(
            "MPTCP_PM_ADDR_ATTR",
            ("FAMILY", "uint16"),
            ("ID", "uint8"),
            ("ADDR4", "ip4addr"),
            ("ADDR6", "ip6addr"),
            ("PORT", "uint16"),
            ("FLAGS", "uint32"),
            ("IF_IDX", "int32"),
        )


class EventMessage(genlmsg):  # type: ignore[misc] # pyroute2 is not typed
    """An event as it comes."""

    prefix = "MPTCP_ATTR_"
    nla_map = _attributes(
        "MPTCP_ATTR",
        ("TOKEN", "uint32"),
        ("FAMILY", "uint16"),
        ("LOC_ID", "uint8"),
        ("REM_ID", "uint8"),
        ("SADDR4", "ip4addr"),
        ("SADDR6", "ip6addr"),
        ("DADDR4", "ip4addr"),
        ("DADDR6", "ip6addr"),
        ("SPORT", "be16"),
        ("DPORT", "be16"),
        ("BACKUP", "uint8"),
        ("ERROR", "uint8"),
        ("FLAGS", "uint16"),
        ("TIMEOUT", "uint32"),
        ("IF_IDX", "int32"),
        ("RESET_REASON", "uint32"),
        ("RESET_FLAGS", "uint32"),
        ("SERVER_SIDE", "uint8"),
    )


def command(
    number: int,
    *,
    token: int,
    local: Endpoint | None = None,
    remote: Endpoint | None = None,
    address_id: int | None = None,
    flags: int | None = None,
    removed_id: int | None = None,
) -> Command:
    """A command's message; `address_id` and `flags` belong to the local address."""
    message = Command()
    message["cmd"] = number
    message["version"] = _VERSION
    message["attrs"] = [("MPTCP_PM_ATTR_TOKEN", token)]
    if removed_id is not None:
        message["attrs"].append(("MPTCP_PM_ATTR_LOC_ID", removed_id))
    if local is not None:
        nested = _address(local, ID=address_id, FLAGS=flags)
        message["attrs"].append(("MPTCP_PM_ATTR_ADDR", nested, _NLA_F_NESTED))
    if remote is not None:
        message["attrs"].append(("MPTCP_PM_ATTR_ADDR_REMOTE", _address(remote), _NLA_F_NESTED))
    return message


def _address(endpoint: Endpoint, **further: int | None) -> dict[str, Any]:
    prefix = Command.address.prefix
    address = "ADDR6" if endpoint.family == socket.AF_INET6 else "ADDR4"
    attributes: list[tuple[str, int | str]] = [
        (f"{prefix}FAMILY", int(endpoint.family)),
        (f"{prefix}{address}", endpoint.address),
    ]
    if endpoint.port:
        attributes.append((f"{prefix}PORT", endpoint.port))
    attributes.extend((prefix + name, value) for name, value in further.items() if value is not None)
    return {"attrs": attributes}


def parse(data: bytes) -> Event | None:
    """The event in a message; None for a kind that is not known here."""
    message = EventMessage(data)
    message.decode()
    number = message["cmd"]
    values = {name.removeprefix(EventMessage.prefix): value for name, value in message["attrs"]}
    if number in _LISTENER:
        return ListenerEvent(kind=_LISTENER[number], address=_endpoint(values, "S"))
    token = values["TOKEN"]
    if number in _CONNECTION:
        return ConnectionEvent(
            kind=_CONNECTION[number],
            token=token,
            pair=_pair(values),
            server_side=bool(values.get("SERVER_SIDE")),
        )
    if number == _CLOSED:
        return ConnectionClosed(token=token)
    if number == _ANNOUNCED:
        return AddressAnnounced(token=token, address_id=values["REM_ID"], address=_endpoint(values, "D"))
    if number == _REMOVED:
        return AddressRemoved(token=token, address_id=values["REM_ID"])
    if number in _SUBFLOW:
        return SubflowEvent(
            kind=_SUBFLOW[number],
            token=token,
            pair=_pair(values),
            local_id=values["LOC_ID"],
            remote_id=values["REM_ID"],
            backup=bool(values.get("BACKUP")),
            error=values.get("ERROR", 0),
            reset_reason=values.get("RESET_REASON"),
        )
    return None


def _pair(values: dict[str, Any]) -> Pair:
    return Pair(_endpoint(values, "S"), _endpoint(values, "D"))


def _endpoint(values: dict[str, Any], end: Literal["S", "D"]) -> Endpoint:
    address = values.get(f"{end}ADDR4") or values[f"{end}ADDR6"]
    return Endpoint(plain(address), values.get(f"{end}PORT", 0))


def plain(address: str) -> str:
    """An address in its shortest form; one of IPv4 that was mapped into IPv6 becomes itself again."""
    parsed = ipaddress.ip_address(address)
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return str(mapped or parsed)
