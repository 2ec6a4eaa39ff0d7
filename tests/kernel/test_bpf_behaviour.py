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
    # A share of one short run scatters by 0.15 about 0.60 and 0.45, so that the two overlap. That both
    # controls share the queue at all is what one run can tell; the order of the shares is judged in guests.
    assert all(0.2 < estimate["share"] < 0.8 for estimate in (reno, olia)), estimates
    # Uncoupled 0.15 to 0.22, coupled 0.02 to 0.08: this separates the two, a single share does not.
    assert olia["on_contended"] < 0.75 * reno["on_contended"], estimates
