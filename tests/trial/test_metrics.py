"""Metrics: values of records, their worth, and gains run by run."""

import re

import msgspec
import pytest

from mptune.errors import Failure
from mptune.statistics import summarise
from mptune.testbeds.standing import described_by
from mptune.trial import (
    Bulk,
    Messages,
    Mix,
    Observation,
    OnOff,
    Page,
    Part,
    Piece,
    Record,
    Requests,
    Transfer,
    Trial,
    Video,
)
from mptune.trial.kept import SubflowRecord
from mptune.trial.metrics import COMPLETION, NEARLY_ALWAYS, QUEUEING, ROUND_TRIPS, THROUGHPUT, late
from mptune.trial.objectives import COLUMNS, cost, has, metric_named, metric_of, metrics_of, values
from mptune.trial.records import PlannedTrial
from mptune.trial.records import record as record_of
from mptune.trial.workloads.messages import GAP
from mptune.trial.workloads.onoff import WHILE_ON
from mptune.trial.workloads.video import STALLED, VIDEO

MS, SECOND = 1_000_000, 1_000_000_000
DELAYS = Messages.judged_by.by_word
CALLS = Messages(bytes=200, interval_ns=100_000_000, duration_ns=2_000_000_000)


def record(throughput_mbps=None, completion_s=None, failed=None):
    return Record(
        purpose="sweep",
        pm="fullmesh",
        cc="reno",
        buffer_bytes=1,
        run=0,
        seed=1,
        withdrawn=None,
        throughput_mbps=throughput_mbps,
        completion_s=completion_s,
        failed=failed,
        subflows=(),
    )


def test_only_messages_both_ways_have_a_setting_more():
    assert "both_ways" not in CALLS.settings["workload"]
    assert msgspec.structs.replace(CALLS, both_ways=True).settings["workload"]["both_ways"] is True


def test_a_workload_is_judged_by_its_own_metric():
    assert metric_of(Bulk(duration_ns=1)) is THROUGHPUT
    assert metric_of(Transfer(bytes=1)) is COMPLETION


def of_seconds(*mbps, failed=None, workload=None, unfinished_ms=0):
    """The record of a trial with these rates in its seconds, in bins that differ."""
    sizes = [size * rate * 12_500 for rate in mbps for size in (2, 0) * 5]
    observation = Observation(
        testbed="simulated",
        duration_ns=len(mbps) * SECOND + unfinished_ms * MS,
        in_order_bytes=sum(sizes),
        bins=[*sizes, *[0] * (unfinished_ms // 100)],
        subflows=[],
        failed=failed,
    )
    trial = Trial(
        topology=described_by("UiB-HiN"),
        pm="fullmesh",
        cc="reno",
        buffer_bytes=1,
        seed=1,
        workload=workload or Bulk(duration_ns=SECOND),
    )
    return record_of(PlannedTrial(purpose="sweep", run=0, trial=trial), observation)


def test_nearly_always_is_what_19_of_20_seconds_reach():
    # Of 21 values the second smallest: type 7 of Hyndman and Fan.
    rates = [5] * 19 + [1, 3]
    assert of_seconds(*rates).p5_mbps == 3.0
    assert of_seconds(*rates, unfinished_ms=900).p5_mbps == 3.0
    assert metric_named("throughput:p5").of(of_seconds(*rates)) == 3.0


@pytest.mark.parametrize(
    ("rates", "changes"),
    [
        ([5] * 19, {}),
        ([5] * 30, {"failed": Failure("died", "killed")}),
        ([5] * 30, {"workload": Transfer(bytes=1000)}),
    ],
)
def test_too_few_seconds_failures_and_other_workloads_have_no_such_value(rates, changes):
    assert of_seconds(*rates, **changes).p5_mbps is None


def of_subflows(*carried):
    """A record of subflows with throughput, Mbit/s, and smoothed RTT, ms."""
    return msgspec.structs.replace(
        record(5.0),
        subflows=tuple(
            SubflowRecord(
                path="A-X", active=True, throughput_mbps=mbps, rtt_ms=ms, min_rtt_ms=10.0, retransmitted=0
            )
            for mbps, ms in carried
        ),
    )


def test_round_trips_are_those_of_the_load_by_what_each_subflow_carries():
    assert ROUND_TRIPS.of(of_subflows((3.0, 50.0), (1.0, 250.0))) == 60_000 / 100
    assert QUEUEING.of(of_subflows((3.0, 50.0), (1.0, 250.0))) == 90.0
    assert ROUND_TRIPS.of(of_subflows((0.0, 50.0))) is None
    assert ROUND_TRIPS.of(of_subflows((3.0, None), (1.0, 60.0))) == 1000
    assert metric_named("rpm") is ROUND_TRIPS


def test_only_a_saturated_sender_is_asked_for_its_bad_seconds():
    mix = Mix(parts=(Part(workload=Bulk(duration_ns=SECOND)), Part(workload=CALLS)))
    assert has(Bulk(duration_ns=SECOND), NEARLY_ALWAYS) and has(mix, NEARLY_ALWAYS)
    assert not has(CALLS, NEARLY_ALWAYS) and not has(Transfer(bytes=1), NEARLY_ALWAYS)
    assert metrics_of(Bulk(duration_ns=SECOND)) == (THROUGHPUT,)


def test_a_failed_trial_has_no_value():
    stalled = record(5.0, 2.0, Failure("stalled", "no byte in order"))
    assert THROUGHPUT.of(stalled) is None and COMPLETION.of(stalled) is None
    assert THROUGHPUT.values([record(5.0), stalled, record(7.0)]) == [5.0, 7.0]


@pytest.mark.parametrize(("metric", "better", "worse"), [(THROUGHPUT, 8.0, 2.0), (COMPLETION, 2.0, 8.0)])
def test_more_worth_is_better_and_shares_of_it_are_shares_of_the_value(metric, better, worse):
    assert metric.worth(better) == 4 * metric.worth(worse)


def test_runs_that_all_agree_leave_room_for_a_rare_one():
    """A lost packet makes one run in twenty 5.6 ms later: 20 runs without one say nothing about it."""
    same, one = DELAYS["p99"].summary([2.8] * 20), DELAYS["p99"].summary([1.0])
    assert same is not None and same.low is not None and same.high is not None
    assert (same.mean, same.low, same.high) == pytest.approx((2.8, 2.3, 3.3))
    assert same.low <= (19 * 2.8 + 8.4) / 20 <= same.high
    assert DELAYS["p99"].summary([2.0, 8.0] * 10) == summarise([2.0, 8.0] * 10)
    assert THROUGHPUT.summary([5.0] * 3) == summarise([5.0] * 3)
    assert DELAYS["p99"].summary([]) is None and one is not None and one.low is None


def test_gains_are_positive_where_it_is_better_and_leave_out_runs_without_a_pair():
    faster = [record(9.0, 1.0), record(9.0, 1.5), record(None, None, Failure("died", "killed"))]
    slower = [record(4.0, 3.0), record(None, None, Failure("died", "killed")), record(4.0, 3.0)]
    assert THROUGHPUT.gains(faster, slower) == [5.0]
    assert COMPLETION.gains(faster, slower) == [2.0]


def messages(*delays_ms, failed=None):
    """A trial with these delays of its messages, one every 100 ms."""
    return Record(
        purpose="sweep",
        pm="fullmesh",
        cc="reno",
        buffer_bytes=1,
        run=0,
        seed=1,
        withdrawn=None,
        throughput_mbps=1.0,
        failed=failed,
        subflows=(),
        settings={"workload": {"kind": "messages", "interval_ns": 100_000_000}},
        delays_ms=delays_ms,
    )


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        # Of 21 values 0, 10, ... 200: rank 20 * share, between its neighbours.
        ("p50", 100.0),
        ("p90", 180.0),
        ("p95", 190.0),
        ("p99", 198.0),
        ("p99.9", 199.8),
    ],
)
def test_a_percentile_lies_between_the_two_values_next_to_its_rank(word, expected):
    kept = messages(*(10.0 * value for value in reversed(range(21))))
    assert DELAYS[word].of(kept) == pytest.approx(expected)
    assert metric_named(f"delay:{word}") is DELAYS[word]
    assert DELAYS[word].of(messages(7.0)) == 7.0


def test_the_longest_gap_is_between_arrivals_and_not_between_delays():
    """Due at 0, 100, 200, 300 ms: they arrive at 20, 120, 450 and 455 ms."""
    assert GAP.of(messages(20.0, 20.0, 250.0, 155.0)) == pytest.approx(330)
    # Whatever is equally late leaves no gap but the interval.
    assert GAP.of(messages(90.0, 90.0, 90.0)) == pytest.approx(100)
    # A gap has two ends.
    assert GAP.of(messages(90.0)) is None


def test_gaps_of_messages_both_ways_are_those_of_either_direction():
    both = msgspec.structs.replace(CALLS, both_ways=True)
    there, back = [10.0] * 20, [20.0] * 10 + [150.0] + [20.0] * 9
    kept = msgspec.structs.replace(messages(*there, *back), settings=both.settings)
    assert GAP.of(kept) == pytest.approx(230)
    assert both.arrived(40) == "40 messages of 200 B" and both.arrived(39) == "39 of 40 messages of 200 B"


def test_messages_are_late_beyond_their_deadline_and_not_at_it():
    kept = messages(10.0, 149.0, 150.0, 150.1, 900.0, 20.0, 30.0, 40.0)
    metric = late(150_000_000)
    assert (metric.name, metric.unit, metric.of(kept)) == ("later than 150 ms", "%", 25.0)
    assert metric_named(" late:150ms ").of(kept) == 25.0


def test_other_workloads_have_no_delays_and_a_failed_trial_none_that_counts():
    stalled = Failure("stalled", "no byte in order")
    for metric in (*DELAYS.values(), GAP, late(1)):
        assert metric.of(record(5.0)) is None
        assert metric.of(messages(10.0, 20.0, failed=stalled)) is None
        assert metric.values([messages(10.0, 20.0), messages(10.0, 20.0, failed=stalled)]) != []
        assert not metric.more_is_better
        assert has(CALLS, metric) and not has(Bulk(duration_ns=1), metric)
    assert not has(CALLS, THROUGHPUT) and not has(CALLS, COMPLETION)


def test_messages_are_judged_by_their_slowest_hundredth_unless_asked_for_another():
    assert metric_of(CALLS) is metrics_of(CALLS)[0] is DELAYS["p99"]
    assert metric_named("gap") is GAP and metric_named("completion") is COMPLETION


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("delay", "expected one of "),
        ("delay:p98", "expected one of "),
        ("delay:99", "expected one of "),
        ("gap:1s", "expected one of "),
        ("late", "expected one of "),
        ("late:", "expected a time such as"),
        ("late:soon", "expected a time such as"),
        ("late:0ms", "expected a time above 0, found 'late:0ms'"),
        ("", "expected one of "),
        ("jitter", "expected one of "),
    ],
)
def test_a_wrong_word_is_refused_with_those_that_are_right(word, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        metric_named(word)


def test_what_is_asked_for_has_the_times_of_its_own_kind():
    asking = Requests(request_bytes=400, response_bytes=65536, duration_ns=10**9)
    pages = Page(page_bytes=60_000, objects=30, object_bytes=20_000, duration_ns=10**9)
    assert metric_of(asking) is metric_named("response:mean")
    assert metric_of(pages) is metric_named("page:mean")
    for workload, of, others in ((asking, "response", "page"), (pages, "page", "delay")):
        words = ("mean", "p50", "p90", "p95", "p99", "p99.9")
        assert all(has(workload, metric_named(f"{of}:{word}")) for word in words)
        others_times = [metric_named(f"{others}:{word}") for word in words]
        assert not any(has(workload, metric) for metric in (*others_times, GAP, THROUGHPUT))
        assert has(workload, late(10**8))
        # An outage is shown by the longest one.
        assert workload.judged_by.outage.of(messages(10.0, 700.0, 20.0)) == 700
    assert CALLS.judged_by.outage is GAP


def video(*segments, failed=None):
    """A trial with segments of 4 s: when each was asked for, its time (ms), its bytes, and the stall (ms)."""
    workload = {"kind": "video", "segment_ns": 4 * 10**9, "ladder_bps": [1_000_000, 3_000_000]}
    pieces = tuple(Piece(at_ns=at * MS, bytes=size, stalled_ns=stall * MS) for at, _, size, stall in segments)
    delays_ms = tuple(float(taken) for _, taken, _, _ in segments)
    kept = messages(*delays_ms, failed=failed)
    return msgspec.structs.replace(kept, settings={"workload": workload}, pieces=pieces)


def test_a_video_is_judged_by_bitrates_changes_stalls_and_start():
    """From 0.5 s to 12.5 s, of which the picture stands still for 3 s; bitrates of 1, 3, 1 and 1 Mbit/s."""
    kept = video(
        (0, 500, 500_000, 0), (500, 1000, 1_500_000, 0), (1500, 8000, 500_000, 3000), (9500, 3000, 500_000, 0)
    )
    found = {metric.word: metric.of(kept) for metric in VIDEO}
    assert found == {
        # (1 + 3 + 1 + 1) less changes of 2 and 2, and 3 Mbit/s for each of 3.5 s.
        "video:quality": pytest.approx((6 - 4 - 3 * 3.5) / 4),
        "video:bitrate": pytest.approx(1.5),
        "video:stalled": pytest.approx(25),
        "video:start": 500,
        "video:changes": pytest.approx(10),
    }
    assert all(metric_named(f" {metric.word} ") is metric for metric in VIDEO)
    assert metric_named("segment:p50").of(kept) == 2000
    columns = values(kept)
    assert columns["video_stalled_percent"] == pytest.approx(25) and set(columns) <= set(COLUMNS)


def test_a_video_of_one_segment_has_a_start_and_no_share():
    kept = video((0, 500, 500_000, 0))
    still, changes, start = (metric_named(f"video:{word}") for word in ("stalled", "changes", "start"))
    assert still.of(kept) is changes.of(kept) is None
    assert start.of(kept) == 500
    assert all(metric.of(video()) is None for metric in VIDEO)
    stalled = Failure("stalled", "no byte in order")
    assert all(metric.of(video((0, 500, 1, 0), failed=stalled)) is None for metric in VIDEO)


def test_bursts_are_judged_by_their_times_and_by_what_is_carried_while_there_are_any():
    """From 0 to 1 s, and from 4 to 7 s, since the third waits for the second; of a second connection 2 s."""
    workload = {"kind": "on-off"}
    pieces = tuple(
        Piece(at_ns=at * 10**9, bytes=size)
        for at, size in ((0, 10**6), (4, 10**6), (5, 2 * 10**6), (0, 10**6))
    )
    kept = msgspec.structs.replace(
        messages(1000.0, 2000.0, 2000.0, 2000.0), settings={"workload": workload}, pieces=pieces
    )
    assert WHILE_ON.of(kept) == pytest.approx(8 * 5 / 6)
    assert WHILE_ON.of(messages(1.0)) is None and metric_named("on-off:throughput") is WHILE_ON
    bursts = OnOff(mean_bytes=1, mean_gap_ns=1, duration_ns=1)
    assert metric_of(bursts) is metric_named("burst:mean") and has(bursts, WHILE_ON) and has(bursts, late(1))
    assert bursts.judged_by.outage.of(kept) == 2000 and not has(CALLS, WHILE_ON)
    assert set(values(kept)) <= set(COLUMNS) and values(kept)["burst_mean_ms"] == 1750


def test_of_several_players_the_mean_counts():
    """The second begins where times start again: its start is its own, and so are its changes."""
    first = ((0, 500, 500_000, 0), (500, 1000, 1_500_000, 0))
    second = ((0, 1500, 500_000, 0), (1500, 500, 500_000, 0))
    both, alone = video(*first, *second), [video(*first), video(*second)]
    for metric in VIDEO:
        values = metric.values(alone)
        assert metric.of(both) == pytest.approx(sum(values) / 2)


def test_only_a_video_has_its_metrics():
    watched = Video(ladder_bps=(10**6,), segment_ns=10**9, buffer_ns=10**10, duration_ns=10**10)
    assert metric_of(watched) is metric_named("video:quality") is VIDEO[0]
    assert watched.judged_by.outage is STALLED
    for metric in VIDEO:
        assert has(watched, metric) and not has(CALLS, metric)
    assert has(watched, metric_named("segment:p99")) and has(watched, late(1))
    assert not any(has(watched, metric) for metric in (GAP, THROUGHPUT, DELAYS["p99"]))


def test_the_cost_of_a_metric_falls_where_it_gets_better():
    assert cost("quality", 3.0) < cost("quality", 2.0) and cost("bitrate", 3.0) < cost("bitrate", 2.0)
    assert cost("delay p99", 2.0) < cost("delay p99", 3.0) and cost("start", 2.0) < cost("start", 3.0)


def test_tables_have_the_columns_of_the_kinds_that_are_there():
    assert values(messages(20.0, 30.0)) == {
        "delay_p50_ms": 25.0,
        "delay_p99_ms": pytest.approx(29.9),
        "longest_gap_ms": pytest.approx(110),
    }
    asked = msgspec.structs.replace(messages(20.0, 40.0), settings={"workload": {"kind": "requests"}})
    assert values(asked) == {"response_mean_ms": 30.0, "response_p99_ms": pytest.approx(39.8)}
    assert values(record(5.0)) == {}
    assert {*values(asked), *values(messages(1.0, 2.0))} <= set(COLUMNS)


# ---- worth ----------------------------------------------------------------------------------------

WORTHS = [THROUGHPUT, COMPLETION, metric_named("delay:p99"), metric_named("video:quality"), late(150_000_000)]


@pytest.mark.parametrize("metric", WORTHS, ids=lambda metric: metric.name)
def test_a_step_that_nobody_notices_is_a_hundredth_of_the_worth(metric):
    """At every value: a delay of 5 ms may be half a millisecond later, one of 500 ms five."""
    for value in (0.02, 0.9, 5.0, 49.0, 50.0, 500.0, 20_000.0):
        step = metric.unnoticed(value) * (1 if metric.more_is_better else -1)
        assert metric.worth(value + step) / metric.worth(value) == pytest.approx(1.01, rel=2e-4)
        assert metric.of_worth(metric.worth(value)) == pytest.approx(value)


def test_values_of_either_sign_and_none_at_all_have_a_worth():
    """A quality below zero, and a share of nothing, which an inverse would not have."""
    quality, share = metric_named("video:quality"), late(150_000_000)
    for metric, ordered in ((quality, (-40.0, -1.0, -0.2, 0.0, 0.2, 8.0)), (share, (100.0, 5.0, 0.1, 0.0))):
        worths = [metric.worth(value) for value in ordered]
        assert worths == sorted(worths) and worths[0] > 0
        assert [metric.of_worth(worth) for worth in worths] == pytest.approx(ordered)


@pytest.mark.parametrize("metric", WORTHS, ids=lambda metric: metric.name)
def test_the_mean_worth_of_runs_is_the_worth_of_their_mean(metric):
    """One run in ten that is ten times as late weighs as much as it does in the mean."""
    values = [20.0] * 9 + [200.0]
    worths = metric.worths(values)
    assert sum(worths) / 10 == pytest.approx(metric.worth(38.0))
    assert (worths[0] > worths[-1]) != metric.more_is_better
    assert THROUGHPUT.worths([1.1, 3.3]) == [1.1, 3.3]
