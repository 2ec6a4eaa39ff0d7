"""`mptune rules` in the simulator: its table, its JSON, and what it refuses."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mptune.cli import app

SHORT = ("--cc", "reno", "--runs", "2", "--duration", "2s", "--buffer", "1MiB", "--quiet")


def test_a_table_for_each_rule() -> None:
    result = CliRunner().invoke(app, ["rules", "UiT-HAW", *SHORT])
    assert result.exit_code == 0, result.stderr
    for text in ("Rule 1, improve throughput", "Rule 2, do no harm", "Rule 3, balance congestion", "HAW.D"):
        assert text in result.stdout


def test_json_has_a_row_for_each_finding() -> None:
    result = CliRunner().invoke(app, ["rules", "UiT-HAW", *SHORT, "--json"])
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert [row["rule"] for row in document["rules"]] == [1, 2, 3]
    for row in document["rules"]:
        assert row["low"] <= row["ratio"] <= row["high"] and row["runs"] == 2 and row["cc"] == "reno"
        assert row["verdict"] in ("kept", "broken", "undecided")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--cc", "turbo"], "--cc: expected one of"),
        (["--pm", "mesh"], "--pm: expected one of"),
        (["--runs", "0"], "--runs"),
        (["--duration", "soon"], "--duration: expected a time"),
    ],
)
def test_bad_options_are_one_line(arguments: list[str], named: str) -> None:
    result = CliRunner().invoke(app, ["rules", "UiT-HAW", *arguments])
    assert result.exit_code == 2 and named in result.stderr and result.stderr.count("\n") == 1


def test_a_single_path_is_refused(tmp_path: Path) -> None:
    text = """
[sites.A]
name = "A"
location = "here"
[sites.A.interfaces.X]
isp = "X"
up = "10 Mbit/s"
down = "10 Mbit/s"
[sites.B]
name = "B"
location = "there"
[sites.B.interfaces.Y]
isp = "Y"
up = "10 Mbit/s"
down = "10 Mbit/s"
"""
    file = tmp_path / "one.toml"
    file.write_text(text)
    result = CliRunner().invoke(app, ["rules", str(file)])
    assert result.exit_code == 2 and result.stderr.count("\n") == 1
