"""Both halves of the meter between two namespaces joined by veth pairs, over the running kernel's own MPTCP.

No emulator: where a rate matters, token buckets (tbf) set it.
"""

import errno
import json
import os
import resource
import secrets
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyroute2
import pytest
from pyroute2.netlink.generic.mptcp import MPTCP

from mptune.errors import TrialError
from mptune.linux import addresses, agent
from mptune.linux.meter import Meter
from mptune.linux.sandbox.namespaces import Sites
from mptune.linux.sandbox.netlink import inside
from mptune.linux.sandbox.processes import Child
from tests.plugins.needs import Thing, lack, program
from tests.plugins.waiting import PATIENCE_S, until

SECOND = 1_000_000_000
MBIT = 1_000_000
#: include/uapi/linux/mptcp.h
SUBFLOW, BACKUP = 2, 4
SOURCE = ("10.64.0.1", "10.64.1.1")
RECEIVERS = ("10.65.0.1", "10.65.1.1")
RECEIVER = RECEIVERS[0]
#: include/net/tcp_states.h
TIME_WAIT, LISTEN = "06", "0A"

Message = dict[str, Any]


class Testbed:
    """Two sites with two interfaces each, if0 joined to if0 and if1 to if1."""

    __test__ = False  # it only sounds like one

    def __init__(self, sites: Sites) -> None:
        self.sites = sites
        named = {side: [addresses.interface(side, i) for i in range(2)] for side in addresses.SIDES}
        self._join()
        sites.configure(named)

    def _join(self) -> None:
        remote = os.open(self.sites.remote, os.O_RDONLY)

        def join(routes: Any) -> None:
            for name in ("if0", "if1"):
                routes.link("add", ifname=name, kind="veth", peer={"ifname": name, "net_ns_fd": remote})

        self.netlink("local", pyroute2.IPRoute, join)
        os.close(remote)

    def netlink(self, side: addresses.Side, kind: Callable[[], Any], call: Callable[[Any], object]) -> None:
        """Call with one of pyroute2's sockets in a site."""

        def run() -> None:
            with kind() as connected:
                call(connected)

        inside(self.sites.of(side), run)

    def shape(self, *rates_bps: int) -> None:
        """Limit what the sender's interfaces send."""

        def limit(routes: Any) -> None:
            for number, rate in enumerate(rates_bps):
                index = routes.link_lookup(ifname=f"if{number}")[0]
                routes.tc("add", "tbf", index, 0x10000, rate=rate // 8, burst=16_000, limit=100_000)

        self.netlink("local", pyroute2.IPRoute, limit)

    def cut(self, number: int, command: str = "replace") -> None:
        """Send what leaves by one of the sender's interfaces to nobody; "del" ends that."""

        def misdirect(routes: Any) -> None:
            index = routes.link_lookup(ifname=f"if{number}")[0]
            entry = {"dst": RECEIVER, "lladdr": "02:00:00:00:00:01", "ifindex": index, "state": "permanent"}
            routes.neigh(command, **entry)

        self.netlink("local", pyroute2.IPRoute, misdirect)

    def sysctl(self, side: addresses.Side, name: str, value: str) -> None:
        path = Path("/proc/sys", *name.split("."))
        inside(self.sites.of(side), lambda: path.write_text(value, encoding="ascii"))

    def second_subflow(self, flags: int = SUBFLOW) -> None:
        """Have the kernel's own path manager open one from if1."""
        for side in addresses.SIDES:
            self.sysctl(side, "net.mptcp.path_manager", "kernel")
            self.netlink(side, MPTCP, lambda mptcp: mptcp.limits("set", subflows=1, rcv_add_addrs=0))
        self.netlink("local", MPTCP, lambda mptcp: mptcp.endpoint("add", addr=SOURCE[1], flags=flags))

    @contextmanager
    def meter(self) -> Iterator[Meter]:
        """Both halves, which know nothing yet."""
        with (
            self.sites.start_agent("sender", "local") as sender,
            self.sites.start_agent("receiver", "remote") as receiver,
        ):
            yield Meter(sender, receiver)

    @contextmanager
    def measuring(
        self,
        source: str = SOURCE[0],
        receivers: tuple[str, ...] = RECEIVERS,
        joins: bool = True,
        **changes: Any,
    ) -> Iterator[Meter]:
        """A meter that was told what to do."""
        with self.meter() as meter:
            meter.listen(job(**changes), receivers[0], receivers if joins else ())
            meter.connect(source, receivers[0])
            yield meter

    def measure(self, during: Callable[[Message, Meter], object] | None = None, **changes: Any) -> Message:
        """The last line of a measurement; `during` is called with every one before."""
        with self.measuring(**changes) as meter:
            return last_line(meter, during)

    def sockets(self, side: addresses.Side) -> list[tuple[str, str]]:
        """TCP sockets of a site but those in TIME_WAIT: state and own end, as /proc/net/tcp has them."""

        def read() -> list[tuple[str, str]]:
            lines = Path("/proc/thread-self/net/tcp").read_text(encoding="ascii").splitlines()[1:]
            return [(line.split()[3], line.split()[1]) for line in lines]

        return [one for one in inside(self.sites.of(side), read) if one[0] != TIME_WAIT]

    def listening(self, side: addresses.Side) -> set[str]:
        """Where a site listens: "10.65.0.1:40123"."""
        return {_readable(end) for state, end in self.sockets(side) if state == LISTEN}


def _readable(end: str) -> str:
    """Address and port of "0100410A:9CBB"."""
    address, port = end.split(":")
    return f"{socket.inet_ntoa(bytes.fromhex(address)[::-1])}:{int(port, 16)}"


def job(
    *, duration_ns: int = 0, transfer_bytes: int = 0, deadline_ns: int = 30 * SECOND, **changes: Any
) -> Message:
    """The configuration that both halves receive: for a time, or with a size that is not 0."""
    workload = {"kind": "bulk", "duration_ns": duration_ns}
    if transfer_bytes:
        workload = {"kind": "transfer", "bytes": transfer_bytes, "deadline_ns": deadline_ns}
    usual = {"cc": "cubic", "buffer_bytes": 1 << 20, "seed": 1, "stall_ns": 10 * SECOND}
    return {**usual, "workload": workload, "token": secrets.token_hex(16), **changes}


def last_line(meter: Meter, during: Callable[[Message, Meter], object] | None = None) -> Message:
    """The result, or the first refusal."""
    last: Message = {}
    while not meter.ended:  # as it must by the deadline it was given
        select.select([half for half in meter.halves if not half.ended], [], [], PATIENCE_S)
        for message in meter.take():
            if message["event"] == "error":
                return message
            if during is not None and message["event"] != "result":
                during(message, meter)
            last = message
    return last


@pytest.fixture
def testbed() -> Iterator[Testbed]:
    """Two joined sites; where this machine cannot make them the test is skipped, in CI it fails."""
    with ExitStack() as stack:
        try:
            sites = stack.enter_context(Sites())
        except TrialError as error:
            lack("the meter by itself", Thing(str(error), "elsewhere"))
        if sites.user is not None:  # the devices are made from the test's own process
            lack("the meter by itself", Thing("root", "root"))
        yield Testbed(sites)


def test_transfer_over_mptcp(testbed):
    lines = []
    size = 20_000_003  # no multiple of anything
    result = testbed.measure(lambda message, _: lines.append(message), transfer_bytes=size)
    assert result["failed"] is None and result["corrupt_at"] is None and not result["fallback"]
    assert result["in_order_bytes"] == sum(result["bins"]) == size
    assert result["completion_ns"] == result["duration_ns"] > 0
    assert 0 < result["cpu_ns"] < 3 * result["duration_ns"]
    (flow,) = result["subflows"]
    assert (flow["local"], flow["remote"]) == (SOURCE[0], RECEIVER)
    # On a busy machine the kernel repeats bytes that were merely late, and the FIN, which counts as a byte
    # (`tcpi_bytes_acked`), may be acknowledged before the last look.
    assert size <= flow["bytes"] == sum(flow["bins"]) <= size + result["reinjected_bytes"] + 1
    assert flow["min_rtt_ns"] > 0 and flow["cwnd"] > 0 and flow["backup"] is False and not flow["closed"]
    assert sorted(line["event"] for line in lines) == ["accepted", "connected"]
    (connected,) = (line for line in lines if line["event"] == "connected")
    assert (connected["local_port"], connected["remote_port"]) == (flow["local_port"], flow["remote_port"])


def test_transfer_over_ipv6(testbed):
    result = testbed.measure(transfer_bytes=5_000_000, source="fd64:0:1::1", receivers=("fd65:0:1::1",))
    assert result["failed"] is None and not result["fallback"]
    assert result["subflows"][0]["local"] == "fd64:0:1::1"


def test_saturated_is_cut_at_its_end(testbed):
    testbed.shape(40 * MBIT)
    result = testbed.measure(duration_ns=1_050_000_000)
    assert result["failed"] is None
    assert result["duration_ns"] == 1_050_000_000 and result["completion_ns"] is None
    assert len(result["bins"]) == 11 and sum(result["bins"]) == result["in_order_bytes"]
    assert 0 < result["in_order_bytes"] * 8 < 40 * MBIT * 1.05 + 8 * 100_000  # rate, and a full queue


def test_two_subflows_add_up(testbed):
    testbed.shape(40 * MBIT, 20 * MBIT)
    testbed.second_subflow()
    result = testbed.measure(duration_ns=2 * SECOND)
    assert result["failed"] is None
    flows = result["subflows"]
    assert {flow["local"] for flow in flows} == set(SOURCE)
    for flow in flows:
        assert flow["bytes"] == sum(flow["bins"]) > 0 and len(flow["bins"]) == 20
        assert flow["cc"] == "cubic" and flow["backup"] is False
    # What arrived on the subflows was either handed over in order, or came twice, or waits for earlier
    # bytes in the receive buffer.
    arrived = sum(flow["bytes"] for flow in flows)
    waiting = arrived - result["in_order_bytes"]
    assert 0 <= waiting <= result["reinjected_bytes"] + result["effective"]["receiver_rcvbuf"]


#: Every connection leaves with another port than it has.
TRANSLATION = """
add table ip nat
add chain ip nat leaving { type nat hook postrouting priority 100 ; }
add rule ip nat leaving meta l4proto tcp counter masquerade to :20000-20999
"""


@pytest.mark.needs("nft")
def test_behind_a_translation_both_ends_of_a_subflow_are_joined(testbed):
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [program("nft"), *words]
        return inside(testbed.sites.local, lambda: subprocess.run(command, capture_output=True, text=True))

    if (refused := run(TRANSLATION)).returncode:
        lack("subflows behind a translation", Thing("NAT in the kernel", "elsewhere"), detail=refused.stderr)
    testbed.shape(40 * MBIT, 20 * MBIT)
    testbed.second_subflow()
    result = testbed.measure(duration_ns=SECOND)
    assert "counter packets 2 " in run("list", "ruleset").stdout  # the first of each subflow
    assert {flow["local"] for flow in result["subflows"]} == set(SOURCE)
    assert all(flow["bytes"] > 0 and flow["srtt_ns"] > 0 for flow in result["subflows"])
    assert len(result["subflows"]) == 2


def test_what_limits_a_sender_is_told(testbed):
    testbed.shape(80 * MBIT, 80 * MBIT)
    small = testbed.measure(duration_ns=SECOND, buffer_bytes=1 << 15)["subflows"][0]
    assert 0 < small["busy_ns"] < 2 * SECOND
    assert 0 < small["sndbuf_limited_ns"] + small["rwnd_limited_ns"] <= small["busy_ns"]
    result = testbed.measure(duration_ns=SECOND)
    assert all(0 < share <= 1 for share in result["busy_share"].values())


@pytest.mark.measures("while another subflow waits for a retransmission the kernel may send on a standby one")
def test_backup_subflow_is_told_and_silent(testbed):
    testbed.shape(40 * MBIT, 20 * MBIT)
    testbed.second_subflow(SUBFLOW | BACKUP)
    result = testbed.measure(duration_ns=SECOND)
    by_source = {flow["local"]: flow for flow in result["subflows"]}
    assert [by_source[source]["backup"] for source in SOURCE] == [False, True]
    assert 10 * by_source[SOURCE[1]]["bytes"] < by_source[SOURCE[0]]["bytes"]


def test_thresholds_are_told_in_order(testbed):
    testbed.shape(80 * MBIT)
    sent = []
    thresholds = [1 << 20, 1 << 19, 3 << 20]
    result = testbed.measure(
        lambda message, _: sent.append(message), transfer_bytes=4 << 20, thresholds_bytes=thresholds
    )
    told = [message for message in sent if message["event"] == "sent"]
    assert sent[0]["event"] in ("connected", "accepted") and len(sent) == 2 + len(told) == 5
    assert all(message["bytes"] >= limit for message, limit in zip(told, sorted(thresholds), strict=True))
    times = [message["t_ns"] for message in told]
    assert times == sorted(times) and times[-1] < result["completion_ns"]


def test_buffers_and_congestion_control_are_read_back(testbed):
    for buffer, cc in [(65_536, "reno"), (1 << 20, "cubic")]:
        result = testbed.measure(transfer_bytes=100_000, buffer_bytes=buffer, cc=cc)
        assert result["requested"] == {"sndbuf": buffer, "rcvbuf": buffer}
        assert set(result["effective"].values()) == {2 * buffer}
        assert result["cc_effective"] == cc == result["subflows"][0]["cc"]


def test_buffers_beyond_the_systems_maximum(testbed):
    largest = int(Path("/proc/sys/net/core/wmem_max").read_text())
    result = testbed.measure(transfer_bytes=100_000, buffer_bytes=2 * largest)
    assert result["failed"] is None
    # SO_SNDBUFFORCE is for whoever is privileged outside any user namespace; the effective value tells.
    privileged = Path("/proc/self/uid_map").read_text().split()[2] == str(2**32 - 1)
    assert set(result["effective"].values()) == {4 * largest if privileged else 2 * largest}


def test_plain_tcp(testbed):
    result = testbed.measure(transfer_bytes=5_000_000, mptcp=False, thresholds_bytes=[1_000_000])
    assert result["failed"] is None and not result["fallback"]
    (flow,) = result["subflows"]
    assert flow["bytes"] == 5_000_000 and flow["backup"] is None


def test_unknown_congestion_control_is_refused(testbed):
    with testbed.measuring(duration_ns=SECOND, cc="nosuchcc") as meter:
        line = last_line(meter)
        assert line["event"] == "error"
        assert "nosuchcc" in line["reason"] and "cubic" in line["reason"]
        assert "status 1" in meter.sender.death()


@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_a_namespace_that_is_not_there_is_refused(testbed, role):
    command = agent.command(role, "/proc/self/ns/nothing")
    with Child(role, command, testbed.sites.run) as half, pytest.raises(TrialError, match=f"{role}: --netns"):
        half.expect("anything", PATIENCE_S)


def test_an_address_that_is_not_there_is_refused(testbed):
    line = testbed.measure(duration_ns=SECOND, source="10.64.9.1")
    assert line["event"] == "error" and "sender: local: 10.64.9.1" in line["reason"]
    with pytest.raises(TrialError, match=r"receiver: .*10\.65\.9\.1"):
        testbed.measure(duration_ns=SECOND, receivers=("10.65.9.1",))


def test_receiver_without_mptcp_is_a_failure(testbed):
    testbed.sysctl("remote", "net.mptcp.enabled", "0")
    result = testbed.measure(duration_ns=5 * SECOND)
    assert result["fallback"] is True
    assert "plain TCP" in result["failed"] and "receiver" in result["failed"]
    assert result["duration_ns"] < 5 * SECOND


def test_sender_without_mptcp_is_refused(testbed):
    testbed.sysctl("local", "net.mptcp.enabled", "0")
    line = testbed.measure(duration_ns=SECOND)
    assert line["event"] == "error" and "net.mptcp.enabled" in line["reason"]


def test_nobody_answers(testbed):
    testbed.cut(0)
    result = testbed.measure(duration_ns=500_000_000)
    assert result["failed"].startswith(f"no connection to {RECEIVER}:")
    assert result["in_order_bytes"] == 0 and result["subflows"] == []


@pytest.mark.measures("another process may have the processor when the stall is due to be noticed")
def test_cut_path_stalls_and_its_time_is_told(testbed):
    testbed.shape(20 * MBIT)
    result = testbed.measure(
        lambda message, _: message["event"] == "sent" and testbed.cut(0),
        duration_ns=20 * SECOND,
        stall_ns=SECOND,
        thresholds_bytes=[500_000],
    )
    words = result["failed"].split()
    assert words[:2] == ["stalled", "at"]
    stalled_ns = float(words[2]) * SECOND
    assert 500_000 * 8 / 20 * 1000 * 0.5 < stalled_ns < result["duration_ns"]
    assert 0.9 < (result["duration_ns"] - stalled_ns) / SECOND < 2
    # What the kernel counted meanwhile: timeouts while nobody answered.
    assert "sender: TCPTimeouts +" in result["failed"]
    assert result["subflows"][0]["timeouts"] > 0
    assert result["in_order_bytes"] == sum(result["bins"]) > 0


def test_cut_and_restored_path_loses_nothing(testbed):
    testbed.shape(20 * MBIT, 20 * MBIT)
    testbed.second_subflow()
    sizes = {1_000_000: "replace", 4_000_000: "del"}
    cuts = iter(sizes.values())
    result = testbed.measure(
        lambda message, _: message["event"] == "sent" and testbed.cut(0, next(cuts)),
        transfer_bytes=8_000_000,
        thresholds_bytes=list(sizes),
    )
    assert result["failed"] is None and result["corrupt_at"] is None
    assert result["in_order_bytes"] == 8_000_000 == sum(result["bins"])
    assert next(cuts, None) is None


def test_deadline_of_a_transfer(testbed):
    testbed.shape(10 * MBIT)
    result = testbed.measure(transfer_bytes=100_000_000, deadline_ns=SECOND)
    assert "deadline" in result["failed"] and "of 100000000 bytes" in result["failed"]
    assert result["completion_ns"] is None and result["in_order_bytes"] > 0


def on_connected(act: Callable[[Meter], object]) -> Callable[[Message, Meter], object]:
    return lambda message, meter: message["event"] == "connected" and act(meter)


HALVES = {"sender": 0, "receiver": 1}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("role", HALVES)
def test_signal_ends_with_a_result(testbed, number, role):
    result = testbed.measure(
        on_connected(lambda meter: os.kill(meter.halves[HALVES[role]].pid, number)), duration_ns=25 * SECOND
    )
    assert result["event"] == "result" and result["failed"] == f"ended by {number.name}"
    assert result["duration_ns"] < 25 * SECOND


def test_stop_ends_a_saturated_measurement(testbed):
    testbed.shape(40 * MBIT)
    result = testbed.measure(
        lambda message, meter: message["event"] == "sent" and meter.stop(),
        duration_ns=25 * SECOND,
        thresholds_bytes=[1_000_000],
    )
    assert result["failed"] is None
    assert 0 < result["duration_ns"] < 25 * SECOND and sum(result["bins"]) == result["in_order_bytes"] > 0


@pytest.mark.parametrize("role", HALVES)
def test_a_command_that_is_none_fails(testbed, role):
    result = testbed.measure(
        on_connected(lambda meter: meter.halves[HALVES[role]].tell({"action": "dance"})),
        duration_ns=25 * SECOND,
    )
    assert "dance" in result["failed"]


@pytest.mark.parametrize("role", HALVES)
def test_closed_input_ends_it(testbed, role):
    with testbed.measuring(duration_ns=25 * SECOND) as meter:
        meter.expect("connected", PATIENCE_S)
        half = meter.halves[HALVES[role]]
        half.end(grace_s=20)
        assert not half.killed  # it ended by itself
        # The other one is stopped, and nothing stays open.
        assert meter.expect("result", PATIENCE_S)["failed"] == "standard input was closed"
        until(lambda: meter.take() or meter.ended, "the end of both")
        assert testbed.sockets("local") == [] == testbed.sockets("remote")


@pytest.mark.parametrize("role", HALVES)
def test_a_half_that_is_killed_takes_the_other_one_with_it(testbed, role):
    with testbed.measuring(duration_ns=25 * SECOND) as meter:
        meter.expect("connected", PATIENCE_S)
        os.kill(meter.halves[HALVES[role]].pid, signal.SIGKILL)
        with pytest.raises(TrialError, match=f"{role} was killed by signal 9"):
            meter.expect("result", PATIENCE_S)
        found = meter.salvage()
        assert (found is None) == (role == "receiver")
    until(lambda: not testbed.sockets("local") and not testbed.sockets("remote"), "the end of all sockets")


def test_the_receiver_listens_at_its_address_alone_until_it_has_its_connection(testbed):
    with testbed.meter() as meter:
        meter.listen(job(duration_ns=25 * SECOND), RECEIVER, ())
        (end,) = testbed.listening("remote")
        assert end.startswith(f"{RECEIVER}:")
        meter.connect(SOURCE[0], RECEIVER)
        meter.expect("connected", PATIENCE_S)
        until(lambda: not testbed.listening("remote"), "the end of the listening")


def test_where_subflows_join_nobody_else_gets_in(testbed):
    with testbed.meter() as meter:
        meter.listen(job(duration_ns=25 * SECOND), RECEIVER, RECEIVERS)
        ends = testbed.listening("remote")
        assert {end.partition(":")[0] for end in ends} == set(RECEIVERS)
        (port,) = {int(end.partition(":")[2]) for end in ends}
        assert refuses(testbed, RECEIVERS[1], port)  # before the connection is there, and after
        meter.connect(SOURCE[0], RECEIVER)
        meter.expect("connected", PATIENCE_S)
        assert all(refuses(testbed, address, port) for address in RECEIVERS)
        meter.stop()
        assert meter.expect("result", PATIENCE_S)["failed"] is None
        assert testbed.listening("remote") == set()


@pytest.fixture
def descriptors() -> Iterator[None]:
    """As many as this process may have."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def strangers(testbed: Testbed, port: int, says: list[bytes]) -> list[socket.socket]:
    """Connections to the receiver, each of which says something; it may have been reset already."""

    def connect() -> list[socket.socket]:
        made = [socket.socket() for _ in says]
        for one, said in zip(made, says, strict=True):
            one.settimeout(PATIENCE_S)
            one.bind((SOURCE[0], 0))
            with suppress(ConnectionResetError, BrokenPipeError):
                one.connect((RECEIVER, port))
                one.sendall(said)
        return made

    return inside(testbed.sites.local, connect)


OLD_TOKEN = bytes.fromhex(secrets.token_hex(16))
STRANGERS = {
    "a thousand": [b""] * 1000,
    "silent": [b""],
    "slow": [b"slow"],
    "old token": [OLD_TOKEN],
    "old token with payload": [OLD_TOKEN + bytes(100_000)],
}


@pytest.mark.parametrize("says", STRANGERS.values(), ids=STRANGERS)
def test_strangers_neither_end_nor_delay_the_trial(testbed, descriptors, says):
    patience_ns = 5 * SECOND  # with one that says nothing (candidates.rs)
    size = 4_000_003
    testbed.shape(40 * MBIT)
    with testbed.meter() as meter, ExitStack() as stack:
        meter.listen(job(transfer_bytes=size), RECEIVER, RECEIVERS)
        (port,) = {int(end.rpartition(":")[2]) for end in testbed.listening("remote")}
        others = [stack.enter_context(stranger) for stranger in strangers(testbed, port, says)]
        meter.connect(SOURCE[0], RECEIVER)
        meter.expect("connected", PATIENCE_S)
        others += [stack.enter_context(stranger) for stranger in strangers(testbed, port, [b"late"])]
        result = last_line(meter)
        assert result["failed"] is None and result["strangers"] == len(others)
        assert result["in_order_bytes"] == sum(result["bins"]) == size
        assert result["completion_ns"] < patience_ns
        assert all(is_reset(other) for other in others)


def is_reset(stranger: socket.socket) -> bool:
    """Whether nothing more can come on a connection."""
    try:
        return stranger.recv(1) == b""
    except OSError as error:
        return error.errno in (errno.ECONNRESET, errno.ENOTCONN)


def test_the_token_is_no_payload(testbed):
    testbed.shape(40 * MBIT)
    sent = []
    result = testbed.measure(
        lambda message, _: sent.append(message), transfer_bytes=300_000, thresholds_bytes=[300_000, 300_001]
    )
    assert result["in_order_bytes"] == 300_000 <= result["subflows"][0]["bytes"]
    assert [one["bytes"] for one in sent if one["event"] == "sent"] in ([300_000], [])
    plain = testbed.measure(transfer_bytes=300_000, mptcp=False)
    assert plain["subflows"][0]["bytes"] == sum(plain["subflows"][0]["bins"]) == 300_000
    assert testbed.measure(transfer_bytes=300_000, token=None)["failed"] is None


def refuses(testbed: Testbed, address: str, port: int) -> bool:
    """Whether a stranger's connection is reset before anything is said."""

    def connect() -> bool:
        try:
            source = SOURCE[RECEIVERS.index(address)], 0
            with socket.create_connection((address, port), PATIENCE_S, source) as stranger:
                return stranger.recv(1) == b""
        except (ConnectionResetError, ConnectionRefusedError):
            return True

    return inside(testbed.sites.local, connect)


def test_nothing_stays_open(testbed):
    """What is queued at the end is thrown away: no orphan goes on sending."""
    testbed.shape(5 * MBIT, 5 * MBIT)
    testbed.second_subflow()
    for changes in ({"mptcp": True}, {"mptcp": False}):
        result = testbed.measure(duration_ns=300_000_000, buffer_bytes=4 << 20, **changes)
        assert result["failed"] is None
        assert testbed.sockets("local") == [] == testbed.sockets("remote")


PARENT = """
import subprocess, sys
agent = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
print(agent.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("role", HALVES)
def test_it_dies_with_whoever_started_it(testbed, role):
    arguments = [sys.executable, "-c", PARENT, *agent.command(role, testbed.sites.local)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        process = Path("/proc", parent.stdout.readline().decode().strip())
        assert process.exists()
        parent.kill()
    until(lambda: not process.exists(), f"the end of the {role}")


#: Left out at the start, seconds: how fast both subflows get going differs much from run to run.
WARM_UP = 2


def iperf3(testbed: Testbed, seconds: int, buffer: int) -> float:
    """Payload that iperf3 receives over such a connection after the warm-up, bit/s."""

    def start(side: addresses.Side, *arguments: str) -> subprocess.Popen[bytes]:
        command = ["mptcpize", "run", "iperf3", *arguments]
        return inside(testbed.sites.of(side), lambda: subprocess.Popen(command, stdout=subprocess.PIPE))

    with start("remote", "--server", "--one-off", "--forceflush") as server:
        try:
            assert server.stdout is not None
            while b"listening" not in server.stdout.readline():
                assert server.poll() is None
            client = start(
                "local", "--client", RECEIVER, "--bind", SOURCE[0],
                "--time", str(seconds), "--omit", str(WARM_UP), "--window", str(buffer),
                "--congestion", "cubic", "--json",
            )  # fmt: skip
            output, _ = client.communicate(timeout=seconds + 20)
        finally:
            server.kill()
    return float(json.loads(output)["end"]["sum_received"]["bits_per_second"])


@pytest.mark.measures("two transfers one after the other, with the processors that are left to each")
@pytest.mark.needs("iperf3")
@pytest.mark.timeout(120)
def test_agrees_with_iperf3(testbed):
    """Within 5 % over 10 s, in which they do not lose the same packets."""
    testbed.shape(60 * MBIT, 30 * MBIT)
    testbed.second_subflow()
    ours = testbed.measure(duration_ns=(WARM_UP + 10) * SECOND, buffer_bytes=1 << 20)
    assert ours["failed"] is None
    theirs = iperf3(testbed, 10, 1 << 20)
    assert sum(ours["bins"][10 * WARM_UP :]) * 8 / 10 == pytest.approx(theirs, rel=0.05)
