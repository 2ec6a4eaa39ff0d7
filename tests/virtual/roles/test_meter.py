"""The two halves of the meter over the kernel's own MPTCP: results, failures, ends."""

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from mptune.errors import TrialError
from mptune.linux import agent
from mptune.linux.meter import Meter
from mptune.linux.sandbox.processes import Child
from tests.plugins.meter_world import (
    BACKUP,
    HALVES,
    MBIT,
    RECEIVER,
    SECOND,
    SOURCE,
    SUBFLOW,
    Message,
    last_line,
)
from tests.plugins.netlink import inside
from tests.plugins.waiting import PATIENCE_S, until


def test_transfer_over_mptcp(joined):
    lines = []
    size = 20_000_003  # no multiple of anything
    result = joined.measure(lambda message, _: lines.append(message), transfer_bytes=size)
    assert result["failed"] is None and result["corrupt_at"] is None and not result["fallback"]
    assert result["in_order_bytes"] == sum(result["bins"]) == size
    assert result["completion_ns"] == result["duration_ns"] > 0
    (flow,) = result["subflows"]
    assert (flow["local"], flow["remote"]) == (SOURCE[0], RECEIVER)
    # On a busy machine the kernel repeats bytes that were merely late, and the FIN, which counts as a byte
    # (`tcpi_bytes_acked`), may be acknowledged before the last look.
    assert size <= flow["bytes"] == sum(flow["bins"]) <= size + result["reinjected_bytes"] + 1
    assert flow["min_rtt_ns"] > 0 and flow["cwnd"] > 0 and flow["backup"] is False and not flow["closed"]
    assert sorted(line["event"] for line in lines) == ["accepted", "connected"]
    (connected,) = (line for line in lines if line["event"] == "connected")
    assert (connected["local_port"], connected["remote_port"]) == (flow["local_port"], flow["remote_port"])


def test_transfer_over_ipv6(joined):
    result = joined.measure(transfer_bytes=5_000_000, source="fd64:0:1::1", receivers=("fd65:0:1::1",))
    assert result["failed"] is None and not result["fallback"]
    assert result["subflows"][0]["local"] == "fd64:0:1::1"


def test_saturated_is_cut_at_its_end(joined):
    joined.shape(40 * MBIT)
    result = joined.measure(duration_ns=1_050_000_000)
    assert result["failed"] is None
    assert result["duration_ns"] == 1_050_000_000 and result["completion_ns"] is None
    assert len(result["bins"]) == 11 and sum(result["bins"]) == result["in_order_bytes"]
    assert 0 < result["in_order_bytes"] * 8 < 40 * MBIT * 1.05 + 8 * 100_000  # rate, and a full queue


def test_two_subflows_add_up(joined):
    joined.shape(40 * MBIT, 20 * MBIT)
    joined.second_subflow()
    result = joined.measure(duration_ns=2 * SECOND)
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


def test_what_limits_a_sender_is_reported(joined):
    joined.shape(80 * MBIT, 80 * MBIT)
    small = joined.measure(duration_ns=SECOND, buffer_bytes=1 << 15)["subflows"][0]
    assert 0 < small["busy_ns"] < 2 * SECOND
    assert 0 < small["sndbuf_limited_ns"] + small["rwnd_limited_ns"] <= small["busy_ns"]


def test_backup_subflow_is_reported_and_silent(joined):
    joined.shape(40 * MBIT, 20 * MBIT)
    joined.second_subflow(SUBFLOW | BACKUP)
    result = joined.measure(duration_ns=SECOND)
    by_source = {flow["local"]: flow for flow in result["subflows"]}
    assert [by_source[source]["backup"] for source in SOURCE] == [False, True]
    assert 10 * by_source[SOURCE[1]]["bytes"] < by_source[SOURCE[0]]["bytes"]


def test_thresholds_are_reported_in_order(joined):
    joined.shape(80 * MBIT)
    sent = []
    thresholds = [1 << 20, 1 << 19, 3 << 20]
    result = joined.measure(
        lambda message, _: sent.append(message), transfer_bytes=4 << 20, thresholds_bytes=thresholds
    )
    reports = [message for message in sent if message["event"] == "sent"]
    assert sent[0]["event"] in ("connected", "accepted") and len(sent) == 2 + len(reports) == 5
    assert all(message["bytes"] >= limit for message, limit in zip(reports, sorted(thresholds), strict=True))
    times = [message["t_ns"] for message in reports]
    assert times == sorted(times) and times[-1] < result["completion_ns"]


def test_buffers_and_congestion_control_are_read_back(joined):
    for buffer, cc in [(65_536, "reno"), (1 << 20, "cubic")]:
        result = joined.measure(transfer_bytes=100_000, buffer_bytes=buffer, cc=cc)
        assert result["requested"] == {"sndbuf": buffer, "rcvbuf": buffer}
        assert set(result["effective"].values()) == {2 * buffer}
        assert result["cc_effective"] == cc == result["subflows"][0]["cc"]


def test_buffers_beyond_the_systems_maximum(joined):
    largest = int(Path("/proc/sys/net/core/wmem_max").read_text())
    result = joined.measure(transfer_bytes=100_000, buffer_bytes=2 * largest)
    assert result["failed"] is None
    # SO_SNDBUFFORCE is for whoever is privileged outside any user namespace; the effective value shows it.
    privileged = Path("/proc/self/uid_map").read_text().split()[2] == str(2**32 - 1)
    assert set(result["effective"].values()) == {4 * largest if privileged else 2 * largest}


def test_plain_tcp(joined):
    result = joined.measure(transfer_bytes=5_000_000, mptcp=False, thresholds_bytes=[1_000_000])
    assert result["failed"] is None and not result["fallback"]
    (flow,) = result["subflows"]
    assert flow["bytes"] == 5_000_000 and flow["backup"] is None


def test_unknown_congestion_control_is_refused(joined):
    with joined.measuring(duration_ns=SECOND, cc="nosuchcc") as meter:
        line = last_line(meter)
        assert line["event"] == "error"
        assert "nosuchcc" in line["reason"] and "cubic" in line["reason"]
        assert "status 1" in meter.sender.death()


@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_a_namespace_that_is_not_there_is_refused(joined, role):
    command = agent.command(role, "/proc/self/ns/nothing")
    with Child(role, command, joined.sites.run) as half, pytest.raises(TrialError, match=f"{role}: --netns"):
        half.expect("anything", PATIENCE_S)


def test_an_address_that_is_not_there_is_refused(joined):
    line = joined.measure(duration_ns=SECOND, source="10.64.9.1")
    assert line["event"] == "error" and "sender: local: 10.64.9.1" in line["reason"]
    with pytest.raises(TrialError, match=r"receiver: .*10\.65\.9\.1"):
        joined.measure(duration_ns=SECOND, receivers=("10.65.9.1",))


def test_receiver_without_mptcp_is_a_failure(joined):
    joined.sysctl("remote", "net.mptcp.enabled", "0")
    result = joined.measure(duration_ns=5 * SECOND)
    assert result["fallback"] is True
    assert "plain TCP" in result["failed"] and "receiver" in result["failed"]
    assert result["duration_ns"] < 5 * SECOND


def test_sender_without_mptcp_is_refused(joined):
    joined.sysctl("local", "net.mptcp.enabled", "0")
    line = joined.measure(duration_ns=SECOND)
    assert line["event"] == "error" and "net.mptcp.enabled" in line["reason"]


@pytest.mark.parametrize("side", ["local", "remote"])
def test_a_program_that_takes_tcp_is_measured_without_mptcp_at_either_end(joined, side):
    joined.sysctl(side, "net.mptcp.enabled", "0")
    result = joined.measure(transfer_bytes=1_000_000, takes_tcp=True)
    assert result["failed"] is None and result["fallback"] is True
    (flow,) = result["subflows"]
    assert flow["bytes"] == result["in_order_bytes"] == 1_000_000


def test_without_a_congestion_control_it_is_the_machines(joined):
    joined.sysctl("local", "net.ipv4.tcp_congestion_control", "reno")
    result = joined.measure(transfer_bytes=1_000_000, cc=None, buffer_bytes=None)
    assert result["failed"] is None and result["cc_effective"] == "reno"


def test_nobody_answers(joined):
    joined.cut(0)
    result = joined.measure(duration_ns=500_000_000)
    assert result["failed"].startswith(f"no connection to {RECEIVER}:")
    assert result["in_order_bytes"] == 0 and result["subflows"] == []


def test_cut_path_stalls_and_its_time_is_reported(joined):
    joined.shape(20 * MBIT)
    result = joined.measure(
        lambda message, _: message["event"] == "sent" and joined.cut(0),
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


def test_cut_and_restored_path_loses_nothing(joined):
    joined.shape(20 * MBIT, 20 * MBIT)
    joined.second_subflow()
    sizes = {1_000_000: "replace", 4_000_000: "del"}
    cuts = iter(sizes.values())
    result = joined.measure(
        lambda message, _: message["event"] == "sent" and joined.cut(0, next(cuts)),
        transfer_bytes=8_000_000,
        thresholds_bytes=list(sizes),
    )
    assert result["failed"] is None and result["corrupt_at"] is None
    assert result["in_order_bytes"] == 8_000_000 == sum(result["bins"])
    assert next(cuts, None) is None


def test_deadline_of_a_transfer(joined):
    joined.shape(10 * MBIT)
    result = joined.measure(transfer_bytes=100_000_000, deadline_ns=SECOND)
    assert "deadline" in result["failed"] and "of 100000000 bytes" in result["failed"]
    assert result["completion_ns"] is None and result["in_order_bytes"] > 0


def on_connected(act: Callable[[Meter], object]) -> Callable[[Message, Meter], object]:
    return lambda message, meter: message["event"] == "connected" and act(meter)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("role", HALVES)
def test_signal_ends_with_a_result(joined, number, role):
    result = joined.measure(
        on_connected(lambda meter: os.kill(meter.halves[HALVES[role]].pid, number)), duration_ns=25 * SECOND
    )
    assert result["event"] == "result" and result["failed"] == f"ended by {number.name}"
    assert result["duration_ns"] < 25 * SECOND


def test_stop_ends_a_saturated_measurement(joined):
    joined.shape(40 * MBIT)
    result = joined.measure(
        lambda message, meter: message["event"] == "sent" and meter.stop(),
        duration_ns=25 * SECOND,
        thresholds_bytes=[1_000_000],
    )
    assert result["failed"] is None
    assert 0 < result["duration_ns"] < 25 * SECOND and sum(result["bins"]) == result["in_order_bytes"] > 0


@pytest.mark.parametrize("role", HALVES)
def test_a_command_that_is_none_fails(joined, role):
    result = joined.measure(
        on_connected(lambda meter: meter.halves[HALVES[role]].tell({"action": "dance"})),
        duration_ns=25 * SECOND,
    )
    assert "dance" in result["failed"]


@pytest.mark.parametrize("role", HALVES)
def test_closed_input_ends_it(joined, role):
    with joined.measuring(duration_ns=25 * SECOND) as meter:
        meter.expect("connected", PATIENCE_S)
        half = meter.halves[HALVES[role]]
        half.end(grace_s=20)
        assert not half.killed  # it ended by itself
        # The other one is stopped, and nothing stays open.
        assert meter.expect("result", PATIENCE_S)["failed"] == "standard input was closed"
        until(lambda: meter.take() or meter.ended, "the end of both")
        assert joined.sockets("local") == [] == joined.sockets("remote")


@pytest.mark.parametrize("role", HALVES)
def test_a_half_that_is_killed_takes_the_other_one_with_it(joined, role):
    with joined.measuring(duration_ns=25 * SECOND) as meter:
        meter.expect("connected", PATIENCE_S)
        os.kill(meter.halves[HALVES[role]].pid, signal.SIGKILL)
        with pytest.raises(TrialError, match=f"{role} was killed by signal 9"):
            meter.expect("result", PATIENCE_S)
        salvaged = meter.salvage()
        assert (salvaged is None) == (role == "receiver")
    until(lambda: not joined.sockets("local") and not joined.sockets("remote"), "the end of all sockets")


def test_a_client_opens_the_connection_and_its_token_is_no_payload(joined):
    lines = []
    with joined.asking() as meter:
        result = last_line(meter, lambda message, meter: lines.append(message))
    assert result["failed"] is None and not result["fallback"] and result["strangers"] == 0
    assert len(result["delays_ns"]) == 3
    assert result["in_order_bytes"] == 3 * 50_000 == sum(result["bins"])
    (flow,) = result["subflows"]
    # From where the data are sent, whoever opened it; the FIN counts as a byte.
    assert (flow["local"], flow["remote"]) == (SOURCE[0], RECEIVER)
    assert 0 <= flow["bytes"] - result["in_order_bytes"] <= 1
    (connected,) = (line for line in lines if line["event"] == "connected")
    assert (connected["local_port"], connected["remote_port"]) == (flow["remote_port"], flow["local_port"])
    assert "accepted" in [line["event"] for line in lines]


def test_strangers_at_a_server_are_reset_and_its_client_is_served(joined):
    came = []

    def knock(message: Message, meter: Meter) -> None:
        if message["event"] == "connected":
            address = (SOURCE[0], meter.port)
            came.append(
                inside(
                    joined.sites.remote,
                    lambda: socket.create_connection(address, source_address=(RECEIVER, 0)),
                )
            )

    with joined.asking() as meter:
        result = last_line(meter, knock)
    for stranger in came:
        stranger.close()
    assert result["failed"] is None and result["strangers"] == len(came) == 1
    assert result["in_order_bytes"] == 3 * 50_000


@pytest.mark.parametrize(("side", "words"), [("local", "plain TCP"), ("remote", "net.mptcp.enabled")])
def test_a_client_or_a_server_without_mptcp_is_a_failure(joined, side, words):
    joined.sysctl(side, "net.mptcp.enabled", "0")
    with joined.asking() as meter:
        line = last_line(meter)
    reason = line["reason"] if line["event"] == "error" else line["failed"]
    assert words in reason and ("receiver: " in reason or "the sender's host has no MPTCP" in reason)


def test_a_server_that_nobody_reaches_is_reported_by_its_client(joined):
    joined.cut(0)  # the answers are lost
    with joined.asking() as meter:
        result = last_line(meter)
    assert result["failed_kind"] == "unreachable"
    assert result["failed"].startswith(f"no connection to {SOURCE[0]}:")
    assert result["in_order_bytes"] == 0 and result["subflows"] == []
    assert result["duration_ns"] >= 1_250_000_000


def test_only_a_client_opens_the_connection_of_a_receiver(joined):
    saturated = {"kind": "bulk", "duration_ns": SECOND}
    expected = "sender: .*workload: expected one in which a client asks"
    with pytest.raises(TrialError, match=expected), joined.asking(workload=saturated):
        pass
