"""The meter between two namespaces joined by veth pairs, over the running kernel's own MPTCP.

No emulator: where a rate matters, token buckets (tbf) set it.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from mptune.errors import TrialError
from mptune.linux import addresses
from mptune.linux.namespaces import Sites
from mptune.linux.netlink import inside
from mptune.linux.processes import Child

pyroute2 = pytest.importorskip("pyroute2")
from pyroute2.netlink.generic.mptcp import MPTCP  # noqa: E402 - not installed everywhere

MODULE = "mptune.linux.meter"
SECOND = 1_000_000_000
MBIT = 1_000_000
#: include/uapi/linux/mptcp.h
SUBFLOW, BACKUP = 2, 4
SOURCE = ("10.64.0.1", "10.64.1.1")
RECEIVER = "10.65.0.1"

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

    def config(self, **changes: Any) -> Message:
        ends = {
            "sender": {"netns": self.sites.local, "address": SOURCE[0]},
            "receiver": {"netns": self.sites.remote, "address": RECEIVER},
        }
        limits = {"deadline_ns": 30 * SECOND, "stall_ns": 10 * SECOND}
        return {**ends, **limits, "cc": "cubic", "buffer_bytes": 1 << 20, "seed": 1, **changes}

    @contextmanager
    def meter(self, **changes: Any) -> Iterator[Child]:
        """A meter that was told what to do."""
        with self.sites.start("meter", MODULE) as meter:
            meter.tell(self.config(**changes))
            yield meter

    def measure(self, during: Callable[[Message, Child], object] | None = None, **changes: Any) -> Message:
        """The last line of a measurement; `during` is called with every one before."""
        with self.meter(**changes) as meter:
            return last_line(meter, during)

    def sockets(self, side: addresses.Side) -> list[str]:
        """TCP sockets of a site but those in TIME_WAIT (state 06), lines of /proc/net/tcp."""

        def read() -> list[str]:
            text = Path("/proc/thread-self/net/tcp").read_text(encoding="ascii")
            return [line for line in text.splitlines()[1:] if line.split()[3] != "06"]

        return inside(self.sites.of(side), read)


def last_line(meter: Child, during: Callable[[Message, Child], object] | None = None) -> Message:
    last: Message = {}
    end = time.monotonic() + 45
    while not meter.ended:
        assert time.monotonic() < end, "the meter does not end"
        select.select([meter], [], [], 1)
        for message in meter.take():
            if during is not None and message["event"] not in ("result", "error"):
                during(message, meter)
            last = message
    return last


@pytest.fixture
def testbed() -> Iterator[Testbed]:
    """Two joined sites; where this machine cannot make them the test is skipped, in CI it fails."""
    with ExitStack() as stack:
        try:
            sites = stack.enter_context(Sites())
            if sites.user is not None:
                raise TrialError("needs root: the devices are made from the test's own process")
        except TrialError as error:
            if "CI" in os.environ:
                raise
            pytest.skip(str(error))
        yield Testbed(sites)


@pytest.mark.measures
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
    # On a busy machine the kernel repeats bytes that were merely late.
    assert size <= flow["bytes"] == sum(flow["bins"]) <= size + result["reinjected_bytes"]
    assert flow["min_rtt_ns"] > 0 and flow["cwnd"] > 0 and flow["backup"] is False and not flow["closed"]
    (connected,) = lines
    assert connected["event"] == "connected"
    assert (connected["local_port"], connected["remote_port"]) == (flow["local_port"], flow["remote_port"])


def test_transfer_over_ipv6(testbed):
    ends = {
        "sender": {"netns": testbed.sites.local, "address": "fd64:0:1::1"},
        "receiver": {"netns": testbed.sites.remote, "address": "fd65:0:1::1"},
    }
    result = testbed.measure(transfer_bytes=5_000_000, **ends)
    assert result["failed"] is None and not result["fallback"]
    assert result["subflows"][0]["local"] == "fd64:0:1::1"


def test_saturated_is_cut_at_its_end(testbed):
    testbed.shape(40 * MBIT)
    result = testbed.measure(duration_ns=1_050_000_000)
    assert result["failed"] is None
    assert result["duration_ns"] == 1_050_000_000 and result["completion_ns"] is None
    assert len(result["bins"]) == 11 and sum(result["bins"]) == result["in_order_bytes"]
    assert 0 < result["in_order_bytes"] * 8 < 40 * MBIT * 1.05 + 8 * 100_000  # rate, and a full queue


@pytest.mark.measures
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


@pytest.mark.measures
def test_backup_subflow_is_told_and_silent(testbed):
    testbed.shape(40 * MBIT, 20 * MBIT)
    testbed.second_subflow(SUBFLOW | BACKUP)
    result = testbed.measure(duration_ns=SECOND)
    by_source = {flow["local"]: flow for flow in result["subflows"]}
    assert [by_source[source]["backup"] for source in SOURCE] == [False, True]
    assert by_source[SOURCE[1]]["bytes"] == 0 < by_source[SOURCE[0]]["bytes"]


@pytest.mark.measures
def test_thresholds_are_told_in_order(testbed):
    testbed.shape(80 * MBIT)
    sent = []
    thresholds = [1 << 20, 1 << 19, 3 << 20]
    result = testbed.measure(
        lambda message, _: sent.append(message), transfer_bytes=4 << 20, thresholds_bytes=thresholds
    )
    assert [message["event"] for message in sent] == ["connected", "sent", "sent", "sent"]
    told = sent[1:]
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
    with testbed.meter(duration_ns=SECOND, cc="nosuchcc") as meter:
        line = last_line(meter)
        assert line["event"] == "error"
        assert "nosuchcc" in line["reason"] and "cubic" in line["reason"]
        assert "status 1" in meter.death()


@pytest.mark.parametrize(
    ("end", "change", "expected"),
    [
        ("sender", {"netns": "/proc/self/ns/nothing"}, "sender.netns"),
        ("receiver", {"netns": "/proc/self/ns/nothing"}, "receiver.netns"),
        ("sender", {"address": "10.64.9.1"}, "sender.address"),
    ],
)
def test_an_end_that_is_not_there_is_refused(testbed, end, change, expected):
    config = testbed.config()
    line = testbed.measure(duration_ns=SECOND, **{end: {**config[end], **change}})
    assert line["event"] == "error" and expected in line["reason"]


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


@pytest.mark.measures
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
    assert result["duration_ns"] - stalled_ns == pytest.approx(SECOND, rel=0.1)
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


def on_connected(act: Callable[[Child], object]) -> Callable[[Message, Child], object]:
    return lambda message, meter: message["event"] == "connected" and act(meter)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_with_a_result(testbed, number):
    result = testbed.measure(on_connected(lambda meter: os.kill(meter.pid, number)), duration_ns=25 * SECOND)
    assert result["event"] == "result" and result["failed"] == f"ended by {number.name}"
    assert result["duration_ns"] < 20 * SECOND


def test_stop_ends_a_saturated_measurement(testbed):
    testbed.shape(40 * MBIT)
    result = testbed.measure(
        lambda message, meter: message["event"] == "sent" and meter.tell({"action": "stop"}),
        duration_ns=25 * SECOND,
        thresholds_bytes=[1_000_000],
    )
    assert result["failed"] is None
    assert 0 < result["duration_ns"] < 20 * SECOND and sum(result["bins"]) == result["in_order_bytes"] > 0


def test_a_command_that_is_none_fails(testbed):
    result = testbed.measure(
        on_connected(lambda meter: meter.tell({"action": "dance"})), duration_ns=25 * SECOND
    )
    assert "dance" in result["failed"]


@pytest.mark.measures
def test_closed_input_ends_it(testbed):
    with testbed.meter(duration_ns=25 * SECOND) as meter:
        meter.expect("connected", 10)
        started = time.monotonic()
        meter.end()
        assert time.monotonic() - started < 2.5  # by itself, before it would be killed


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
meter = subprocess.Popen([sys.executable, "-m", sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
meter.stdin.write(sys.argv[2].encode() + b"\\n")
meter.stdin.flush()
meter.stdout.readline()
print(meter.pid, flush=True)
sys.stdin.read()
"""


def test_it_dies_with_whoever_started_it(testbed):
    config = json.dumps(testbed.config(duration_ns=25 * SECOND))
    arguments = [sys.executable, "-c", PARENT, MODULE, config]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        meter = Path("/proc", parent.stdout.readline().decode().strip())
        assert meter.exists()
        parent.kill()
    end = time.monotonic() + 10
    while meter.exists() and time.monotonic() < end:
        select.select([], [], [], 0.01)
    assert not meter.exists()


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


@pytest.mark.measures
@pytest.mark.timeout(120)
def test_agrees_with_iperf3(testbed):
    """Within 2 % over 10 s."""
    if not (shutil.which("iperf3") and shutil.which("mptcpize")):
        assert "CI" not in os.environ, "needs iperf3 and mptcpize"
        pytest.skip("needs iperf3 and mptcpize")
    testbed.shape(60 * MBIT, 30 * MBIT)
    testbed.second_subflow()
    ours = testbed.measure(duration_ns=(WARM_UP + 10) * SECOND, buffer_bytes=1 << 20)
    assert ours["failed"] is None
    theirs = iperf3(testbed, 10, 1 << 20)
    assert sum(ours["bins"][10 * WARM_UP :]) * 8 / 10 == pytest.approx(theirs, rel=0.02)
