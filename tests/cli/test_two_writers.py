"""One writer per run directory: who comes second is refused with a line, and the first goes on."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mptune.cli import app
from mptune.errors import MptuneError
from mptune.store import open_store
from mptune.store.directory import STORE
from tests.plugins.program import command_line, running
from tests.plugins.waiting import until

SWEEP = """
topology = "UiT-HAW"
kind = "sweep"
[factors]
pm = ["fullmesh"]
cc = ["reno"]
buffers = "0.1,0.5"
[trials]
runs = {runs}
duration = "1s"
"""
#: Measurements made elsewhere.
CSV = "cc,buffer,throughput\n" + "".join(
    f"cubic,{buffer},{buffer * 10 + run}\n" for buffer in (1, 2, 3, 4, 5) for run in (1, 2, 3)
)
HOLD = """
import sys
from pathlib import Path
from mptune.store import open_store
with open_store(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""

BEGIN = ("campaign", "run", "short.toml", "--out", "out", "--force", "--quiet")
RESUME = ("campaign", "resume", "out", "--again", "--quiet")
OPTIMISE = ("optimise", "UiT-HAW", "--out", "out", "--force", "--quiet")
READ = (
    *("optimise", "--from", "data.csv", "--throughput-unit", "Mbit/s", "--buffer-unit", "MiB"),
    *("--pm", "fullmesh", "--out", "out", "--force", "--quiet"),
)
IMPORT = ("campaign", "import", "out", "--from", "other")
REPORT = ("report", "out", "--no-figures")


def _name(arguments: tuple[str, ...]) -> str:
    return "-".join(argument for argument in arguments[:3] if argument.isalpha() or argument == "--from")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("short.toml").write_text(SWEEP.format(runs=1))
    Path("long.toml").write_text(SWEEP.format(runs=20_000))
    Path("data.csv").write_text(CSV)
    return tmp_path


def trials() -> int:
    """Finished trials in the directory; none while there is no whole store."""
    try:
        with open_store(Path("out") / STORE, write=False) as store:
            return len(store.finished())
    except (OSError, MptuneError):
        return 0


@contextmanager
def held() -> Iterator[int]:
    """Another process works in the directory, and ends by SIGKILL; gives its ID."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", HOLD, str(Path("out") / STORE)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process.pid
        finally:
            process.kill()


def content() -> dict[str, bytes]:
    """Files of the directory, without the index that SQLite's readers share."""
    files = [file for file in Path("out").rglob("*") if file.is_file()]
    return {str(file): file.read_bytes() for file in files if not file.name.endswith(("-shm", "-wal"))}


def refused(arguments: tuple[str, ...], pid: int) -> None:
    done = CliRunner().invoke(app, list(arguments))
    line = f"mptune: error: out: process {pid} is working in this directory\n"
    assert (done.exit_code, done.stderr) == (1, line)


@pytest.mark.parametrize("second", [BEGIN, RESUME, OPTIMISE, READ, IMPORT], ids=_name)
def test_a_campaign_at_work_is_neither_replaced_nor_joined(second: tuple[str, ...], place: Path) -> None:
    with running("campaign", "run", "long.toml", "--out", "out", "--quiet", "--jobs", 1) as first:
        until(lambda: trials() > 0 or first.poll() is not None, "a trial")
        before = trials()
        refused(second, first.pid)
        until(lambda: trials() > before or first.poll() is not None, "another trial")
        assert first.poll() is None
    assert sorted(entry.name for entry in place.iterdir()) == ["data.csv", "long.toml", "out", "short.toml"]


@pytest.mark.parametrize("second", [BEGIN, RESUME, OPTIMISE, READ, IMPORT, REPORT], ids=_name)
def test_a_run_that_another_process_works_in_stays_as_it_is(second: tuple[str, ...]) -> None:
    assert CliRunner().invoke(app, list(BEGIN)).exit_code == 0
    with held() as pid:
        before = content()
        refused(second, pid)
        assert content() == before


def test_the_lock_ends_with_its_process() -> None:
    assert CliRunner().invoke(app, list(BEGIN)).exit_code == 0
    with held() as pid:
        refused(BEGIN, pid)
    done = CliRunner().invoke(app, list(BEGIN))
    assert done.exit_code == 0, done.stderr


def test_of_two_that_begin_at_once_one_works() -> None:
    command = command_line("campaign", "run", "long.toml", "--out", "out", "--force", "--quiet", "--jobs", 1)
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        until(lambda: any(process.poll() is not None for process in both), "one of them to be refused")
        second, first = sorted(both, key=lambda process: process.poll() is None)
        until(lambda: trials() > 0 or first.poll() is not None, "a trial of the other")
        assert first.poll() is None
        assert second.stderr is not None
        line = f"mptune: error: out: process {first.pid} is working in this directory\n"
        assert (second.returncode, second.stderr.read()) == (1, line)
    finally:
        for process in both:
            process.kill()
            process.communicate()
