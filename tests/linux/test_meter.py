"""Messages between the two halves of a measurement, with halves that only repeat what they are given."""

from typing import Any

import pytest

from mptune.errors import TrialError
from mptune.linux.meter import Meter

JOB = {"buffer_bytes": 4096, "workload": {"kind": "bulk", "duration_ns": 9}}
STOP = {"action": "stop"}


class Half:
    """In the place of a process."""

    def __init__(self, name):
        self.name, self.told, self.says = name, [], []
        self.closed = self.ended = False

    kind = "died"

    def tell(self, message):
        self.told.append(message)

    def take(self):
        messages, self.says = self.says, []
        return messages

    def expect(self, event, within_s):
        return next(message for message in self.take() if message["event"] == event)

    def close(self):
        self.closed = True

    def death(self):
        return f"{self.name} was killed by signal 9"


def result(kind, **more):
    seen = {"buffers": {}, "subflows": [], "counters": {}, "counters_since_progress": {}, "cpu_ns": 1}
    ending = {"kind": kind} if kind in ("complete", "stopped") else {"kind": kind, "reason": f"it {kind}"}
    return {"event": "result", "ending": ending, "duration_ns": 9, **seen, **more}


def received(kind):
    report = {"connected": True, "in_order_bytes": 7, "bins": [7], "corrupt_at": None}
    report |= {"expected_bytes": None, "completion_ns": None}
    return result(kind, **report)


@pytest.fixture
def meter():
    halves: Any = (Half("sender"), Half("receiver"))
    meter: Any = Meter(*halves)
    meter.receiver.says = [{"event": "listening", "port": 4711, "plain_because": "no MPTCP"}]
    meter.listen(JOB, "10.65.0.1", ["10.65.0.1"])
    meter.connect("10.64.0.1", "10.65.0.1")
    for half in meter.halves:
        del half.told[:-1]
    return meter


def test_the_sender_gets_the_receivers_port(meter):
    assert meter.receiver.told == [
        {"job": JOB, "address": "10.65.0.1", "port": 0, "joins": ["10.65.0.1"]},
    ]
    (order,) = meter.sender.told
    assert (order["job"], order["local"], order["remote"]) == (JOB, "10.64.0.1", "10.65.0.1")
    assert (order["port"], order["plain_because"]) == (4711, "no MPTCP")


def test_the_receiver_gets_the_duration_of_the_handshake(meter):
    meter.sender.says = [{"event": "connected", "handshake_ns": 30, "rtt_ns": 20, "local_port": 1}]
    assert [message["event"] for message in meter.take()] == ["connected"]
    assert meter.receiver.told[1:] == [{"action": "connected", "handshake_ns": 30, "rtt_ns": 20}]


def test_a_client_that_opens_gets_the_senders_port_and_the_sender_its_handshake():
    halves: Any = (Half("sender"), Half("receiver"))
    meter: Any = Meter(*halves, receiver_opens=True)
    meter.sender.says = [{"event": "listening", "port": 4711, "plain_because": None}]
    meter.listen(JOB, "10.64.0.1", ["10.64.0.1"])
    meter.connect("10.65.0.1", "10.64.0.1")
    assert [half.told[0].get("address") for half in meter.halves] == ["10.64.0.1", None]
    (order,) = meter.receiver.told
    assert (order["local"], order["remote"], order["port"]) == ("10.65.0.1", "10.64.0.1", 4711)
    meter.receiver.says = [{"event": "connected", "handshake_ns": 30, "rtt_ns": 20, "local_port": 1}]
    meter.take()
    assert meter.sender.told[1:] == [{"action": "connected", "handshake_ns": 30, "rtt_ns": 20}]
    assert meter.receiver.told[1:] == []


def test_the_end_of_a_duration_is_known_to_both(meter):
    meter.receiver.says = [{"event": "accepted"}]
    assert [message["event"] for message in meter.take()] == ["accepted"]
    meter.sender.says = [result("complete")]
    assert meter.take() == [] and STOP not in meter.receiver.told
    meter.receiver.says = [received("complete")]
    (event,) = meter.take()
    assert event["event"] == "result" and event["failed"] is None
    assert meter.sender.closed and meter.receiver.closed


def test_a_receiver_that_nothing_reached_gets_the_end_of_the_duration(meter):
    meter.sender.says = [result("complete")]
    assert meter.take() == [] and STOP in meter.receiver.told
    meter.receiver.says = [received("stopped") | {"connected": False, "in_order_bytes": 0, "bins": []}]
    (message,) = meter.take()
    assert (message["failed_kind"], message["failed"]) == ("unreachable", "no byte arrived")


@pytest.mark.parametrize("kind", ["failed", "fallback", "lost", "stopped"])
def test_any_other_end_of_the_sender_ends_the_receiver(meter, kind):
    meter.sender.says = [result(kind)]
    assert meter.take() == [] and STOP in meter.receiver.told and not meter.sender.closed


def test_the_end_of_the_receiver_ends_the_sender(meter):
    meter.receiver.says = [received("complete")]
    assert meter.take() == [] and STOP in meter.sender.told


def test_a_refusal_names_its_half(meter):
    meter.sender.says = [{"event": "error", "reason": "no such congestion control"}]
    with pytest.raises(TrialError, match="sender: no such congestion control"):
        meter.expect("result", 1)


def test_a_half_that_dies_without_a_result_is_noticed(meter):
    meter.sender.ended = True
    with pytest.raises(TrialError, match="sender was killed"):
        meter.expect("result", 1)


def test_what_the_receiver_has_is_saved_from_a_trial_that_failed(meter):
    meter.receiver.says = [received("stopped")]
    meter.sender.says = [result("stopped")]
    assert meter.salvage()["in_order_bytes"] == 7
    assert STOP in meter.sender.told and STOP in meter.receiver.told
