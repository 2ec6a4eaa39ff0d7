"""The figures of RFC 6349 against the numbers that its text works out."""

import pytest

from mptune.diagnosis import rfc6349


def test_a_t3_of_25_ms_needs_138_125_bytes():
    # Section 3.2.2: "a T3 link with 25 ms RTT" of 44.21 Mbit/s: BDP 1,105,000 bits, 138,000 bytes.
    assert rfc6349.bandwidth_delay_product_bits(44.21e6, 0.025) == pytest.approx(1_105_000, rel=1e-3)
    assert rfc6349.least_window_bytes(44.21e6, 0.025) == pytest.approx(138_000, rel=2e-3)


def test_headers_take_40_of_1500_bytes():
    assert rfc6349.achievable_bps(1500 * 8 * 100) == (1500 - 40) * 8 * 100
    assert rfc6349.achievable_bps(1500 * 8 * 100, options_bytes=12) == 1448 * 8 * 100


def test_efficiency_of_100000_bytes_with_2000_again_is_98_percent():
    # Section 4.2: "100,000 bytes were sent, 2,000 had to be retransmitted ... 102,000": 98.03 %.
    assert rfc6349.efficiency_percent(102_000, 2_000) == pytest.approx(98.03, abs=0.01)


def test_an_rtt_of_32_ms_on_25_is_28_percent():
    # Section 4.3: "average RTT of 32 ms, baseline of 25 ms": 28 %.
    assert rfc6349.buffer_delay_percent(0.032, 0.025) == pytest.approx(28)


def test_twice_the_ideal_time_is_a_ratio_of_2():
    assert rfc6349.transfer_time_ratio(8, 4) == 2
