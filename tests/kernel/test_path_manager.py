"""Path managers on the running kernel: namespaces joined by a router, any pair of interfaces a path.

No emulator: token buckets (tbf) set the rates, and a path is cut by a rule of the router that swallows it.
"""

import hashlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from mptune.errors import TrialError
from mptune.linux import addresses
from mptune.linux.assignment import SATURATED, Assignment, KernelPath
from mptune.linux.kernel_path_manager import KernelPathManager
from mptune.linux.managed_report import ConnectionReport
from mptune.linux.mptcp_messages import (
    AddressAnnounced,
    AddressRemoved,
    ConnectionEvent,
    Endpoint,
    Event,
    Pair,
    SubflowEvent,
)
from mptune.linux.mptcp_netlink import Commands, Events
from mptune.linux.namespaces import STEP_S, Sites
from mptune.linux.netlink import Refused, inside
from mptune.linux.sock_diag import SockDiag, Statistics

pyroute2 = pytest.importorskip("pyroute2")

KIB = 1024
MBIT = 1_000_000
E = TypeVar("E", bound=Event)

#: Nothing here takes so long unless it is broken, seconds.
PATIENCE_S = 30.0
NTF_PROXY = 8  # include/uapi/linux/neighbour.h


def until(condition: Callable[[], Any]) -> Any:
    """Wait for something to become true, and return it."""
    end = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)
    return found


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
                routes.tc("add", "tbf", index, 0x10000, rate=20 * MBIT // 8, burst=16_000, limit=60_000)

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

    @contextmanager
    def managed(self, pm: str, **options: Any) -> Iterator["Managed"]:
        """A manager of the sender's connections."""
        assignment = Assignment(pm=pm, paths=self.paths, **{"transfer_bytes": SATURATED, **options})
        manager = KernelPathManager(assignment, sender=self.sites.local, receiver=self.sites.remote)
        with manager, SockDiag(self.sites.local) as diag:
            yield Managed(manager, diag)

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

    def __init__(self, sites: Sites, *, ipv6: bool = False, listen_everywhere: bool = True) -> None:
        family = socket.AF_INET6 if ipv6 else socket.AF_INET
        local, remote = ("fd64::1", "fd65::1") if ipv6 else ("10.64.0.1", "10.65.0.1")
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
    """A manager with what the kernel knows of the subflows, apart from what the manager believes."""

    def __init__(self, manager: KernelPathManager, diag: SockDiag) -> None:
        self.manager, self._diag = manager, diag

    def report(self) -> ConnectionReport:
        """Of the only connection, or the last."""
        reports: tuple[ConnectionReport, ...] = until(self.manager.report)
        return reports[-1]

    def established(self, count: int) -> list[Pair]:
        """Wait for so many subflows; their ends."""

        def pairs() -> list[Pair]:
            alive = (one for one in self.report().subflows if one.state == "established")
            return [one.pair for one in alive if one.pair is not None]

        until(lambda: len(pairs()) == count)
        return pairs()

    def kernel(self) -> list[tuple[str, Statistics]]:
        """Label of the path and statistics of every subflow that is established in the kernel."""
        seen = self._diag.established([socket.AF_INET, socket.AF_INET6])
        return [
            (subflow.path, seen[subflow.pair])
            for subflow in self.report().subflows
            if subflow.pair is not None and subflow.pair in seen
        ]

    def acked(self) -> dict[str, int]:
        """Payload bytes that were acknowledged, by path."""
        acked: dict[str, int] = {}
        for path, statistics in self.kernel():
            acked[path] = acked.get(path, 0) + statistics.acked_bytes - 1
        return acked

    def standby(self) -> set[str]:
        """Paths whose subflows are standby in the kernel."""
        return {path for path, statistics in self.kernel() if statistics.backup}


class Listening(Events):
    """Events one by one."""

    def __init__(self, namespace: str) -> None:
        super().__init__(namespace)
        self._pending: list[Event] = []

    def next(self, kind: type[E]) -> E:
        """Wait for the next event of a kind; those before it are of no interest."""

        def found() -> E | None:
            self._pending.extend(self.take())
            while self._pending:
                event = self._pending.pop(0)
                if isinstance(event, kind):
                    return event
            return None

        event: E = until(found)
        return event


def lacking() -> str | None:
    """What this machine lacks for these tests."""
    try:
        with Sites() as sites:
            inside(sites.local, lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).close())
            with Events(sites.local):
                return None
    except (TrialError, OSError) as error:
        return str(error)


@pytest.fixture(scope="module")
def world():
    reason = lacking()
    if reason is not None:
        assert "CI" not in os.environ, reason
        pytest.skip(reason)
    with ExitStack() as stack:
        yield World(2, stack)


@pytest.mark.parametrize("ipv6", [False, True], ids=["IPv4", "IPv6"])
def test_fullmesh_uses_every_pair_of_interfaces(world, ipv6):
    with world.managed("fullmesh") as managed, world.transfer(ipv6=ipv6):
        pairs = managed.established(4)
        assert len({(pair.local.address, pair.remote.address) for pair in pairs}) == 4
        assert {":" in pair.local.address for pair in pairs} == {ipv6}
        until(lambda: min(managed.acked().values()) > 100 * KIB)
        assert managed.standby() == set()
        assert managed.report().problems == ()


def test_more_subflows_than_the_kernels_own_path_manager_allows():
    with ExitStack() as stack:
        world = World(4, stack)
        with world.managed("fullmesh") as managed, world.transfer() as transfer:
            managed.established(16)
            transfer.more(1000 * KIB)
            assert managed.report().problems == ()


def test_ndiffports_opens_all_subflows_on_the_initial_path(world):
    with world.managed("ndiffports", ndiffports=3) as managed, world.transfer():
        pairs = managed.established(3)
        assert len({pair.local.port for pair in pairs}) == 3
        until(lambda: all(statistics.acked_bytes > 50 * KIB for _, statistics in managed.kernel()))
        assert set(managed.acked()) == {"0-0"}


@pytest.mark.parametrize("honoured", [False, True])
def test_binder_stays_on_the_initial_path_unless_source_routes_are_honoured(world, honoured):
    with world.managed("binder", lsrr_honoured=honoured) as managed, world.transfer():
        managed.established(2)
        until(lambda: all(statistics.acked_bytes > 50 * KIB for _, statistics in managed.kernel()))
        assert set(managed.acked()) == ({"0-0", "1-0"} if honoured else {"0-0"})


def test_default_opens_nothing(world):
    with world.managed("default") as managed, world.transfer() as transfer:
        transfer.more(1000 * KIB)
        assert [path for path, _ in managed.kernel()] == ["0-0"]


@pytest.mark.measures
def test_standby_subflows_of_pcdc_are_established_and_carry_nothing(world):
    options = {"active": ("0-0", "1-1"), "standby_order": ("1-0", "0-1")}
    with world.managed("pcdc", **options) as managed, world.transfer() as transfer:
        managed.established(4)
        transfer.more(2000 * KIB)
        assert managed.standby() == {"0-1", "1-0"}
        acked = managed.acked()
        assert acked["0-1"] == acked["1-0"] == 0
        assert min(acked["0-0"], acked["1-1"]) > 100 * KIB


def test_the_classes_of_pcdc_follow_the_bytes_really_sent(world):
    with world.managed("pcdc", transfer_bytes=None) as managed, world.transfer():
        managed.established(4)
        until(lambda: len(managed.standby()) == 3)
        for sent, standby in ((511 * KIB, 3), (512 * KIB, 2), (1024 * KIB, 0)):
            managed.manager.on_bytes_sent(sent)
            until(lambda: len(managed.standby()) == standby)  # noqa: B023 - called at once


@pytest.mark.measures
def test_a_withdrawn_path_falls_silent_and_comes_back(world):
    with world.managed("fullmesh") as managed, world.transfer() as transfer:
        managed.established(4)
        until(lambda: min(managed.acked().values()) > 100 * KIB)
        managed.manager.withdraw("1-1")
        assert managed.standby() == {"1-1"}
        # What the subflow held is still sent.
        until(lambda: dict(managed.kernel())["1-1"].unacked == 0)
        before = managed.acked()
        transfer.more(2000 * KIB)
        assert managed.acked()["1-1"] - before["1-1"] <= 256 * KIB
        silent = managed.acked()["1-1"]
        transfer.more(2000 * KIB)
        assert managed.acked()["1-1"] == silent
        managed.manager.readmit("1-1")
        assert managed.standby() == set()
        until(lambda: managed.acked()["1-1"] > silent + 100 * KIB)
        changes = [(change.path, change.backup) for change in managed.report().changes]
        assert changes == [("1-1", True), ("1-1", False)]


@pytest.mark.measures
def test_without_an_active_path_the_other_standby_ones_carry_data(world):
    with world.managed("pcdc", active=("0-0",)) as managed, world.transfer() as transfer:
        managed.established(4)
        managed.manager.withdraw("0-0")
        until(lambda: managed.standby() == {"0-0"})
        until(lambda: dict(managed.kernel())["0-0"].unacked == 0)
        transfer.more(1000 * KIB)
        silent = managed.acked()["0-0"]
        transfer.more(1000 * KIB)
        assert managed.acked()["0-0"] == silent
        managed.manager.readmit("0-0")
        assert managed.standby() == {"0-1", "1-0", "1-1"}


@pytest.mark.measures
def test_the_best_standby_takes_over_from_a_cut_path_and_gives_way_to_it(world):
    options = {"active": ("0-0",), "standby_order": ("1-1", "0-1", "1-0")}
    with world.managed("pcdc", **options) as managed, world.transfer() as transfer:
        managed.established(4)
        transfer.more(500 * KIB)
        with world.cut("0-0"):
            cut_ns = time.monotonic_ns()
            until(lambda: managed.standby() == {"0-1", "1-0"})
            outage = until(lambda: next((one for one in managed.report().outages if one.take_over_ns), None))
            transfer.more(1000 * KIB)
        assert (outage.path, outage.successors) == ("0-0", ("1-1",))
        assert outage.last_heard_ns < outage.carrying_ns
        assert cut_ns < outage.carrying_ns < time.monotonic_ns()
        assert outage.take_over_ns == outage.carrying_ns - outage.last_heard_ns
        until(lambda: managed.standby() == {"0-1", "1-0", "1-1"})
        (outage,) = managed.report().outages
        assert outage.restored_ns > outage.detected_ns
        before = managed.acked()["0-0"]
        until(lambda: managed.acked()["0-0"] > before + 500 * KIB)


def test_a_subflow_that_the_receiver_ends_is_replaced(world):
    options = {"active": ("0-0", "0-1"), "standby_order": ("1-1", "1-0")}
    with ExitStack() as stack:
        events = stack.enter_context(Listening(world.sites.remote))
        receiver = stack.enter_context(Commands(world.sites.remote))
        managed = stack.enter_context(world.managed("pcdc", **options))
        transfer = stack.enter_context(world.transfer())
        token = events.next(ConnectionEvent).token
        joins = [events.next(SubflowEvent).pair for _ in range(3)]
        managed.established(4)
        transfer.more(500 * KIB)
        receiver.destroy(token, next(pair for pair in joins if pair.remote.address == "10.64.0.1"))
        until(lambda: managed.standby() == {"1-0"})
        (outage,) = managed.report().outages
        assert (outage.path, outage.successors) == ("0-1", ("1-1",))
        transfer.more(1000 * KIB)
        assert "0-1" not in managed.acked()


def test_two_connections_at_once_are_managed_apart(world):
    with world.managed("fullmesh") as managed:
        with world.transfer() as first:
            managed.established(4)
            with world.transfer() as second:
                until(lambda: len(managed.manager.report()) == 2)
                managed.established(4)
                for transfer in (first, second):
                    transfer.more(200 * KIB)
            until(lambda: managed.manager.report()[1].closed_ns is not None)
            assert managed.manager.report()[0].closed_ns is None
            first.more(200 * KIB)
        until(lambda: managed.manager.report()[0].closed_ns is not None)
        assert [report.problems for report in managed.manager.report()] == [(), ()]


def test_a_join_that_nobody_listens_for_is_told(world):
    with world.managed("fullmesh") as managed, world.transfer(listen_everywhere=False):
        until(lambda: len(managed.report().problems) == 2)
        managed.established(2)
        assert {problem.partition(":")[0] for problem in managed.report().problems} == {"0-1", "1-1"}
        assert all("must listen on all its addresses" in one for one in managed.report().problems)


def test_a_receiver_that_accepts_no_more_is_told(world):
    world.sysctl("remote", "kernel")  # 2 further subflows unless it is told otherwise
    try:
        assignment = Assignment(pm="fullmesh", paths=world.paths, transfer_bytes=SATURATED)
        with (
            KernelPathManager(assignment, sender=world.sites.local) as manager,
            world.transfer() as transfer,
        ):
            until(lambda: manager.report() and manager.report()[0].problems)
            transfer.more(500 * KIB)
            (report,) = manager.report()
        assert [subflow.state for subflow in report.subflows].count("closed") == 1
        assert "accepts no more" in report.problems[0]
    finally:
        world.sysctl("remote", "userspace")


def test_the_kernels_own_path_manager_must_be_off(world):
    assignment = Assignment(pm="fullmesh", paths=world.paths)
    manager = KernelPathManager(assignment, sender=world.sites.local)
    world.sysctl("local", "kernel")
    try:
        with pytest.raises(TrialError, match="path_manager in the sender's namespace: userspace"):
            manager.start()
    finally:
        world.sysctl("local", "userspace")


def test_addresses_are_announced_and_taken_back(world):
    with ExitStack() as stack:
        sender, receiver = (
            stack.enter_context(Listening(at)) for at in (world.sites.local, world.sites.remote)
        )
        commands = stack.enter_context(Commands(world.sites.local))
        answers = stack.enter_context(Commands(world.sites.remote))
        transfer = stack.enter_context(world.transfer())
        created, accepted = sender.next(ConnectionEvent), receiver.next(ConnectionEvent)
        assert not created.server_side
        assert accepted.server_side
        transfer.more(1)
        answers.announce(accepted.token, Endpoint("10.65.1.1"), address_id=5)
        announced = sender.next(AddressAnnounced)
        assert (announced.address_id, announced.address.address) == (5, "10.65.1.1")

        remote = Endpoint("10.65.1.1", created.pair.remote.port)
        commands.create(created.token, Endpoint("10.64.1.1"), remote, address_id=2, backup=True)
        joined = sender.next(SubflowEvent)
        assert (joined.kind, joined.remote_id) == ("sub_established", 5)
        assert receiver.next(SubflowEvent).backup
        transfer.more(100 * KIB)
        commands.set_backup(created.token, joined.pair, False)
        priority = receiver.next(SubflowEvent)
        assert (priority.kind, priority.backup) == ("sub_priority", False)

        answers.remove(accepted.token, address_id=5)
        assert sender.next(AddressRemoved).address_id == 5
        assert sender.next(SubflowEvent).kind == "sub_closed"


def test_refusals_say_what_is_wrong(world):
    with Listening(world.sites.local) as events, Commands(world.sites.local) as commands, world.transfer():
        created = events.next(ConnectionEvent)
        remote = created.pair.remote
        with pytest.raises(
            Refused, match=r"subflow 10\.9\.9\.9 to 10\.65\.0\.1: .*on no interface of the namespace"
        ):
            commands.create(created.token, Endpoint("10.9.9.9"), remote, address_id=9)
        with pytest.raises(Refused, match="no such subflow"):
            commands.destroy(created.token, Pair(Endpoint("10.64.1.1", 9), remote))
        with pytest.raises(Refused, match="invalid token"):
            commands.set_backup(created.token ^ 1, created.pair, True)


def test_a_namespace_that_is_gone_is_named():
    with pytest.raises(TrialError, match="/proc/1/ns/nothing: cannot be entered"):
        Commands("/proc/1/ns/nothing")


def test_nothing_is_left_behind(world):
    def footprint() -> tuple[int, int]:
        return threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))

    before = footprint()
    with world.managed("fullmesh") as managed, world.transfer():
        managed.established(4)
    assert footprint() == before
    managed.manager.stop()
    assert footprint() == before


def test_a_failure_is_told_at_once_and_at_the_next_call(world, monkeypatch):
    manager = KernelPathManager(Assignment(pm="fullmesh", paths=world.paths), sender=world.sites.local)
    manager.start()

    def overrun(_: Events) -> list[Event]:
        raise TrialError("the kernel dropped events")

    monkeypatch.setattr(Events, "take", overrun)
    with world.transfer():
        until(lambda: os.eventfd_read(manager.fileno()))
        with pytest.raises(TrialError, match="the kernel dropped events"):
            manager.withdraw("0-0")
        with pytest.raises(TrialError, match="dropped events"):
            manager.stop()


def test_as_a_process_it_does_the_same(world):
    paths = [
        {"label": path.label, "local": path.local, "remote": path.remote, "pairs": path.pairs}
        for path in world.paths
    ]
    assignment = {"pm": "fullmesh", "paths": paths, "transfer_bytes": SATURATED}
    with (
        SockDiag(world.sites.local) as diag,
        world.sites.start("path manager", "mptune.linux.path_manager") as child,
    ):
        child.tell({"sender": world.sites.local, "receiver": world.sites.remote, "assignment": assignment})
        child.expect("ready", STEP_S)

        def standby() -> list[bool]:
            return sorted(bool(one.backup) for one in diag.established([socket.AF_INET]).values())

        with world.transfer():
            until(lambda: standby() == [False] * 4)
            child.tell({"action": "withdraw", "path": "1-0"})
            until(lambda: standby() == [False] * 3 + [True])
            child.tell({"action": "readmit", "path": "1-0"})
            until(lambda: standby() == [False] * 4)
            child.tell({"action": "stop"})
            report = child.expect("report", STEP_S)
    (connection,) = report["connections"]
    assert [subflow["path"] for subflow in connection["subflows"]] == ["0-0", "0-1", "1-0", "1-1"]
    assert [change["backup"] for change in connection["changes"]] == [True, False]
