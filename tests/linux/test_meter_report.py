"""Results of two halves, joined to one."""

import pytest

from mptune.errors import TrialError
from mptune.linux.meter_report import check, join, join_subflows

SENDER = ("10.64.0.1:4000", "10.64.1.1:4001")
RECEIVER = ("10.65.0.1:5000", "10.65.1.1:5000")
JOB = {"buffer_bytes": 4096, "workload": {"kind": "bulk", "duration_ns": 9}}


def ours(number, **known):
    """A subflow as the sender reports it."""
    numbers = {"srtt_ns": 1, "min_rtt_ns": 1, "retransmitted": 0, "timeouts": 0, "cwnd": 10, "probes": 0}
    ends = {"local": SENDER[number], "remote": RECEIVER[number], "bytes": 0, "bins": []}
    return {**ends, **numbers, "backup": False, "cc": "cubic", "closed": False, **known}


def theirs(number, bins, **known):
    """The same as the receiver reports it."""
    ends = {"local": RECEIVER[number], "remote": SENDER[number]}
    return {**ours(number), **ends, "bytes": sum(bins), "bins": bins, "cwnd": 99, **known}


def half(kind="complete", reason=None, **known):
    ending = {"kind": kind} if reason is None else {"kind": kind, "reason": reason}
    buffers = {"sndbuf": 8192, "rcvbuf": 8192}
    seen = {"subflows": [], "counters": {}, "counters_since_progress": {}, "cpu_ns": 5}
    return {"ending": ending, "buffers": buffers, **seen, **known}


def sender(*ending, **known):
    return half(*ending, **{"duration_ns": 500, "cc": "cubic", "reinjected_bytes": 3, **known})


def receiver(*ending, **known):
    report = {"in_order_bytes": 7, "bins": [7], "corrupt_at": None}
    report |= {"expected_bytes": None, "completion_ns": None}
    return half(*ending, **{"connected": True, "duration_ns": 400, **report, **known})


def test_ends_are_joined_by_their_addresses():
    joined = join_subflows([ours(0), ours(1, cwnd=20)], [theirs(1, [7, 2]), theirs(0, [5, 1])])
    assert [(flow["cwnd"], flow["bytes"], flow["bins"]) for flow in joined] == [
        (10, 6, [5, 1]),
        (20, 9, [7, 2]),
    ]
    assert (joined[1]["local"], joined[1]["remote_port"]) == ("10.64.1.1", 5000)


def behind_nat(number, ids, bins):
    """A subflow at the receiver whose sender's address was translated: all come from the same one."""
    return theirs(number, bins, remote=f"198.51.100.1:{6000 + number}", local_id=ids[0], remote_id=ids[1])


def test_behind_a_translation_ends_are_joined_by_the_numbers_of_their_addresses():
    sender = [ours(0, local_id=0, remote_id=0), ours(1, local_id=2, remote_id=1)]
    joined = join_subflows(sender, [behind_nat(1, (1, 2), [7, 2]), behind_nat(0, (0, 0), [5])])
    assert [(flow["local"], flow["bytes"]) for flow in joined] == [("10.64.0.1", 5), ("10.64.1.1", 9)]
    # Addresses count first: only what is left is joined by numbers.
    plain = theirs(1, [4], local_id=0, remote_id=0)
    joined = join_subflows([ours(0, local_id=0, remote_id=0), sender[1]], [plain, behind_nat(0, (0, 0), [5])])
    assert [flow["bytes"] for flow in joined] == [5, 4]


def test_without_numbers_nothing_is_joined_that_does_not_match():
    joined = join_subflows([ours(0)], [behind_nat(0, (None, None), [5])])
    assert [flow["bytes"] for flow in joined] == [0, 5]


def test_plain_tcp_is_one_connection_whatever_translated_its_addresses():
    seen = behind_nat(0, (None, None), [5])
    (flow,) = join_subflows([ours(0)], [seen], single=True)
    assert (flow["local"], flow["seen"]) == (ours(0)["local"].rpartition(":")[0], "198.51.100.1")
    assert flow["bytes"] == 5
    result = join({**JOB, "mptcp": False}, sender(subflows=[ours(0)]), receiver(subflows=[seen]))
    assert [subflow["bytes"] for subflow in result["subflows"]] == [5]
    assert len(join_subflows([ours(0)], [theirs(1, [5]), theirs(0, [4])], single=True)) == 2


def test_what_limited_the_sender_and_how_busy_both_hosts_were_is_kept():
    limits = {"busy_ns": 9, "rwnd_limited_ns": 4, "sndbuf_limited_ns": 3}
    flows = {"subflows": [ours(0, **limits)]}
    result = join(JOB, sender(**flows, busy_share=0.5), receiver(subflows=[theirs(0, [7])]))
    assert {key: result["subflows"][0][key] for key in limits} == limits
    assert result["busy_share"] == {"sender": 0.5, "receiver": None}


def test_a_second_subflow_between_the_same_ports_is_another():
    joined = join_subflows([ours(0), ours(0, cwnd=30)], [theirs(0, [5, 0]), theirs(0, [0, 4])])
    assert [(flow["cwnd"], flow["bins"]) for flow in joined] == [(10, [5, 0]), (30, [0, 4])]


def test_a_subflow_that_one_end_missed_is_kept():
    joined = join_subflows([ours(0)], [theirs(1, [5])])
    assert [(flow["local_port"], flow["bytes"], flow["closed"]) for flow in joined] == [
        (4000, 0, False),
        (4001, 5, True),
    ]
    assert joined[1]["remote"] == "10.65.1.1" and joined[1]["cwnd"] == 0


def test_addresses_of_ipv6_lose_their_brackets():
    (flow,) = join_subflows([ours(0, local="[fd64:0:1::1]:7", remote="[fd65::1]:8")], [])
    assert (flow["local"], flow["local_port"], flow["remote"]) == ("fd64:0:1::1", 7, "fd65::1")


def test_the_receiver_measures_and_both_use_processors():
    result = join(JOB, sender(), receiver())
    assert (result["duration_ns"], result["in_order_bytes"], result["failed"]) == (400, 7, None)
    assert result["cpu_ns"] == 10 and result["reinjected_bytes"] == 3
    assert result["effective"]["sender_rcvbuf"] == 8192 == result["effective"]["receiver_sndbuf"]


def test_a_connection_that_never_came_lasted_as_long_as_it_was_tried():
    unconnected = receiver("stopped", connected=False, duration_ns=0, in_order_bytes=0, bins=[])
    result = join(JOB, sender("unreachable", "no connection"), unconnected)
    assert (result["duration_ns"], result["failed_kind"]) == (500, "unreachable")


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (("complete",), ("corrupt", "wrong byte"), ("corrupt", "wrong byte")),
        (("complete",), ("incomplete", "deadline"), ("incomplete", "deadline")),
        (("failed", "ended by SIGTERM"), ("stopped",), ("died", "ended by SIGTERM")),
        # What one half did is the reason, not what the other noticed of it, whichever report came first.
        (("failed", "ended by SIGTERM"), ("lost", "reset"), ("died", "ended by SIGTERM")),
        (("lost", "reset"), ("failed", "ended by SIGINT"), ("died", "ended by SIGINT")),
        (("lost", "reset"), ("stopped",), ("died", "reset")),
        (("stopped",), ("stopped",), (None, None)),
    ],
)
def test_a_cause_counts_before_its_consequence(ours, theirs, expected):
    result = join(JOB, sender(*ours), receiver(*theirs))
    assert (result["failed_kind"], result["failed"]) == expected


def test_plain_tcp_is_a_fallback():
    result = join(JOB, sender("fallback", "plain TCP"), receiver("stopped"))
    assert result["fallback"] is True and result["failed"] == "plain TCP"


def test_a_transfer_that_was_stopped_and_one_without_a_byte_have_failed():
    transfer = {**JOB, "workload": {"kind": "transfer", "bytes": 9}}
    assert join(transfer, sender("stopped"), receiver("stopped"))["failed"] == "stopped after 7 of 9 bytes"
    messages = {"kind": "messages", "bytes": 4, "interval_ns": 2, "duration_ns": 5, "patience_ns": 9}
    of_messages = join({**JOB, "workload": messages}, sender("stopped"), receiver("stopped"))
    assert of_messages["failed"] == "stopped after 7 of 12 bytes"
    assert join(JOB, sender(), receiver(in_order_bytes=0))["failed"] == "no byte arrived"


def test_messages_have_delays_and_the_lateness_of_their_sender():
    result = join(JOB, sender(late_ns=5), receiver(delays_ns=[20, 30]))
    assert (result["delays_ns"], result["late_ns"]) == ([20, 30], 5)
    others = join(JOB, sender(), receiver())
    assert (others["delays_ns"], others["late_ns"]) == ([], None)
    with pytest.raises(TrialError, match=r"receiver: .*delays_ns"):
        check("receiver", receiver(delays_ns=["late"]))


def test_a_stall_has_what_happened_meanwhile():
    counted = {"counters_since_progress": {"RcvWndShared": 3, "TCPRcvQDrop": 12}}
    probing = sender("stopped", subflows=[ours(0, probes=4), ours(1)])
    assert join(JOB, probing, receiver("stalled", "stalled at 1 s", **counted))["failed"] == (
        "stalled at 1 s; receiver: RcvWndShared +3, TCPRcvQDrop +12; "
        "10.64.0.1 to 10.65.0.1: 4 probes without an answer"
    )


def test_without_the_sender_there_is_what_the_receiver_measured():
    result = join(JOB, None, receiver("lost", "reset", subflows=[theirs(0, [7])]))
    assert (result["in_order_bytes"], result["failed"]) == (7, "reset")
    assert result["subflows"][0]["bytes"] == 7 and result["cc_effective"] is None
