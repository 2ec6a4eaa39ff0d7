"""Bytes that trials on hosts send: counted against limits of interfaces, announced before trials begin."""

import msgspec
import pytest

from mptune.errors import Failure, LimitReached
from mptune.testbeds._hosts_data import Meter, notice
from mptune.trial import (
    Bulk,
    ConnectionObservation,
    Messages,
    Mix,
    Part,
    PartObservation,
    Transfer,
)
from tests.plugins import two_hosts

SECOND = 1_000_000_000


def test_what_was_sent_over_an_interface_counts_until_its_limit(trial):
    meter, big = Meter(), trial(transfer_bytes=8 * 10**8)
    for _ in range(5):
        meter.check(big)
        meter.count(big, two_hosts.observation("A-X", 8 * 10**8))  # over another one
    meter.count(big, two_hosts.observation("C-X", 8 * 10**8, retransmitted=1000))
    meter.check(big)
    meter.count(big, two_hosts.observation("C-X", 8 * 10**8))
    with pytest.raises(LimitReached, match=r"2 GB do not suffice: 1\.7\d GB sent, .* up to 93\d MB"):
        meter.check(big)
    meter.check(trial(transfer_bytes=10**6))


def test_each_message_has_headers_of_its_own(topology, trial):
    """A million of them, 100 bytes each: nearly as much again."""
    messages = Messages(bytes=100, interval_ns=10**6, duration_ns=1000 * SECOND)
    meter = Meter()
    meter.count(trial(workload=messages), two_hosts.observation("C-X", 10**8))
    ((_, sent),) = meter.sent.items()
    assert 1.9e8 < sent < 2e8
    assert f"; metered: C (at most {sent / 1e6:.3g} MB of 2 GB)." in notice(topology, messages)


def test_messages_both_ways_count_twice(topology, trial):
    there = Messages(bytes=100, interval_ns=10**6, duration_ns=1000 * SECOND)
    both = Messages(bytes=100, interval_ns=10**6, duration_ns=1000 * SECOND, both_ways=True)
    sent: list[int] = []
    for messages in (there, both):
        meter = Meter()
        meter.count(trial(workload=messages), two_hosts.observation("C-X", 10**8))
        sent += meter.sent.values()
    assert sent[1] == 2 * sent[0]


def test_connections_count_each_for_itself(trial):
    """A mix of three transfers has three times their size."""
    three = Mix(parts=(Part(workload=Transfer(bytes=8 * 10**8), connections=3),))
    with pytest.raises(LimitReached, match=r"2 GB do not suffice: 0 MB sent, .* up to 2\.8\d GB"):
        Meter().check(trial(workload=three))


def test_workloads_beside_the_first_count_for_every_limited_interface(trial):
    """Nobody knows by which path they went."""
    mix = Mix(parts=(Part(workload=Transfer(bytes=10**8)), Part(workload=Transfer(bytes=3 * 10**8))))
    beside = ConnectionObservation(duration_ns=1, bytes=3 * 10**8, retransmitted=0, delays_ns=[])
    parts = [PartObservation(connections=[]), PartObservation(connections=[beside])]
    seen = msgspec.structs.replace(two_hosts.observation("A-X", 10**8), parts=parts)
    meter = Meter()
    meter.count(trial(workload=mix), seen)
    ((_, sent),) = meter.sent.items()
    assert 3e8 < sent < 3.3e8


def test_a_failed_trial_counts_with_all_that_it_may_have_sent(trial):
    meter, big = Meter(), trial(transfer_bytes=8 * 10**8)
    for _ in range(2):
        meter.check(big)
        meter.count(big, two_hosts.observation("A-X", 0, failed=Failure("stalled", "silence")))
    with pytest.raises(LimitReached):
        meter.check(big)


def test_a_trial_of_an_earlier_session_counts_with_what_it_sent_before_it_was_repeated(trial):
    meter, big = Meter(), trial(transfer_bytes=8 * 10**8)
    once = two_hosts.observation("C-X", 10**8)
    meter.recall(big, once)
    ((_, alone),) = meter.sent.items()
    once.metadata["repeated"] = 1
    meter.recall(big, once)
    ((_, both),) = meter.sent.items()
    assert 10**8 < alone < 1.1e8 and 8.5e8 < both - 2 * alone < 9.5e8


def test_what_was_sent_before_and_what_is_still_to_come_are_printed(topology):
    def metered(payload=None, sent=0):
        before = {("me@laptop.example", "C"): sent}
        sending = None if payload is None else Transfer(bytes=payload)
        return notice(topology, sending, sent=before).partition("; metered: ")[2]

    assert metered(10**8) == "C (at most 107 MB of 2 GB)."
    assert metered(10**8, sent=4 * 10**8) == "C (400 MB of 2 GB sent before, now at most 107 MB)."
    assert metered(sent=15 * 10**8) == "C (1.5 GB of 2 GB sent before, now at most 500 MB)."
    assert metered(sent=3 * 10**9) == "C (3 GB of 2 GB sent before, now at most 0 MB)."


def test_what_is_sent_at_most_is_printed_where_rates_are_known(topology):
    assert notice(topology) == (
        "Laptop sends to Server at most 1000 Mbit/s, 125 MB a second; metered: C (at most 2 GB)."
    )
    half_an_hour = Bulk(duration_ns=30 * 60 * SECOND)
    assert "2.25e+03 GB" not in notice(topology, half_an_hour)
    assert "225 GB in all" in notice(topology, half_an_hour)
    assert "as fast as the network allows" in notice(topology.reversed())
