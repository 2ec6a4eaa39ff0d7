"""`mptune calibrate`: the tables, the JSON and the file, and bad input in one line."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mptune.cli import app
from mptune.runner import running
from mptune.topology import load

ROWS = ["pm,cc,buffer_mib,throughput_mbps,duration_s", "fullmesh,cubic,4,0.6,5", "fullmesh,olia,4,0.55,5"]
QUICK = ("--budget", "150", "--longest", "3s", "--values", "queue,loss", "--stack", "v0.9x", "--quiet")


@pytest.fixture
def data(tmp_path: Path) -> str:
    file = tmp_path / "data.csv"
    file.write_text("\n".join(ROWS) + "\n")
    return str(file)


def calibrate(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["calibrate", *arguments])


def test_it_prints_intervals_and_writes_a_topology(data: str, tmp_path: Path) -> None:
    out = tmp_path / "calibrated.toml"
    result = calibrate("UiT-HAW", data, *QUICK, "--out", str(out))
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("UiT-HAW: the simulated throughput is off by ")
    assert lines[1].startswith("Of ") and "not (" in lines[1]
    assert any("not determined by these data" in line for line in lines)
    assert any(line.startswith("2 ") and "fullmesh, cubic" in line for line in lines)
    assert load(out).name == "calibrated"
    assert "inferred from data.csv" in out.read_text()
    again = calibrate("UiT-HAW", data, *QUICK, "--out", str(out))
    assert again.exit_code == 2 and "expected a new file, or --force" in again.stderr


def test_the_json_has_everything(data: str) -> None:
    document = json.loads(calibrate("UiT-HAW", data, *QUICK, "--json").stdout)
    assert document["networks"] <= 150 and document["complete"] and document["explains"]
    assert {value["determined"] for value in document["inferred"]} <= {"well", "weakly", "not"}
    assert [row["rows"] for row in document["fitted"]] == [[2], [3]]
    assert document["out"] is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("fullmesh,cubic,4,600,5", "data.csv: expected data that some plausible network explains"),
        ("fullmesh,qubic,4,6,5", "data.csv: row 2, column cc: expected one of"),
        ("fullmesh,cubic,4,fast,5", "data.csv: row 2, column throughput_mbps: expected a number"),
    ],
)
def test_bad_data_are_one_line_and_write_nothing(tmp_path: Path, line: str, expected: str) -> None:
    data, out = tmp_path / "data.csv", tmp_path / "out.toml"
    data.write_text(f"{ROWS[0]}\n{line}\n")
    result = calibrate("UiT-HAW", str(data), *QUICK, "--out", str(out))
    assert result.exit_code == 2 and expected in result.stderr
    assert len(result.stderr.splitlines()) == 1 and not result.stdout
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--budget", "10"), "--budget: expected 150 to 1000000"),
        (("--values", "speed"), "--values: expected"),
        (("--out", "here.txt"), "--out: expected a name that ends in .toml"),
        (("--out", "no/where.toml"), "--out: expected a file in an existing folder"),
    ],
)
def test_bad_options_are_one_line(data: str, arguments: tuple[str, ...], expected: str) -> None:
    result = calibrate("UiT-HAW", data, *arguments)
    assert result.exit_code == 2 and expected in result.stderr and len(result.stderr.splitlines()) == 1


def test_ctrl_c_gives_the_best_so_far(data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, calls = tmp_path / "out.toml", 0
    whole = running.reduce_trials

    def interrupted(*arguments: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return whole(*arguments, **more)

    monkeypatch.setattr("mptune.calibration.job.reduce_trials", interrupted)
    result = calibrate("UiT-HAW", data, *QUICK, "--out", str(out))
    assert result.exit_code == 130
    assert "interrupted" in result.stderr and "networks so far" in result.stderr
    assert load(out).name == "out" and "Values" in result.stdout
