"""`mptune optimise` in the simulator: answer, JSON, run directory, and what it refuses."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mptune import testbeds
from mptune.cli import app

#: A coarse grid of short trials: 2 path managers x 2 congestion controls x 4 buffers x 2 runs.
COARSE = (
    *("--cc", "cubic,reno", "--buffers", "0.02,0.05,0.1,0.5", "--runs", "2", "--duration", "5s"),
    *("--impact-runs", "2", "--impact-duration", "5s", "--confirm-runs", "3"),
)
FILES = {
    "config.json",
    "impact.json",
    "observations.csv",
    "result.json",
    "subflows.csv",
    *(f"throughput_{name}.{ending}" for name in ("bars", "over_buffer") for ending in ("png", "svg")),
}


def optimise(out: Path, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["optimise", "UiT-HAW", *COARSE, "--out", str(out), *arguments])


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """One finished run, with its JSON."""
    out = tmp_path_factory.mktemp("runs") / "one"
    shown = optimise(out, "--json", "--quiet")
    assert shown.exit_code == 0, shown.stderr
    return out, json.loads(shown.stdout)


def test_json_has_the_promised_shape(done: tuple[Path, Any]) -> None:
    _, result = done
    assert set(result) >= {
        *("opm", "occ", "obs_mib", "otp_mbps", "subflows", "predicted", "confirmed", "models", "r_squared"),
        *("traditional_mib", "share_of_traditional"),
    }
    for key in ("predicted", "confirmed"):
        assert set(result[key]) >= {"mean", "low", "high"}
    assert set(result["models"][0]) >= {"pm", "cc", "formula", "max_mbps", "buffer_at_max_mib"}
    assert 0.02 <= result["obs_mib"] <= 0.5


def test_the_run_directory_is_complete(done: tuple[Path, Any]) -> None:
    out, result = done
    assert {path.name for path in out.iterdir()} == FILES
    del result["directory"]
    assert json.loads((out / "result.json").read_text()) == result
    config = json.loads((out / "config.json").read_text())
    assert config["topology"]["name"] == "UiT-HAW" and config["options"]["seed"] == 1
    assert {"mptune", "python", "numpy", "statsmodels"} <= set(config["versions"])


def test_every_trial_is_in_the_table(done: tuple[Path, Any]) -> None:
    out, result = done
    with (out / "observations.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    counts = {p: sum(row["purpose"] == p for row in table) for p in ("impact", "sweep", "confirm")}
    assert counts == {"impact": 2 * 2 * 2, "sweep": 2 * 2 * 4 * 2, "confirm": 2 * 3}
    assert len(table) == result["trials"]["run"]
    confirmed = [float(row["throughput_mbps"]) for row in table if row["purpose"] == "confirm"][:3]
    assert sum(confirmed) / 3 == pytest.approx(result["confirmed"]["mean"])


def test_the_same_seed_gives_the_same_bytes(done: tuple[Path, Any], tmp_path: Path) -> None:
    out, _ = done
    assert optimise(tmp_path / "again", "--quiet", "--jobs", "1").exit_code == 0
    for name in ("observations.csv", "subflows.csv", "impact.json", "result.json"):
        assert (tmp_path / "again" / name).read_bytes() == (out / name).read_bytes(), name


def test_the_answer_comes_first_and_an_earlier_run_is_kept_unless_forced(tmp_path: Path) -> None:
    out = tmp_path / "one"
    shown = optimise(out)
    first, second, third, *_ = shown.stdout.splitlines()
    assert first.startswith("UiT-HAW: use path manager ") and "MiB" in first
    assert second.startswith("Expect ") and third.startswith("Against fullmesh with cubic and 0.5 MiB")
    assert str(out) in shown.stdout and "sweep" in shown.stderr
    before = (out / "config.json").read_bytes()
    refused = optimise(out)
    assert refused.exit_code == 2 and "--force" in refused.stderr
    assert (out / "config.json").read_bytes() == before
    assert optimise(out, "--force", "--quiet", "--seed", "2").exit_code == 0
    assert (out / "config.json").read_bytes() != before


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--cc", "cubic,turbo"], "--cc: expected one of"),
        (["--pm", "mesh"], "--pm: expected one of"),
        (["--buffers", "1:2"], "--buffers: expected a range"),
        (["--buffers", "0.001:1:0.1"], "--buffers: expected at least one segment"),
        (["--buffers", "1,2"], "--buffers: expected 3 sizes"),
        (["--sacrifice", "100%"], "--sacrifice: expected a share in [0, 1)"),
        (["--sacrifice", "-7%"], "--sacrifice"),
        (["--selection", "best"], "--selection: expected one of global, literal"),
        (["--model", "magic"], "--model: expected one of quadratic"),
        (["--runs", "0"], "--runs"),
        (["--duration", "soon"], "--duration: expected a time"),
        (["--testbed", "moon"], "--testbed"),
        (["--jobs", "0"], "--jobs"),
        (["--impact-duration", "1ms"], "multiple of 0.1 s"),
    ],
)
def test_bad_options_leave_nothing_behind(arguments: list[str], named: str, tmp_path: Path) -> None:
    shown = optimise(tmp_path / "sub" / "out", *arguments, "--quiet")
    assert shown.exit_code == 2
    assert named in shown.stderr and shown.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_an_interrupted_run_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupt(trial: testbeds.Trial) -> testbeds.Observation:
        raise KeyboardInterrupt

    testbed = testbeds.create("simulated")
    monkeypatch.setattr(testbed, "run", interrupt)
    monkeypatch.setattr(testbeds, "create", lambda name: testbed)
    shown = optimise(tmp_path / "out", "--quiet")
    assert shown.exit_code == 130
    assert not list(tmp_path.iterdir())
