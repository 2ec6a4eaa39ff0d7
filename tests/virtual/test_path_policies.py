"""Path policies on a guest's kernel, which has the text of the BPF programs: their gain, and their cost."""

import statistics

import msgspec
import pytest

from mptune.trial import Messages, PathParameters, Transfer
from mptune.trial.congestion import PATH_POLICIES
from tests.plugins.unlike_paths import WHOLE, by_path, mbps, network, trial

pytestmark = pytest.mark.needs("guest")


def test_hold_keeps_a_slow_path_from_holding_up_a_quick_one(side_by_side, tmp_path):
    # A quarter of the product of both rates and the larger RTT: Cubic alone gets a third of the quick path.
    unlike = network(tmp_path, (20, 20), (5, 200))
    trials = {cc: trial(unlike, cc, 156_250) for cc in ("cubic", "cubic+hold", "olia+hold")}
    gained = {cc: mbps(observation) for cc, observation in side_by_side(trials).items()}
    assert gained["cubic+hold"] > 0.95 * WHOLE and gained["olia+hold"] > 0.9 * WHOLE
    assert gained["cubic"] < 0.7 * WHOLE, "the network no longer shows what hold is for"


@pytest.mark.needs("current-guest")
def test_hold_has_a_slow_path_beside_a_quick_one_where_both_just_fit_or_buffers_grow(side_by_side, tmp_path):
    # One product: bursts would overflow the slow path's queue, and the repair would hold up the quick one.
    fixed = trial(network(tmp_path, (20, 20), (5, 200)), "cubic+hold", 625_000)
    growing = msgspec.structs.replace(fixed, buffer_mode="auto", buffer_bytes=4 << 20)
    gained = {mode: mbps(seen) for mode, seen in side_by_side({"fixed": fixed, "auto": growing}).items()}
    assert min(gained.values()) > 1.03 * WHOLE, gained


def test_hold_leaves_equal_paths_alone(side_by_side, tmp_path):
    alike = network(tmp_path, (20, 30), (20, 30))
    trials = {cc: trial(alike, cc, 1_000_000) for cc in ("cubic", "cubic+hold")}
    gained = {cc: mbps(observation) for cc, observation in side_by_side(trials).items()}
    assert gained["cubic+hold"] > 0.97 * gained["cubic"] > 1.7 * WHOLE


def test_hold_keeps_a_buffer_from_going_whole_into_the_first_subflow(side_by_side, tmp_path):
    # 1 MB, written before there is a second subflow, takes 4 s of the first one's 2 Mbit/s.
    slow_first = network(tmp_path, (2, 20), (20, 20))
    transfer = Transfer(bytes=1_000_000)
    trials = {
        cc: msgspec.structs.replace(trial(slow_first, cc, 4_000_000), workload=transfer)
        for cc in ("cubic", "cubic+hold")
    }
    took = {cc: observation.completion_ns or 0 for cc, observation in side_by_side(trials).items()}
    assert took["cubic+hold"] < 0.5 * took["cubic"]


@pytest.mark.needs("current-guest")
def test_quick_gives_messages_the_quick_path_though_the_slow_one_was_first(side_by_side, tmp_path):
    slow_first = network(tmp_path, (20, 80), (20, 20))
    workload = Messages(bytes=200, interval_ns=100_000_000, duration_ns=10_000_000_000)
    trials = {
        cc: msgspec.structs.replace(trial(slow_first, cc, 4_000_000), workload=workload)
        for cc in ("cubic", "cubic+hold", "cubic+quick")
    }
    delays = {cc: statistics.median(seen.delays_ns) / 1e6 for cc, seen in side_by_side(trials).items()}
    assert delays["cubic"] == pytest.approx(40, rel=0.05) == delays["cubic+hold"]
    assert delays["cubic+quick"] == pytest.approx(10, rel=0.2)


@pytest.mark.needs("current-guest")
def test_a_capped_path_carries_its_cap_and_another_is_left_alone(side_by_side, tmp_path):
    alike = network(tmp_path, (20, 20), (20, 30))
    plain = trial(alike, "cubic+cap", 500_000)
    capped = msgspec.structs.replace(plain, path_parameters=PathParameters(caps={"B-X": 3_000_000}))
    gained = side_by_side({"plain": plain, "capped": capped})
    assert by_path(gained["plain"])["B-X"] > 0.9 * WHOLE
    rates = by_path(gained["capped"])
    assert rates["B-X"] == pytest.approx(3, rel=0.05) and rates["A-X"] > 0.9 * WHOLE


@pytest.mark.needs("current-guest")
def test_weights_are_the_shares(side_by_side, tmp_path):
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


@pytest.mark.needs("current-guest")
def test_the_second_path_is_for_what_the_preferred_one_cannot_carry(side_by_side, tmp_path):
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


@pytest.mark.parametrize(
    ("window", "loss"),
    [
        ("cubic", 0),
        ("cubic", 0.1),
        ("reno", 0),
        ("reno", 0.1),
        ("hybla", 0.1),
        ("scalable", 0.1),
        ("vegas", 0),
    ],
)
def test_recovery_is_the_kernels(side_by_side, tmp_path, window, loss):
    """Plain TCP, where a policy decides nothing: only `cong_control` in place of `cong_avoid` is new.

    Every policy has the same: all of them are asked with Cubic where packets are lost, which is most of it.
    """
    lossy = network(tmp_path, (20, 20), loss=loss)
    every = window == "cubic" and loss
    pairs = [f"{window}+{policy}" for policy in (PATH_POLICIES if every else ("hold",))]
    trials = {cc: trial(lossy, cc, 1_000_000, "tcp") for cc in (window, *pairs)}
    gained = {cc: mbps(observation) for cc, observation in side_by_side(trials).items()}
    for pair in pairs:
        assert gained[pair] == pytest.approx(gained[window], rel=0.01 if not loss else 0.04), pair
