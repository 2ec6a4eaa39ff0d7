"""Path policies on the running kernel, over the emulated network: that the programs work there.

What they gain, and what they cost, is held on a guest's kernel (tests/virtual/test_path_policies.py), which
gets no parameters of paths.
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


@pytest.mark.measures("how fast slow start ends on two paths at a time")
@pytest.mark.timeout(120)
def test_weights_are_the_shares(side_by_side, tmp_path) -> None:
    """A third of the payload belongs on a path that could carry half of it."""
    alike = network(tmp_path, (20, 20), (20, 30))
    plain = msgspec.structs.replace(trial(alike, "cubic+weight", 4_000_000), buffer_mode="auto")
    weights = {name: {"A-X": share, "B-X": 3 - share} for name, share in (("less", 1), ("more", 2))}
    told = {
        name: msgspec.structs.replace(plain, path_parameters=PathParameters(weights=weight))
        for name, weight in weights.items()
    }
    for name, observation in side_by_side(told).items():
        rates = by_path(observation)
        total = sum(rates.values())
        for path, weight in weights[name].items():
            assert rates[path] / total == pytest.approx(weight / 3, rel=0.1)
        assert total > 0.9 * 1.5 * WHOLE


@pytest.mark.measures("how fast slow start ends on two paths at a time")
@pytest.mark.timeout(120)
def test_the_second_path_is_for_what_the_preferred_one_cannot_carry(side_by_side, tmp_path) -> None:
    """Buffers of half a window of one path fill none; large ones fill both."""
    alike = network(tmp_path, (20, 40), (20, 40))
    told = PathParameters(order=("B-X", "A-X"))
    trials = {
        size: msgspec.structs.replace(trial(alike, "cubic+prefer", size), path_parameters=told)
        for size in (40_000, 1_000_000)
    }
    gained = {size: by_path(observation) for size, observation in side_by_side(trials).items()}
    small, large = gained[40_000], gained[1_000_000]
    assert small["A-X"] < 0.05 * small["B-X"] and small["B-X"] > 0.2 * WHOLE
    assert sum(large.values()) > 0.9 * 2 * WHOLE


@pytest.mark.parametrize(("window", "policy"), [("cubic", "hold"), ("reno", "cap")])
@pytest.mark.measures("how late a packet is")
@pytest.mark.timeout(120)
def test_recovery_is_the_kernels(side_by_side, tmp_path, window, policy) -> None:
    """Plain TCP, where a policy decides nothing: only `cong_control` in place of `cong_avoid` is new."""
    alone = network(tmp_path, (20, 20))
    trials = {cc: trial(alone, cc, 1_000_000, "tcp") for cc in (window, f"{window}+{policy}")}
    gained = {cc: mbps(observation) for cc, observation in side_by_side(trials).items()}
    assert gained[f"{window}+{policy}"] == pytest.approx(gained[window], rel=0.02)
