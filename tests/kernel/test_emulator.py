"""The emulator between two real network stacks: delay, rate, order, losses, cuts, marks, and how it ends.

UDP sockets at both ends: one thread sends and receives, so what it measures is the way between them.
"""

import json
import os
import random
import signal
import socket
import statistics
import struct
import subprocess
import threading
import time
from contextlib import ExitStack, suppress

import pytest

from mptune.errors import TrialError
from mptune.linux import agent
from mptune.linux.sandbox.namespaces import Sites
from tests.plugins.emulation import Emulation, links
from tests.plugins.netlink import inside
from tests.plugins.waiting import PATIENCE_S

#: A datagram of this size is a packet of 1028 bytes in IPv4 and of 1048 in IPv6.
DATAGRAM = 1000
HEADERS = {socket.AF_INET: 28, socket.AF_INET6: 48}
ECT, CE = 0b10, 0b11
#: Number of a datagram behind which no other comes.
LAST = 10_000
#: include/uapi/asm-generic/socket.h
SO_SNDBUFFORCE, SO_TIMESTAMPNS = 32, 35
FAMILIES = pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6], ids=["IPv4", "IPv6"])


pytestmark = pytest.mark.usefixtures("may_enter")


def datagram(number):
    return struct.pack("!I", number).ljust(DATAGRAM, b"\0")


def numbers(end, count):
    """Numbers of the next `count` datagrams that arrive."""
    return [struct.unpack_from("!I", end.recv(2048))[0] for _ in range(count)]


def until_last(end):
    """Numbers of the datagrams that arrive before one with the number LAST."""
    numbers_got = numbers(end, 1)
    while numbers_got[-1] != LAST:
        numbers_got += numbers(end, 1)
    return numbers_got[:-1]


def round_trip_s(ends):
    begin = time.perf_counter()
    for end, other in (ends, reversed(ends)):
        end.send(b"echo")
        other.recv(100)
    return time.perf_counter() - begin


def stamped(receiver):
    """Number of a datagram, and when the kernel received it, seconds."""
    data, ((_, _, stamp),), _, _ = receiver.recvmsg(2048, 100)
    seconds, nanoseconds = struct.unpack("qq", stamp)
    return struct.unpack_from("!I", data)[0], seconds + nanoseconds * 1e-9


def carries_beside(ends, others):
    """A datagram arrives before several that follow it on another path of the same length."""
    sender, receiver = ends
    receiver.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            receiver.recv(100)
    sender.send(b"one")
    for _ in range(10):
        round_trip_s(others)
    with suppress(BlockingIOError):
        return receiver.recv(100) == b"one"
    return False


@pytest.mark.measures("how late the emulator is")
@FAMILIES
def test_a_round_trip_takes_what_both_links_take(family):
    with Emulation(links(delay_ns=10_000_000)) as emulation:
        ends = emulation.ends(family)
        trips = [round_trip_s(ends) for _ in range(50)]
        report = emulation.report()
    # Of a busy machine only the undisturbed trips count, and one of fifty is.
    assert 1 <= min(trips) / 0.020 < 1.05
    assert report["packets"] == 100 and report["overflow"] == 0
    assert 0 < report["late_p50_ns"] <= report["late_p99_ns"] <= report["late_max_ns"]
    assert 0 < report["cpu_ns"] < report["elapsed_ns"]


@pytest.mark.measures("the kernel may run another process when the first or the last packet is due")
@FAMILIES
def test_a_burst_leaves_at_the_rate_of_the_link_whole_and_in_order(family):
    count, rate = 500, 20_000_000
    with Emulation(links(rate_bps=rate, delay_ns=5_000_000, queue_bytes=1_000_000)) as emulation:
        sender, receiver = emulation.ends(family)
        receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        for number in range(count):
            sender.send(datagram(number))
        arrived = [stamped(receiver) for _ in range(count)]
        report = emulation.report()
    assert [number for number, _ in arrived] == list(range(count))
    size = DATAGRAM + HEADERS[family]
    # Not from first to last, which may be late: between the middle packets of its halves lies half of it.
    halves = arrived[: count // 2], arrived[count // 2 :]
    early, late = (statistics.median(at_s for _, at_s in half) for half in halves)
    assert late - early == pytest.approx(count / 2 * size * 8 / rate, rel=0.02)
    assert (report["packets"], report["bytes"]) == (count, count * size)


@pytest.mark.parametrize("protocol", [socket.IPPROTO_TCP, socket.IPPROTO_MPTCP], ids=["TCP", "MPTCP"])
@FAMILIES
def test_at_a_rate_at_which_segments_are_rejoined_what_is_sent_arrives(family, protocol):
    """Through losses, and with fewer deliveries to the receiving stack than packets on the network."""
    size = 24 << 20
    network = links(rate_bps=2_000_000_000, delay_ns=1_000_000, queue_bytes=1_000_000, loss_ppb=1_000_000)
    data = random.Random(1).randbytes(size)
    with Emulation(network) as emulation, ExitStack() as stack:
        sender, receiver = emulation.connection(stack, family, protocol)
        sending = threading.Thread(target=sender.sendall, args=(data,))
        sending.start()
        received = bytearray()
        while len(received) < size:
            part = receiver.recv(1 << 20)
            assert part
            received += part
        sending.join()
        delivered = emulation.received("remote")
        report = emulation.report()
    assert received == data
    there = report["links"][0]
    assert there["lost"] > 0 and report["overflow"] == 0
    assert there["forwarded"] >= size / 1500
    assert delivered < there["forwarded"] / 2


def test_what_does_not_fit_into_the_queue_is_dropped():
    network = links(rate_bps=1_000_000, queue_bytes=10 * (DATAGRAM + 28))
    with Emulation(network, start=False) as emulation:
        sender, receiver = emulation.ends()
        sender.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 16 << 20)
        for number in range(100):  # all are there when the first one begins to leave
            sender.send(datagram(number))
        emulation.emulator.tell({"action": "start"})
        arrived = numbers(receiver, 10)
        sender.send(datagram(LAST))
        arrived += until_last(receiver)
        report = emulation.report()
    assert arrived[:10] == list(range(10)) and len(arrived) < 15
    assert report["links"][0]["dropped"] == 100 - len(arrived)


def test_losses_are_as_many_as_asked_for_and_no_others_happen():
    with Emulation(links(loss_ppb=200_000_000)) as emulation:
        sender, receiver = emulation.ends()
        for number in range(2000):
            sender.send(datagram(number))
        for _ in range(20):  # of which some come through
            sender.send(datagram(LAST))
        arrived = until_last(receiver)
        report = emulation.report()
    assert len(arrived) == len(set(arrived))
    lost = 2000 - len(arrived)
    # Binomial(2000, 0.2): standard deviation 17.9; five of them.
    assert abs(lost - 400) < 90
    assert lost <= report["links"][0]["lost"] < lost + 20
    assert report["overflow"] == 0


def test_a_path_that_is_cut_carries_nothing_until_it_is_restored(until):
    with Emulation(links(paths=2)) as emulation:
        first, second = emulation.ends(path=0), emulation.ends(path=1)
        carries = lambda: carries_beside(first, second)  # noqa: E731
        assert carries()
        emulation.emulator.tell({"action": "down", "path": 0})
        until(lambda: not carries(), "the cut")
        assert not carries()
        emulation.emulator.tell({"action": "up", "path": 0})
        until(carries, "the path")


AQM = {
    "step": {"kind": "step", "mark_bytes": 10_000},
    "fq_codel": {
        "kind": "fq_codel",
        "target_ns": 2_000_000,
        "interval_ns": 20_000_000,
        "ecn": True,
        "queues": 64,
        "quantum_bytes": 1514,
    },
}


@FAMILIES
@pytest.mark.parametrize("aqm", AQM)
def test_a_queue_marks_packets_that_can_be_marked(family, aqm):
    """An IPv4 packet with a wrong header checksum would not arrive."""
    is_v4 = family == socket.AF_INET
    level = socket.IPPROTO_IP if is_v4 else socket.IPPROTO_IPV6
    field, expected = (
        (socket.IP_TOS, socket.IP_RECVTOS) if is_v4 else (socket.IPV6_TCLASS, socket.IPV6_RECVTCLASS)
    )
    count = 80
    network = links(rate_bps=4_000_000, queue_bytes=1_000_000, aqm=AQM[aqm])
    with Emulation(network) as emulation:
        sender, receiver = emulation.ends(family)
        sender.setsockopt(level, field, ECT)
        receiver.setsockopt(level, expected, 1)
        for number in range(count):
            sender.send(datagram(number))
        # Whatever their order: when a busy kernel moves the emulator to another processor, what it writes
        # there may be delivered first.
        classes: dict[bytes, int] = {}
        for _ in range(count):
            data, ancillary, _, _ = receiver.recvmsg(2048, 100)
            classes[data] = ancillary[0][2][0]
        report = emulation.report()
    assert classes.keys() == {datagram(number) for number in range(count)}
    assert {*classes.values()} == {ECT, CE} and classes[datagram(0)] == ECT
    assert list(classes.values()).count(CE) == report["links"][0]["marked"]


def test_what_is_sent_before_the_start_waits_for_it():
    with Emulation(links(), start=False) as emulation:
        sender, receiver = emulation.ends()
        sender.send(datagram(7))
        emulation.emulator.tell({"action": "start"})
        assert numbers(receiver, 1) == [7]


def test_packets_that_are_on_no_path_are_counted():
    with Emulation(links(paths=2)) as emulation:
        sender, _ = emulation.ends()
        ends = emulation.ends()
        sender.connect((emulation.interfaces["remote"][1].ipv4, 9))
        for _ in range(5):
            sender.send(b"astray")
        round_trip_s(ends)  # behind them in the same device
        report = emulation.report()
    assert report["unroutable"] >= 5 and report["packets"] == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_its_report(number):
    with Emulation(links()) as emulation:
        round_trip_s(emulation.ends())
        os.kill(emulation.emulator.pid, number)
        assert emulation.emulator.expect("report", PATIENCE_S)["packets"] == 2
        assert "status 0" in emulation.emulator.death()


def told_at_once(*commands):
    """An emulator's answer to commands that are its whole input, and its exit status."""
    with Sites() as sites:
        network = links()
        end = {"index": 0, "device": "if0"}
        interfaces = [
            {**end, "side": "local", "netns": sites.local, "ipv4": "10.64.0.1"},
            {**end, "side": "remote", "netns": sites.remote, "ipv4": "10.65.0.1"},
        ]
        lines = [{"network": network, "seed": 1, "interfaces": interfaces}, *commands]
        done = subprocess.run(
            agent.command("emulator"),
            input="".join(json.dumps(line) + "\n" for line in lines),
            stdout=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode


@pytest.mark.parametrize("commands", [[], [{"action": "start"}]], ids=["before the start", "after it"])
def test_the_end_of_its_input_ends_it_with_its_report(commands):
    messages, status = told_at_once(*commands)
    assert [message["event"] for message in messages] == ["ready", "report"]
    assert messages[-1]["packets"] == 0 and status == 0


def test_a_wrong_command_ends_it_with_its_reason_and_report():
    messages, status = told_at_once({"action": "start"}, {"action": "down", "path": 1})
    assert [message["event"] for message in messages] == ["ready", "error", "report"]
    assert "expected a path below 1, found 1" in messages[1]["reason"] and status == 1


def test_killed_it_leaves_no_device(until):
    with Emulation(links(paths=2)) as emulation:
        site = emulation.sites.local
        names = lambda: [name for _, name in inside(site, socket.if_nameindex)]  # noqa: E731
        assert {"if0", "if1"} <= set(names())
        os.kill(emulation.emulator.pid, signal.SIGKILL)
        until(lambda: names() == ["lo"], "the devices to go")


def refusal(change):
    """Reason that is given for a configuration with something wrong in it."""
    with Emulation(links()) as emulation, emulation.sites.start_emulator() as other:
        configuration = emulation.configuration()
        change(configuration)
        other.tell(configuration)
        with pytest.raises(TrialError) as caught:
            other.expect("ready", PATIENCE_S)
        assert other.death().endswith("status 1")
    return str(caught.value)


def test_a_wrong_configuration_is_refused():
    def of_interface(**values):
        return refusal(lambda configuration: configuration["interfaces"][0].update(values))

    assert "/nowhere/net: No such file" in of_interface(netns="/nowhere/net")
    assert "TUNSETIFF" in of_interface(device="if0") and "free" in of_interface(device="if0")
    assert "setns" in of_interface(netns="/proc/self/ns/uts", device="new")
    assert "network.links[0].rate_bps" in refusal(lambda c: c["network"]["links"][0].update(rate_bps=1))
