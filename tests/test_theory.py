"""Buffer formulas against the published tables and against each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptune import theory
from mptune.papers.published import rows
from mptune.theory import Subflow

KIB, MIB = 1024, 1024 * 1024
EQUATIONS = [theory.initial_transmission, theory.fast_retransmission, theory.timer_retransmission]


def ms(value: str | float) -> int:
    return round(float(value) * 1_000_000)


def bps(mbps: str | float) -> int:
    return round(float(mbps) * 1_000_000)


@pytest.mark.parametrize("row", rows("buffersizes_table3_sizes"), ids=lambda row: row["scenario"])
def test_buffer_size_paper_table_3(row: dict[str, str]) -> None:
    """Median RTTs and TCP throughputs of Table II with an RTO of 1 s give the three columns."""
    subflows = [
        Subflow(rate_bps=bps(path["tcp_throughput_Mbit_s"]), rtt_ns=ms(path["rtt_median_ms"]))
        for path in rows("buffersizes_table2_rtt_throughput")
        if path["scenario"] == row["scenario"]
    ]
    columns = ["initial_only_eq1_KiB", "fast_rtx_eq2_KiB", "timer_rtx_eq3_KiB"]
    for formula, column in zip(EQUATIONS, columns, strict=True):
        # The inputs are rounded to 10 kbit/s, a part in a thousand of the slowest scenario's sum.
        assert formula(subflows) / KIB == pytest.approx(float(row[column]), abs=0.5, rel=5e-4)


def test_worked_example_of_the_buffer_size_paper() -> None:
    """Section III: fiber 100 Mbit/s, 10 ms and ADSL 1 Mbit/s, 200 ms, RTO 1 s."""
    both = [Subflow(rate_bps=bps(100), rtt_ns=ms(10)), Subflow(rate_bps=bps(1), rtt_ns=ms(200))]
    sizes = [round(formula(both) / KIB) for formula in EQUATIONS]
    assert sizes == [2466, 4932, 19727]


@pytest.mark.parametrize("row", rows("mpcoa_table5_solutions"), ids=lambda row: row["scenario"])
def test_traditional_column_of_mpcoa_table_5(row: dict[str, str]) -> None:
    sender, receiver = row["scenario"].split("-")
    sites = rows("mpcoa_table1_sites")
    subflows = [
        Subflow(
            rate_bps=min(int(local["up_kbit_s"]), int(remote["down_kbit_s"])) * 1000,
            rtt_ns=ms(float(row["rtt_max_s"]) * 1000),
            rto_ns=ms(float(row["rto_max_s"]) * 1000),
        )
        for local in sites
        for remote in sites
        if local["site_abbr"] == sender and remote["site_abbr"] == receiver
    ]
    traditional = theory.table5(subflows) / MIB
    assert traditional == pytest.approx(float(row["traditional_B_MiB"]), rel=2e-3)
    assert 100 * float(row["obs_MiB"]) / float(row["traditional_B_MiB"]) == pytest.approx(
        float(row["obs_percent_of_traditional_prose"]), abs=0.01
    )


subflow_lists = st.lists(
    st.builds(Subflow, rate_bps=st.integers(1, 10**11), rtt_ns=st.integers(1, 10**10)), min_size=1, max_size=9
)


@given(subflow_lists)
def test_the_formulas_are_ordered(subflows: list[Subflow]) -> None:
    sizes = [formula(subflows) for formula in (*EQUATIONS, theory.table5)]
    assert sizes == sorted(sizes)


@given(subflow_lists)
def test_sizes_are_rounded_up(subflows: list[Subflow]) -> None:
    needed = max(s.rtt_ns for s in subflows) * sum(s.rate_bps for s in subflows)
    size = theory.initial_transmission(subflows)
    assert (size - 1) * 8_000_000_000 < needed <= size * 8_000_000_000
