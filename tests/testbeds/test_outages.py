"""The take-over time: from bins and a script, whatever the testbed."""

from typing import Any

import msgspec
import pytest

from mptune.testbeds import create
from mptune.testbeds._outages import bin_ns, coarse, silence_s, take_over_ms
from mptune.trial import BIN_NS, ScriptedAction, Trial
from tests.plugins.trials import with_workload

SECOND = 1_000_000_000


@pytest.fixture
def trial(network):
    def make(*actions, **changes):
        script = tuple(ScriptedAction(at_ns=at, path="A-X", action=action) for at, action in actions)
        settings = {
            "pm": "fullmesh",
            "cc": "reno",
            "buffer_bytes": 2**20,
            "duration_ns": 10 * SECOND,
            "seed": 1,
        }
        return Trial(topology=network, script=script, **with_workload({**settings, **changes}))

    return make


def test_the_longest_silence_after_the_cut_counts():
    width = 0.01
    assert silence_s([1] * 50, width, 0.1, 0.5) == 0
    assert silence_s([1, 0] * 25, width, 0.1, 0.5) == 0  # single empty bins are the rate, not a silence
    early = [1] * 10 + [0] * 5 + [1] * 10 + [0] * 10 + [1] * 15
    assert silence_s(early, width, 0.1, 0.5) == pytest.approx(0.25)
    assert silence_s(early, width, 0.1, 0.2) == pytest.approx(0.05)  # the other began after the restore
    assert silence_s(early, width, 0.16, 0.5) == pytest.approx(0.19)
    assert silence_s([1] * 10 + [0] * 40, width, 0.1, 0.5) == pytest.approx(0.4)


def test_a_trial_without_a_cut_has_wide_bins_and_no_take_over_time(trial):
    standby = trial((SECOND, "standby"))
    assert bin_ns(standby) == BIN_NS and take_over_ms(standby, [0] * 100) is None


def test_the_take_over_counts_from_the_first_cut_in_time(trial):
    made = trial((4 * SECOND, "up"), (2 * SECOND, "down"))
    width = bin_ns(made)
    bins = [1] * (2 * SECOND // width) + [0] * (SECOND // 2 // width) + [1] * (SECOND // width)
    assert take_over_ms(made, bins) == pytest.approx(500)
    assert sum(coarse(bins, width)) == sum(bins) and len(coarse(bins, width)) == 35


def metadata(trial: Trial) -> dict[str, Any]:
    return create("simulated").run(trial).metadata


def test_the_simulator_measures_what_plain_tcp_cannot_avoid(trial):
    """Nothing takes over: the silence is the cut, and what TCP's timer adds, at most as long again."""
    made = trial((4 * SECOND, "down"), (6 * SECOND, "up"), protocol="tcp", pm="default", initial_path="A-X")
    alone = metadata(made)
    assert 2000 <= alone["takeover_ms"] <= 4100 and alone["reinjected_bytes"] == 0
    joined = metadata(msgspec.structs.replace(made, protocol="mptcp", pm="fullmesh"))
    assert 0 < joined["takeover_ms"] < alone["takeover_ms"] and joined["reinjected_bytes"] > 0


def test_a_cut_changes_the_width_of_no_published_bin(trial):
    """The same trial up to the cut, in the same bins."""
    cut = create("simulated").run(trial((5 * SECOND, "down")))
    plain = create("simulated").run(trial())
    assert cut.bins[:50] == plain.bins[:50] and len(cut.bins) == len(plain.bins)
    for subflow, other in zip(cut.subflows, plain.subflows, strict=True):
        assert subflow.bins[:50] == other.bins[:50]
