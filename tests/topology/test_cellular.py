"""Traces drawn from the model of a cellular link: they have its statistics, and a seed is a trace."""

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptune.topology import cellular


@given(st.integers(1, 3000), st.integers(0, 2**64))
def test_a_trace_is_one_of_mahimahis(duration_ms: int, seed: int) -> None:
    times = cellular.trace_ms(duration_ms, seed)
    assert times == sorted(times)
    assert times[0] >= 1
    assert times[-1] == duration_ms


def test_the_same_seed_is_the_same_trace_and_another_is_another() -> None:
    assert cellular.trace_ms(5000, 1) == cellular.trace_ms(5000, 1) != cellular.trace_ms(5000, 2)


def test_without_motion_it_is_a_poisson_process() -> None:
    times = cellular.trace_ms(100_000, 3, highest=1000, brownian=1e-9)
    # 500 packets/s for 100 s: mean 50000, standard deviation 224.
    assert len(times) == pytest.approx(50_000, abs=5 * 224)
    counts = Counter(time // 10 for time in times[:-1])
    mean = sum(counts.values()) / 10_000
    variance = sum((counts[slot] - mean) ** 2 for slot in range(10_000)) / 10_000
    # Variance over mean is 1, with a standard deviation of sqrt(2 / 10000).
    assert variance / mean == pytest.approx(1, abs=5 * 0.0142)


def test_an_outage_lasts_a_second_or_more() -> None:
    """At each tick of 20 ms it ends with a probability of 2 %; some begin again before a packet has left."""
    plain = cellular.trace_ms(200_000, 5)
    assert max(after - before for before, after in itertools.pairwise(plain)) < 300
    lasting = []
    for escapes in (cellular.ESCAPES, 4 * cellular.ESCAPES):
        times = cellular.trace_ms(2_000_000, 5, escapes=escapes)
        gaps = [after - before for before, after in itertools.pairwise(times)]
        outages = [gap for gap in gaps if gap > 300]
        assert len(outages) > 100
        lasting.append(sum(gap - 300 for gap in outages) / len(outages))
    assert 1000 < lasting[0] < 2000
    # The share of those that begin again does not depend on the rate at which they end.
    assert lasting[0] / lasting[1] == pytest.approx(4, rel=0.25)


def test_in_the_long_run_the_rate_is_anywhere_between_0_and_the_highest() -> None:
    times = cellular.trace_ms(4_000_000, 4)
    rates = Counter(time // 1000 for time in times)
    shares = [
        sum(low <= rates[second] < low + 250 for second in range(4000)) / 4000 for low in (0, 250, 500, 750)
    ]
    # Reflected Brownian motion is uniform in the end. It forgets where it was within 5 s
    # (2 (1000 / (pi 200))^2), so these are 800 independent seconds at least: deviations of 0.015.
    assert shares == pytest.approx([0.25] * 4, abs=5 * 0.0154)
