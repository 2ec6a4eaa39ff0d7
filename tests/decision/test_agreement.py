"""Distance of two testbeds: errors, ranks, optima, and failures without a number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from mptune.decision.agreement import Cell, Row, bias, compare, is_stalled, optimum, spearman, summarise_runs
from mptune.errors import Failure
from mptune.trial import BIN_NS, Observation

STALL_NS = 3_000_000_000
MIB = 2**20


def observation(mbps=8.0, *, failed=None, silent_bins=0, completion_ns=None):
    """Ten seconds at a rate, with a silence in the middle."""
    size = round(mbps * BIN_NS / 8e3)
    bins = [size] * (50 - silent_bins) + [0] * silent_bins + [size] * 50
    return Observation(
        testbed="fake",
        duration_ns=len(bins) * BIN_NS,
        in_order_bytes=sum(bins),
        bins=bins,
        subflows=[],
        failed=failed,
        completion_ns=completion_ns,
    )


def cell(mbps, *, stalled=0, failed=0):
    return Cell(
        throughput_mbps=mbps,
        low_mbps=mbps,
        high_mbps=mbps,
        runs=3,
        stalled=stalled,
        failed=failed,
        reason="stalled" if stalled else None,
    )


def row(simulated, kernel, *, size=MIB, cc="cubic", stalled=(0, 0)):
    return Row(
        pm="fullmesh",
        cc=cc,
        buffer_bytes=size,
        simulated=cell(simulated, stalled=stalled[0]),
        kernel=cell(kernel, stalled=stalled[1]),
    )


def test_the_mean_is_that_of_the_runs_with_a_number():
    runs = [
        observation(10),
        observation(20),
        observation(99, failed=Failure("died", "the emulator was killed")),
    ]
    summary = summarise_runs(runs, STALL_NS)
    assert summary.throughput_mbps == pytest.approx(15)
    assert (summary.low_mbps, summary.high_mbps) == (pytest.approx(10), pytest.approx(20))
    assert (summary.runs, summary.stalled, summary.failed) == (3, 0, 1)
    assert summary.reason == "the emulator was killed"


def test_a_stall_counts_whether_reported_or_observed():
    """The kernel's testbed breaks a stalled trial off and reports it; the simulator goes on to the end."""
    stalled = observation(failed=Failure("stalled", "stalled at 1.2 s: no byte in order for 3 s"))
    seen = observation(silent_bins=30)
    assert is_stalled(stalled, STALL_NS) and is_stalled(seen, STALL_NS)
    assert not is_stalled(observation(silent_bins=29), STALL_NS)
    assert not is_stalled(
        observation(failed=Failure("overloaded", "stalled while the machine was too busy")), STALL_NS
    )
    for observed in (stalled, seen):
        summary = summarise_runs([observed], STALL_NS)
        assert (summary.throughput_mbps, summary.stalled, summary.failed) == (None, 1, 0)
        assert summary.reason is not None and summary.reason.startswith("stalled")


def test_a_transfer_that_completed_did_not_stall():
    assert not is_stalled(observation(silent_bins=40, completion_ns=10**10), STALL_NS)


def test_errors_are_relative_to_the_kernel():
    rows = [row(90, 100), row(110, 100), row(130, 100), row(50, 100), row(100, None, stalled=(0, 3))]
    comparison = compare(rows)
    assert comparison.compared == 4
    assert [row.error for row in rows] == [
        pytest.approx(-0.1),
        pytest.approx(0.1),
        pytest.approx(0.3),
        pytest.approx(-0.5),
        None,
    ]
    assert comparison.median_error == pytest.approx(0.2)
    assert comparison.q90_error == pytest.approx(0.44)
    assert comparison.stalls_agree == 4 / 5


def test_nothing_to_compare_is_no_error():
    comparison = compare([row(None, None, stalled=(3, 3))])
    assert (
        comparison.compared == 0 and comparison.median_error is None and comparison.rank_correlation is None
    )
    assert (
        comparison.simulated_optimum is None
        and comparison.same_optimum is None
        and comparison.stalls_agree == 1
    )


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=3, max_size=20))
def test_rank_correlation_is_spearmans(pairs):
    first, second = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    rank = spearman(first, second)
    if len(set(first)) == 1 or len(set(second)) == 1:
        assert rank is None
    else:
        assert rank == pytest.approx(spearmanr(first, second).statistic, abs=1e-12)


@given(st.lists(st.integers(-1000, 1000), min_size=3, max_size=20, unique=True))
def test_ranks_do_not_care_for_scale(values):
    assert spearman(values, [value**3 + 7 for value in values]) == pytest.approx(1)
    assert spearman(values, [-value for value in values]) == pytest.approx(-1)


def test_the_optimum_is_the_smallest_buffer_within_the_sacrifice():
    rows = [row(92, 40, size=MIB), row(94, 93.5, size=2 * MIB), row(100, 100, size=4 * MIB)]
    assert optimum(rows, "simulated") is rows[1]
    assert optimum(rows, "kernel") is rows[1]
    comparison = compare(rows)
    assert comparison.same_optimum is True and comparison.kept == 1


def test_a_wrong_optimum_has_its_cost():
    rows = [row(100, 60, size=MIB), row(101, 100, size=4 * MIB)]
    comparison = compare(rows)
    assert comparison.same_optimum is False
    assert comparison.kept == pytest.approx(0.6)


def test_a_configuration_that_stalls_now_and_then_is_never_the_optimum():
    rows = [row(100, 100, size=MIB, stalled=(0, 1)), row(50, 50, size=4 * MIB)]
    assert optimum(rows, "kernel") is rows[1]
    assert optimum(rows, "simulated") is rows[0]


def test_of_equal_buffers_the_faster_is_the_optimum():
    rows = [row(96, 96, cc="reno"), row(100, 100, cc="cubic")]
    assert optimum(rows, "kernel") is rows[1]


def test_the_bias_is_of_ratios_not_of_differences():
    assert bias([1.0, -0.5]) == pytest.approx(0)
    assert bias([0.1, 0.1]) == pytest.approx(0.1) and bias([-0.2]) == pytest.approx(-0.2)
    assert bias([]) is None and bias([0.1, -1.0]) is None
