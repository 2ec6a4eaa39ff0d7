"""Orders stay within budgets, and are of use."""

import itertools

import pytest

from mptune.probe import orders

MBIT = 1_000_000


def total(flows):
    return sum(flow.packets * flow.bytes for flow in flows)


def test_trains_stay_within_the_budget_and_do_not_meet():
    rates = {0: 100 * MBIT, 3: 20 * MBIT}
    flows = orders.trains(rates, {0: 1500, 3: 1400}, 4, 500_000, 7_000_000, paced=True)
    for path, size in ((0, 1500), (3, 1400)):
        assert total([flow for flow in flows if flow.path == path]) <= 500_000 + 4 * size
    assert [flow.path for flow in flows] == [0] * 4 + [3] * 4
    for flow, after in itertools.pairwise(flows):
        apart = 7_000_000 if after.path != flow.path else 0
        assert after.start_ns > apart + flow.start_ns + 8e9 * flow.packets * flow.bytes / rates[flow.path]


def test_a_paced_train_is_faster_than_its_path():
    (flow,) = orders.trains({0: 10 * MBIT}, {0: 1500}, 1, 1e6, 0, paced=True)
    assert 10 * MBIT < 8e9 * 1500 / flow.interval_ns < 20 * MBIT
    (burst,) = orders.trains({0: 10 * MBIT}, {0: 1500}, 1, 1e6, 0, paced=False)
    assert burst.interval_ns == 0


def test_a_slow_path_gets_a_train_worth_the_name():
    assert orders.train_packets(100_000, 1500, 1000) == 20


def test_trains_together_last_equally_long_and_do_not_meet_the_next():
    flows = orders.together({0: 100 * MBIT, 1: 40 * MBIT}, {0: 1500, 1: 1500}, {0: 0, 1: 9}, 3e6, 1_000)
    assert [flow.path for flow in flows] == [0, 1] * 3
    lengths = [flow.packets * flow.interval_ns for flow in flows]
    assert lengths[0] == pytest.approx(lengths[1], rel=0.05)
    assert flows[1].start_ns == flows[0].start_ns + 9
    assert flows[2].start_ns > flows[1].start_ns + 2 * lengths[1] + 1_000
    assert total(flows) <= 3_030_000


def test_trains_together_on_slow_paths_have_enough_packets_if_there_is_room():
    rates, sizes = {0: 4 * MBIT, 1: 4 * MBIT}, {0: 1500, 1: 1500}
    assert min(flow.packets for flow in orders.together(rates, sizes, {0: 0, 1: 0}, 1e6, 0)) >= 60
    assert total(orders.together(rates, sizes, {0: 0, 1: 0}, 300_000, 0)) <= 310_000


def test_bursts_double_until_the_budget_ends():
    sent = 0
    sizes: list[int] = []
    while (flow := orders.burst(0, 1500, 10 * MBIT, None, sent, 500_000 - sum(sizes))) is not None:
        assert flow.interval_ns == 0
        sent = flow.packets * 1500
        sizes.append(sent)
    assert len(sizes) >= 3 and all(b > 1.25 * a for a, b in itertools.pairwise(sizes))
    assert sum(sizes) <= 500_000 + 3000 * len(sizes)


def test_a_burst_through_another_link_does_not_fill_that_one_s_queue():
    assert 10 * MBIT < orders.burst_pace(10 * MBIT, 20 * MBIT, at_least=False) < 20 * MBIT
    assert orders.burst_pace(10 * MBIT, 10 * MBIT, at_least=True) > 10 * MBIT
    assert not orders.spares(orders.burst_pace(10 * MBIT, 11 * MBIT, at_least=True), 11 * MBIT)
    assert orders.spares(orders.burst_pace(10 * MBIT, 30 * MBIT, at_least=True), 30 * MBIT)
    flow = orders.burst(0, 1500, 10 * MBIT, 15 * MBIT, 0, 1e6)
    assert flow is not None
    assert 8e9 * 1500 / flow.interval_ns == pytest.approx(15 * MBIT)
    # Only a third of it stays in the queue.
    straight = orders.burst(0, 1500, 10 * MBIT, None, 0, 1e6)
    assert straight is not None and flow.packets > 2 * straight.packets


@pytest.mark.parametrize(
    ("before", "room", "pace"),
    [(10, 2e6, 10.8), (10.2, 2e6, 10.8), (11, 2e6, 10.78), (40, 2e6, 13), (10, 3.5e5, 11.475)],
)
def test_a_slower_burst_is_as_slow_as_there_is_room_and_the_link_before_asks_for(before, room, pace):
    flow = orders.slower_burst(0, 1500, 10 * MBIT, before * MBIT, 30_000, room)
    assert flow is not None and flow.packets * 1500 <= room
    assert 8e9 * 1500 / flow.interval_ns == pytest.approx(pace * MBIT, rel=0.003)
    # More than the queue stays behind.
    assert flow.packets * 1500 * (1 - 10 / pace) == pytest.approx(45_000, rel=0.05)


def test_a_slower_burst_is_as_long_as_there_is_room():
    for before, pace in ((10, 13), (11, 10.78)):
        flow = orders.slower_burst(0, 1500, 10 * MBIT, before * MBIT, 30_000, 150_000)
        assert flow is not None and flow.packets * 1500 <= 150_000
        assert 8e9 * 1500 / flow.interval_ns == pytest.approx(pace * MBIT, rel=0.003)
    assert orders.slower_burst(0, 1500, 10 * MBIT, 11 * MBIT, 30_000, 20_000) is None
    assert orders.slower_burst(0, 1500, 10 * MBIT, 11 * MBIT, 30_000, -1) is None


def test_echoes_leave_links_idle():
    interval = orders.echo_interval_ns([3 * MBIT, 50 * MBIT], 2, 60)
    assert 2 * 60 * 8e9 / interval <= 0.1 * 3 * MBIT * 1.001
    assert orders.echo_interval_ns([], 1, 60) > 0


def test_sizes_are_tried_downwards_and_then_all_between():
    assert orders.ladder(1500, 60)[:2] == [1492, 1480]
    assert orders.between(1460, 1470) == list(range(1461, 1470))
    assert len(orders.between(1280, 9000)) < 60
