"""Path managers on the running kernel: namespaces joined by a router, any pair of interfaces a path.

No emulator: token buckets (tbf) set the rates, and a path is cut by a rule of the router that swallows it.
"""

import hashlib
import ipaddress
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyroute2
import pytest

from mptune.errors import TrialError
from mptune.linux import addresses, assignment
from mptune.linux.assignment import SATURATED, Assignment, KernelPath
from mptune.linux.sandbox.namespaces import STEP_S, Sites
from mptune.linux.sandbox.netlink import NETLINK_GENERIC, Netlink, attributes, inside
from mptune.linux.sandbox.processes import Child, Message
from tests.plugins.needs import Thing, lack
from tests.plugins.waiting import PATIENCE_S, until

KIB = 1024
MBIT = 1_000_000

NTF_PROXY = 8  # include/uapi/linux/neighbour.h
TBF_LIMIT = 60_000
#: include/net/tcp_states.h
SYN_SENT, TIME_WAIT = "02", "06"


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
                for one in named:
                    self._join(routes, one, self.sites.of(side), behind)

    def _interfaces(self) -> Iterator[addresses.NamedInterface]:
        for named in self.named.values():
            yield from named

    @staticmethod
    def _join(routes: Any, one: addresses.NamedInterface, namespace: str, behind: list[str]) -> None:
        name = f"{one.side}{one.index}"
        descriptor = os.open(namespace, os.O_RDONLY)
        try:
            peer = {"ifname": one.device, "net_ns_fd": descriptor}
            routes.link("add", ifname=name, kind="veth", peer=peer)
        finally:
            os.close(descriptor)
        for family in ("ipv4", "ipv6"):
            Path(f"/proc/sys/net/{family}/neigh/{name}/proxy_delay").write_text("0", encoding="ascii")
        index = routes.link_lookup(ifname=name)[0]
        routes.link("set", index=index, state="up")
        routes.route("add", dst=f"{one.ipv4}/32", oif=index)
        routes.route("add", dst=f"{one.ipv6}/128", oif=index, family=socket.AF_INET6)
        for address in behind:
            routes.neigh("add", dst=address, ifindex=index, flags=NTF_PROXY, family=socket.AF_INET6)

    def _limit_rates(self) -> None:
        with pyroute2.IPRoute() as routes:
            for one in self.named["local"]:
                index = routes.link_lookup(ifname=one.device)[0]
                routes.tc("add", "tbf", index, 0x10000, rate=20 * MBIT // 8, burst=16_000, limit=TBF_LIMIT)

    def clog(self, number: int) -> None:
        """Lower the rate of one of the sender's interfaces to 1 Mbit/s, and fill half its queue."""
        one, remote = self.named["local"][number], self.named["remote"][0]

        def fill() -> None:
            with pyroute2.IPRoute() as routes:
                index = routes.link_lookup(ifname=one.device)[0]
                routes.tc("change", "tbf", index, 0x10000, rate=MBIT // 8, burst=2_000, limit=TBF_LIMIT)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.bind((one.ipv4, 0))
                for _ in range(TBF_LIMIT // 2 // 1000):
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
        """The sender's side of path management, told what to do; options that are not the policy's apart."""
        size, honoured = options.pop("transfer_bytes", SATURATED), options.pop("lsrr_honoured", False)
        wanted = Assignment(
            pm=pm, paths=self.paths, transfer_bytes=size, pm_options=options, lsrr_honoured=honoured
        )
        child = self.sites.start_agent("paths", "local")
        child.tell({"side": "sender", "assignment": assignment.told(wanted)})
        return child

    def receiver(self) -> Child:
        """The receiver's side."""
        child = self.sites.start_agent("paths", "remote")
        child.tell({"side": "receiver"})
        return child

    @contextmanager
    def managed(self, pm: str, **options: Any) -> Iterator["Managed"]:
        """Managers of the sender's and the receiver's connections."""
        with self.sender(pm, **options) as sender, self.receiver() as receiver:
            for child in (sender, receiver):
                child.expect("ready", STEP_S)
            yield Managed(sender, receiver)

    @contextmanager
    def transfer(self, **options: Any) -> Iterator["Transfer"]:
        """A connection that sends until the block ends."""
        transfer = Transfer(self.sites, **options)
        try:
            yield transfer
        finally:
            transfer.end()


class Transfer:
    """An MPTCP connection on path 0-0 whose sender always has more, and whose bytes are compared."""

    def __init__(
        self, sites: Sites, *, ipv6: bool = False, mapped: bool = False, listen_everywhere: bool = True
    ) -> None:
        ipv6 |= mapped
        family = socket.AF_INET6 if ipv6 else socket.AF_INET
        local, remote = ("fd64::1", "fd65::1") if ipv6 else ("10.64.0.1", "10.65.0.1")
        if mapped:
            local, remote = "::ffff:10.64.0.1", "::ffff:10.65.0.1"
        everywhere = "::" if ipv6 else "0.0.0.0"
        self._listener = self._socket(sites.remote, family)
        self._listener.bind((everywhere if listen_everywhere else remote, 0))
        self._listener.listen()
        port = self._listener.getsockname()[1]
        self._sender = self._socket(sites.local, family)
        self._sender.bind((local, 0))
        self._sender.connect((remote, port))
        self._receiver, _ = self._listener.accept()
        self._more = True
        self.received = 0
        self._sent_hash, self._received_hash = hashlib.blake2b(), hashlib.blake2b()
        self._threads = [threading.Thread(target=self._send), threading.Thread(target=self._receive)]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def _socket(namespace: str, family: socket.AddressFamily) -> socket.socket:
        def make() -> socket.socket:
            made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                made.setsockopt(socket.SOL_SOCKET, option, 256 * KIB)
            return made

        return inside(namespace, make)

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
        """Wait until so many bytes more have arrived."""
        before = self.received
        until(lambda: self.received >= before + count)

    def end(self) -> None:
        """Finish the stream; all that was sent must have come, once and in order."""
        self._more = False
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "the stream does not end"
        for one in (self._sender, self._receiver, self._listener):
            one.close()
        assert self._received_hash.digest() == self._sent_hash.digest()


class Managed:
    """Both sides' managers, with what the kernel says of the subflows apart from what they believe."""

    def __init__(self, sender: Child, receiver: Child) -> None:
        self.sender, self.receiver = sender, receiver

    def do(self, action: str, path: str) -> None:
        """Change how a path is used; done when this returns."""
        self.sender.tell({"action": action, "path": path})
        self.reports()

    def sent(self, count: int) -> None:
        """Tell how many bytes were really sent."""
        self.sender.tell({"action": "sent", "bytes": count})

    def reports(self) -> list[Message]:
        """Of all connections."""
        found: list[Message] = ask(self.sender)["connections"]
        return found

    def report(self) -> Message:
        """Of the only connection, or the last."""
        reports: list[Message] = until(self.reports)
        return reports[-1]

    def established(self, count: int) -> list[Message]:
        """Wait for so many subflows; their ends."""

        def pairs() -> list[Message]:
            return [one["pair"] for one in self.report()["subflows"] if one["state"] == "established"]

        until(lambda: len(pairs()) == count)
        return pairs()

    def kernel(self) -> list[tuple[str, Message]]:
        """Label of the path and statistics of every subflow that is established in the kernel."""
        subflows = self.report()["subflows"]
        return [(one["path"], one["kernel"]) for one in subflows if one["kernel"] is not None]

    def acked(self) -> dict[str, int]:
        """Payload bytes that were acknowledged, by path."""
        acked: dict[str, int] = {}
        for path, statistics in self.kernel():
            acked[path] = acked.get(path, 0) + statistics["acked_bytes"] - 1
        return acked

    def standby(self) -> set[str]:
        """Paths whose subflows are standby in the kernel."""
        return {path for path, statistics in self.kernel() if statistics["backup"]}


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
            found = attributes(group)
            if b"mptcp_pm_events\0" in found.values():
                self.join(*struct.unpack("=I", found[self._GROUP_ID]))

    def next(self, kind: int) -> Event:
        """Wait for the next event of a kind; those before it are of no interest."""

        def found() -> Event | None:
            self._pending.extend(Event(message[16], attributes(message, 20)) for message in self.take())
            while self._pending:
                event = self._pending.pop(0)
                if event.kind == kind:
                    return event
            return None

        return until(found, f"event {kind}")

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
    """Its output has ended, whatever it has said before."""
    child.take()
    return child.ended


def ask(child: Child) -> Message:
    """What a manager reports now."""
    child.tell({"action": "report"})
    return child.expect("report", STEP_S)


def lacking() -> Thing | None:
    """What this machine lacks for these tests."""
    try:
        with Sites() as sites:
            if sites.user is not None:  # the tests enter the namespaces themselves
                return Thing("root", "root")
            inside(sites.local, lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).close())
            with sites.start_agent("paths", "remote") as child:
                child.tell({"side": "receiver"})
                child.expect("ready", STEP_S)
                return None
    except (TrialError, OSError) as error:
        return Thing(str(error), "elsewhere")


@pytest.fixture(scope="module", autouse=True)
def _able():
    missing = lacking()
    if missing is not None:
        lack("path managers on the kernel", missing)


@pytest.fixture(scope="module")
def world(_able):
    with ExitStack() as stack:
        yield World(2, stack)


@pytest.mark.parametrize("ipv6", [False, True], ids=["IPv4", "IPv6"])
def test_fullmesh_uses_every_pair_of_interfaces(world, ipv6):
    with world.managed("fullmesh") as managed, world.transfer(ipv6=ipv6):
        pairs = managed.established(4)
        ends = {(pair["local"]["address"], pair["remote"]["address"]) for pair in pairs}
        assert len(ends) == 4
        assert {":" in local for local, _ in ends} == {ipv6}
        until(lambda: min(managed.acked().values()) > 100 * KIB)
        assert managed.standby() == set()
        assert managed.report()["problems"] == []


def test_more_subflows_than_the_kernels_own_path_manager_allows():
    with ExitStack() as stack:
        world = World(4, stack)
        with world.managed("fullmesh") as managed, world.transfer() as transfer:
            managed.established(16)
            transfer.more(1000 * KIB)
            assert managed.report()["problems"] == []


def test_ndiffports_opens_all_subflows_on_the_initial_path(world):
    with world.managed("ndiffports", ndiffports=3) as managed, world.transfer():
        pairs = managed.established(3)
        assert len({pair["local"]["port"] for pair in pairs}) == 3
        until(lambda: all(statistics["acked_bytes"] > 50 * KIB for _, statistics in managed.kernel()))
        assert set(managed.acked()) == {"0-0"}


@pytest.mark.parametrize("honoured", [False, True])
def test_binder_stays_on_the_initial_path_unless_source_routes_are_honoured(world, honoured):
    with world.managed("binder", lsrr_honoured=honoured) as managed, world.transfer():
        managed.established(2)
        until(lambda: all(statistics["acked_bytes"] > 50 * KIB for _, statistics in managed.kernel()))
        assert set(managed.acked()) == ({"0-0", "1-0"} if honoured else {"0-0"})


def test_default_opens_nothing(world):
    with world.managed("default") as managed, world.transfer() as transfer:
        transfer.more(1000 * KIB)
        assert [path for path, _ in managed.kernel()] == ["0-0"]


@pytest.mark.measures("while another subflow waits for a retransmission the kernel may send on a standby one")
def test_standby_subflows_of_pcdc_are_established_and_carry_nothing(world):
    options = {"active": ("0-0", "1-1"), "standby_order": ("1-0", "0-1")}
    with world.managed("pcdc", **options) as managed, world.transfer() as transfer:
        managed.established(4)
        transfer.more(2000 * KIB)
        assert managed.standby() == {"0-1", "1-0"}
        acked = managed.acked()
        assert acked["0-1"] == acked["1-0"] == 0
        assert min(acked["0-0"], acked["1-1"]) > 100 * KIB


def test_a_small_transfer_takes_a_path_with_a_smaller_rtt_than_the_initial_one():
    with ExitStack() as stack:
        world = World(2, stack)
        with world.managed("pcdc", transfer_bytes=100 * KIB) as managed:
            world.clog(0)
            with world.transfer():
                managed.established(4)
                until(lambda: len(managed.standby()) == 3)
                rtts = {path: statistics["min_rtt_ns"] for path, statistics in managed.kernel()}
                (active,) = rtts.keys() - managed.standby()
    assert active in ("1-0", "1-1")
    assert rtts[active] < rtts["0-0"]


def test_the_classes_of_pcdc_follow_the_bytes_really_sent(world):
    with world.managed("pcdc", transfer_bytes=None) as managed, world.transfer():
        managed.established(4)
        until(lambda: len(managed.standby()) == 3)
        for sent, standby in ((511 * KIB, 3), (512 * KIB, 2), (1024 * KIB, 0)):
            managed.sent(sent)
            until(lambda: len(managed.standby()) == standby)  # noqa: B023 - called at once


@pytest.mark.measures("while another subflow waits for a retransmission the kernel may send on a standby one")
def test_a_withdrawn_path_falls_silent_and_comes_back(world):
    with world.managed("fullmesh") as managed, world.transfer() as transfer:
        managed.established(4)
        until(lambda: min(managed.acked().values()) > 100 * KIB)
        managed.do("withdraw", "1-1")
        assert managed.standby() == {"1-1"}
        # What the subflow held is still sent.
        until(lambda: dict(managed.kernel())["1-1"]["unacked"] == 0)
        before = managed.acked()
        transfer.more(2000 * KIB)
        assert managed.acked()["1-1"] - before["1-1"] <= 256 * KIB
        silent = managed.acked()["1-1"]
        transfer.more(2000 * KIB)
        assert managed.acked()["1-1"] == silent
        managed.do("readmit", "1-1")
        assert managed.standby() == set()
        until(lambda: managed.acked()["1-1"] > silent + 100 * KIB)
        changes = [(change["path"], change["backup"]) for change in managed.report()["changes"]]
        assert changes == [("1-1", True), ("1-1", False)]


@pytest.mark.measures("while another subflow waits for a retransmission the kernel may send on a standby one")
def test_without_an_active_path_the_other_standby_ones_carry_data(world):
    with world.managed("pcdc", active=("0-0",)) as managed, world.transfer() as transfer:
        managed.established(4)
        managed.do("withdraw", "0-0")
        until(lambda: managed.standby() == {"0-0"})
        until(lambda: dict(managed.kernel())["0-0"]["unacked"] == 0)
        transfer.more(1000 * KIB)
        silent = managed.acked()["0-0"]
        transfer.more(1000 * KIB)
        assert managed.acked()["0-0"] == silent
        managed.do("readmit", "0-0")
        assert managed.standby() == {"0-1", "1-0", "1-1"}


def test_the_best_standby_takes_over_from_a_cut_path_and_gives_way_to_it(world):
    options = {"active": ("0-0",), "standby_order": ("1-1", "0-1", "1-0")}
    with world.managed("pcdc", **options) as managed, world.transfer() as transfer:
        managed.established(4)
        transfer.more(500 * KIB)
        with world.cut("0-0"):
            cut_ns = time.monotonic_ns()
            until(lambda: managed.standby() == {"0-1", "1-0"})
            outage = until(
                lambda: next((one for one in managed.report()["outages"] if one["take_over_ns"]), None)
            )
            transfer.more(1000 * KIB)
        assert (outage["path"], outage["successors"]) == ("0-0", ["1-1"])
        assert outage["last_heard_ns"] < outage["carrying_ns"]
        assert cut_ns < outage["carrying_ns"] < time.monotonic_ns()
        assert outage["take_over_ns"] == outage["carrying_ns"] - outage["last_heard_ns"]
        until(lambda: managed.standby() == {"0-1", "1-0", "1-1"})
        (outage,) = managed.report()["outages"]
        assert outage["restored_ns"] > outage["detected_ns"]
        before = managed.acked()["0-0"]
        until(lambda: managed.acked()["0-0"] > before + 500 * KIB)


def test_a_subflow_that_the_receiver_ends_is_replaced(world):
    options = {"active": ("0-0", "0-1"), "standby_order": ("1-1", "1-0")}
    with (
        Listening(world.sites.remote) as receiver,
        world.managed("pcdc", **options) as managed,
        world.transfer() as transfer,
    ):
        joins = [receiver.next(SUB_ESTABLISHED) for _ in range(3)]
        managed.established(4)
        transfer.more(500 * KIB)
        receiver.destroy(next(join for join in joins if join.address(DADDR4) == "10.64.0.1"))
        until(lambda: managed.standby() == {"1-0"})
        (outage,) = managed.report()["outages"]
        assert (outage["path"], outage["successors"]) == ("0-1", ["1-1"])
        transfer.more(1000 * KIB)
        assert "0-1" not in managed.acked()


def test_an_address_that_the_receiver_removes_is_replaced_until_it_is_back(world):
    options = {"active": ("0-0", "0-1"), "standby_order": ("1-0", "1-1")}
    with world.managed("pcdc", **options) as managed, world.transfer() as transfer:
        managed.established(4)
        transfer.more(500 * KIB)
        managed.receiver.tell({"action": "remove", "address": "10.65.1.1"})
        managed.established(2)
        until(lambda: managed.standby() == set())
        outages = {one["path"]: one["successors"] for one in managed.report()["outages"]}
        assert outages["0-1"] == ["1-0"]
        transfer.more(1000 * KIB)
        assert set(managed.acked()) == {"0-0", "1-0"}
        managed.receiver.tell({"action": "add", "address": "10.65.1.1"})
        managed.established(4)
        until(lambda: managed.standby() == {"1-0", "1-1"})
        transfer.more(1000 * KIB)
        assert managed.report()["problems"] == []
        assert ask(managed.receiver)["problems"] == []


def test_both_kernels_hear_of_standby_priorities_and_addresses(world):
    options = {"active": ("0-0",), "standby_order": ("1-0", "0-1", "1-1")}
    with (
        Listening(world.sites.local) as sender,
        Listening(world.sites.remote) as receiver,
        world.managed("pcdc", **options) as managed,
        world.transfer() as transfer,
    ):
        joins = [receiver.next(SUB_ESTABLISHED) for _ in range(3)]
        assert [join.number(BACKUP) for join in joins] == [1, 1, 1]
        ids = {join.number(LOC_ID) for join in joins if join.address(SADDR4) == "10.65.1.1"}
        (address_id,) = ids
        managed.established(4)
        transfer.more(100 * KIB)
        managed.do("withdraw", "0-0")
        changes = [receiver.next(SUB_PRIORITY) for _ in range(4)]
        active = {one.address(DADDR4) for one in changes if not one.number(BACKUP)}
        assert [one.number(BACKUP) for one in changes].count(1) == 1 and active == {"10.64.0.1", "10.64.1.1"}

        managed.receiver.tell({"action": "remove", "address": "10.65.1.1"})
        assert sender.next(REMOVED).number(REM_ID) == address_id
        ends = {sender.next(SUB_CLOSED).address(DADDR4) for _ in range(2)}
        assert ends == {"10.65.1.1"}
        managed.receiver.tell({"action": "add", "address": "10.65.1.1"})
        announced = sender.next(ANNOUNCED)
        assert (announced.number(REM_ID), announced.address(DADDR4)) == (address_id, "10.65.1.1")
        again = [sender.next(SUB_ESTABLISHED) for _ in range(2)]
        assert {(one.number(REM_ID), one.address(DADDR4)) for one in again} == {(address_id, "10.65.1.1")}
        assert ask(managed.receiver)["accepted"] == len(managed.reports()) == 1


@pytest.mark.parametrize("ipv6", [False, True], ids=["IPv4", "IPv6"])
def test_a_path_whose_address_is_removed_loses_its_subflow_and_gets_it_back(world, ipv6):
    with world.managed("fullmesh") as managed, world.transfer(ipv6=ipv6) as transfer:
        managed.established(4)
        transfer.more(500 * KIB)
        managed.do("remove", "0-0")
        assert set(managed.acked()) == {"0-1", "1-0", "1-1"}
        transfer.more(1000 * KIB)
        managed.do("remove", "1-1")
        transfer.more(1000 * KIB)
        managed.do("add", "0-0")
        managed.established(3)
        until(lambda: managed.acked()["0-0"] > 100 * KIB)
        assert set(managed.acked()) == {"0-0", "0-1", "1-0"}
        outages = managed.report()["outages"]
        assert [one["path"] for one in outages] == ["0-0", "1-1"]
        assert [one["restored_ns"] is None for one in outages] == [False, True]
        assert managed.report()["problems"] == []


def test_two_connections_at_once_are_managed_apart(world):
    with world.managed("fullmesh") as managed:
        with world.transfer() as first:
            managed.established(4)
            with world.transfer() as second:
                until(lambda: len(managed.reports()) == 2)
                managed.established(4)
                for transfer in (first, second):
                    transfer.more(200 * KIB)
            until(lambda: managed.reports()[1]["closed_ns"] is not None)
            assert managed.reports()[0]["closed_ns"] is None
            first.more(200 * KIB)
        until(lambda: managed.reports()[0]["closed_ns"] is not None)
        assert [report["problems"] for report in managed.reports()] == [[], []]


def test_a_join_that_nobody_listens_for_is_told(world):
    with world.managed("fullmesh") as managed, world.transfer(listen_everywhere=False):
        until(lambda: len(managed.report()["problems"]) == 2)
        managed.established(2)
        problems = managed.report()["problems"]
        assert {problem.partition(":")[0] for problem in problems} == {"0-1", "1-1"}
        assert all("must listen on all its addresses" in problem for problem in problems)


def test_a_receiver_that_accepts_no_more_is_told(world):
    world.sysctl("remote", "kernel")  # 2 further subflows unless it is told otherwise
    try:
        with world.sender("fullmesh") as sender:
            sender.expect("ready", STEP_S)
            managed = Managed(sender, sender)
            with world.transfer() as transfer:
                until(lambda: managed.report()["problems"])
                transfer.more(500 * KIB)
                report = managed.report()
        assert [subflow["state"] for subflow in report["subflows"]].count("closed") == 1
        assert "accepts no more" in report["problems"][0]
    finally:
        world.sysctl("remote", "userspace")


@pytest.mark.parametrize("side", ["sender", "receiver"])
def test_the_kernels_own_path_manager_must_be_off(world, side):
    site = "local" if side == "sender" else "remote"
    world.sysctl(site, "kernel")
    try:
        with (
            world.sender("fullmesh") if side == "sender" else world.receiver() as child,
            pytest.raises(TrialError, match=f"path_manager on the {side}'s side: expected userspace"),
        ):
            child.expect("ready", STEP_S)
    finally:
        world.sysctl(site, "userspace")


def test_a_refused_join_says_what_is_wrong(world):
    elsewhere = KernelPath(label="2-0", local=2, remote=0, pairs=(("10.9.9.9", "10.65.0.1"),))
    wanted = Assignment(pm="fullmesh", paths=(*world.paths, elsewhere), transfer_bytes=SATURATED)
    with world.sites.start_agent("paths", "local") as sender, world.receiver() as receiver:
        sender.tell({"side": "sender", "assignment": assignment.told(wanted)})
        for child in (sender, receiver):
            child.expect("ready", STEP_S)
        managed = Managed(sender, receiver)
        with world.transfer():
            managed.established(4)
            (problem,) = until(lambda: managed.report()["problems"])
    assert problem.startswith("2-0: subflow 10.9.9.9 to 10.65.0.1: ")
    assert "on no interface of the namespace" in problem


def test_a_path_that_is_not_there_ends_it_with_a_reason(world):
    with world.sender("fullmesh") as sender:
        sender.expect("ready", STEP_S)
        sender.tell({"action": "withdraw", "path": "9-9"})
        with pytest.raises(TrialError, match="path: expected one of 0-0, 0-1, 1-0, 1-1, found"):
            sender.expect("report", STEP_S)


def test_an_ipv4_connection_of_an_ipv6_socket_is_managed_as_one_of_ipv4(world):
    with world.managed("fullmesh") as managed, world.transfer(mapped=True) as transfer:
        pairs = managed.established(4)
        assert {pair["remote"]["address"] for pair in pairs} == {"10.65.0.1", "10.65.1.1"}
        managed.do("withdraw", "0-0")
        until(lambda: managed.standby() == {"0-0"})
        transfer.more(500 * KIB)
        managed.do("remove", "0-0")
        transfer.more(500 * KIB)
        assert managed.report()["problems"] == []


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_connections_outlive_their_manager_and_another_one_leaves_them_alone(world, how):
    with world.transfer() as transfer:
        with world.managed("fullmesh") as managed:
            for child in (managed.sender, managed.receiver):
                os.kill(child.pid, how)
                until(lambda: ended(child))  # noqa: B023 - called at once
        transfer.more(500 * KIB)
        with world.managed("fullmesh") as again:
            transfer.more(500 * KIB)
            assert again.reports() == []


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


def dropped(site: str) -> int:
    """Netlink messages that a site's kernel had to drop, because nobody read them in time."""

    def read() -> int:
        lines = Path("/proc/thread-self/net/netlink").read_text(encoding="ascii").splitlines()[1:]
        return sum(int(line.split()[8]) for line in lines)

    return inside(site, read)


def test_lost_events_are_made_up_for_by_a_look_at_what_there_is(world):
    def live(managed: Managed) -> list[list[str]]:
        living = [one["subflows"] for one in managed.reports() if one["closed_ns"] is None]
        return [[subflow["state"] for subflow in subflows] for subflows in living]

    with world.managed("fullmesh") as managed:
        with connections(world, 20):
            until(lambda: live(managed) == [["established"] * 4] * 20)
            os.kill(managed.sender.pid, signal.SIGSTOP)
        while dropped(world.sites.local) == 0:
            with connections(world, 100):
                pass
        with connections(world, 30):
            os.kill(managed.sender.pid, signal.SIGCONT)
            until(lambda: live(managed) == [["established"] * 4] * 30)
        until(lambda: live(managed) == [])


def test_a_join_that_failed_among_lost_events_is_not_waited_for(world):
    def states() -> dict[str, str]:
        reports = [one for one in managed.reports() if one["closed_ns"] is None]
        return {one["path"]: one["state"] for report in reports for one in report["subflows"]}

    def handshakes() -> int:
        lines = Path("/proc/thread-self/net/tcp").read_text(encoding="ascii").splitlines()[1:]
        return [line.split()[3] for line in lines].count(SYN_SENT)

    with world.managed("fullmesh") as managed, ExitStack() as stack:
        still_cut = stack.enter_context(ExitStack())
        still_cut.enter_context(world.cut("1-1"))
        with world.cut("0-1"):
            stack.enter_context(connections(world, 1, "10.65.0.1"))
            until(lambda: states().get("1-0") == "established")
            os.kill(managed.sender.pid, signal.SIGSTOP)
            before = dropped(world.sites.local)
            while dropped(world.sites.local) == before:
                with connections(world, 100):
                    pass
        until(lambda: inside(world.sites.local, handshakes) == 1, "the end of the join on path 0-1")
        os.kill(managed.sender.pid, signal.SIGCONT)
        expected = {"0-0": "established", "0-1": "refused", "1-0": "established", "1-1": "joining"}
        until(lambda: states() == expected, f"{expected}")
        assert managed.reports()[0]["problems"] == ["0-1: the join failed among events that were lost"]
        still_cut.close()
        until(lambda: states() == {**expected, "1-1": "refused"}, "the end of the join on path 1-1")


def test_what_is_ordered_for_a_connection_that_is_gone_is_refused_by_its_token(world):
    def sockets() -> set[str]:
        lines = Path("/proc/thread-self/net/tcp").read_text(encoding="ascii").splitlines()[1:]
        return {line.split()[3] for line in lines} - {TIME_WAIT}

    with world.managed("fullmesh") as managed:
        os.kill(managed.sender.pid, signal.SIGSTOP)
        with connections(world, 1):
            pass
        until(lambda: not inside(world.sites.local, sockets), "the end of the connection")
        os.kill(managed.sender.pid, signal.SIGCONT)
        problems = managed.report()["problems"]
    assert [problem.partition(":")[0] for problem in problems] == ["0-1", "1-0", "1-1"]
    assert all("invalid token" in problem for problem in problems)


def footprint(child: Child) -> tuple[int, int]:
    """Descriptors and threads of a process."""
    process = Path("/proc", str(child.pid))
    return len(list((process / "fd").iterdir())), len(list((process / "task").iterdir()))


def test_connections_leave_nothing_behind_in_their_managers(world):
    with world.managed("fullmesh") as managed:
        children = managed.sender, managed.receiver
        managed.reports()
        before = [footprint(child) for child in children]
        for _ in range(5):
            with connections(world, 10):
                until(lambda: [len(one["subflows"]) for one in managed.reports()][-10:] == [4] * 10)
                assert [footprint(child) for child in children] == before
        until(lambda: all(one["closed_ns"] is not None for one in managed.reports()))
        assert len(managed.reports()) == ask(managed.receiver)["accepted"] == 50
        assert [footprint(child) for child in children] == before


def send_nonsense(namespace: str) -> None:
    """Send the only one who listens to the events of a namespace one that has no addresses."""

    def send() -> None:
        lines = Path("/proc/thread-self/net/netlink").read_text(encoding="ascii").splitlines()[1:]
        fields = [line.split() for line in lines]
        (port,) = (
            int(port)
            for _, protocol, port, groups, *_ in fields
            if int(protocol) == NETLINK_GENERIC and int(port) and int(groups, 16)
        )
        created = struct.pack("=IHHIIBBH", 20, 28, 0, 0, 0, 1, 1, 0)
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC) as one:
            one.sendto(created, (port, 0))

    inside(namespace, send)


@pytest.mark.parametrize("side", ["sender", "receiver"])
def test_a_failure_is_reported_at_once_and_ends_it(world, side):
    site = "local" if side == "sender" else "remote"
    with world.sender("fullmesh") if side == "sender" else world.receiver() as child:
        child.expect("ready", STEP_S)
        send_nonsense(world.sites.of(site))
        with pytest.raises(TrialError, match="netlink: unreadable message"):
            child.expect("report", STEP_S)
        until(lambda: ended(child))
        assert child.death() == "paths ended with status 1"


def test_its_last_report_is_of_everything_it_did(world):
    with world.managed("fullmesh") as managed:
        with world.transfer():
            managed.established(4)
            managed.do("withdraw", "1-0")
            managed.do("readmit", "1-0")
        managed.sender.tell({"action": "stop"})
        (connection,) = managed.sender.expect("report", STEP_S)["connections"]
        until(lambda: ended(managed.sender))
        assert managed.sender.death() == "paths ended with status 0"
    assert [subflow["path"] for subflow in connection["subflows"]] == ["0-0", "0-1", "1-0", "1-1"]
    assert [change["backup"] for change in connection["changes"]] == [True, False]


def test_it_ends_with_its_input(world):
    sender = world.sender("fullmesh")
    with sender:
        sender.expect("ready", STEP_S)
    assert not Path(f"/proc/{sender.pid}").exists()
