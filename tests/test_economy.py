"""What benchmarks/economy.py judges strategies by."""

import argparse
import importlib
from pathlib import Path

import numpy as np
import pytest

from mptune.response import Combination
from mptune.strategy import Arm

BENCHMARKS = str(Path(__file__).parent.parent / "benchmarks")


@pytest.fixture
def economy(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("economy")


@pytest.fixture
def known(economy):
    """Two arms x four buffers x two runs of a second: one rises to 100 Mbit/s, the other collapses."""
    means = np.array([[40.0, 80, 98, 100], [60, 99, 30, 20]])
    runs = np.stack([means - 1, means + 1], axis=2)
    payload = np.repeat(runs[..., None] * 1e6 / 80, 10, axis=3)
    arms = tuple(Arm(Combination("fullmesh", cc), frozenset("A")) for cc in ("cubic", "reno"))
    return economy.Grid("two", "linux", arms, (1000, 2000, 4000, 8000), payload)


def test_the_truth_is_the_smallest_buffer_that_holds_the_target_with_larger_ones_too(economy, known):
    truth = economy.Truth.of(known, 0.05)
    assert truth.allowed == pytest.approx(95)
    assert truth.smallest == 4000
    assert economy.Truth.of(known, 0.2).smallest == 2000


@pytest.mark.parametrize("name", ["adaptive", "grid", "random", "halving"])
def test_a_strategy_that_may_see_everything_finds_it(economy, known, name):
    asked = argparse.Namespace(sacrifice=0.05, replays=3)
    found = list(economy.replays(known, name, 16, asked))
    assert len(found) == 3
    assert all(one.trials <= 16 for one in found)
    # By means alone the arm that collapses is taken for the best; it too misses nothing with its own buffer.
    assert all(one.regret == pytest.approx(0, abs=0.02) for one in found)


def test_a_wrong_claim_is_counted(economy):
    replay = economy.Replay
    ones = [replay(0.0, 1.0, 10, 0.99), replay(0.3, 1.0, 20, 0.96), replay(0.3, 2.0, 30, 0.5)]
    summary = economy.summary(ones)
    assert (summary["claims"], summary["wrong"]) == (2, 0.5)
    assert summary["small"] == pytest.approx(2 / 3)
    assert summary["trials"] == 20
