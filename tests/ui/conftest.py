"""Small runs to look at."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from mptune.cli import app
from tests.plugins.daemon_socket import listener as listener
from tests.plugins.small_runs import CSV, SWEEP

#: What would do harm if it was not escaped: a folder may have almost any name.
HOSTILE = "<img src=x onerror=alert(1)>&'\""
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
