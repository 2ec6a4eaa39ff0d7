"""The settings of one host: from what is intended and what is known of the machine to JSON objects.

It reads no machine and sets nothing. What is not known becomes a placeholder, and is listed. What is there
already is listed all the same: a machine where the settings were made gets the same ones again.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address, ip_interface, ip_network
from typing import Any

import msgspec

from mptune._text import over
from mptune.apply.policy import Policy
from mptune.apply.policy import settings as settings_of_policy
from mptune.linux import bpf
from mptune.linux.path_manager import End
from mptune.topology import Interface, Site
from mptune.trial import FAMILIES, FIXED

Setting = dict[str, Any]

#: Congestion controls that every kernel has (net/ipv4/Kconfig: reno always, cubic as the usual default).
_EVERYWHERE = ("reno", "cubic")
#: Number of the main routing table.
_MAIN = 254
#: Prefix of a default route, by family.
_EVERYWHERE_TO = {"ipv4": "default", "ipv6": "::/0"}
_DEFAULT_CC = "net.ipv4.tcp_congestion_control"
_PATH_MANAGER = "net.mptcp.path_manager"
#: Purpose of the settings of timeouts.
_WHY = {
    "net.mptcp.stale_loss_cnt": "A silent subflow is given up sooner, and its data goes over the others.",
    "net.ipv4.tcp_rto_min_us": "A lost segment is repeated sooner; the other host delays its ACKs less.",
}


class Unknown(msgspec.Struct, frozen=True, kw_only=True):
    """The value behind a placeholder, as an error names it.

    Attributes
    ----------
    readable : the file names a device, so that the machine would know it.
    """

    placeholder: str
    file: str
    key: str
    expected: str
    readable: bool = False


class Present(msgspec.Struct, frozen=True, kw_only=True):
    """Values read on a machine.

    Attributes
    ----------
    sysctls : values by name, with single blanks.
    interfaces, rules : as the agent's role `host` reports them ("look").
    congestion_controls : those that its kernel knows now.
    endpoints : addresses with their flags; None if they could not be read.
    limits : further subflows of a connection, and addresses accepted; None if they could not be read.
    end : what its kernel's path manager goes by; None if that could not be read.
    memory_bytes : MemAvailable; None if it is unknown.
    policies : content of the file with the daemon's policies; None if there is none, or it was not asked for.
    """

    sysctls: Mapping[str, str] = {}
    interfaces: tuple[dict[str, Any], ...] = ()
    rules: tuple[dict[str, Any], ...] = ()
    congestion_controls: tuple[str, ...] = ()
    endpoints: Mapping[str, tuple[str, ...]] | None = None
    limits: tuple[int, int] | None = None
    end: End | None = None
    memory_bytes: int | None = None
    policies: str | None = None

    def device(self, interface: Interface) -> dict[str, Any] | None:
        """The device of an interface: by its name, or by an address."""
        given = {str(ip_address(text)) for text in (interface.ipv4, interface.ipv6) if text is not None}
        for row in self.interfaces:
            if row["device"] == interface.device:
                return row
        if interface.device is not None:
            return None
        return next((row for row in self.interfaces if given & set(addresses(row))), None)


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """Intended configuration of a host.

    Attributes
    ----------
    opens : it opens connections.
    limits : further subflows, and addresses accepted; None leaves them alone.
    family : of all addresses, unless there are both.
    endpoints : index of an interface, family of the address, and flags.
    cc : congestion control; None leaves it alone.
    leaves_by : indices of the interfaces that carry or wait, and over which family.
    sends : it sends the data.
    raises : the limit of its buffer is no part of the answer: it is only ever raised.
    notes : what has to be known, whatever the machine is like.
    sysctls : settings of both hosts, by name.
    policy : what its daemon gets; None without one.
    daemons : its path manager is its own business, or its daemon's.
    dual : there are addresses of both families.
    """

    file: str
    site: Site
    other: Site
    family: str
    opens: bool
    limits: tuple[int, int] | None
    endpoints: tuple[tuple[int, str, tuple[str, ...]], ...]
    cc: str | None
    leaves_by: tuple[tuple[int, str], ...]
    sends: bool
    buffer_mode: str
    buffer_bytes: int
    raises: bool = False
    notes: tuple[str, ...] = ()
    sysctls: Mapping[str, str] = {}
    policy: Policy | None = None
    daemons: bool = False
    dual: bool = False


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """Settings with a sentence for each, and notes.

    Attributes
    ----------
    unread : what they depend on and nobody has read on the machine: sysctls by their names, routes.
    """

    settings: tuple[Setting, ...]
    why: tuple[str, ...]
    notes: tuple[str, ...]
    unknown: tuple[Unknown, ...]
    unread: tuple[str, ...]


def addresses(device: Mapping[str, Any], family: str | None = None) -> list[str]:
    """Addresses of a device that others can reach, of a family or of both."""
    candidates = [ip_address(address["ip"].partition("%")[0]) for address in device["addresses"]]
    version = {"ipv4": 4, "ipv6": 6}.get(family or "")
    return [
        str(candidate)
        for candidate in candidates
        if not candidate.is_link_local and version in (None, candidate.version)
    ]


def own_addresses(interface: Interface, present: Present) -> dict[str, str]:
    """Its own addresses on the machine, by family."""
    device = present.device(interface)
    own: dict[str, str] = {}
    for family in FAMILIES:
        given = interface.address(family)
        there = [] if device is None else addresses(device, family)
        text = None if given is None else str(ip_address(given))
        if text is not None and (text in there or device is None):
            own[family] = text
        elif there:
            own[family] = there[0]
    return own


def settings(intent: Intent, present: Present | None) -> Made:
    """The settings of a host, as far as it is known."""
    maker = _Maker(intent, present)
    made = list(maker.made())
    return Made(
        settings=tuple(row for row, _ in made),
        why=tuple(why for _, why in made),
        notes=(*intent.notes, *maker.notes),
        unknown=tuple(maker.unknown.values()),
        unread=tuple(dict.fromkeys(maker.unread)),
    )


def sysctl(name: str, value: str) -> Setting:
    """The setting of a sysctl."""
    return {"kind": "sysctl", "name": name, "value": value}


#: A setting, and why it is made.
_Made = Iterator[tuple[Setting, str]]


class _Maker:
    def __init__(self, intent: Intent, present: Present | None) -> None:
        self._intent, self._present = intent, present or Present()
        self._is_read = present is not None
        self.notes: list[str] = []
        self.unknown: dict[str, Unknown] = {}
        self.unread: list[str] = []

    def made(self) -> _Made:
        intent = self._intent
        if intent.limits is not None or intent.policy is not None:
            yield sysctl("net.mptcp.enabled", "1"), "Programs that ask for MPTCP get it."
        if intent.limits is not None:
            if _PATH_MANAGER in self._present.sysctls and not intent.daemons:
                yield sysctl(_PATH_MANAGER, "kernel"), "The kernel manages paths, by the endpoints below."
            yield from self._limits(*intent.limits)
        elif intent.endpoints:
            raise ValueError("endpoints need limits")
        yield from self._endpoints()
        yield from self._congestion()
        yield from self._buffers()
        yield from self._timeouts()
        yield from self._policy()

    # MPTCP.

    def _timeouts(self) -> _Made:
        for name, value in self._intent.sysctls.items():
            yield sysctl(name, value), _WHY.get(name, "As in the trials of the answer.")

    def _policy(self) -> _Made:
        policy = self._intent.policy
        if policy is None:
            return
        own = [
            own_addresses(each_interface, self._present) for each_interface in self._intent.site.interfaces
        ]
        if all(own):
            yield from settings_of_policy(policy, own, self._present.policies, self._intent.site.name)
            return
        for interface, address in zip(self._intent.site.interfaces, own, strict=True):
            if not address:
                family = self._intent.family
                self._placeholder(interface, family, read=self._present.device(interface) is not None)

    def _limits(self, further: int, accepted: int) -> _Made:
        if not self._intent.opens:
            # Who only accepts needs room: connections with others may need more.
            if (now := self._present.limits) is None:
                self.unread.append("the MPTCP limits")
            else:
                further, accepted = max(further, now[0]), max(accepted, now[1])
        limits = {"kind": "limits", "subflows": further, "add_addr_accepted": accepted}
        if self._intent.opens:
            number = f"{further} subflow{'' if further == 1 else 's'} beside the first"
            heard = f", and accepts {accepted} more announced addresses" if accepted else ""
            yield limits, f"A connection opens {number if further else 'no subflow beside the first'}{heard}."
        else:
            yield limits, f"A connection may be joined by {further} subflow{'' if further == 1 else 's'}."

    def _endpoints(self) -> _Made:
        for index, family, endpoint in self._intent.endpoints:
            interface = self._intent.site.interfaces[index]
            address = self._address(interface, family, announced="signal" in endpoint)
            device = self._device(interface)
            yield (
                {"kind": "endpoint", "address": address, "device": device, "flags": list(endpoint)},
                _of_endpoint(self._named(interface, family), endpoint, self._intent.other),
            )

    def _named(self, interface: Interface, family: str) -> str:
        """An interface in a sentence, with the family of an address where there are two."""
        return interface.abbr + (over(family) if self._intent.dual else "")

    def _device(self, interface: Interface) -> str | None:
        if interface.device is not None:
            return interface.device
        device = self._present.device(interface)
        return None if device is None else str(device["device"])

    def _address(self, interface: Interface, family: str, *, announced: bool = False) -> str:
        """Its own address, or where others reach it; a placeholder if neither is known."""
        given = interface.address(family)
        device = self._present.device(interface)
        own = [] if device is None else addresses(device, family)
        if given is not None:
            given = str(ip_address(given))
            if announced or not own or given in own:
                return str(given)
        if own:
            if given is not None:
                self.notes.append(
                    f"{interface.abbr} is behind an address translation: {given} outside, {own[0]} here."
                )
            return own[0]
        return self._placeholder(interface, family, read=device is not None)

    def _placeholder(self, interface: Interface, family: str, *, read: bool) -> str:
        abbr, name = interface.abbr, family.replace("ip", "IP")
        text = f"<{family} of {abbr}>"
        key = f"sites.{self._intent.site.abbr}.interfaces.{abbr}.{family}"
        expected = f"expected an {name} address, as the answer is for {name}"
        if read:
            expected += f": {interface.device} has none"
        elif interface.device is None:
            expected += "; `mptune probe` writes it, and the device"
        elif self._is_read:
            expected += f": there is no device {interface.device}"
        else:
            expected += f", or a machine to read it from: {interface.device} was not read"
        self.unknown[text] = Unknown(
            placeholder=text,
            file=self._intent.file,
            key=key,
            expected=expected,
            readable=interface.device is not None and not self._is_read,
        )
        return text

    # Congestion control.

    def _congestion(self) -> _Made:
        cc = self._intent.cc
        if cc is None:
            return
        name = self._kernel_name(cc)
        if name != cc:
            program = base64.b64encode((bpf.OBJECTS / f"{cc}.bpf.o").read_bytes()).decode()
            here = "This kernel lacks" if self._present.congestion_controls else "Kernels lack"
            yield (
                {"kind": "congestion", "name": name, "object": program},
                f"{here} {cc}; it becomes a BPF program, which stays registered.",
            )
        elif name == cc and cc not in (*_EVERYWHERE, *self._present.congestion_controls):
            self.notes.append(
                f"{cc} is taken from the kernel's module tcp_{cc}; without it the kernel refuses."
            )
        if self._present.sysctls.get(_DEFAULT_CC) == name:
            self.notes.append(f"{name} is what every connection has here anyway ({_DEFAULT_CC}).")
        yield from self._by_route(name)

    def _kernel_name(self, cc: str) -> str:
        """Its name there: the kernel's own, or that of its BPF program."""
        if cc in self._present.congestion_controls or cc in _EVERYWHERE or bpf.lacking(cc) is not None:
            return cc
        return bpf.registered_name(cc)

    def _by_route(self, name: str) -> _Made:
        """By the routes to the other site where there are any, otherwise for the whole host."""
        ends = [(self._intent.site.interfaces[index], family) for index, family in self._intent.leaves_by]
        routes = [self._route(*end, name) for end in ends]
        if any(row is None for row in routes):
            without = [self._named(*end) for end, route in zip(ends, routes, strict=True) if route is None]
            yield (
                sysctl(_DEFAULT_CC, name),
                f"For the whole host: no route leads to {self._intent.other.name} by {', '.join(without)}, "
                "to which it could be given alone.",
            )
            return
        seen: list[Setting] = []
        for (interface, family), route in zip(ends, routes, strict=True):
            if route is None or route in seen:
                continue
            seen.append(route)
            if self._present.device(interface) is None:
                reach = "; which route that is, only the machine knows"
            elif route["to"] in _EVERYWHERE_TO.values():
                reach = ", and to everywhere else by this route"
            else:
                reach = ", and to nobody else"
            by = self._named(interface, family)
            yield route, f"{name} to {self._intent.other.name} by {by}{reach}."

    def _route(self, interface: Interface, family: str, name: str) -> Setting | None:
        """The route by which an interface reaches the other site; None if there is none."""
        device = self._present.device(interface)
        device_name = self._device(interface)
        if device_name is None:
            device_name = f"<device of {interface.abbr}>"
            key = f"sites.{self._intent.site.abbr}.interfaces.{interface.abbr}.device"
            self.unknown[device_name] = Unknown(
                placeholder=device_name,
                file=self._intent.file,
                key=key,
                expected='expected a network device such as "eth1", whose route gets the congestion control',
            )
        route = {
            "kind": "route",
            "to": _EVERYWHERE_TO[family],
            "table": _MAIN,
            "via": None,
            "device": device_name,
            "congctl": name,
        }
        if device is None:
            self.unread.append(f"the route by {interface.abbr}")
            return route
        if (net := self._connected(device, family)) is not None:
            return {**route, "to": net}
        table = self._table(interface, device, family)
        matching = [
            default_route for default_route in device["default_routes"] if default_route["family"] == family
        ]
        exact = [entry for entry in matching if entry["table"] == table]
        if not exact:
            return None
        best = min(exact, key=lambda entry: int(entry["metric"]))
        return {**route, "table": best["table"], "via": best["via"]}

    def _connected(self, device: Mapping[str, Any], family: str) -> str | None:
        """The device's own network, if the other site is in it."""
        others = [interface.address(family) for interface in self._intent.other.interfaces]
        for address in device["addresses"]:
            network = ip_interface(f"{address['ip'].partition('%')[0]}/{address['prefix']}").network
            if any(text is not None and ip_address(text) in network for text in others):
                return str(network)
        return None

    def _table(self, interface: Interface, device: Mapping[str, Any], family: str) -> int:
        """The table that is asked for packets from its address."""
        own = ip_address(next(iter(addresses(device, family)), interface.address(family) or "::"))
        for rule in self._present.rules:
            source = rule.get("from")
            if rule["family"] != family or source is None or rule["table"] == 255:
                continue
            if own in ip_network(source, strict=False):
                return int(rule["table"])
        return _MAIN

    # Buffers.

    def _buffers(self) -> _Made:
        buffer_bytes, sends = self._intent.buffer_bytes, self._intent.sends
        side = "send" if sends else "receive"
        if self._intent.buffer_mode == FIXED:
            # What programs ask for is cut down to this without a word.
            name = f"net.core.{'w' if sends else 'r'}mem_max"
            yield (
                sysctl(name, self._at_least(name, buffer_bytes)),
                f"Programs may ask for a {side} buffer of {buffer_bytes} bytes.",
            )
            return
        name = f"net.ipv4.tcp_{'w' if sends else 'r'}mem"
        yield (
            sysctl(name, self._limit(name, buffer_bytes)),
            f"The largest {side} buffer, up to which the kernel lets it grow; smallest and first size stay.",
        )
        if not sends:
            yield sysctl("net.ipv4.tcp_moderate_rcvbuf", "1"), "Receive buffers grow by themselves."

    def _at_least(self, name: str, buffer_bytes: int) -> str:
        """A value that is only ever raised."""
        now = self._present.sysctls.get(name)
        if now is None:
            self.unread.append(name)
            return f">={buffer_bytes}"
        return str(max(int(now), buffer_bytes))

    def _limit(self, name: str, buffer_bytes: int) -> str:
        """Smallest and first size as they are, none above the limit."""
        now = self._present.sysctls.get(name)
        if now is None:
            self.unread.append(name)
            return f"* * {buffer_bytes}"
        if self._intent.raises:
            buffer_bytes = max(buffer_bytes, int(now.split()[2]))
        lower = [min(int(text), buffer_bytes) for text in now.split()[:2]]
        return " ".join(map(str, (*lower, buffer_bytes)))


def _of_endpoint(abbr: str, row: Sequence[str], other: Site) -> str:
    """Why an interface has an endpoint with these flags."""
    name = other.name
    if "signal" in row:
        return f"{name} learns that it can be reached by {abbr} too."
    if "backup" in row:
        return f"{abbr} is joined and waits: it carries data only when every active subflow fails."
    if "laminar" in row:
        return f"{abbr} joins to one address that {name} announces, unless another one does."
    if "fullmesh" in row:
        return f"{abbr} joins to every address of {name}."
    return f"{abbr} joins to the address of {name} on which the connection began."
