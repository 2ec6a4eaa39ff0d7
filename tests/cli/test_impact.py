"""`mptune impact` in the simulator: its JSON, its table, and what it refuses."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from mptune import testbeds
from mptune.cli import app
from mptune.errors import TrialError
from mptune.impact import DESIGNS
from mptune.trial import Observation, Trial


def impact(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["impact", "UiT-HAW", "--duration", "30s", "--runs", "3", *arguments])


def test_json_has_the_promised_shape() -> None:
    result = json.loads(impact("--json", "--quiet").stdout)
    assert result["cc"] == "cubic"
    assert set(result["omega"]) == {"P-D", "T-D"}
    for statistics in result["omega"].values():
        assert set(statistics) >= {"mean", "median", "min", "max", "q10", "q90", "rtt_ms"}
        assert statistics["min"] <= statistics["q10"] <= statistics["median"] <= statistics["max"]
        assert statistics["rtt_ms"] > 0
    assert sorted(result["optional"] + result["standby"]) == ["P-D", "T-D"]
    assert set(result["decisions"]) == {"P-D", "T-D"}
    assert all(decision["low"] <= decision["high"] for decision in result["decisions"].values())
    assert result["plausible"] is not bool(result["doubts"]) and result["homogeneous"] in (True, False)
    # Two windows that are not used and one with both, then without and with each in turn.
    assert (result["design"], result["trials"], result["measured_s"]) == ("paired", 3, 3 * 7 * 30)


def test_a_buffer_that_outlasts_the_windows_is_reported() -> None:
    """Linux queues it on the subflows; the papers' kernel does not."""

    def output_of(*options: str) -> str:
        short = ("impact", "UiT-HAW", "--duration", "20s", "--runs", "4", "--json", "--quiet")
        return " ".join(json.loads(CliRunner().invoke(app, [*short, *options]).stdout)["warnings"])

    assert "a buffer of 16 MiB lasts for " in output_of()
    assert "a buffer" not in output_of("--buffer", "256KiB")
    assert "a buffer" not in output_of("--stack", "v0.9x")


def test_without_a_trial_that_worked_there_is_no_answer(
    fake_testbed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(trial: Trial) -> Observation:
        raise TrialError("overloaded", "overloaded")

    monkeypatch.setattr(fake_testbed, "run", fail)
    monkeypatch.setitem(testbeds.TESTBEDS, "fake", lambda: fake_testbed)
    result = impact("--testbed", "fake", "--quiet")
    assert result.exit_code == 1 and result.stdout == ""
    assert result.stderr.startswith("mptune: error: no impact factors: ")
    assert "first reason: overloaded" in result.stderr


@pytest.mark.parametrize("design", DESIGNS)
def test_both_access_lines_of_uit_haw_contribute(design: str) -> None:
    """As MPCOA Table 2 has it: every subflow is optional, and the faster one contributes more."""
    arguments = ("--impact", design, "--stack", "v0.9x")
    result = json.loads(impact(*arguments, "--json", "--quiet").stdout)
    assert sorted(result["optional"]) == ["P-D", "T-D"]
    assert result["omega"]["P-D"]["mean"] > result["omega"]["T-D"]["mean"] > 0.1


def test_the_table_begins_with_the_answer_and_progress_stays_off_stdout() -> None:
    result = impact("--buffer", "256KiB")
    assert result.stdout.splitlines()[0] == "UiT-HAW, cubic: send on P-D, T-D."
    assert "trials/s" in result.stderr and "trials/s" not in result.stdout


def test_quiet_leaves_stderr_empty() -> None:
    assert impact("--quiet").stderr == ""


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--cc", "turbo"], "--cc: expected one of"),
        (["--runs", "0"], "--runs: expected 1 or more, found 0"),
        (["--jobs", "0"], "--jobs: expected 1 or more, found 0"),
        (["--duration", "10"], "--duration: expected a time"),
        (["--duration", "0.05s"], "multiple of 0.1 s"),
        (["--buffer", "1KiB"], "--buffer: expected at least one segment"),
        (["--settle", "30s"], "--settle: expected less than T"),
        (["--impact", "fast"], "--impact: expected one of paired, eq5"),
        (["--zero", "maybe"], "--zero: expected one of standby, optional"),
        (["--testbed", "moon"], "--testbed"),
    ],
)
def test_bad_options_are_one_line_and_exit_code_2(arguments: list[str], named: str) -> None:
    result = impact(*arguments, "--quiet")
    assert result.exit_code == 2
    assert named in result.stderr and result.stderr.count("\n") == 1
