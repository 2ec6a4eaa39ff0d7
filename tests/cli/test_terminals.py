"""Any place of output, and any working directory: by real processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugins.waiting import PATIENCE_S

#: The program, as it is started.
PROGRAM = (sys.executable, "-c", "from mptune.cli import main; main()")
PATHS = ("paths", "UiT-HAW")
#: A network whose names are not in ASCII, and its JSON.
NAMES = (PATHS, (*PATHS, "--json"), ("run", "UiT-HAW", "--duration", "100ms"))


def started(
    *arguments: str, into: int | None = None, directory: Path | None = None, ascii_only: bool = False
) -> subprocess.CompletedProcess[bytes]:
    own = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "HOME": "/"}
    if ascii_only:
        own |= {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    return subprocess.run(
        [*PROGRAM, *arguments],
        env=own,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if into is None else into,
        stderr=subprocess.PIPE,
        timeout=PATIENCE_S,
        check=False,
    )


def one_line(stderr: bytes) -> str:
    (line,) = stderr.decode().splitlines()
    assert line.startswith("mptune: error: ") and len(line) <= 300 and "unexpected" not in line
    return line


@pytest.mark.needs("linux")  # /dev/full
@pytest.mark.parametrize("arguments", [*NAMES, ("--version",), ("--help",), ("cc", "list")])
def test_a_full_output_is_one_line(arguments: tuple[str, ...]) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        done = started(*arguments, into=full)
    finally:
        os.close(full)
    assert done.returncode == 1
    assert "No space left on device" in one_line(done.stderr)


@pytest.mark.parametrize("arguments", NAMES)
def test_a_reader_that_is_gone_ends_in_silence(arguments: tuple[str, ...]) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = started(*arguments, into=write)
    finally:
        os.close(write)
    assert done.returncode in (0, 1)
    assert b"Traceback" not in done.stderr and b"Exception ignored" not in done.stderr


@pytest.mark.parametrize("arguments", NAMES)
def test_closed_output_is_one_line_or_nothing(arguments: tuple[str, ...]) -> None:
    code = "import os, sys; os.close(1); os.execv(sys.argv[1], sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", code, *PROGRAM, *arguments],
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode in (0, 1)
    assert b"Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 1


@pytest.mark.parametrize("arguments", NAMES)
def test_a_terminal_of_ascii_gets_ascii(arguments: tuple[str, ...]) -> None:
    done = started(*arguments, ascii_only=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii() and done.stdout


@pytest.mark.parametrize(
    "arguments",
    [("paths", "Tromsø.toml"), ("run", "UiT-HAW", "--cc", "ø"), ("report", "ø"), ("fit", "ø.csv")],
)
def test_errors_on_a_terminal_of_ascii_are_one_line(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = started(*arguments, ascii_only=True, directory=tmp_path)
    assert done.returncode == 2
    assert done.stderr.isascii()
    one_line(done.stderr)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("paths", "UiT-HAW"), 0),
        (("paths", "here.toml"), 2),
        (("optimise", "UiT-HAW", "--out", "new"), 2),
        (("optimise", "UiT-HAW", "--quiet"), 2),
        (("bundle", "run"), 2),
        (("report", "run"), 2),
        (("fit", "data.csv"), 2),
        (("campaign", "run", "c.toml"), 2),
        (("campaign", "status", "."), 2),
        (("apply", "--settings", "s.json"), 2),
        (("exec", "--", "./true"), 2),
    ],
)
def test_a_working_directory_that_is_gone(arguments: tuple[str, ...], code: int, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    leave = "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.argv[1], sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", leave, *PROGRAM, *arguments],
        cwd=gone,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == code, done.stderr
    if code:
        one_line(done.stderr)
