"""Which interfaces of a machine take part in a probe, and whether its packets leave by the right ones.

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


class Nic(msgspec.Struct, frozen=True, kw_only=True):
    """An interface that takes part.

    Attributes
    ----------
    device : the kernel's name.
    abbr : its name in path labels.
    ip : the source address of its packets.
    ipv4, ipv6 : its addresses.
    gateway : of its default route; None if it has none, or one without a gateway.
    """

    device: str
    abbr: str
    ip: str
    ipv4: str | None
    ipv6: str | None
    mtu: int
    gateway: str | None = None
    has_default_route: bool = False


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
    family : 4 or 6; None for the one that all of them have, preferably 4.
    option : the user's option, for messages.

    Raises
    ------
    InputError : there is none, or one that was asked for is missing.
    """
    usable = [one for one in facts["interfaces"] if one["up"] and _addresses(one)]
    by_name = {one["device"]: one for one in usable}
    for name in wanted:
        if name not in by_name:
            raise InputError(option, "", f"{host}: {one_of(by_name, name)}")
    if wanted:
        usable = [by_name[name] for name in wanted]
    elif routed := [one for one in usable if one["default_routes"]]:
        usable = routed
    if family is None:
        family = 4 if all(_first(one, 4) for one in usable) else 6
    found = [_nic(one, family) for one in usable if _first(one, family)]
    if not found:
        raise InputError(option, "", f"{host}: expected an interface with an IPv{family} address, found none")
    return _with_unique_names(found)


def _nic(one: Mapping[str, Any], family: int) -> Nic:
    routes = [route for route in one["default_routes"] if _fits(route["via"], family)]
    via = next((route["via"] for route in routes if route["via"]), None)
    ip = _first(one, family)
    assert ip is not None
    return Nic(
        device=one["device"],
        abbr=re.sub(r"[^A-Za-z0-9]", "", one["device"]) or "if",
        ip=ip,
        ipv4=_first(one, 4),
        ipv6=_first(one, 6),
        mtu=one["mtu"],
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


def _addresses(one: Mapping[str, Any]) -> list[str]:
    found = [entry["ip"] for entry in one["addresses"]]
    return [ip for ip in found if not (_ip(ip).is_loopback or _ip(ip).is_link_local)]


def _first(one: Mapping[str, Any], family: int) -> str | None:
    return next((ip for ip in _addresses(one) if _ip(ip).version == family), None)


def _fits(via: str | None, family: int) -> bool:
    return via is None or _ip(via).version == family


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(text)


def leaving(
    facts: Mapping[str, Any], nics: Sequence[Nic], pairs: Sequence[tuple[str, str]], host: str
) -> list[Leaving]:
    """What leaves by the wrong interface, once for each address.

    Parameters
    ----------
    facts : with `leaves` for the pairs of own and remote address.
    """
    wrong: dict[str, str | None] = {}
    device_of = {nic.ip: nic.device for nic in nics}
    for (source, _), found in zip(pairs, facts["leaves"], strict=True):
        if found["device"] != device_of[source]:
            wrong.setdefault(source, found["device"])
    used = {str(rule["table"]) for rule in facts.get("rules", ())}
    leave = []
    for number, nic in enumerate(nics):
        if nic.ip in wrong:
            table = next(str(n) for n in range(_FIRST_TABLE + number, 1 << 16) if str(n) not in used)
            used.add(table)
            remedy = _remedy(nic, table)
            if facts.get("rp_filter_all") == _STRICT or _strict(facts, nic.device):
                remedy += (
                    "# rp_filter is 1: until then the kernel also discards what arrives there from elsewhere",
                )
            leave.append(Leaving(host=host, device=nic.device, ip=nic.ip, by=wrong[nic.ip], remedy=remedy))
    return leave


def _strict(facts: Mapping[str, Any], device: str) -> bool:
    return any(one["rp_filter"] == _STRICT for one in facts["interfaces"] if one["device"] == device)


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
