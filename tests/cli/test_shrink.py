"""`mptune shrink`: the file, the command that it prints, JSON, Ctrl-C, refusals."""

import json
import shlex

import pytest
from typer.testing import CliRunner

from mptune.cli import app
from mptune.errors import Failure
from mptune.testbeds import TESTBEDS
from mptune.testbeds.simulated import SimulatedTestbed
from mptune.topology import load
from mptune.trial import Observation
from tests.plugins import two_paths
from tests.plugins.two_paths import Uplink


class Failing(SimulatedTestbed):
    """A trial with the path B-X stalls."""

    interrupted_after = 1000
    trials = 0

    def run(self, trial):
        Failing.trials += 1
        if Failing.trials > self.interrupted_after:
            raise KeyboardInterrupt
        found = any(path.label == "B-X" for path in trial.topology.paths)
        failed = Failure("stalled", "nothing arrives") if found else None
        return Observation(
            testbed=self.name, duration_ns=1, in_order_bytes=0, bins=[], subflows=[], failed=failed
        )


@pytest.fixture(autouse=True)
def bed(monkeypatch, tmp_path):
    monkeypatch.setitem(TESTBEDS, "simulated", Failing)
    monkeypatch.chdir(tmp_path)
    Failing.trials = 0
    uplinks = Uplink("Alpha", "12345678 bit/s", "20 ms"), Uplink("Beta", "12345678 bit/s", "20 ms")
    (tmp_path / "two.toml").write_text(two_paths.text(*uplinks))


def shrink(*arguments):
    return CliRunner().invoke(app, ["shrink", "two.toml", "--quiet", *arguments])


def test_the_network_is_written_and_the_command_shown(tmp_path):
    result = shrink("--seed", "3", "--cc", "lia", "--transfer", "1MiB")
    assert result.exit_code == 0, result.output
    assert "stalled: nothing arrives" in result.output and "1 of 2 paths are left" in result.output
    command = shlex.split(result.output.splitlines()[-1])
    assert command[:3] == ["mptune", "run", "two-shrunk.toml"] and "--seed" in command
    assert "--cc" not in command
    assert [path.label for path in load(tmp_path / "two-shrunk.toml").paths] == ["B-X"]


def test_json_says_what_is_left():
    document = json.loads(shrink("--json", "--out", "small.toml").output)
    assert (document["kind"], document["paths"], document["paths_before"]) == ("stalled", ["B-X"], 2)
    assert document["complete"] and document["out"] == "small.toml" and document["trials"] > 1
    assert document["command"].startswith("mptune run small.toml --testbed simulated")


def test_ctrl_c_leaves_the_smallest_so_far(tmp_path, monkeypatch):
    monkeypatch.setattr(Failing, "interrupted_after", 3)
    result = shrink()
    assert result.exit_code == 130
    assert "more steps were possible" in result.output and "two-shrunk.toml" in result.output
    assert load(tmp_path / "two-shrunk.toml").name == "two-shrunk"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--testbed", "namespaces"], "--testbed: expected one of simulated, virtual, found 'namespaces'"),
        (["--out", "two.toml"], "--out: expected a new file, or --force, found two.toml"),
        (["--out", "small.json"], "--out: expected a name that ends in .toml, found small.json"),
    ],
)
def test_refusals(arguments, error):
    result = shrink(*arguments)
    assert result.exit_code == 2 and error in result.output


def test_a_trial_that_works_is_none_to_shrink(tmp_path):
    text = two_paths.text(Uplink("Alpha", "10 Mbit/s", "20 ms"))
    (tmp_path / "two.toml").write_text(text)
    result = shrink()
    assert result.exit_code == 2 and "two.toml: expected a trial that fails" in result.output
    assert not (tmp_path / "two-shrunk.toml").exists()
