"""What the coupled BPF congestion controls are for, on the running kernel and over the emulated network.

One of them, in a short run with wide limits. All of them, exactly: tests/virtual/test_congestion.py.
"""

import pytest

from tests.plugins.rivals import rules

pytestmark = [pytest.mark.needs("bpf"), pytest.mark.usefixtures("testbed")]


@pytest.mark.measures("one run of 10 seconds: which packets a full queue drops is chance")
def test_coupled_subflows_do_no_harm_and_leave_the_contended_path() -> None:
    estimates = rules("reno", "olia", seconds=10)
    reno, olia = estimates["reno"], estimates["olia"]
    assert reno["share"] > 0.5, estimates  # 0.60 at length
    assert 0.2 < olia["share"] < min(0.6, reno["share"]), estimates
    # Uncoupled 0.15 to 0.22, coupled 0.02 to 0.08: this separates the two, a single share does not.
    assert olia["on_contended"] < 0.75 * reno["on_contended"], estimates
