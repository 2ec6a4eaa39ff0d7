"""Interfaces of a machine that take part in a probe, and checks that packets leave by the right ones.

From the facts that a machine reported (`Machine.look`); nothing is sent or changed.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from mptune.errors import InputError, one_of

#: `rp_filter` of a kernel that drops packets which it would not answer by the same interface.
_STRICT = 1
_FIRST_TABLE = 100
#: Families of addresses, the preferred first.
FAMILIES = (4, 6)


class Nic(msgspec.Struct, frozen=True, kw_only=True):
    """An interface that takes part.

    Attributes
    ----------
    device : the kernel's name.
    abbr : its name in path labels.
    ip : its address, the IPv4 one if it has both and both may be used.
    ipv4, ipv6 : its addresses.
    gateway : of its default route of that family; None if it has none, or one without a gateway.
    """

    device: str
    abbr: str
    ip: str
    ipv4: str | None
    ipv6: str | None
    mtu: int
    gateway: str | None = None
    has_default_route: bool = False

    def address(self, family: int) -> str | None:
        """Its address of a family, 4 or 6."""
        return self.ipv6 if family == 6 else self.ipv4


class Leaving(msgspec.Struct, frozen=True, kw_only=True):
    """Packets that leave by an interface other than that of their address.

    Attributes
    ----------
    by : the device they leave by; None if they cannot leave.
    remedy : lines to paste into a shell.
    """

    host: str
    device: str
    ip: str
    by: str | None
    remedy: tuple[str, ...]

    def __str__(self) -> str:
        how = "do not leave at all" if self.by is None else f"leave by {self.by}"
        return f"{self.host}: packets from {self.ip} ({self.device}) {how}"


def choose(
    facts: Mapping[str, Any], wanted: Sequence[str], family: int | None, option: str, host: str
) -> list[Nic]:
    """The interfaces taking part: those asked for, else those with a default route, else all with an address.

    Parameters
    ----------
    family : 4 or 6: those that have an address of it; None for all.
    option : the user's option, for messages.

    Raises
    ------
    InputError : there is none, or one that was asked for is missing.
    """
    usable = [interface for interface in facts["interfaces"] if interface["up"] and _addresses(interface)]
    by_name = {entry["device"]: entry for entry in usable}
    for name in wanted:
        if name not in by_name:
            raise InputError(option, "", f"{host}: {one_of(by_name, name)}")
    if wanted:
        usable = [by_name[name] for name in wanted]
    elif routed := [entry for entry in usable if entry["default_routes"]]:
        usable = routed
    wanted_families = FAMILIES if family is None else (family,)
    chosen = [(entry, next((n for n in wanted_families if _first(entry, n)), None)) for entry in usable]
    found = [_nic(pair, number) for pair, number in chosen if number is not None]
    if not found:
        kind = "an" if family is None else f"an IPv{family}"
        raise InputError(option, "", f"{host}: expected an interface with {kind} address, found none")
    return _with_unique_names(found)


def check_both(nics: Sequence[Nic], option: str, host: str) -> None:
    """Refuse a machine that has addresses of one family alone.

    Raises
    ------
    InputError : naming the family that it lacks.
    """
    for family in FAMILIES:
        if not any(nic.address(family) for nic in nics):
            expected = f"expected interfaces with IPv4 and with IPv6 addresses, found none with IPv{family}"
            raise InputError(option, "", f"{host}: {expected}")


def left_out(facts: Mapping[str, Any], wanted: Sequence[str], option: str, host: str) -> str:
    """The interfaces that `choose` passes over for want of a default route, in a sentence; empty if none.

    Bridges and tunnels are among them, but so is a second uplink that nobody has given a route yet.
    """
    usable = [interface for interface in facts["interfaces"] if interface["up"] and _addresses(interface)]
    rest = [entry for entry in usable if not entry["default_routes"]]
    if wanted or not rest or len(rest) == len(usable):
        return ""
    names = ", ".join(f"{name['device']} ({_addresses(name)[0]})" for name in rest)
    return f"{host}: without a default route, and left out unless {option} names them: {names}"


def endpoints(near: Nic, far: Nic, family: int | None) -> tuple[str, str] | None:
    """The addresses of a path, of a family that both ends have; None if there is none.

    Parameters
    ----------
    family : 4 or 6; None for either.
    """
    for number in FAMILIES if family is None else (family,):
        own, other = near.address(number), far.address(number)
        if own is not None and other is not None:
            return own, other
    return None


def nothing_in_common(near: str, nears: Sequence[Nic], far: str, fars: Sequence[Nic]) -> str:
    """That two ends have no family of addresses in common: a sentence."""
    return (
        f"no address family in common: {near} has {_families(nears)}, {far} has {_families(fars)}; "
        "both need IPv4, or both need IPv6"
    )


def _families(nics: Sequence[Nic]) -> str:
    found = [f"IPv{family}" for family in FAMILIES if any(nic.address(family) for nic in nics)]
    return f"only {found[0]}" if len(found) == 1 else " and ".join(found)


def _nic(row: Mapping[str, Any], family: int) -> Nic:
    routes = [route for route in row["default_routes"] if _fits(route["via"], family)]
    via = next((route["via"] for route in routes if route["via"]), None)
    ip = _first(row, family)
    assert ip is not None
    return Nic(
        device=row["device"],
        abbr=re.sub(r"[^A-Za-z0-9]", "", row["device"]) or "if",
        ip=ip,
        ipv4=_first(row, 4),
        ipv6=_first(row, 6),
        mtu=row["mtu"],
        gateway=via,
        has_default_route=bool(routes),
    )


def _with_unique_names(nics: list[Nic]) -> list[Nic]:
    found: list[Nic] = []
    for nic in nics:
        taken = {other.abbr for other in found}
        name = next(
            name
            for number in range(len(nics))
            if (name := nic.abbr + (f"x{number}" if number else "")) not in taken
        )
        found.append(msgspec.structs.replace(nic, abbr=name))
    return found


def _addresses(interface: Mapping[str, Any]) -> list[str]:
    found = [entry["ip"] for entry in interface["addresses"]]
    return [ip for ip in found if not (_ip(ip).is_loopback or _ip(ip).is_link_local)]


def _first(row: Mapping[str, Any], family: int) -> str | None:
    return next((ip for ip in _addresses(row) if _ip(ip).version == family), None)


def _fits(via: str | None, family: int) -> bool:
    return via is None or _ip(via).version == family


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(text)


def leaving(
    facts: Mapping[str, Any], nics: Sequence[Nic], pairs: Sequence[tuple[str, str]], host: str
) -> list[Leaving]:
    """Addresses whose packets leave by the wrong interface, once for each address.

    Parameters
    ----------
    facts : with `leaves` for the pairs of own and remote address.
    """
    wrong: dict[str, str | None] = {}
    nic_of = {ip: nic for nic in nics for ip in (nic.ipv4, nic.ipv6) if ip is not None}
    for (source, _), found in zip(pairs, facts["leaves"], strict=True):
        if found["device"] != nic_of[source].device:
            wrong.setdefault(source, found["device"])
    used = {str(rule["table"]) for rule in facts.get("rules", ())}
    leave = []
    for ip, nic in nic_of.items():
        if ip in wrong:
            first = _FIRST_TABLE + nics.index(nic)
            table = next(str(n) for n in range(first, 1 << 16) if str(n) not in used)
            used.add(table)
            remedy = _remedy(_of_family(facts, nic, _ip(ip).version), table)
            if facts.get("rp_filter_all") == _STRICT or _strict(facts, nic.device):
                remedy += (
                    "# rp_filter is 1: until then the kernel also discards what arrives there from elsewhere",
                )
            leave.append(Leaving(host=host, device=nic.device, ip=ip, by=wrong[ip], remedy=remedy))
    return leave


def _of_family(facts: Mapping[str, Any], nic: Nic, family: int) -> Nic:
    """An interface with the address and the gateway of a family."""
    return next(
        _nic(interface, family) for interface in facts["interfaces"] if interface["device"] == nic.device
    )


def _strict(facts: Mapping[str, Any], device: str) -> bool:
    return any(
        interface["rp_filter"] == _STRICT
        for interface in facts["interfaces"]
        if interface["device"] == device
    )


def _remedy(nic: Nic, table: str) -> tuple[str, ...]:
    """The lines that give an address its own routing table."""
    six = "-6 " if ":" in nic.ip else ""
    rule = f"ip {six}rule add from {nic.ip} lookup {table}"
    if nic.gateway is not None:
        return f"ip {six}route add default via {nic.gateway} dev {nic.device} table {table}", rule
    if nic.has_default_route:
        return f"ip {six}route add default dev {nic.device} table {table}", rule
    hint = f"# {nic.device} has no default route: put its gateway instead of GATEWAY"
    return hint, f"ip {six}route add default via GATEWAY dev {nic.device} table {table}", rule
