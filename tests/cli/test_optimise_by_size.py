"""`mptune optimise --transfer` and `--initial-path` in the simulator: answer, files, report, and refusals."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mptune import testbeds
from mptune.cli import app
from mptune.report.choices import Choices
from mptune.report.sections.by_size import by_size
from mptune.report.sections.factors import initial_paths
from mptune.report.sections.sweep import responses
from mptune.result import screen
from mptune.result.reading import read_run
from mptune.trial import Observation, Trial

BY_SIZE = (
    *("--transfer", "8KiB,64KiB", "--cc", "cubic,reno", "--buffers", "0.02,0.05,0.5", "--runs", "3"),
    *("--impact", "eq5", "--impact-runs", "2", "--impact-duration", "2s", "--confirm-runs", "4"),
)
FROM_PATHS = (
    *("--cc", "cubic,reno", "--buffers", "0.02,0.05,0.1,0.5", "--runs", "2", "--duration", "3s"),
    *("--initial-path", "P-D,T-D", "--pm", "fullmesh,default", "--confirm-runs", "3", "--off-by", "0"),
    *("--no-extend", "--resamples", "20", "--strategy", "grid"),
)


def mptune(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A finished run by size, with its JSON."""
    out = tmp_path_factory.mktemp("runs") / "sizes"
    result = mptune("optimise", "UiT-HAW", *BY_SIZE, "--out", out, "--json", "--quiet")
    assert result.exit_code == 0, result.stderr
    return out, json.loads(result.stdout)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_each_size_has_an_answer_and_all_that_was_compared_is_in_a_table(done: tuple[Path, Any]) -> None:
    out, result = done
    assert [size["transfer_bytes"] for size in result["sizes"]] == [8192, 65536]
    rows = table(out / "sizes.csv")
    for size in result["sizes"]:
        mine = [row for row in rows if int(row["transfer_bytes"]) == size["transfer_bytes"]]
        (chosen,) = [row for row in mine if row["chosen"] == "True"]
        assert (chosen["pm"], chosen["cc"], int(chosen["buffer_bytes"])) == (
            size["pm"],
            size["cc"],
            size["buffer_bytes"],
        )
        assert len(mine) == size["compared"] >= size["alike"] >= 1
        assert size["fastest"]["mean_s"] == min(float(row["mean_s"]) for row in mine if row["failed"] == "0")


def test_the_times_are_those_of_the_fresh_trials(done: tuple[Path, Any]) -> None:
    out, result = done
    trials = [row for row in table(out / "observations.csv") if row["purpose"] == "confirm"]
    assert len(trials) == 2 * 2 * 4
    for size in result["sizes"]:
        default = size["default"]
        mine = [
            float(row["completion_s"])
            for row in trials
            if int(row["transfer_bytes"]) == size["transfer_bytes"]
            and (row["pm"], row["cc"]) == (default["pm"], default["cc"])
            and int(row["buffer_bytes"]) == default["buffer_bytes"]
        ][:4]
        assert default["mean_s"] == pytest.approx(sum(mine) / 4)


def test_the_report_shows_every_size(done: tuple[Path, Any]) -> None:
    out, result = done
    run = read_run(out, "sizes")
    (section,) = by_size(run, Choices())
    assert [row["transfer_bytes"] for row in section.open[0].rows] == [8192, 65536]
    assert [row["saved_s"] for row in section.open[0].rows] == [
        size["gain"]["mean_s"] for size in result["sizes"]
    ]
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "transfers of 64 KiB" in page and "Completion time by size of transfer" in page


def test_the_terminal_shows_answer_and_default_for_each_size(tmp_path: Path) -> None:
    fixed = "--buffer-mode", "fixed"
    result = mptune("optimise", "UiT-HAW", *BY_SIZE, *fixed, "--details", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.stderr
    first, second, *_ = result.stdout.splitlines()
    assert first.startswith("UiT-HAW, transfers of 8 KiB, for Linux 6.18's MPTCP: use path manager ")
    assert second.startswith("Expect ") and "95th percentile" in second
    assert "Completion times with new seeds" in result.stdout and "screening:" in result.stderr
    shown = mptune("campaign", "resume", tmp_path / "out", "--quiet").stdout.splitlines()
    assert len(shown) <= screen.LINES and shown[0].startswith("UiT-HAW: use for each size")
    assert any(line.startswith("8 KiB ") for line in shown) and "today" in shown[1]
    assert all(len(line.replace(str(tmp_path), "")) <= screen.COLUMNS for line in shown)


def test_an_interrupted_run_is_continued_to_the_same_answer(
    done: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    out, left = tmp_path / "out", [len(table(done[0] / "observations.csv")) // 2]
    testbed = testbeds.create("simulated")
    run = testbed.run

    def interrupted(trial: Trial) -> Observation:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return run(trial)

    with monkeypatch.context() as patched:
        patched.setattr(testbed, "run", interrupted)
        patched.setattr(testbeds, "create", lambda name: testbed)
        result = mptune("optimise", "UiT-HAW", *BY_SIZE, "--out", out, "--quiet", "--jobs", 1)
    assert result.exit_code == 130 and "continue with: mptune campaign resume" in result.stderr
    assert mptune("campaign", "resume", out, "--quiet").exit_code == 0
    for name in ("result.json", "sizes.csv", "observations.csv"):
        assert (out / name).read_bytes() == (done[0] / name).read_bytes(), name


def test_the_initial_path_is_part_of_the_answer(tmp_path: Path) -> None:
    """With the path manager default it is the only path there is, so it decides."""
    out = tmp_path / "out"
    completed = mptune("optimise", "UiT-HAW", *FROM_PATHS, "--out", out, "--json", "--quiet")
    assert completed.exit_code == 0, completed.stderr
    result = json.loads(completed.stdout)
    assert result["initial_path"] in ("P-D", "T-D")
    assert f"begin on {result['initial_path']}" in result["answer"][0]
    curves = {(model["pm"], model["cc"], model["initial_path"]) for model in result["models"]}
    assert len(curves) == len(result["models"]) == 2 * 2 * 2
    best = max(result["models"], key=lambda model: model["max_mbps"])
    swept = [row for row in table(out / "observations.csv") if row["purpose"] == "sweep"]
    assert {row["initial_path"] for row in swept} == {"P-D", "T-D"}
    fastest = max(swept, key=lambda row: float(row["throughput_mbps"]))
    assert fastest["pm"] == best["pm"]
    confirming = [row for row in table(out / "observations.csv") if row["purpose"] == "confirm"]
    assert confirming[0]["initial_path"] == result["initial_path"] and not confirming[-1]["initial_path"]
    run = read_run(out, "paths")
    (response,) = responses(run, Choices())
    assert {panel.title for panel in response.panels} == {
        f"{pm}, from {path}" for pm in ("fullmesh", "default") for path in ("P-D", "T-D")
    }
    assert len(list(initial_paths(run, Choices()))) == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--transfer", "0"], "--transfer: expected"),
        (["--transfer", "64KiB,soon"], "--transfer: expected a size"),
        (["--transfer", "64KiB", "--sacrifice", "10%"], "--sacrifice: expected only without sizes"),
        (["--transfer", "64KiB", "--duration", "5s"], "--duration: expected only without sizes"),
        (["--transfer", "64KiB", "--class-bytes", "2MiB,1MiB"], "--class-bytes: expected the smaller"),
        (
            ["--transfer", "64KiB", "--pm", "fullmesh", "--class-bytes", "1MiB,2MiB"],
            "--class-bytes: expected",
        ),
        (["--initial-path", "X-Y"], "--initial-path: expected a path of UiT-HAW (P-D, T-D), found 'X-Y'"),
    ],
)
def test_bad_options_leave_nothing_behind(arguments: list[str], named: str, tmp_path: Path) -> None:
    result = mptune("optimise", "UiT-HAW", *arguments, "--out", tmp_path / "sub" / "out", "--quiet")
    assert result.exit_code == 2
    assert named in result.stderr and result.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_sizes_are_no_question_for_measurements_made_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("throughput_mbps,buffer_mib,cc\n1,1,cubic\n")
    result = mptune("optimise", "--from", tmp_path / "data.csv", "--transfer", "64KiB")
    assert result.exit_code == 2 and "--transfer: must not be given with --from" in result.stderr
