"""A failing trial reduced: what of it is left, on a made-up testbed that knows why it fails."""

import shlex
from typing import Any

import pytest

from mptune.errors import Failure, InputError
from mptune.options import Given
from mptune.runner.one_trial import RunOptions
from mptune.runner.shrinking import JOIN, shrink
from mptune.testbeds.simulated import SimulatedTestbed
from mptune.topology import load
from mptune.trial import Observation, ScriptedAction, Transfer

INTERFACE = """
[[sites.{site}.interfaces]]
isp = "{abbr}"
abbr = "{abbr}"
up = {{ value = "23456789 bit/s", measured = "on a Monday" }}
down = "20 Mbit/s"
loss = "0.2 %"
"""
NETWORK = """
name = "large"
source = "made up"
sender = "S"
receiver = "R"
initial_path = "B-X"
[sites.S]
name = "s"
{senders}
[sites.R]
name = "r"
{receivers}
{segments}
[[core.shared]]
name = "pipe"
paths = ["A-X", "B-X"]
rate = "9 Mbit/s"
[[background]]
kind = "udp"
link = "S A up"
rate = "1 Mbit/s"
[[background]]
kind = "tcp"
path = "C-Y"
"""


class Failing(SimulatedTestbed):
    """Runs nothing: a trial fails by a rule."""

    kind: Any = "stalled"
    rule: Any = None

    def __init__(self):
        self.trials = []

    def run(self, trial):
        self.trials.append(trial)
        failed = Failure(self.kind, "as it should") if self.rule(trial) else None
        return observation(failed=failed)


def observation(**fields):
    return Observation(
        **{"testbed": "made up", "duration_ns": 1, "in_order_bytes": 0, "bins": [], "subflows": [], **fields}
    )


@pytest.fixture
def bed(monkeypatch):
    """The testbed, with its rule to be set."""
    made = Failing()
    monkeypatch.setattr("mptune.testbeds.create", lambda name: made)
    return made


@pytest.fixture
def file(tmp_path):
    labels = [f"{sender}-{receiver}" for sender in "ABC" for receiver in "XY"]
    segment = '[[core.segments]]\npath = "{}"\nrtt = "41 ms"\njitter = "2 ms"\n'
    file = tmp_path / "large.toml"
    file.write_text(
        NETWORK.format(
            senders="".join(INTERFACE.format(site="S", abbr=abbr) for abbr in "ABC"),
            receivers="".join(INTERFACE.format(site="R", abbr=abbr) for abbr in "XY"),
            segments="".join(segment.format(label) for label in labels),
        )
    )
    return file


def options(**texts):
    return Given(RunOptions, {(name,): text for name, text in texts.items()}).build()


def shrunk(file, **texts):
    return shrink(file, options(**texts), testbed="simulated", folder=file.parent, name="small")


def test_paths_that_do_not_matter_are_left_out(bed, file):
    bed.rule = lambda trial: any(path.label == "C-Y" for path in trial.topology.paths)
    result = shrunk(file, seed="7")
    assert [path.label for path in result.topology.paths] == ["C-Y"] and result.paths_before == 6
    assert (result.kind, result.reason, result.complete) == ("stalled", "as it should", True)
    assert result.options.seed == 7, "another seed is another trial"
    assert not result.topology.background


def test_what_matters_stays(bed, file):
    """Two paths, the jitter of one, an action of the script, a congestion control."""

    def rule(trial):
        jitters = {path.label: path.core.jitter_ns for path in trial.topology.paths}
        cut = any(action.path == "B-X" for action in trial.script)
        return len(jitters) >= 2 and jitters.get("B-X", 0) > 1_500_000 and cut and trial.cc == "lia"

    bed.rule = rule
    script = "1.5s:down:A-X,2.5s:down:B-X,3s:up:B-X"
    result = shrunk(file, cc="lia", script=script, buffer_bytes="999KiB", transfer_bytes="5MiB")
    assert len(result.topology.paths) == 2 and "B-X" in {path.label for path in result.topology.paths}
    assert result.options.cc == "lia" and len(result.options.script) == 1
    assert isinstance(result.options.script[0], ScriptedAction)
    assert result.options.buffer_bytes == RunOptions().buffer_bytes, "the default needs no option"
    assert {path.label: path.core.jitter_ns for path in result.topology.paths}["B-X"] == 2_000_000
    assert "measured" not in result.text and "23456789" not in result.text and "20 Mbit/s" in result.text


def test_the_file_and_the_command_give_the_same_trial(bed, file):
    bed.rule = lambda trial: trial.topology.path("B-Y", "") is not None and trial.buffer_mode == "auto"
    result = shrunk(file, buffer_mode="auto", transfer_bytes="300KiB", size_known="false", initial_path="B-Y")
    small = file.parent / "small.toml"
    small.write_text(result.text)
    reason, command = (line.removeprefix("# ") for line in result.text.splitlines()[:2])
    assert reason == "stalled: as it should"
    words = shlex.split(command)
    assert words[:5] == ["mptune", "run", "small.toml", "--testbed", "simulated"]
    assert words[words.index("--buffer-mode") + 1] == "auto"
    again = load(small)
    assert [path.label for path in again.paths] == ["B-Y"] and again.network() == result.topology.network()


def test_a_failure_by_chance_is_found_again_with_another_seed(bed, file):
    """Fewer paths fail too, but not with the same seed."""
    bed.rule = lambda trial: trial.seed == 7 - len(trial.topology.paths)
    assert len(shrunk(file).topology.paths) == 6
    result = shrink(file, options(), testbed="simulated", seeds=6)
    assert (len(result.topology.paths), result.options.seed) == (1, 6)


def test_less_is_sent(bed, file):
    bed.rule = lambda trial: trial.workload.bytes > 100_000
    result = shrunk(file, transfer_bytes="4000001B")
    assert 100_000 < result.options.transfer_bytes < 200_000
    assert isinstance(bed.trials[-1].workload, Transfer)


def test_another_kind_of_failure_is_none(bed, file, monkeypatch):
    """Without a path the trial fails too, but not in the same way."""
    bed.rule = lambda trial: True
    kinds = {6: "corrupt"}
    run = bed.run

    def by_size(trial):
        bed.kind = kinds.get(len(trial.topology.paths), "stalled")
        return run(trial)

    monkeypatch.setattr(bed, "run", by_size)
    assert len(shrunk(file).topology.paths) == 6


def test_a_subflow_that_did_not_join_is_a_fault(bed, file, monkeypatch):
    bed.rule = lambda trial: False

    def problem(trial):
        refused = {"path_manager_problems": "A-X: Connection refused"} if "A" in labels(trial) else {}
        return observation(metadata=refused)

    monkeypatch.setattr(bed, "run", problem)
    result = shrunk(file)
    assert (result.kind, result.reason) == (JOIN, "A-X: Connection refused")
    assert labels(result) == {"A"}


def labels(trial):
    return {path.local.abbr for path in trial.topology.paths}


def test_a_trace_becomes_a_rate(bed, file):
    bed.rule = lambda trial: True
    (file.parent / "up.trace").write_text("1\n2\n")
    traced = file.read_text().replace('rate = "9 Mbit/s"', 'trace = "up.trace"')
    file.write_text(traced.replace('rtt = "41 ms"', 'rtt = "41 ms"\ntrace = "up.trace"'))
    assert "trace" not in shrunk(file).text


def test_ctrl_c_keeps_the_smallest_so_far(bed, file, monkeypatch):
    bed.rule = lambda trial: True
    run = bed.run

    def interrupted(trial):
        if len(bed.trials) == 3:
            raise KeyboardInterrupt
        return run(trial)

    monkeypatch.setattr(bed, "run", interrupted)
    result = shrunk(file)
    assert result.interrupted and not result.complete and result.trials == 3 + 1
    assert len(result.topology.paths) < 6


def test_time_that_is_up_ends_it(bed, file):
    bed.rule = lambda trial: True
    result = shrink(file, options(), testbed="simulated", budget_ns=1)
    assert not result.complete and not result.interrupted and result.trials == 1


def test_a_trial_that_does_not_fail_is_refused(bed, file):
    bed.rule = lambda trial: False
    with pytest.raises(InputError, match=r"large\.toml: expected a trial that fails, this one gives 0\.00"):
        shrunk(file)


@pytest.mark.parametrize("name", ["namespaces", "hosts"])
def test_a_testbed_with_noise_is_refused(file, name):
    with pytest.raises(InputError, match=r"--testbed: expected one of simulated, virtual, found"):
        shrink(file, options(), testbed=name)
