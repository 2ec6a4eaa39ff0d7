"""Abilities of two hosts for trials, and how to add missing ones: `mptune doctor --hosts`.

It looks over ssh and changes nothing; for wrong addresses and routes it gives the lines to paste. Items that
a trial with a path manager needs are *required*.
"""

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from mptune import _core
from mptune.errors import InputError, MptuneError
from mptune.linux.addresses import NamedInterface, Side
from mptune.linux.doctor import Finding
from mptune.machines import SshMachine, sessions
from mptune.machines.ssh import connect
from mptune.testbeds._host_facts import ASKED, HostFacts
from mptune.testbeds.host_subflows import Between, between
from mptune.testbeds.host_subflows import asked as selecting
from mptune.testbeds.hosts import check_site
from mptune.topology import Site, Topology
from mptune.trial import DEFAULT_FAMILY, FAMILIES

#: Largest buffer of the papers' sweeps (MPCOA, section 5.3: 0.5 to 30 MiB), bytes.
_LARGEST_BUFFER = 30 * 2**20
#: Number of the first routing table proposed.
_FIRST_TABLE = 100
_STRICT = 1


class HostFindings(msgspec.Struct, frozen=True, kw_only=True):
    """One host; `ssh` is how it is reached."""

    site: str
    name: str
    ssh: str
    findings: tuple[Finding, ...]


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """Both hosts, the sender's first.

    Attributes
    ----------
    subflows : what their kernels open by themselves; None if that cannot be known.
    """

    hosts: tuple[HostFindings, ...]
    subflows: Between | None


def examine(topology: Topology) -> Examined:
    """All findings about the hosts of both sites.

    Raises
    ------
    InputError : a site is no host.
    """
    sites: dict[Side, Site] = {"local": topology.sender, "remote": topology.receiver}
    for site in sites.values():
        check_site(topology, site)
    machines: dict[Side, SshMachine] = {}
    found: dict[Side, list[Finding]] = {side: [] for side in sites}
    leaves: dict[Side, Sequence[Mapping[str, Any]]] = {}
    opened: list[SshMachine] = []
    with sessions.ended(opened):
        for side, site in sites.items():
            try:
                machines[side] = connect(site.ssh or "", site.name)
                opened.append(machines[side])
            except MptuneError as error:
                found[side] = [
                    Finding(
                        name="SSH", state="missing", found="cannot be used", remedy=str(error), required=True
                    )
                ]
        facts = {
            side: _facts(topology, side, machine, machine.look(ASKED)) for side, machine in machines.items()
        }
        named = {side: list(_named(fact, found[side])) for side, fact in facts.items()}
        for side, machine in machines.items():
            others = named.get("remote" if side == "local" else "local", [])
            pairs = list(_pairs(named[side], others))
            asked = [(source, target) for _, source, target in pairs]
            leaves[side] = machine.look(ASKED, [*asked, *selecting(named[side], others)])["leaves"]
            found[side] = [
                *_of_machine(machine, facts[side]),
                *found[side],
                *_of_interfaces(facts[side], named[side], pairs, leaves[side][: len(pairs)]),
            ]
    return Examined(
        hosts=tuple(
            HostFindings(site=site.abbr, name=site.name, ssh=site.ssh or "", findings=tuple(found[side]))
            for side, site in sites.items()
        ),
        subflows=between(topology, facts, named, leaves["local"]) if len(facts) == len(sites) else None,
    )


def ready(hosts: Sequence[HostFindings]) -> bool:
    """True if trials can run between them."""
    return not any(
        finding.required and finding.state == "missing" for host in hosts for finding in host.findings
    )


def _facts(topology: Topology, side: Side, machine: SshMachine, looked: Mapping[str, Any]) -> HostFacts:
    return HostFacts(topology, side, machine.name, looked, privileged=bool(machine.hello["net_admin"]))


def _named(facts: HostFacts, found: list[Finding]) -> Iterator[NamedInterface]:
    """The interfaces that exist; adds a finding for each of the others."""
    for index, interface in enumerate(facts.site.interfaces):
        try:
            yield facts.named_interface(index)
        except InputError as error:
            name = f"interface {interface.abbr}"
            found.append(
                Finding(name=name, state="missing", found="not there", remedy=str(error), required=True)
            )


# The machine.


def _of_machine(machine: SshMachine, facts: HostFacts) -> Iterator[Finding]:
    hello, looked = machine.hello, facts.looked
    how = "delivered for the session" if machine.delivered else "installed"
    yield Finding(name="SSH", state="ok", found=machine.target, required=True)
    yield Finding(name="agent", state="ok", found=f"{hello['version']}, {how}", required=True)
    yield Finding(
        name="kernel", state="ok", found=f"Linux {looked['kernel']} ({looked['machine']})", required=True
    )
    yield _privileges(facts)
    off = facts.sysctls.get("net.mptcp.enabled") == "0"
    reason = None if off else looked["mptcp"]
    yield _needed("MPTCP", reason, "needs a kernel with CONFIG_MPTCP (Linux 5.6)")
    yield _needed("userspace path manager", looked["path_manager"], "needs Linux 5.19 (net.mptcp.pm_type)")
    yield _enabled(facts)
    yield from _congestion_controls(facts)
    yield _buffers(facts)
    yield _reverse_path(facts)
    yield _processors(looked)


def _needed(name: str, reason: str | None, remedy: str) -> Finding:
    if reason is None:
        return Finding(name=name, state="ok", found="yes", required=True)
    return Finding(name=name, state="missing", found=reason, remedy=remedy, required=True)


def _privileges(facts: HostFacts) -> Finding:
    if facts.privileged:
        return Finding(name="privileges", state="ok", found="CAP_NET_ADMIN", required=True)
    return Finding(
        name="privileges",
        state="missing",
        found="none",
        remedy="log in as root, or let sudo work without a password; without it, only --protocol tcp "
        "and --pm default",
        required=True,
    )


def _enabled(facts: HostFacts) -> Finding:
    value = facts.sysctls.get("net.mptcp.enabled", "-")
    return Finding(
        name="net.mptcp.enabled",
        state="limited" if value == "0" else "ok",
        found=value,
        remedy="set for each trial, and put back" if value == "0" else None,
    )


def _congestion_controls(facts: HostFacts) -> Iterator[Finding]:
    """Source of each congestion control, for a sender."""
    for cc in _core.congestion_controls():
        name = f"congestion control {cc}"
        try:
            found = "in the kernel" if facts.kernel_cc(cc) == cc else "as a BPF program"
        except InputError:
            remedy = facts.no_program(cc)
            yield Finding(name=name, state="missing", found="not available", remedy=remedy)
        else:
            yield Finding(name=name, state="ok", found=found)


def _buffers(facts: HostFacts) -> Finding:
    limits = {name: int(facts.looked[name] or 0) for name in ("rmem_max", "wmem_max")}
    enough = facts.privileged or min(limits.values()) >= _LARGEST_BUFFER
    grows = [facts.sysctls.get(f"net.ipv4.tcp_{way}mem", "-").split()[-1] for way in "rw"]
    return Finding(
        name="buffers (bytes)",
        state="ok" if enough else "limited",
        found=f"rmem_max {limits['rmem_max']}, wmem_max {limits['wmem_max']}, "
        f"tcp_rmem {grows[0]}, tcp_wmem {grows[1]}",
        remedy=None
        if enough
        else "limits trials without privileges: "
        f"sysctl -w net.core.rmem_max={_LARGEST_BUFFER} net.core.wmem_max={_LARGEST_BUFFER}",
    )


def _reverse_path(facts: HostFacts) -> Finding:
    """A strict filter drops packets from a device other than the one by which answers would leave."""
    every = int(facts.looked["rp_filter_all"] or 0)
    own = {
        interface["device"]: max(every, int(interface["rp_filter"] or 0))
        for interface in facts.looked["interfaces"]
    }
    used = [interface.device for interface in facts.site.interfaces if interface.device is not None] or list(
        own
    )
    strict = [device for device in used if own.get(device) == _STRICT]
    several = len(facts.site.interfaces) > 1
    wrong = several and bool(strict)
    return Finding(
        name="reverse path filter",
        state="limited" if wrong else "ok",
        found=f"strict on {', '.join(strict)}" if strict else "not strict",
        remedy="joins can be dropped: "
        + " ".join(["sysctl -w", *(f"net.ipv4.conf.{one}.rp_filter=2" for one in ("all", *strict))])
        if wrong
        else None,
    )


def _processors(looked: Mapping[str, Any]) -> Finding:
    load = "" if looked["load"] is None else f", load {looked['load']:g}"
    return Finding(name="processors", state="ok", found=f"{looked['processors']}{load}")


# Its interfaces.


def _pairs(
    own: Sequence[NamedInterface], others: Sequence[NamedInterface]
) -> Iterator[tuple[NamedInterface, str, str]]:
    """Every own address with each address it would send to."""
    for interface in own:
        for other in others:
            for family in FAMILIES:
                source, target = interface.address(family), other.reached_at(family)
                if source is not None and target is not None:
                    yield interface, source, target


def _of_interfaces(
    facts: HostFacts,
    named: Sequence[NamedInterface],
    pairs: Sequence[tuple[NamedInterface, str, str]],
    leaves: Sequence[Mapping[str, Any]],
) -> Iterator[Finding]:
    """Each interface, with rules that make packets from its addresses leave by it."""
    by_device = {each_interface["device"]: each_interface for each_interface in facts.looked["interfaces"]}
    for named_interface in named:
        label = facts.site.interfaces[named_interface.index].abbr
        device = by_device[named_interface.device]
        wrong = {
            source: way["device"]
            for (interface, source, _), way in zip(pairs, leaves, strict=True)
            if interface is named_interface and way["device"] != named_interface.device
        }
        where = ", ".join(
            [
                named_interface.device,
                *(text for text in (named_interface.ipv4, named_interface.ipv6) if text is not None),
            ]
        )
        if not device["up"]:
            yield Finding(
                name=f"interface {label}",
                state="missing",
                found=f"{where}: down",
                remedy=f"ip link set {named_interface.device} up",
                required=True,
            )
        elif wrong:
            ways = ", ".join(f"{source} leaves by {way or 'no device'}" for source, way in wrong.items())
            lines = [line for source in wrong for line in _rule(source, named_interface, device)]
            # Trials use the other family where the interface has one, unless --family is given.
            needed = named_interface.address(DEFAULT_FAMILY) in (None, *wrong)
            yield Finding(
                name=f"interface {label}",
                state="missing" if needed else "limited",
                found=f"{where}: {ways}",
                remedy="\n".join(lines if needed else ["for trials with --family ipv6:", *lines]),
                required=needed,
            )
        else:
            yield Finding(name=f"interface {label}", state="ok", found=where, required=True)


def _rule(source: str, interface: NamedInterface, device: Mapping[str, Any]) -> list[str]:
    """The lines that make packets from an address leave by its own device."""
    version = ipaddress.ip_address(source).version
    ip = "ip -6" if version == 6 else "ip"
    table = _FIRST_TABLE + interface.index
    gateways = [
        str(route["via"])
        for route in device["default_routes"]
        if route["via"] is not None and ipaddress.ip_address(route["via"]).version == version
    ]
    via = gateways[0] if gateways else "GATEWAY"
    return [
        f"{ip} route add default via {via} dev {interface.device} table {table}",
        f"{ip} rule add from {source} table {table} priority {table}",
    ]
