"""`mptune report` as its users meet it."""

import json
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
    shown = mptune("campaign", "run", place / "sweep.toml", "--out", place / "sweep", "--quiet")
    assert shown.exit_code == 0, shown.stderr
    assert f"Report: {place / 'sweep' / 'report.html'}" in shown.stdout
    return place / "sweep"


def test_it_tells_where_the_page_is(run: Path, tmp_path: Path) -> None:
    shown = mptune("report", run, "--out", tmp_path / "here", "--no-figures")
    assert shown.exit_code == 0, shown.stderr
    assert shown.stdout == f"{tmp_path / 'here' / 'report.html'}\n"
    assert [one.name for one in (tmp_path / "here").iterdir()] == ["report.html"]


@pytest.mark.timeout(120)
def test_figures_stand_beside_the_page(run: Path, tmp_path: Path) -> None:
    told = json.loads(mptune("report", run, "--out", tmp_path, "--json").stdout)
    assert told["report"] == str(tmp_path / "report.html")
    assert {Path(one) for one in told["figures"]} == set((tmp_path / "figures").iterdir())
    assert {Path(one).suffix for one in told["figures"]} == {".svg", ".png", ".pdf"}


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
def test_what_is_wrong_is_told_in_one_line(
    arguments: list[str], named: str, run: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    given = {"NONE": tmp_path / "none", "RUN": run, "FILE": tmp_path / "file"}
    shown = mptune("report", *(given.get(argument, argument) for argument in arguments))
    assert shown.exit_code == 2
    assert named in shown.stderr and shown.stderr.count("\n") == 1
    assert shown.stdout == ""
