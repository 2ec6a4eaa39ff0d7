"""`mptune report` as its users meet it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mptune.cli import app

CAMPAIGN = """
topology = "UiT-HAW"
kind = "sweep"
[factors]
pm = ["fullmesh", "default"]
cc = ["reno"]
buffers = "0.1,0.5"
[trials]
runs = 2
duration = "1s"
"""


def mptune(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs")
    (place / "sweep.toml").write_text(CAMPAIGN)
    result = mptune("campaign", "run", place / "sweep.toml", "--out", place / "sweep", "--quiet")
    assert result.exit_code == 0, result.stderr
    assert f"Report: {place / 'sweep' / 'report.html'}" in result.stdout
    return place / "sweep"


def test_it_prints_where_the_page_is(run: Path, tmp_path: Path) -> None:
    result = mptune("report", run, "--out", tmp_path / "here", "--no-figures")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == f"{tmp_path / 'here' / 'report.html'}\n"
    assert [file.name for file in (tmp_path / "here").iterdir()] == ["report.html"]


def test_figures_stand_beside_the_page(run: Path, tmp_path: Path) -> None:
    document = json.loads(mptune("report", run, "--out", tmp_path, "--json").stdout)
    assert document["report"] == str(tmp_path / "report.html")
    assert {Path(figure) for figure in document["figures"]} == set((tmp_path / "figures").iterdir())
    assert {Path(figure).suffix for figure in document["figures"]} == {".svg", ".png", ".pdf"}


def test_the_run_directory_is_the_default_place(run: Path) -> None:
    page = run / "report.html"
    page.unlink()
    assert mptune("report", run, "--no-figures").exit_code == 0
    assert page.is_file()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["NONE"], "none: expected a run directory, found no config.json in it"),
        (["RUN", "RUN"], "expected each run once, found this one twice"),
        (["RUN", "--out", "FILE"], "file: expected a writable directory"),
        ([], "Missing argument"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    arguments: list[str], named: str, run: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    given = {"NONE": tmp_path / "none", "RUN": run, "FILE": tmp_path / "file"}
    result = mptune("report", *(given.get(argument, argument) for argument in arguments))
    assert result.exit_code == 2
    assert named in result.stderr and result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_a_run_that_was_named_by_the_time_is_suggested(run: Path, tmp_path: Path) -> None:
    named = tmp_path / "mine-20260101-120000"
    shutil.copytree(run, named)
    result = mptune("report", tmp_path / "mine")
    assert result.exit_code == 2 and f"; the last run of this name is {named.name}\n" in result.stderr
