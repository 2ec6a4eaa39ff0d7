"""Kills anywhere: a process of the agent stops after a system call that changes something, and is killed.

`MPTUNE_STOP_AT="ROLE NUMBER"` names the role and which of its changing system calls it is.
"""

import itertools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from tests.plugins.waiting import until


def state(pid: int) -> str:
    """Of a process: T if it is stopped; Z if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


def ending(pid: int) -> str:
    """State in which a process comes to rest: T if it stops, Z if it ends."""
    until(lambda: state(pid) in "TZ", f"process {pid} to stop or to end")
    return state(pid)


def stopped(pid: int) -> None:
    until(lambda: state(pid) == "T", f"process {pid} to stop")


def gone(pid: int) -> bool:
    return state(pid) == "Z"


def kill(pid: int) -> None:
    """Kill a process, and wait until it is gone."""
    os.kill(pid, signal.SIGKILL)
    until(lambda: gone(pid), f"the end of process {pid}")


def everywhere(name: str, kills_at: Callable[[int], bool]) -> int:
    """Kill at the first changing system call, the second, and so on; how many there are.

    `kills_at` gets the number, kills there and checks what is left; false if there are not that many.
    """
    number = next(number for number in itertools.count(1) if not kills_at(number)) - 1
    # pytest -rP shows how large the matrix was.
    sys.stdout.write(f"{name}: killed after each of {number} changing system calls\n")
    return number
