"""`mptune why` in the simulator: one screen, its JSON, and what it refuses."""

import json
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from mptune.cli import app
from mptune.errors import Failure
from mptune.testbeds.simulated import SimulatedTestbed
from mptune.trial import PLAIN_TCP, Observation, Trial
from mptune.units import MIB

FILE = """
name = "home"
sender = "CLOUD"
receiver = "HOME"
[sites.CLOUD]
name = "Server"
[[sites.CLOUD.interfaces]]
isp = "Transit"
abbr = "T"
up = "1 Gbit/s"
down = "1 Gbit/s"
[sites.HOME]
name = "Home"
[[sites.HOME.interfaces]]
isp = "Cable"
abbr = "C"
up = "10 Mbit/s"
down = "100 Mbit/s"
[[sites.HOME.interfaces]]
isp = "DSL"
abbr = "D"
up = "5 Mbit/s"
down = "25 Mbit/s"
[core]
rtt = "20 ms"
[[core.segments]]
path = "T-D"
rtt = "35 ms"
loss = "1 %"
"""


@pytest.fixture
def home(tmp_path: Path) -> str:
    (tmp_path / "home.toml").write_text(FILE)
    return str(tmp_path / "home.toml")


def test_the_answer_fits_a_screen_and_names_cause_evidence_and_remedy(home: str) -> None:
    result = CliRunner().invoke(app, ["why", home, "--buffer", "256KiB", "--quiet"])
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 100
    for text in ("are missing", "buffer, ", "loss, ", "Remedy: ", "tcp_wmem", "s of trials"):
        assert text in result.stdout


def test_a_sound_network_is_one_sentence_a_direction() -> None:
    result = CliRunner().invoke(app, ["why", "UiT-HAW", "--quiet"])
    assert result.exit_code == 0, result.stderr
    assert [line.count("nothing is missing") for line in result.stdout.splitlines()] == [1, 1, 0]


def test_trials_that_failed_are_counted_with_the_first_reason(
    home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cause that they would have told is missing, or another one is named in its place."""
    run = SimulatedTestbed.run

    def lost(self: SimulatedTestbed, trial: Trial) -> Observation:
        observation = run(self, trial)
        if trial.protocol == PLAIN_TCP and trial.buffer_bytes > MIB:
            return msgspec.structs.replace(observation, failed=Failure("overloaded", "[b]no time, " * 99))
        return observation

    monkeypatch.setattr(SimulatedTestbed, "run", lost)
    result = CliRunner().invoke(app, ["why", home, "--buffer", "256KiB", "--one-way", "--quiet"])
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 100
    text = " ".join(line.strip() for line in lines)
    assert "! 2 trials have failed, so causes may be missing or wrong (TCP on T-C, large buffers: " in text


def test_json_has_the_same_numbers(home: str) -> None:
    result = CliRunner().invoke(app, ["why", home, "--buffer", "256KiB", "--one-way", "--quiet", "--json"])
    assert result.exit_code == 0, result.stderr
    (direction,) = json.loads(result.stdout)["directions"]
    assert {cause["kind"] for cause in direction["causes"]} == {"buffer", "loss"}
    shares = sum(cause["mbps"] for cause in direction["causes"]) + direction["unexplained_mbps"]
    assert shares == pytest.approx(direction["missing_mbps"])
    assert (
        direction["trials"][0]["experiment"] == "TCP on T-C" and direction["settings"]["send_bytes"] == 2**18
    )


def test_a_scenario_of_six_paths_fits_too() -> None:
    result = CliRunner().invoke(app, ["why", "UNIS-HiN", "--quiet"])
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 100 and "head-of-line" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["nowhere.toml"], "nowhere.toml"),
        (["UiT-HAW", "--budget", "soon"], "--budget: expected a time"),
        (["UiT-HAW", "--budget", "0s"], "--budget"),
        (["UiT-HAW", "--max-data", "-1B"], "--max-data"),
        (["UiT-HAW", "--buffer", "big"], "--buffer"),
        (["UiT-HAW", "--receive-buffer", "0"], "--receive-buffer"),
        (["UiT-HAW", "--pm", "mesh"], "--pm: expected one of"),
        (["UiT-HAW", "--testbed", "moon"], "--testbed"),
        (["UiT-HAW", "--initial-path", "X-Y"], "--initial-path"),
        (["UiT-HAW", "--testbed", "hosts"], "expected"),
        (["alice", "bob", "--testbed", "namespaces"], "--testbed: expected hosts"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], named: str) -> None:
    result = CliRunner().invoke(app, ["why", *arguments, "--quiet"])
    assert result.exit_code == 2 and named in result.stderr and result.stderr.count("\n") == 1


def test_a_single_path_is_refused(tmp_path: Path) -> None:
    text = FILE.partition('[[sites.HOME.interfaces]]\nisp = "DSL"')[0] + '[core]\nrtt = "20 ms"\n'
    (tmp_path / "one.toml").write_text(text)
    result = CliRunner().invoke(app, ["why", str(tmp_path / "one.toml"), "--quiet"])
    assert result.exit_code == 2 and "two paths" in result.stderr and result.stderr.count("\n") == 1
