"""A machine's uplink: the link to its provider's router, and what the router does to packets.

Between the routers is mptune's own emulator, which gives rates, delays, queues and losses.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from tests.hosts.machine import STEP_S, Machine

#: What a router can do besides routing, by name:
#: strips: MPTCP options disappear from every packet; the connection is plain TCP from the beginning.
#: strips-later: they disappear after the handshakes (the DSS option, without which no data is MPTCP's).
#: mirrors: they disappear, and the sender of a SYN with MP_CAPABLE gets its own option back in the SYN-ACK.
#: drops-syn: a SYN with MPTCP options is swallowed.
#: refuses-joins: a SYN with MP_JOIN is answered by a reset.
#: dark: `DARK_AFTER_S` after the first SYN that it sees, everything is swallowed, for good.
#: black-hole: everything is swallowed.
#: icmp-blocked: nobody learns that a packet was too large; with a smaller `mtu` also of those that come in.
Middlebox = Literal[
    "strips", "strips-later", "mirrors", "drops-syn", "refuses-joins", "dark", "black-hole", "icmp-blocked"
]

#: How long a path lives that goes dark, whole seconds.
DARK_AFTER_S = 2

_SYN = "tcp flags & (syn | ack) == syn"
_FORWARD: dict[str, tuple[str, ...]] = {
    "strips": ("tcp option mptcp exists reset tcp option mptcp",),
    "strips-later": ("tcp option mptcp subtype 2 reset tcp option mptcp",),
    # The SYN-ACK's first option, the MSS, becomes MP_CAPABLE as Linux has it in a SYN: 30, 4, version, flags.
    # nftables corrects the checksum for the option's value alone; the urgent pointer makes up for its kind.
    "mirrors": (
        f"{_SYN} tcp option mptcp exists ct mark set 1 reset tcp option mptcp",
        "tcp flags & (syn | ack) == syn | ack ct mark 1 "
        "tcp option maxseg size set 0x0101 @th,160,16 set 0x1e04 @th,144,16 set 0xe3ff",
    ),
    "drops-syn": ("tcp flags & syn != 0 tcp option mptcp exists drop",),
    "refuses-joins": (f"{_SYN} tcp option mptcp subtype 1 reject with tcp reset",),
    # A set needs a key: the mark, which no packet has.
    "dark": (
        f"{_SYN} meta mark != @began add @alive {{ meta mark }} add @began {{ meta mark }}",
        "meta mark @began meta mark != @alive drop",
    ),
    "black-hole": ("drop",),
    "icmp-blocked": ("icmp type destination-unreachable drop", "icmpv6 type packet-too-big drop"),
}


@dataclass(frozen=True)
class Uplink:
    """A machine's line to a provider.

    Attributes
    ----------
    up_mbps, down_mbps : rates, IP packets included.
    delay_ms : one way, of the access link; the RTT of a path is twice the sum of both ends'.
    queue_bytes : in both directions.
    loss : share of the packets lost, in both directions.
    families : what is routed.
    mtu : of the way behind the router, for what the machine sends; its own device has 1500.
    nat : the machine has a private IPv4 address, which the router rewrites.
    middlebox : what the router does from the beginning.
    """

    up_mbps: float = 20.0
    down_mbps: float = 20.0
    delay_ms: float = 5.0
    queue_bytes: int = 100_000
    loss: float = 0.0
    families: tuple[Literal["ipv4", "ipv6"], ...] = ("ipv4", "ipv6")
    mtu: int = 1500
    nat: bool = False
    middlebox: Middlebox | None = None


@dataclass(frozen=True)
class Transit:
    """A router behind those of several uplinks of a machine: its address for reports, and its namespace."""

    address: str
    netns: str

    def connect(self, netns: str, number: int, prefix: str, mtu: int) -> list[str]:
        """Join it with the router of an uplink; that router's own commands of ip(8)."""
        near, far = f"10.8.{number}.1", f"10.8.{number}.2"
        entered(self.netns, ["sysctl", "-q", "-w", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0"])
        entered(netns, ["ip", "link", "add", "wan", "type", "veth", "peer", "name", f"to{number}"])
        # The other end moves by a file descriptor of this namespace.
        entered(netns, ["ip", "link", "set", f"to{number}", "netns", self.netns])
        own = [] if number > 1 else ["link set lo up", f"address add {self.address}/32 dev lo"]
        batch(
            self.netns,
            [
                *own,
                f"link set to{number} up",
                f"link set wan{number} up mtu {mtu} txqueuelen 32768",
                f"address add {far}/30 dev to{number}",
                f"route add {prefix}.0/24 via {near} dev to{number} src {self.address}",
                # What comes from an uplink leaves by its device of the emulator.
                f"rule add iif to{number} lookup {number} priority {number}",
                f"route add default dev wan{number} table {number}",
            ],
        )
        return [f"address add {near}/30 dev wan", f"route add default via {far} dev wan"]


class Attachment:
    """An uplink that exists: a device of the machine, and the namespace of the router behind it.

    Attributes
    ----------
    device : the machine's, `eth1`, `eth2`, ...
    ipv4, ipv6 : the machine's own addresses; none of a family that is not routed.
    public : the IPv4 address that others see, another one behind NAT.
    netns : path of the router's network namespace; a stranger there is a neighbour of the machine.
    """

    def __init__(
        self,
        machine: Machine,
        side: Literal["local", "remote"],
        index: int,
        uplink: Uplink,
        netns: str,
        transit: Transit | None = None,
    ):
        self.transit = transit
        self.machine, self.side, self.index, self.uplink, self.netns = machine, side, index, uplink, netns
        self.device, self.table = f"eth{index + 1}", 101 + index
        site, v4, v6 = (1 if side == "local" else 2), "ipv4" in uplink.families, "ipv6" in uplink.families
        self.public = f"10.{site}.{index + 1}.2" if v4 else None
        self._prefix4 = f"192.168.{10 * site + index + 1}" if uplink.nat else f"10.{site}.{index + 1}"
        self._prefix6 = f"fd0{site}:0:{index + 1}:"
        self.ipv4 = f"{self._prefix4}.2" if v4 else None
        self.ipv6 = f"{self._prefix6}:2" if v6 else None

    def interface(self) -> dict[str, object]:
        """The device of its last router in the emulator's configuration."""
        netns, device = (
            (self.netns, "wan") if self.transit is None else (self.transit.netns, f"wan{self.index + 1}")
        )
        place = {"side": self.side, "index": self.index, "netns": netns, "device": device}
        return {**place, "ipv4": self.public, "ipv6": self.ipv6}

    def connect(self) -> None:
        """Join machine and router, and give the router, whose other device exists, its routes and rules."""
        uplink = self.uplink
        way = ["route add default dev wan"]
        if self.transit is not None:
            way = self.transit.connect(self.netns, self.index + 1, self._prefix4, uplink.mtu)
        lines = [
            f"link add lan type veth peer name {self.device} netns {self.machine.pid}",
            "link set lo up",
            "link set lan up",
            f"link set wan up mtu {uplink.mtu} txqueuelen 32768",
        ]
        if self.ipv4:
            lines += [f"address add {self._prefix4}.1/24 dev lan", *way]
        if self.ipv6:
            lines += [f"address add {self._prefix6}:1/64 dev lan nodad", "route add ::/0 dev wan"]
        if self.public != self.ipv4:
            lines.append(f"address add {self.public}/32 dev wan")
        # Until its link-local address is known to be unique, a router asks for nobody's hardware address.
        entered(self.netns, ["sysctl", "-q", "-w", "net.ipv6.conf.default.accept_dad=0"])
        batch(self.netns, lines)
        self.machine.cables.append((self.netns, "lan"))
        settings = ["net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.lan.rp_filter=0"]
        settings += ["net.ipv4.conf.wan.rp_filter=0", "net.ipv6.conf.all.forwarding=1"]
        entered(self.netns, ["sysctl", "-q", "-w", *settings])
        rules = ["add table inet box", *_chain("box")]
        if self.public != self.ipv4:
            rules += [
                "add table ip nat",
                "add chain ip nat out { type nat hook postrouting priority 100; }",
                "add rule ip nat out oifname wan masquerade",
            ]
        if uplink.middlebox is not None:
            rules += _rules("box", uplink.middlebox)
        if uplink.middlebox == "icmp-blocked":
            rules.append(f"add rule inet box forward iifname wan meta length > {uplink.mtu} drop")
        nft(self.netns, rules)

    def machine_lines(self, routing: str) -> list[str]:
        """The machine's commands for `ip -batch`."""
        lines = [f"link set {self.device} up"]
        for anywhere, address, prefix, length in (
            ("0.0.0.0/0", self.ipv4, self._prefix4 + ".", 24),
            ("::/0", self.ipv6, self._prefix6 + ":", 64),
        ):
            if address is None:
                continue
            nodad = " nodad" if ":" in address else ""
            lines.append(f"address add {address}/{length} dev {self.device}{nodad}")
            via = f"via {prefix}1 dev {self.device}"
            if self.index == 0 and routing != "wrong":
                lines.append(f"route add {anywhere} {via}")
            if routing == "source":
                lines.append(f"route add {prefix}0/{length} dev {self.device} table {self.table}")
                lines.append(f"route add {anywhere} {via} table {self.table}")
                lines.append(f"rule add from {address} lookup {self.table} priority {self.table}")
        return lines

    @contextmanager
    def middlebox(self, name: Middlebox) -> Iterator[None]:
        """Let the router do this to packets, inside the block."""
        nft(self.netns, ["add table inet later", *_chain("later"), *_rules("later", name)])
        try:
            yield
        finally:
            nft(self.netns, ["delete table inet later"])

    @contextmanager
    def rule(self, words: str) -> Iterator[None]:
        """A rule of nftables for what the router forwards, inside the block."""
        nft(
            self.netns,
            ["add table inet further", *_chain("further"), f"add rule inet further forward {words}"],
        )
        try:
            yield
        finally:
            nft(self.netns, ["delete table inet further"])


def _chain(table: str) -> list[str]:
    return [
        f"add chain inet {table} {hook} {{ type filter hook {hook} priority 0; }}"
        for hook in ("forward", "output")
    ]


def _rules(table: str, name: Middlebox) -> list[str]:
    alive = f"flags dynamic, timeout; timeout {DARK_AFTER_S}s; size 16;"
    sets = {"began": "flags dynamic; size 16;", "alive": alive}
    lines = [
        f"add set inet {table} {address} {{ type mark; {options} }}"
        for address, options in sets.items()
        if name == "dark"
    ]
    hooks = ("forward", "output") if name == "icmp-blocked" else ("forward",)
    return lines + [f"add rule inet {table} {hook} {rule}" for hook in hooks for rule in _FORWARD[name]]


def entered(netns: str, command: list[str], text: str = "") -> str:
    """Run a program of this machine in a network namespace, and return what it prints.

    Raises
    ------
    AssertionError : it fails.
    """
    done = subprocess.run(
        ["nsenter", f"--net={netns}", *command],
        input=text,
        capture_output=True,
        text=True,
        timeout=STEP_S,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}{text}"
    return done.stdout


def batch(netns: str, lines: list[str]) -> None:
    """Commands of ip(8)."""
    entered(netns, ["ip", "-batch", "-"], "\n".join(lines) + "\n")


def nft(netns: str, lines: list[str]) -> None:
    """Commands of nft(8), all or none."""
    entered(netns, ["nft", "-f", "-"], "\n".join(lines) + "\n")
