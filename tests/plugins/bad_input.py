"""Bad input: a case is a command line with the files it names; the verdict states what became of it.

Clean is one line of at most 300 characters on stderr that names the option or the file with its key, exit
code 2, and not a byte written. Everything runs in this process, as `mptune` does, with two guards: an alarm,
for what waits for ever, and a limit of memory, for what reads for ever.
"""

import math
import os
import resource
import signal
import socket
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from mptune.cli import app
from mptune.linux.processor_load import Waiting

#: The longest line that is clean, characters.
LONGEST = 300
#: Seconds after which a command hangs, less those for which it waited for a processor: all refuse their input
#: before they measure.
_HANGS_S = 90
#: Memory that a command may take beyond what this process has, bytes.
_MEMORY = 2**30

#: How a file of a case is made: its content, or a function of its path.
Maker = str | bytes | Callable[[Path], None]


class Case(NamedTuple):
    """A command line, what its error has to name, and files by their names."""

    args: tuple[str, ...]
    names: tuple[str, ...] = ()
    files: Mapping[str, Maker] = {}

    @property
    def id(self) -> str:
        made = "".join(f" {name}={_shown(maker)}" for name, maker in self.files.items() if callable(maker))
        words = [arg[:24] or "''" for arg in self.args]
        line = " ".join([*words[:2], "...", *words[-3:]] if len(words) > 6 else words) + made
        return line.encode("ascii", "replace").decode()


def _shown(maker: Maker) -> str:
    return getattr(maker, "__name__", "content")


def fifo(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    """Zeros without an end, under a name of its own."""
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.mkdir()


def listening(path: Path) -> None:
    here = os.open(".", os.O_RDONLY)
    try:
        os.chdir(path.parent)  # the name of a socket is short
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)
        os.close(here)


def dangling(path: Path) -> None:
    path.symlink_to(path.with_name("nothing-is-here"))


def turning(path: Path) -> None:
    path.symlink_to(path)


def huge(path: Path) -> None:
    """Larger than anything that is read whole; it takes no room on the disk."""
    with path.open("wb") as file:
        file.truncate(2**40)


def unreadable(path: Path) -> None:
    """A regular file of which every read fails, for root too."""
    path.symlink_to("/proc/self/mem")


#: Whatever is no file that can be read.
NO_FILES = (fifo, endless, folder, listening, dangling, turning, huge, unreadable)


class _HangsError(BaseException):
    """Not an Exception: no handler of the product may take it for something else."""


@contextmanager
def _guarded() -> Iterator[None]:
    began, waiting = time.monotonic(), Waiting(os.getpid())

    def alarm(number: int, frame: FrameType | None) -> None:
        waiting.look()
        left = _HANGS_S - (time.monotonic() - began) + waiting.total_ns / 1e9
        if left <= 0:
            raise _HangsError
        signal.alarm(math.ceil(left))

    before = signal.signal(signal.SIGALRM, alarm)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _MEMORY, limits[1]))
    signal.alarm(_HANGS_S)
    try:
        yield
    finally:
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_AS, limits)
        signal.signal(signal.SIGALRM, before)


def made(files: Mapping[str, Maker], place: Path) -> None:
    for name, maker in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(maker, str):
            path.write_text(maker, encoding="utf-8")
        elif isinstance(maker, bytes):
            path.write_bytes(maker)
        else:
            maker(path)


def everything(place: Path) -> dict[str, tuple[int, int, int]]:
    """Kind, size and time of the last change of whatever is below a folder."""
    contents = {}
    for path in [place, *place.rglob("*")]:
        status = path.lstat()
        if path.name.endswith(("-shm", "-wal", ".lock")):
            continue  # an index that readers share, and the lock of a directory
        folder = stat.S_ISDIR(status.st_mode)
        contents[str(path)] = (status.st_mode, *((0, 0) if folder else (status.st_size, status.st_mtime_ns)))
    return contents


def verdict(case: Case, place: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The verdict on a case in a folder; "clean" if nothing is wrong."""
    made(case.files, place)
    monkeypatch.chdir(place)
    before = everything(place)
    try:
        with _guarded():
            done = CliRunner().invoke(app, list(case.args))
    except _HangsError:
        return "hang"
    if isinstance(done.exception, _HangsError):
        return "hang"
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        return f"traceback: {done.exception!r}"
    return judged(done.exit_code, done.stderr, case.names) or (
        "clean"
        if everything(place) == before
        else "written: " + ", ".join(sorted(map(str, set(everything(place).items()) ^ set(before.items()))))
    )


def judged(code: int, stderr: str, names: tuple[str, ...]) -> str:
    """Faults of an exit code and an error; empty if there are none."""
    if code == 0:
        return "accepted"
    if "error: unexpected " in stderr or "Traceback" in stderr:
        return f"traceback: {stderr}"
    if code != 2:
        return f"exit code {code}: {stderr}"
    lines = stderr.splitlines()
    if len(lines) != 1 or not lines[0].startswith("mptune: error: "):
        return f"unclear, not one line: {stderr}"
    if len(lines[0]) > LONGEST:
        return f"unclear, {len(lines[0])} characters: {lines[0][:400]}"
    if not lines[0].isprintable():
        return f"unclear, control characters: {lines[0]!r}"
    if missing := [name for name in names if name not in lines[0]]:
        return f"unclear, does not name {missing}: {lines[0]}"
    return ""
