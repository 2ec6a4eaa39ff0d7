"""Estimates from synthetic samples, of which the truth is known."""

import random

import pytest

from mptune.probe import estimates
from mptune.probe.estimates import Estimate, Loss, Queue, Train

MBIT = 1_000_000


def through(
    rate_bps: float,
    *,
    packets: int = 200,
    size: int = 1500,
    interval_ns: float = 0,
    queue: float = 1e12,
    losses: tuple[int, ...] = (),
    jitter_ns: int = 0,
    stall: tuple[int, int] = (0, 0),
    delay_ns: float = 20e6,
    bucket: tuple[float, float] = (0, 0),
) -> Train:
    """A train behind a link with a queue (Lindley), bytes; `stall` holds arrivals back between two times.

    `bucket` is bytes that pass at another, higher rate first.
    """
    draw, free, last = random.Random(1), 0.0, 0.0
    seq, sent, arrived = [], [], []
    for number in range(packets):
        at = number * interval_ns
        waiting = max(0.0, free - at)
        if number in losses or waiting * rate_bps / 8e9 + size > queue:
            continue
        rate = bucket[1] if number * size < bucket[0] else rate_bps
        free = max(free, at) + 8e9 * size / rate
        out = free + delay_ns + (draw.random() * jitter_ns)
        out = stall[1] if stall[0] <= out < stall[1] else out
        last = max(last, out)
        seq.append(number)
        sent.append(round(at / 100))
        arrived.append(round(last / 100))
    return Train(bytes=size, packets=packets, seq=tuple(seq), sent=tuple(sent), arrived=tuple(arrived))


@pytest.mark.parametrize("rate", [3 * MBIT, 47 * MBIT, 150 * MBIT])
def test_a_train_is_spaced_out_by_the_link(rate):
    assert estimates.train_rate(through(rate)) == pytest.approx(rate, rel=0.002)
    assert estimates.train_rate(through(rate, losses=(50, 51))) == pytest.approx(rate, rel=0.05)


def test_what_keeps_the_receiver_waiting_does_not_matter():
    begin = 20_000_000
    stalled = through(50 * MBIT, stall=(begin + 20_000_000, begin + 26_000_000))
    assert stalled.span_ns > 20_000_000
    assert estimates.train_rate(stalled) == pytest.approx(50 * MBIT, rel=0.05)
    jittery = through(10 * MBIT, packets=50, jitter_ns=800_000)
    assert estimates.train_rate(jittery) == pytest.approx(10 * MBIT, rel=0.05)


def test_too_few_or_simultaneous_arrivals_give_no_rate():
    assert estimates.train_rate(through(MBIT, packets=5)) is None
    none = Train(bytes=1500, packets=10, seq=(), sent=(), arrived=())
    assert estimates.train_rate(none) is None and none.span_ns == 0
    same = Train(bytes=1500, packets=9, seq=tuple(range(9)), sent=(0,) * 9, arrived=(7,) * 9)
    assert estimates.train_rate(same) is None
    assert estimates.rate([none, same]) is None


def test_a_rate_is_the_median_of_the_long_trains():
    short = through(80 * MBIT, packets=12)
    estimate = estimates.rate([short, *(through(rate * MBIT) for rate in (20, 21, 22))])
    assert estimate is not None and estimate.samples == 3
    assert estimate.value == pytest.approx(21 * MBIT, rel=0.01)
    assert estimate.spread == pytest.approx(2 / 21, rel=0.1)
    assert not estimate.at_least


def test_a_train_that_nothing_slowed_down_is_a_lower_bound():
    slow = through(100 * MBIT, interval_ns=8e9 * 1500 / (20 * MBIT))
    assert not estimates.hindered(slow)
    estimate = estimates.rate([slow])
    assert estimate is not None and estimate.at_least and estimate.value == pytest.approx(20 * MBIT, rel=0.01)
    # One that overflows a queue was held up, however slowly it was sent.
    assert estimates.hindered(through(20 * MBIT, interval_ns=8e9 * 1500 / (30 * MBIT), queue=30_000))


def test_behind_a_token_bucket_the_end_of_a_train_counts():
    bucket = through(10 * MBIT, bucket=(150_000, 100 * MBIT))
    assert estimates.sustained([bucket, bucket, through(10 * MBIT)]) == pytest.approx(10 * MBIT, rel=0.01)
    assert estimates.sustained([bucket, through(10 * MBIT), through(10 * MBIT)]) is None


def test_how_far_trains_disagree():
    alike = [through(rate * MBIT) for rate in (20, 20, 20, 20, 40)]
    assert estimates.disagree(alike) == pytest.approx(0, abs=0.01)
    assert estimates.disagree([through(rate * MBIT) for rate in (20, 20, 40, 40)]) > 0.5
    assert estimates.disagree([]) == 0


def test_a_transfer_decides_unless_it_was_slow_by_itself():
    assert estimates.decided(45, 40) == 40
    assert estimates.decided(45, 15) == 45
    assert estimates.decided(45, None) == 45


@pytest.mark.parametrize("size", [15_000, 60_000, 250_000])
def test_a_queue_is_what_a_burst_fills(size):
    queue = estimates.queue(through(30 * MBIT, queue=size), 30 * MBIT)
    assert queue is not None and not queue.at_least
    assert queue.bytes == pytest.approx(size, abs=1600)


def test_a_queue_that_never_overflowed_is_a_lower_bound():
    queue = estimates.queue(through(30 * MBIT, packets=100, losses=(40,)), 30 * MBIT)
    assert queue is not None and queue.at_least
    assert queue.bytes == pytest.approx(99 * 1500, abs=3000)
    assert estimates.queue(through(MBIT, packets=2), MBIT) is None


def test_a_queue_is_full_however_little_a_slow_burst_loses():
    slow = through(30 * MBIT, packets=1000, interval_ns=8e9 * 1500 / (31.5 * MBIT), queue=60_000)
    assert (1000 - len(slow.seq)) / 1000 < 0.03
    queue = estimates.queue(slow, 30 * MBIT)
    assert queue is not None and not queue.at_least
    assert queue.bytes == pytest.approx(60_000, abs=1600)
    # Random losses are not those of a queue.
    few = estimates.queue(through(30 * MBIT, packets=1000, losses=(100, 500, 700, 900)), 30 * MBIT)
    assert few is not None and few.at_least


def test_of_several_bursts_those_count_that_overflowed():
    full = [Queue(bytes=size, at_least=False, delay_ns=size) for size in (100, 120, 110)]
    part = Queue(bytes=500, at_least=True, delay_ns=1)
    assert estimates.joined_queue([*full, part]) == full[2]
    assert estimates.joined_queue([part]) == part
    assert estimates.joined_queue([]) is None


def through_two(
    first_bps: float, first_queue: float, second_bps: float, second_queue: float, *, pace: float, packets: int
) -> Train:
    """A burst behind two links with queues, one after the other."""
    first = through(first_bps, packets=packets, interval_ns=8e9 * 1500 / pace, queue=first_queue, delay_ns=0)
    free, seq, sent, arrived = 0.0, [], [], []
    for number, at_first, at in zip(first.seq, first.sent, first.arrived, strict=True):
        if max(0.0, free - at * 100) * second_bps / 8e9 + 1500 <= second_queue:
            free = max(free, at * 100) + 8e9 * 1500 / second_bps
            seq.append(number)
            sent.append(at_first)
            arrived.append(round(free / 100))
    return Train(bytes=1500, packets=packets, seq=tuple(seq), sent=tuple(sent), arrived=tuple(arrived))


@pytest.mark.parametrize(("before", "behind"), [(108_000, 28_500), (15_000, 90_000)])
def test_a_queue_behind_a_link_that_is_hardly_faster_is_what_a_slow_burst_fills(before, behind):
    """44.4 Mbit/s before 40: a fast burst fills both queues, or overflows the first one alone."""
    links = 44.4 * MBIT, before, 40 * MBIT, behind
    fast, slow = (
        estimates.queue(through_two(*links, pace=pace * MBIT, packets=packets), 40 * MBIT)
        for pace, packets in ((60, 400), (42.6, 2400))
    )
    assert fast is not None and not fast.at_least and slow is not None
    assert abs(fast.bytes / behind - 1) > 0.15
    queue = estimates.queue_behind(fast, slow, spared=False)
    assert queue is not None and not queue.at_least
    assert queue.bytes == pytest.approx(behind, abs=3000)
    # Without room for a slow one nothing is known; one that did not fill the queue gives a lower bound.
    assert estimates.queue_behind(fast, None, spared=False) is None
    short = estimates.queue(through_two(*links, pace=42.6 * MBIT, packets=100), 40 * MBIT)
    assert short is not None and short.at_least and short.bytes <= behind
    assert estimates.queue_behind(fast, short, spared=False) == short
    assert estimates.queue_behind(fast, None, spared=True) == fast


def test_the_link_that_limits_a_path_is_named_only_where_it_is_known():
    assert estimates.limit(known(20), known(50), 20 * MBIT) == "near"
    assert estimates.limit(known(50), known(20), 20 * MBIT) == "far"
    assert estimates.limit(known(50), known(48), 48 * MBIT) == "far"
    # Two links of one rate: either may be it. With one interface at each end they count as one.
    assert estimates.limit(known(20), known(20.05), 20 * MBIT) is None
    minimum = known(20, at_least=True)
    assert estimates.limit(minimum, minimum, 20 * MBIT) == "near"
    near = known(27.36, at_least=True)
    # What is as fast as a link that is known is limited by it; what is a little slower may be by another one.
    assert estimates.limit(known(27.9, at_least=True), known(27.91), 27.9 * MBIT) == "far"
    assert estimates.limit(near, known(27.91), 27.36 * MBIT) is None
    assert estimates.limit(known(27.91), known(27.36, at_least=True), 27.36 * MBIT) is None
    assert estimates.limit(near, known(27.91, spread=0.05), 27.36 * MBIT) == "far"


def test_losses_have_an_interval():
    none = Loss(sent=10_000, lost=0)
    assert none.share == 0
    assert none.interval[0] == 0
    assert none.interval[1] == pytest.approx(3.84e-4, rel=0.01)
    some = Loss(sent=10_000, lost=10)
    low, high = some.interval
    assert 0.0005 < low < 0.001 < high < 0.002
    assert Loss(sent=0, lost=0).interval[1] == 1
    assert all(Loss(sent=sent, lost=0).interval[0] == 0 for sent in range(14_900, 15_000))


def test_round_trips_are_without_the_time_on_the_links():
    assert (
        estimates.propagation_ns(10_640_000, 60, [3 * MBIT, 3 * MBIT, 3 * MBIT, 3 * MBIT, None]) == 10_000_000
    )
    assert estimates.propagation_ns(5, 60, [MBIT]) == 0
    estimate = estimates.round_trip([[30, 20], [10, 40]], [10, None])
    assert estimate is not None and (estimate.min_ns, estimate.median_ns, estimate.samples) == (10, 25, 4)
    assert estimates.round_trip([[]], [None]) is None


def test_a_transfer_counts_after_its_beginning():
    arrived = [(ms, 100 if ms < 100 else 2500) for ms in range(1000)]
    assert estimates.transfer_rate(arrived, 1.0) == pytest.approx(20 * MBIT, rel=0.01)
    assert estimates.transfer_rate(arrived[:10], 1.0) is None


def test_the_largest_size_that_arrived():
    assert estimates.mtu([1280, 1400], [1300, 1420, 1500]) == (1400, 1420)
    assert estimates.mtu([1500], []) == (1500, None)
    assert estimates.mtu([], [1500]) == (None, None)


def known(mbit: float, *, spread: float = 0.0, at_least: bool = False) -> Estimate:
    value = mbit * MBIT
    low, high = value * (1 - spread / 2), value * (1 + spread / 2)
    return Estimate(value=value, low=low, high=high, samples=4, at_least=at_least)


def rates(pair: tuple[Estimate | None, ...]) -> list[tuple[float, bool] | None]:
    return [None if rate is None else (rate.value / MBIT, rate.at_least) for rate in pair]


def test_attempts_that_disagree_give_nothing_on_links():
    """Two paths of 4 Mbit/s by one link: together 3.9, 4.6 and 4.7, which may be that link or its ends."""
    paths = {(0, 0): known(4), (0, 1): known(4)}
    together = Estimate(value=4.6 * MBIT, low=3.9 * MBIT, high=4.7 * MBIT, samples=3)
    measured = estimates.link_rates(paths, {0: together}, {}, 1, 2)
    assert rates(measured.near) == [(4, True)]
    assert rates(measured.far) == [(4, True), (4, True)]


def test_links_follow_from_paths_alone_and_together():
    """Senders of 50 and 20 Mbit/s, receivers of 100 and 10."""
    paths = {(0, 0): known(50), (0, 1): known(10), (1, 0): known(20), (1, 1): known(10)}
    near = {0: known(50), 1: known(20)}
    far = {0: known(70), 1: known(10)}
    measured = estimates.link_rates(paths, near, far, 2, 2)
    assert rates(measured.near) == [(50, False), (20, False)]
    assert rates(measured.far) == [(70, True), (10, False)]
    assert measured.core == {}


def test_what_is_slower_than_both_ends_is_limited_between():
    paths = {(0, 0): known(50), (0, 1): known(10)}
    measured = estimates.link_rates(paths, {0: known(60)}, {}, 1, 2)
    assert rates(measured.near) == [(60, True)]
    # Their only path comes from a faster link: they are its limit.
    assert rates(measured.far) == [(50, False), (10, False)]
    paths[0, 0], paths[0, 1] = known(50), known(49)
    slow = {**paths, (1, 0): known(5), (1, 1): known(50)}
    assert estimates.link_rates(slow, {}, {}, 2, 2).core == {(1, 0): 5 * MBIT}


def test_a_path_much_slower_than_the_other_does_not_show_the_link_s_rate():
    paths = {(0, 0): known(4), (0, 1): known(110)}
    measured = estimates.link_rates(paths, {0: known(111)}, {}, 1, 2)
    assert rates(measured.near) == [(110, True)]


def test_what_limits_its_only_path_is_known_if_the_other_end_is_faster():
    paths = {(0, 0): known(5), (1, 0): known(15)}
    measured = estimates.link_rates(paths, {}, {0: known(20)}, 2, 1)
    assert rates(measured.near) == [(5, False), (15, False)]
    assert rates(measured.far) == [(20, True)]


def test_an_interface_without_a_path_has_no_rate():
    measured = estimates.link_rates({(0, 0): known(7)}, {}, {}, 2, 1)
    assert rates(measured.near) == [(7, True), None]


def test_trains_together_fill_the_link_they_share():
    """Two trains leave by a link of 30 Mbit/s in turns, and travel 10 and 80 ms from there."""
    ends = [k * 8e9 * 1500 / (30 * MBIT) for k in range(1, 201)]
    trains = []
    for number, delay in ((0, 10e6), (1, 80e6)):
        arrived = tuple(round((at + delay) / 100) for at in ends[number::2])
        sent = tuple(round(k * 8e9 * 1500 / (39 * MBIT) / 100) for k in range(100))
        trains.append(Train(bytes=1500, packets=100, seq=tuple(range(100)), sent=sent, arrived=arrived))
    assert estimates.joint_rate(trains, leaving=True) == pytest.approx(30 * MBIT, rel=0.02)
    # As arrivals they hardly meet.
    assert estimates.joint_rate(trains, leaving=False) is None
    assert estimates.joint_rate([trains[0], through(MBIT, packets=3)], leaving=True) is None


def test_trains_together_through_a_short_queue_have_the_link_s_rate():
    """One train gets most of the room; once their ways are taken off, both have packets at the same times."""
    turns = (*range(1, 16, 2), *range(16, 30)), tuple(range(2, 15, 2))
    slot = 8e9 * 1500 / (4 * MBIT)
    trains = []
    for turn in turns:
        arrived = tuple(round(k * slot / 100) for k in turn)
        seq = tuple(range(len(turn)))
        trains.append(Train(bytes=1500, packets=26, seq=seq, sent=tuple(range(len(turn))), arrived=arrived))
    assert estimates.joint_rate(trains, leaving=True) == pytest.approx(4 * MBIT, rel=0.05)
