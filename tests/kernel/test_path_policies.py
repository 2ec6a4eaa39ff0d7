"""Path policies on the running kernel, over the emulated network: that the programs and their map work there.

What all of them gain, and what they cost, is held on a guest's kernel (tests/virtual/test_path_policies.py).
"""

import msgspec
import pytest

from mptune.trial import PathParameters
from tests.plugins.unlike_paths import WHOLE, by_path, mbps, network, trial

pytestmark = pytest.mark.needs("bpf")


@pytest.mark.measures("how much of a quick path a slow one leaves unused depends on when packets meet")
@pytest.mark.timeout(120)
def test_hold_keeps_a_slow_path_from_holding_up_a_quick_one(side_by_side, tmp_path) -> None:
    # A quarter of the product of both rates and the larger RTT: Cubic alone gets a third of the quick path.
    unlike = network(tmp_path, (20, 20), (5, 200))
    trials = {cc: trial(unlike, cc, 156_250) for cc in ("cubic", "cubic+hold", "olia+hold")}
    gained = {cc: mbps(observation) for cc, observation in side_by_side(trials).items()}
    assert gained["cubic+hold"] > 0.95 * WHOLE and gained["olia+hold"] > 0.9 * WHOLE
    assert gained["cubic"] < 0.7 * WHOLE, "the network no longer shows what hold is for"


@pytest.mark.measures("how fast slow start ends on two paths at a time")
@pytest.mark.timeout(120)
def test_a_capped_path_carries_its_cap_and_another_is_left_alone(side_by_side, tmp_path) -> None:
    alike = network(tmp_path, (20, 20), (20, 30))
    plain = trial(alike, "cubic+cap", 500_000)
    capped = msgspec.structs.replace(plain, path_parameters=PathParameters(caps={"B-X": 3_000_000}))
    gained = side_by_side({"plain": plain, "capped": capped})
    assert by_path(gained["plain"])["B-X"] > 0.9 * WHOLE
    rates = by_path(gained["capped"])
    assert rates["B-X"] == pytest.approx(3, rel=0.05) and rates["A-X"] > 0.9 * WHOLE


@pytest.mark.measures("how late a packet is")
@pytest.mark.timeout(120)
def test_recovery_is_the_kernels(side_by_side, tmp_path) -> None:
    """Plain TCP, where a policy decides nothing: only `cong_control` in place of `cong_avoid` is new."""
    alone = network(tmp_path, (20, 20))
    trials = {cc: trial(alone, cc, 1_000_000, "tcp") for cc in ("cubic", "cubic+hold")}
    gained = {cc: mbps(observation) for cc, observation in side_by_side(trials).items()}
    assert gained["cubic+hold"] == pytest.approx(gained["cubic"], rel=0.02)
