"""The owner of each process: a mark in the environment, and the search for processes without an owner.

Every process of a trial has `MPTUNE_RUN`, which names the program that started it. All of them die together
with that program. If one does not (a lost death signal, a debugger that held it), its mark distinguishes it
from the processes of a running campaign.
"""

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

VARIABLE = "MPTUNE_RUN"

#: Seconds a process has to end by itself before it is killed.
_GRACE_S = 2.0

_numbers = itertools.count()


class Stray(msgspec.Struct, frozen=True, kw_only=True):
    """A process whose owner is gone; `run` is its mark, `command` its command line."""

    pid: int
    run: str
    command: str


def new_run() -> str:
    """Unique mark for one trial on this machine: owner, its start time, a number."""
    return f"{os.getpid()}-{_start_time(os.getpid())}-{next(_numbers)}"


def strays() -> list[Stray]:
    """Marked processes whose owner has ended, as far as this user may see them."""
    return [stray for stray in _marked() if not _owner_lives(stray.run)]


def end_strays() -> list[Stray]:
    """End all strays, by force if necessary, and return those that were found."""
    return _end(strays())


def end_run(run: str) -> list[Stray]:
    """End all processes with a mark, by force if necessary, and return those that were found."""
    return _end([process for process in _marked() if process.run == run])


def _end(ended: list[Stray]) -> list[Stray]:
    for number in (signal.SIGTERM, signal.SIGKILL):
        for stray in ended:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if _mark(stray.pid) == stray.run:  # its number may be another process's by now
                    os.kill(stray.pid, number)
        _wait_until_gone(ended)
    return ended


def _wait_until_gone(processes: list[Stray]) -> None:
    end = time.monotonic() + _GRACE_S
    while time.monotonic() < end and any(_mark(stray.pid) == stray.run for stray in processes):
        time.sleep(0.01)


def _marked() -> Iterator[Stray]:
    for directory in Path("/proc").iterdir():
        if not directory.name.isdecimal():
            continue
        run = _mark(int(directory.name))
        if run is None:
            continue
        with contextlib.suppress(OSError):
            command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            yield Stray(pid=int(directory.name), run=run, command=command.strip())


def _mark(pid: int) -> str | None:
    """Mark of a running process; None without a mark or without permission to read it."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    prefix = f"{VARIABLE}=".encode()
    marks = [entry for entry in environment.split(b"\0") if entry.startswith(prefix)]
    return marks[0].removeprefix(prefix).decode(errors="replace") if marks else None


def _owner_lives(run: str) -> bool:
    """True if the program that made the mark is still running; unreadable marks have no owner."""
    owner, _, rest = run.partition("-")
    start, _, _ = rest.partition("-")
    return owner.isdecimal() and start.isdecimal() and _start_time(int(owner)) == int(start)


def _start_time(pid: int) -> int | None:
    """Start of a process, in ticks since boot: field 22 of proc_pid_stat(5); None without it.

    A zombie counts as ended.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name, which may hold anything, stands in brackets
    return None if fields[0] in "ZX" else int(fields[19])
