"""Fuzzing a kernel (`make fuzz-kernel`), here on the simulator and on a made-up testbed."""

import importlib
import shlex
import time

import msgspec
import pytest
from typer.testing import CliRunner

from mptune.cli import app
from mptune.errors import Failure
from mptune.testbeds import TESTBEDS
from mptune.testbeds.simulated import SimulatedTestbed
from mptune.trial import Observation, Transfer


@pytest.fixture
def fuzz(monkeypatch):
    module = importlib.import_module("benchmarks.fidelity._fuzz_kernel")
    monkeypatch.setattr(module, "NETWORKS", 1)
    return module


class MadeUp(SimulatedTestbed):
    """Fails by a rule."""

    @staticmethod
    def failure(trial):
        return None

    def run(self, trial):
        size = trial.workload.bytes if isinstance(trial.workload, Transfer) else 1
        return Observation(
            testbed=self.name,
            duration_ns=1,
            in_order_bytes=size,
            bins=[],
            subflows=[],
            failed=self.failure(trial),
        )


@pytest.fixture
def bed(monkeypatch):
    monkeypatch.setitem(TESTBEDS, "simulated", MadeUp)
    return MadeUp


def run(fuzz, folder, seed=1):
    return fuzz.fuzz(seed, "simulated", time.monotonic() + 600, folder)


def test_a_seed_draws_the_same_trials_some_with_a_cut(fuzz, tmp_path):
    drawn = [one.options for one in fuzz.drawn(1, tmp_path / "one")]
    assert drawn == [one.options for one in fuzz.drawn(1, tmp_path / "two")]
    assert drawn != [one.options for one in fuzz.drawn(2, tmp_path / "one")]
    cuts = [one.options.script for seed in range(4) for one in fuzz.drawn(seed, tmp_path / "more")]
    assert any(cuts) and not all(cuts)
    assert all([action.action for action in cut] == ["down", "up"] for cut in cuts if cut)


def test_trials_without_a_fault_are_counted(fuzz, bed, tmp_path, capsys):
    ran, failed = run(fuzz, tmp_path)
    assert (ran, failed) == (fuzz.CONFIGURATIONS, 0) and "FAILED" not in capsys.readouterr().out


def test_a_failing_trial_is_reduced_to_a_command(fuzz, bed, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(bed, "failure", staticmethod(lambda trial: Failure("corrupt", "byte 7 is wrong")))
    ran, failed = run(fuzz, tmp_path)
    assert ran == failed == fuzz.CONFIGURATIONS
    last = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert last[:2] == ["mptune", "run"]
    result = CliRunner().invoke(app, last[1:])
    assert result.exit_code == 1 and "byte 7 is wrong" in result.output


@pytest.mark.parametrize("kind", ["incomplete", "unreachable"])
def test_what_a_network_can_be_the_reason_for_is_no_fault(fuzz, bed, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(bed, "failure", staticmethod(lambda trial: Failure(kind, "too slow")))
    assert run(fuzz, tmp_path)[1] == 0


def test_bytes_that_are_missing_unnoticed_are_a_fault(fuzz, bed, tmp_path):
    trial = next(
        trial
        for seed in range(8)
        for file, options in fuzz.drawn(seed, tmp_path)
        if isinstance((trial := fuzz.trial_of(fuzz.load(file), options, "simulated")).workload, Transfer)
    )
    whole = MadeUp().run(trial)
    assert fuzz.broken(trial, whole) is None
    short = msgspec.structs.replace(whole, in_order_bytes=whole.in_order_bytes - 1)
    assert "bytes arrived, and no failure was noticed" in fuzz.broken(trial, short)
