"""A campaign is read where nothing can be written: on a snapshot, an archive, someone else's directory."""

import csv
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mptune.cli import app
from mptune.errors import MptuneError
from mptune.store import create, open_store
from mptune.store.directory import STORE
from tests.plugins.needs import Thing, lack, require

SWEEP = """
topology = "UiT-HAW"
kind = "sweep"
[factors]
pm = ["fullmesh"]
cc = ["reno", "cubic"]
buffers = "0.1,0.5"
[trials]
runs = 2
duration = "1s"
"""

#: Commits something that only the journal has, and is killed, or waits for the end of its input.
BEGIN = """
import os, sys
from pathlib import Path
from mptune.store import open_store
with open_store(Path(sys.argv[1])) as store:
    store.expect("confirm", 0, 4711)
    print("committed", flush=True)
    if sys.argv[2] == "killed":
        os.kill(os.getpid(), 9)
    sys.stdin.read()
"""


def mptune(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """A finished sweep of 8 trials."""
    file, out = tmp_path / "sweep.toml", tmp_path / "runs" / "one?#1"
    file.write_text(SWEEP)
    assert mptune("campaign", "run", file, "--out", out, "--quiet").exit_code == 0
    return out


@pytest.fixture
def sealed(tmp_path: Path) -> Iterator[Callable[[Path], Path]]:
    """Shows a directory at a place where nobody can write, not even root."""
    require("namespaces", tested="a campaign on a read-only file system")
    mounted: list[Path] = []

    def seal(directory: Path) -> Path:
        place = tmp_path / f"sealed-{len(mounted)}"
        place.mkdir()
        bind = subprocess.run(["mount", "--bind", str(directory), str(place)], check=False)
        if bind.returncode != 0:
            lack("a campaign on a read-only file system", Thing("root", "root"))
        mounted.append(place)
        subprocess.run(["mount", "-o", "remount,bind,ro", str(place)], check=True)
        return place

    yield seal
    for place in mounted:
        subprocess.run(["umount", str(place)], check=True)


def test_everything_that_reads_works_there(
    campaign: Path, sealed: Callable[[Path], Path], tmp_path: Path
) -> None:
    before = sorted(file.name for file in campaign.iterdir())
    place = sealed(campaign)
    result = mptune("campaign", "status", place)
    assert result.exit_code == 0 and ": complete." in result.stdout
    assert mptune("campaign", "resume", place).exit_code == 0  # a finished one is only shown
    assert mptune("campaign", "export", place, "--series", "--out", tmp_path / "export").exit_code == 0
    with (tmp_path / "export" / "trials.csv").open(newline="") as lines:
        assert len(list(csv.DictReader(lines))) == 8
    assert mptune("report", place, "--no-figures", "--out", tmp_path / "page").exit_code == 0
    assert (tmp_path / "page" / "report.html").stat().st_size > 100_000
    assert sorted(file.name for file in campaign.iterdir()) == before


@pytest.mark.parametrize(
    "command", [["report"], ["campaign", "export"], ["campaign", "resume", "--again"]], ids=" ".join
)
def test_what_writes_there_is_refused_in_one_line(
    command: list[str], campaign: Path, sealed: Callable[[Path], Path]
) -> None:
    result = mptune(*command, sealed(campaign))
    assert result.exit_code == 1
    assert "Read-only file system" in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.parametrize("how", ["killed", "alive"])
def test_what_stands_in_the_journal_is_read_too(
    how: str, campaign: Path, sealed: Callable[[Path], Path]
) -> None:
    """Of a campaign that was killed, and of one that is running while someone looks at it through a mount."""
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN, str(campaign / STORE), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "committed\n"
        if how == "killed":
            process.wait()
        with open_store(sealed(campaign) / STORE, write=False) as store:
            assert ("confirm", 4711) in [(phase.purpose, phase.planned) for phase in store.progress()]
    finally:
        process.communicate()
    with open_store(campaign / STORE) as store:
        assert len(store.finished()) == 8


def test_trials_are_imported_from_there(
    campaign: Path, sealed: Callable[[Path], Path], tmp_path: Path
) -> None:
    place = sealed(campaign)
    with open_store(place / STORE, write=False) as source:
        asked = source.campaign()
    with create(tmp_path / "empty", asked) as store:
        assert store.merge(place / STORE) == 8
        assert store.merge(place / STORE) == 0


def test_nothing_is_written_through_a_store_opened_for_reading_there(
    campaign: Path, sealed: Callable[[Path], Path]
) -> None:
    place = sealed(campaign)
    with open_store(place / STORE, write=False) as store, pytest.raises(MptuneError, match="readonly"):
        store.expect("sweep", 0, 1)
    with pytest.raises(MptuneError, match="Read-only file system"), open_store(place / STORE):
        pass
