"""Small runs to look at."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from mptune.cli import app

#: What would do harm if it was not escaped: a folder may have almost any name.
HOSTILE = "<img src=x onerror=alert(1)>&'\""
CSV = "cc,buffer_mib,throughput_mbps\n" + "".join(
    f"{cc},{size},{min(30, size * 9) + run / 10}\n"
    for cc in ("cubic", "reno")
    for size in (1, 2, 3, 4, 5, 6)
    for run in range(3)
)
OPTIMISE = """
topology = "UiT-HAW"
[factors]
pm = ["fullmesh"]
cc = ["cubic", "reno"]
buffers = "0.03,0.1,0.3"
[trials]
strategy = "grid"
runs = 2
duration = "1s"
[impact]
runs = 1
duration = "1s"
[decision]
off_by = 0
resamples = 10
confirm_runs = 2
"""
SWEEP = """
topology = "UiT-HAW"
kind = "sweep"
[factors]
pm = ["default"]
cc = ["reno"]
buffers = ["0.1", "0.5"]
[trials]
runs = 2
duration = "500ms"
"""


def mptune(*arguments: object) -> None:
    done = CliRunner().invoke(app, [*map(str, arguments), "--quiet"])
    assert done.exit_code == 0, done.output


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an answer, one from measurements made elsewhere, and a sweep."""
    place = tmp_path_factory.mktemp("looked-at")
    for name, text in (("optimise.toml", OPTIMISE), ("sweep.toml", SWEEP), ("data.csv", CSV)):
        (place / name).write_text(text)
    runs = place / "runs"
    mptune("campaign", "run", place / "optimise.toml", "--out", runs / "answer")
    mptune("optimise", "--from", place / "data.csv", "--out", runs / "table")
    mptune("campaign", "run", place / "sweep.toml", "--out", runs / "below" / "sweep")
    return runs


@pytest.fixture(scope="session")
def hostile() -> str:
    return HOSTILE
