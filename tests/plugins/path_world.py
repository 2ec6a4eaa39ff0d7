"""Namespaces joined by a router, any pair of interfaces a path, for the tests of path managers.

No emulator: queueing disciplines set the rates, and a path is cut by a rule of the router that swallows it.
"""

import hashlib
import ipaddress
import os
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyroute2

from mptune.errors import TrialError
from mptune.linux import addresses, assignment
from mptune.linux.assignment import SATURATED, Assignment, KernelPath
from mptune.linux.sandbox.namespaces import Sites
from mptune.linux.sandbox.processes import Child
from mptune.linux.talker import Message
from tests.plugins import shaping
from tests.plugins.needs import Thing
from tests.plugins.netlink import NETLINK_GENERIC, Netlink, attributes, inside
from tests.plugins.waiting import PATIENCE_S, until

KIB = 1024
MBIT = 1_000_000

NTF_PROXY = 8  # include/uapi/linux/neighbour.h
#: Of each of the sender's interfaces, bytes.
QUEUE = 60_000


class World:
    """Two sites of several interfaces each, 20 Mbit/s and a few microseconds per path."""

    def __init__(self, interfaces: int, stack: ExitStack) -> None:
        self.sites = stack.enter_context(Sites())
        self.router = stack.enter_context(Sites()).local
        self.named = {
            side: [addresses.interface(side, number) for number in range(interfaces)]
            for side in addresses.SIDES
        }
        self.paths = tuple(
            KernelPath(
                label=f"{local.index}-{remote.index}",
                local=local.index,
                remote=remote.index,
                pairs=((local.ipv4, remote.ipv4), (local.ipv6, remote.ipv6)),
            )
            for local in self.named["local"]
            for remote in self.named["remote"]
        )
        inside(self.router, self._set_up_router)
        self.sites.configure(self.named)
        inside(self.sites.local, self._limit_rates)

    def _set_up_router(self) -> None:
        """One device per interface, which answers for everything that is behind the others."""
        for name in (
            "ipv4/ip_forward",
            "ipv4/conf/default/proxy_arp",
            "ipv6/conf/all/forwarding",
            "ipv6/conf/default/proxy_ndp",
        ):
            Path("/proc/sys/net", name).write_text("1", encoding="ascii")
        # Its devices need an IPv6 address of their own to answer from.
        Path("/proc/sys/net/ipv6/conf/default/addr_gen_mode").write_text("0", encoding="ascii")
        with pyroute2.IPRoute() as routes:
            # Without any address of its own the kernel takes every neighbour for broadcast.
            routes.link("set", index=1, state="up")
            for side, named in self.named.items():
                behind = [other.ipv6 for other in self._interfaces() if other.side != side]
                for interface in named:
                    self._join(routes, interface, self.sites.of(side), behind)

    def _interfaces(self) -> Iterator[addresses.NamespaceInterface]:
        for named in self.named.values():
            yield from named

    @staticmethod
    def _join(routes: Any, interface: addresses.NamedInterface, namespace: str, behind: list[str]) -> None:
        name = f"{interface.side}{interface.index}"
        descriptor = os.open(namespace, os.O_RDONLY)
        try:
            peer = {"ifname": interface.device, "net_ns_fd": descriptor}
            routes.link("add", ifname=name, kind="veth", peer=peer)
        finally:
            os.close(descriptor)
        for family in ("ipv4", "ipv6"):
            Path(f"/proc/sys/net/{family}/neigh/{name}/proxy_delay").write_text("0", encoding="ascii")
        index = routes.link_lookup(ifname=name)[0]
        routes.link("set", index=index, state="up")
        routes.route("add", dst=f"{interface.ipv4}/32", oif=index)
        routes.route("add", dst=f"{interface.ipv6}/128", oif=index, family=socket.AF_INET6)
        for address in behind:
            routes.neigh("add", dst=address, ifindex=index, flags=NTF_PROXY, family=socket.AF_INET6)

    def _limit_rates(self) -> None:
        with pyroute2.IPRoute() as routes:
            for interface in self.named["local"]:
                shaping.limit(routes, interface.device, 20 * MBIT, burst=16_000, queue=QUEUE)

    def clog(self, number: int) -> None:
        """Lower the rate of one of the sender's interfaces to 1 Mbit/s, and fill half its queue."""
        interface, remote = self.named["local"][number], self.named["remote"][0]

        def fill() -> None:
            with pyroute2.IPRoute() as routes:
                shaping.limit(routes, interface.device, MBIT, burst=2_000, queue=QUEUE, command="change")
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.bind((interface.ipv4, 0))
                for _ in range(QUEUE // 2 // 1000):
                    sender.sendto(bytes(1000), (remote.ipv4, 9))

        inside(self.sites.local, fill)

    def _rule(self, command: str, path: str) -> None:
        local, remote = next(known for known in self.paths if known.label == path).pairs[0]
        ends = {"src": local, "src_len": 32, "dst": remote, "dst_len": 32}

        def change() -> None:
            with pyroute2.IPRoute() as routes:
                routes.rule(command, action="blackhole", priority=1, **ends)

        inside(self.router, change)

    @contextmanager
    def cut(self, *paths: str) -> Iterator[None]:
        """Swallow what the sender sends on these paths, inside the block."""
        for path in paths:
            self._rule("add", path)
        try:
            yield
        finally:
            for path in paths:
                self._rule("del", path)

    def sysctl(self, side: addresses.Side, value: str) -> None:
        """Choose who manages paths at a site."""
        setting = Path("/proc/sys/net/mptcp/path_manager")
        inside(self.sites.of(side), lambda: setting.write_text(value, encoding="ascii"))

    def sender(self, pm: str, **options: Any) -> Child:
        """The sender's side of path management with its assignment, from options of all parts of it."""
        size, honoured = options.pop("transfer_bytes", SATURATED), options.pop("lsrr_honoured", False)
        ports = options.pop("ports", [])
        assigned = Assignment(
            pm=pm, paths=self.paths, transfer_bytes=size, pm_options=options, lsrr_honoured=honoured
        )
        child = self.sites.start_agent("paths", "local")
        child.tell({"side": "sender", "assignment": assignment.document(assigned), "ports": ports})
        return child

    def receiver(self, ports: Sequence[int] = ()) -> Child:
        """The receiver's side."""
        child = self.sites.start_agent("paths", "remote")
        child.tell({"side": "receiver", "ports": list(ports)})
        return child

    @contextmanager
    def managed(self, pm: str, **options: Any) -> Iterator["Managed"]:
        """Managers of the sender's and the receiver's connections."""
        ports = options.get("ports", ())
        with self.sender(pm, **options) as sender, self.receiver(ports) as receiver:
            for child in (sender, receiver):
                child.expect("ready", PATIENCE_S)
            yield Managed(sender, receiver)

    @contextmanager
    def transfer(self, **options: Any) -> Iterator["Transfer"]:
        """A connection that sends until the block ends."""
        transfer = Transfer(self.sites, **options)
        try:
            yield transfer
        finally:
            transfer.end()


def remove(world: World, number: int) -> None:
    """Take a device of the sender away, with its addresses and routes."""

    def delete() -> None:
        with pyroute2.IPRoute() as routes:
            routes.link("del", index=routes.link_lookup(ifname=f"local{number}")[0])

    inside(world.router, delete)


def bring(world: World, interface: addresses.NamespaceInterface) -> None:
    """Make a device of the sender again."""
    behind = [other.ipv6 for other in world.named["remote"]]

    def join() -> None:
        with pyroute2.IPRoute() as routes:
            world._join(routes, interface, world.sites.of("local"), behind)
            for other in world.named["remote"]:
                index = routes.link_lookup(ifname=f"remote{other.index}")[0]
                routes.neigh(
                    "add", dst=interface.ipv6, ifindex=index, flags=NTF_PROXY, family=socket.AF_INET6
                )

    inside(world.router, join)
    world.sites.configure({"local": [interface]})


class Stream:
    """An MPTCP connection on path 0-0, by Cubic, both of whose ends are at work until it is to end.

    What they do is in `_send` and `_receive`, each in a thread of its own.
    """

    #: The sender's socket is of IPv6 alone.
    _six_only = False

    def __init__(
        self,
        sites: Sites,
        *,
        ends: tuple[str, str] = ("10.64.0.1", "10.65.0.1"),
        listen: str | None = None,
        port: int = 0,
        buffers: tuple[int, int] = (256 * KIB, 256 * KIB),
    ) -> None:
        """`buffers`: to send and to receive, of both sockets; `listen`: an address, if not the other end."""
        local, remote = ends
        self._listener = self._socket(sites.remote, remote if listen is None else listen, buffers)
        self._listener.bind((remote if listen is None else listen, port))
        self._listener.listen()
        self._sender = self._socket(sites.local, local, buffers)
        if self._six_only:
            self._sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        self._sender.bind((local, 0))
        self._sender.connect((remote, self._listener.getsockname()[1]))
        self._receiver, _ = self._listener.accept()
        self._more = True
        self._threads = [threading.Thread(target=self._send), threading.Thread(target=self._receive)]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def _socket(namespace: str, address: str, buffers: tuple[int, int]) -> socket.socket:
        def make() -> socket.socket:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
            for option, size in zip((socket.SO_SNDBUF, socket.SO_RCVBUF), buffers, strict=True):
                made.setsockopt(socket.SOL_SOCKET, option, size)
            return made

        return inside(namespace, make)

    def _send(self) -> None:
        raise NotImplementedError

    def _receive(self) -> None:
        raise NotImplementedError

    def end(self) -> None:
        """Finish the stream."""
        self._more = False
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "the stream does not end"
        for process in (self._sender, self._receiver, self._listener):
            process.close()


class Transfer(Stream):
    """A connection whose sender always has more, and whose bytes are compared."""

    def __init__(
        self,
        sites: Sites,
        *,
        ipv6: bool = False,
        mapped: bool = False,
        six_only: bool = False,
        listen_everywhere: bool = True,
        accepts_both: bool = False,
        port: int = 0,
    ) -> None:
        """`mapped`: IPv4 in sockets of IPv6; `accepts_both`: only the listening one is of IPv6."""
        self._six_only = six_only
        ends = ("fd64::1", "fd65::1") if ipv6 else ("10.64.0.1", "10.65.0.1")
        if mapped:
            ends = ("::ffff:10.64.0.1", "::ffff:10.65.0.1")
        everywhere = "::" if ipv6 or mapped or accepts_both else "0.0.0.0"
        self.received = 0
        self._sent_hash, self._received_hash = hashlib.blake2b(), hashlib.blake2b()
        super().__init__(sites, ends=ends, listen=everywhere if listen_everywhere else None, port=port)

    def _send(self) -> None:
        number = 0
        while self._more:
            number += 1
            data = number.to_bytes(8, "big") * 2048
            self._sender.sendall(data)
            self._sent_hash.update(data)
        self._sender.shutdown(socket.SHUT_WR)

    def _receive(self) -> None:
        while data := self._receiver.recv(1 << 16):
            self.received += len(data)
            self._received_hash.update(data)

    def more(self, count: int) -> None:
        """Wait until this many more bytes have arrived."""
        before = self.received
        until(lambda: self.received >= before + count)

    def end(self) -> None:
        """Finish the stream; all that was sent must have come, once and in order."""
        super().end()
        assert self._received_hash.digest() == self._sent_hash.digest()


class Managed:
    """Both sides' managers, with the kernel's view of the subflows beside their own."""

    def __init__(self, sender: Child, receiver: Child) -> None:
        self.sender, self.receiver = sender, receiver

    def do(self, action: str, path: str) -> None:
        """Change how a path is used; done when this returns."""
        self.sender.tell({"action": action, "path": path})
        self.reports()

    def sent(self, count: int) -> None:
        """Report how many bytes were really sent."""
        self.sender.tell({"action": "sent", "bytes": count})

    def reports(self) -> list[Message]:
        """Of all connections."""
        connections: list[Message] = ask(self.sender)["connections"]
        return connections

    def report(self) -> Message:
        """Of the only connection, or the last."""
        reports: list[Message] = until(self.reports)
        return reports[-1]

    def established(self, count: int) -> list[Message]:
        """Wait for this many subflows; their ends."""

        def pairs() -> list[Message]:
            return [
                subflow["pair"] for subflow in self.report()["subflows"] if subflow["state"] == "established"
            ]

        (found,) = until(lambda: (found,) if len(found := pairs()) == count else None)
        return found

    def kernel(self) -> list[tuple[str, Message]]:
        """Label of the path and statistics of every subflow that is established in the kernel."""
        subflows = self.report()["subflows"]
        return [(subflow["path"], subflow["kernel"]) for subflow in subflows if subflow["kernel"] is not None]

    def acked(self) -> dict[str, int]:
        """Payload bytes that were acknowledged, by path."""
        acked: dict[str, int] = {}
        for path, statistics in self.kernel():
            acked[path] = acked.get(path, 0) + statistics["acked_bytes"] - 1
        return acked

    def standby(self) -> set[str]:
        """Paths whose subflows are standby in the kernel."""
        return {path for path, statistics in self.kernel() if statistics["backup"]}


@contextmanager
def connections(world: World, count: int, listens_at: str = "0.0.0.0") -> Iterator[None]:
    """So many on path 0-0, each with a byte sent, which establishes it fully."""

    def make(site: addresses.Side) -> socket.socket:
        kind = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
        return inside(world.sites.of(site), lambda: socket.socket(*kind))

    with ExitStack() as stack:
        listener = stack.enter_context(make("remote"))
        listener.bind((listens_at, 0))
        listener.listen()
        for _ in range(count):
            sender = stack.enter_context(make("local"))
            sender.bind(("10.64.0.1", 0))
            sender.connect(("10.65.0.1", listener.getsockname()[1]))
            receiver = stack.enter_context(listener.accept()[0])
            sender.sendall(b"x")
            receiver.recv(1)
        yield


class Event(NamedTuple):
    """An event of a site's kernel (include/uapi/linux/mptcp_pm.h): its kind, and attributes by number."""

    kind: int
    attributes: dict[int, bytes]

    def number(self, attribute: int) -> int:
        """The value of a one-byte attribute."""
        return self.attributes[attribute][0]

    def address(self, attribute: int) -> str:
        """The value of an attribute that is an IPv4 address."""
        return str(ipaddress.IPv4Address(self.attributes[attribute]))


# enum mptcp_event_type
ANNOUNCED, REMOVED, SUB_ESTABLISHED, SUB_CLOSED, SUB_PRIORITY = 6, 7, 10, 11, 13
# enum mptcp_event_attr
TOKEN, LOC_ID, REM_ID, SADDR4, DADDR4, SPORT, DPORT, BACKUP = 1, 3, 4, 5, 7, 9, 10, 11


def attribute(kind: int, value: bytes) -> bytes:
    """An attribute with its padding."""
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


class Listening(Netlink):
    """The events of a site, read apart from the managers."""

    # include/uapi/linux/genetlink.h
    _CONTROLLER, _GET_FAMILY, _FAMILY, _NAME, _GROUPS, _GROUP_ID = 16, b"\x03\x01\0\0", 1, 2, 7, 2

    def __init__(self, namespace: str) -> None:
        super().__init__(namespace, NETLINK_GENERIC)
        self._pending: list[Event] = []
        name = attribute(self._NAME, b"mptcp_pm\0")
        (family,) = self.request("mptcp_pm", self._GET_FAMILY + name, self._CONTROLLER, 0)
        (self._family,) = struct.unpack("=H", attributes(family, 20)[self._FAMILY])
        for group in attributes(attributes(family, 20)[self._GROUPS]).values():
            fields = attributes(group)
            if b"mptcp_pm_events\0" in fields.values():
                self.join(*struct.unpack("=I", fields[self._GROUP_ID]))

    def next(self, kind: int) -> Event:
        """Wait for the next event of a kind; those before it are of no interest."""

        def next_of_kind() -> Event | None:
            self._pending.extend(Event(message[16], attributes(message, 20)) for message in self.take())
            while self._pending:
                event = self._pending.pop(0)
                if event.kind == kind:
                    return event
            return None

        return until(next_of_kind, f"event {kind}")

    def destroy(self, subflow: Event) -> None:
        """Close the subflow that an event was about (MPTCP_PM_CMD_SUBFLOW_DESTROY)."""

        def end(address: int, port: int) -> bytes:
            (number,) = struct.unpack("!H", subflow.attributes[port])
            family = attribute(1, struct.pack("=H", socket.AF_INET))
            return (
                family + attribute(3, subflow.attributes[address]) + attribute(5, struct.pack("=H", number))
            )

        nested = 0x8000
        body = attribute(4, subflow.attributes[TOKEN])
        body += attribute(nested | 1, end(SADDR4, SPORT)) + attribute(nested | 6, end(DADDR4, DPORT))
        self.request("end of a subflow", b"\x0b\x01\0\0" + body, self._family, 0)


def ended(child: Child) -> bool:
    """Its output has ended, whatever it has printed before."""
    child.take()
    return child.ended


def ask(child: Child) -> Message:
    """A manager's report now."""
    child.tell({"action": "report"})
    return child.expect("report", PATIENCE_S)


def lacking() -> Thing | None:
    """Needs of these tests that this machine lacks."""
    try:
        with Sites() as sites:
            if sites.user is not None:  # the tests enter the namespaces themselves
                return Thing("root", "root")
            inside(sites.local, lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).close())
            with sites.start_agent("paths", "remote") as child:
                child.tell({"side": "receiver"})
                child.expect("ready", PATIENCE_S)
                return None
    except (TrialError, OSError) as error:
        return Thing(str(error), "elsewhere")
