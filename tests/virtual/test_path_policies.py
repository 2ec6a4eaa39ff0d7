"""Path policies on a guest's kernel, which has the text of the BPF programs: their gain, and their cost."""

import msgspec
import pytest

from mptune.trial import Transfer
from mptune.trial.congestion import PATH_POLICIES
from tests.plugins.unlike_paths import WHOLE, mbps, network, trial

pytestmark = pytest.mark.needs("guest")


def test_hold_keeps_a_slow_path_from_holding_up_a_quick_one(side_by_side, tmp_path):
    # A quarter of the product of both rates and the larger RTT: Cubic alone gets a third of the quick path.
    unlike = network(tmp_path, (20, 20), (5, 200))
    trials = {cc: trial(unlike, cc, 156_250) for cc in ("cubic", "cubic+hold", "olia+hold")}
    gained = {cc: mbps(observation) for cc, observation in side_by_side(trials).items()}
    assert gained["cubic+hold"] > 0.95 * WHOLE and gained["olia+hold"] > 0.9 * WHOLE
    assert gained["cubic"] < 0.7 * WHOLE, "the network no longer shows what hold is for"


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


@pytest.mark.parametrize(
    ("window", "loss"),
    [("cubic", 0), ("cubic", 0.1), ("reno", 0.1), ("hybla", 0.1), ("scalable", 0.1), ("vegas", 0)],
)
def test_recovery_is_the_kernels(side_by_side, tmp_path, window, loss):
    """Plain TCP, where a policy decides nothing: only `cong_control` in place of `cong_avoid` is new."""
    lossy = network(tmp_path, (20, 20), loss=loss)
    pairs = [f"{window}+{policy}" for policy in PATH_POLICIES]
    trials = {cc: trial(lossy, cc, 1_000_000, "tcp") for cc in (window, *pairs)}
    gained = {cc: mbps(observation) for cc, observation in side_by_side(trials).items()}
    for pair in pairs:
        assert gained[pair] == pytest.approx(gained[window], rel=0.01 if not loss else 0.04), pair
