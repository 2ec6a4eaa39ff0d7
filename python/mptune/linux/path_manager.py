"""`python -m mptune.linux.path_manager`: a `KernelPathManager` as a process, which may enter any namespace.

It speaks JSON lines:

    in   {"sender": <path>, "receiver": <path> or null, "assignment": {...}}
    out  {"event": "ready"}
    in   {"action": "sent", "bytes": 524288}
    in   {"action": "withdraw" or "readmit", "path": <label>}
    in   {"action": "stop"}
    out  {"event": "report", "connections": [...], "cpu_ns": 31000000}
    out  {"event": "error", "reason": "..."} instead of any of them, and status 1

The namespaces are paths, the assignment is `mptune.linux.assignment.Assignment`, the connections are
`ConnectionReport`. The end of the input and SIGTERM are "stop".
"""

import os
import select
import signal
import sys
import time
from collections import deque
from contextlib import suppress
from typing import Literal

import msgspec

from mptune.errors import MptuneError
from mptune.linux import _syscalls
from mptune.linux.assignment import Assignment
from mptune.linux.kernel_path_manager import KernelPathManager

_CHUNK = 1 << 16


class _Config(msgspec.Struct, forbid_unknown_fields=True):
    sender: str
    receiver: str | None
    assignment: Assignment


class _Command(msgspec.Struct, forbid_unknown_fields=True):
    action: Literal["sent", "withdraw", "readmit", "stop"]
    bytes: int = 0
    path: str = ""


class _Terminated(Exception):
    """SIGTERM came."""


class _Input:
    """Lines of standard input, read without hiding from select(2) what is there."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._partial = b""

    def line(self, manager: KernelPathManager | None = None) -> bytes | None:
        """Wait for the next line; None at the end, and as soon as the manager has failed."""
        watched = [sys.stdin] if manager is None else [sys.stdin, manager]
        while not self._lines:
            ready, _, _ = select.select(watched, [], [])
            chunk = b"" if manager in ready else os.read(sys.stdin.fileno(), _CHUNK)
            if not chunk:
                return None
            *lines, self._partial = (self._partial + chunk).split(b"\n")
            self._lines.extend(lines)
        return self._lines.popleft()


def main() -> int:
    """Manage until told to stop."""
    _syscalls.die_with_parent()
    signal.signal(signal.SIGTERM, _terminate)
    lines = _Input()
    try:
        config = msgspec.json.decode(lines.line() or b"", type=_Config)
        with KernelPathManager(config.assignment, sender=config.sender, receiver=config.receiver) as manager:
            _tell({"event": "ready"})
            with suppress(_Terminated):
                _obey(manager, lines)
        report = {"connections": manager.report(), "cpu_ns": time.process_time_ns()}
        _tell({"event": "report", **report})
    except (MptuneError, msgspec.MsgspecError, OSError, _Terminated) as error:
        _tell({"event": "error", "reason": str(error) or "terminated"})
        return 1
    return 0


def _terminate(number: int, frame: object) -> None:
    raise _Terminated


def _obey(manager: KernelPathManager, lines: _Input) -> None:
    """Carry out commands until there are no more."""
    while (line := lines.line(manager)) is not None:
        command = msgspec.json.decode(line, type=_Command)
        match command.action:
            case "sent":
                manager.on_bytes_sent(command.bytes)
            case "withdraw":
                manager.withdraw(command.path)
            case "readmit":
                manager.readmit(command.path)
            case "stop":
                return


def _tell(message: dict[str, object]) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
