"""The response functions against their RFCs' closed forms and tables, and the inverse."""

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptune.topology.calibration import SEGMENT_BYTES, link_rate_bps, loss_for, throughput_bps


def window(loss: float, rtt_s: float, cc: str) -> float:
    """Mean congestion window, segments."""
    return throughput_bps(loss, rtt_s, cc) * rtt_s / 8 / SEGMENT_BYTES


@pytest.mark.parametrize("loss", [1e-4, 1e-6, 1e-8])
def test_reno_without_timeouts_is_the_square_root_law(loss: float) -> None:
    assert window(loss, 0.1, "reno") == pytest.approx(1.22 / sqrt(loss), rel=0.02)


def test_timeouts_make_reno_slower_than_the_square_root_law_at_high_loss() -> None:
    assert window(0.1, 0.1, "reno") < 0.7 * 1.22 / sqrt(0.1)


# RFC 9438, section 5.1: Table 1 (RTT 0.1 s) and Table 2 (RTT 0.01 s), column C = 0.4.
@pytest.mark.parametrize(
    ("rtt_s", "loss", "segments"),
    [
        (0.1, 1e-3, 38),
        (0.1, 1e-4, 187),
        (0.1, 1e-5, 1054),
        (0.1, 1e-6, 5926),
        (0.1, 1e-8, 187400),
        (0.01, 1e-5, 379),
        (0.01, 1e-6, 1200),
        (0.01, 1e-8, 33325),
    ],
)
def test_cubic_window_is_that_of_the_rfc(rtt_s: float, loss: float, segments: float) -> None:
    assert window(loss, rtt_s, "cubic") == pytest.approx(segments, rel=0.035)


@given(
    st.floats(min_value=5e4, max_value=1e9),
    st.floats(min_value=0.005, max_value=0.6),
    st.sampled_from(["reno", "cubic"]),
)
def test_loss_for_is_the_inverse(target_bps: float, rtt_s: float, cc: str) -> None:
    loss = loss_for(target_bps, rtt_s, cc)
    assert 0 < loss < 1
    assert throughput_bps(loss, rtt_s, cc) == pytest.approx(target_bps, rel=1e-6)


def test_a_link_carries_headers_too() -> None:
    assert link_rate_bps(1448.0) == pytest.approx(1500.0)
