"""Curves from packets: what was given, what arrived, what is in flight, by hand and by laws."""

import numpy as np
import pytest

from mptune.capture._model import empty_samples
from mptune.capture.series import STEP_S, curves
from tests.plugins.recordings import RTT_S, SEGMENT, course, packet, run

SYN = packet(0, 0, flags=2)


def data(at_s, number, **fields):
    return packet(at_s, 0, seq=number * SEGMENT, data=number * SEGMENT, length=SEGMENT, **fields)


def at(curve, seconds):
    return curve[round(seconds / STEP_S)]


@pytest.fixture
def holed():
    """Three segments; the second is dropped, and repeated after a selective acknowledgement of the third."""
    packets = [
        SYN,
        data(0.1, 0),
        data(0.1, 1, fate=2, left=round(0.1e9)),
        data(0.1, 2),
        packet(0.11, 1, ack=SEGMENT, data_ack=SEGMENT, sack=[(SEGMENT, 2 * SEGMENT), (0, 0), (0, 0)]),
        data(0.2, 1),
        packet(0.21, 1, ack=3 * SEGMENT, data_ack=3 * SEGMENT),
    ]
    return curves(run(packets, 0.4), ("A-X",))


def test_what_is_given_counts_once_and_what_arrives_counts_when_it_does(holed):
    subflow = holed.subflows["A-X"]
    assert [at(subflow.assigned, t) for t in (0.095, 0.1, 0.3)] == [0, 3 * SEGMENT, 3 * SEGMENT]
    assert [at(subflow.delivered, t) for t in (0.105, 0.11, 0.3)] == [0, 2 * SEGMENT, 3 * SEGMENT]


def test_what_is_acknowledged_also_selectively_is_not_in_flight(holed):
    subflow = holed.subflows["A-X"]
    assert [at(subflow.inflight, t) for t in (0.1, 0.115, 0.125, 0.225)] == [3000, 3000, 1000, 0]


def test_losses_and_repetitions_are_events(holed):
    subflow = holed.subflows["A-X"]
    assert (subflow.first_data, subflow.drops.tolist(), subflow.repeats.tolist()) == (0.1, [0.1], [0.2])
    assert subflow.timeouts.tolist() == []
    assert [at(holed.in_order, t) for t in (0.105, 0.11, 0.21)] == [0, SEGMENT, 3 * SEGMENT]


def test_a_repetition_after_silence_is_that_of_a_timer():
    packets = [SYN, data(0.1, 0, fate=3), data(0.4, 0), packet(0.41, 1, ack=SEGMENT)]
    subflow = curves(run(packets, 0.5), ("A-X",)).subflows["A-X"]
    assert subflow.timeouts.tolist() == [0.4]


def test_the_window_is_what_the_receiver_allows_beyond_what_was_sent():
    packets = [SYN, data(0.1, 0), packet(0.11, 1, ack=SEGMENT, data_ack=SEGMENT, window=5000), data(0.2, 1)]
    window = curves(run(packets, 0.4), ("A-X",)).window
    assert np.isnan(at(window, 0.1)) and [at(window, t) for t in (0.15, 0.25)] == [5000, 4000]


@pytest.mark.parametrize("jitter_s", [0, 0.003])
def test_a_constant_window_is_in_flight_and_the_rtt_is_that_of_the_path(jitter_s):
    series = curves(course(lambda _: 20, jitter_s=jitter_s), ("A-X",))
    subflow = series.subflows["A-X"]
    middle = subflow.inflight[len(subflow.inflight) // 2]
    assert abs(middle / SEGMENT - 20) <= 3
    assert np.allclose(subflow.rtt[np.isfinite(subflow.rtt)], RTT_S)
    assert subflow.assigned[-1] >= subflow.delivered[-1] and series.segment == SEGMENT


def test_subflows_on_one_path_have_numbers_and_samples_of_their_own():
    second = [{**packet, "flow": 1} for packet in (data(0.1, 0), data(0.2, 1))]
    samples = empty_samples(2)
    samples["subflow"], samples["cwnd"], samples["t"] = [0, 1], [10, 20], round(0.05e9)
    series = curves(run([SYN, data(0.1, 0), *second], 0.4, samples), ("A-X",))
    assert {name: subflow.assigned[-1] for name, subflow in series.subflows.items()} == {
        "A-X": 1000,
        "A-X #2": 2000,
    }
    assert [subflow.cwnd[-1] for subflow in series.subflows.values()] == [10, 20]


def test_times_count_from_the_first_syn():
    later = [
        {**packet, "entered": packet["entered"] + 10**9, "left": packet["left"] + 10**9}
        for packet in (SYN, data(0.1, 0))
    ]
    assert curves(run(later, 0.4), ("A-X",)).subflows["A-X"].first_data == pytest.approx(0.1)
