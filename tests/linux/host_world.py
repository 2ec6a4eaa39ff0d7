"""Settings of a host and sessions of the agent's role `host`, for its tests.

A directory of files stands in for /proc/sys, so that nothing here needs root or touches this machine.
"""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mptune.linux import agent
from tests.plugins.waiting import PATIENCE_S, until

MANAGER, RMEM, PLAIN = "net.mptcp.path_manager", "net.ipv4.tcp_rmem", "net.ipv4.tcp_plain"
#: As the kernel writes them, and one without the line feed at the end.
BEFORE = {MANAGER: b"kernel\n", RMEM: b"4096\t131072\t6291456\n", PLAIN: b"1"}
WANTED = {MANAGER: "userspace", RMEM: "4096 131072 1048576", PLAIN: "0"}
Message = dict[str, Any]


class World:
    """Settings and a directory for sessions, and what runs with them."""

    def __init__(self, directory: Path) -> None:
        self.root, self.run = directory / "sys", directory / "run"
        for name, value in BEFORE.items():
            self.file(name).parent.mkdir(parents=True, exist_ok=True)
            self.file(name).write_bytes(value)
        self.sessions: list[Session] = []

    def file(self, name: str) -> Path:
        return Path(self.root, *name.split("."))

    def values(self) -> dict[str, bytes]:
        return {name: self.file(name).read_bytes() for name in BEFORE}

    def journals(self) -> list[Path]:
        return sorted(self.run.glob("journal-*.json"))

    def environment(self) -> dict[str, str]:
        return {
            "MPTUNE_SYSCTL_ROOT": str(self.root),
            "MPTUNE_RUN_DIRECTORY": str(self.run),
            "MPTUNE_SILENCE_MS": "600000",  # nobody beats here
        }

    def session(self, stop_at: str = "", **others: str) -> "Session":
        session = Session({**self.environment(), "MPTUNE_STOP_AT": stop_at, **others})
        self.sessions.append(session)
        return session

    def processes(self, role: str) -> list[int]:
        """The processes of a role that belong here."""
        mark = f"MPTUNE_RUN_DIRECTORY={self.run}".encode()
        pids = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
                if words[1:2] == [role.encode()] and mark in (process / "environ").read_bytes().split(b"\0"):
                    pids.append(int(process.name))
            except OSError:
                continue  # it has ended
        return pids

    def guardian(self) -> int:
        """The guardian, which is one process once it watches."""
        guardians = until(
            lambda: pids if len(pids := self.processes("guardian")) == 1 else None, "a guardian"
        )
        return guardians[0]

    def is_as_before(self) -> bool:
        """Nothing is changed, noted or running."""
        return self.values() == BEFORE and not self.run.exists() and not self.processes("guardian")

    def end(self) -> None:
        for session in self.sessions:
            session.end()
        for role in ("guardian", "awake"):
            for pid in self.processes(role):
                os.kill(pid, signal.SIGKILL)


class Session:
    """A process of the role `host`, and its controller's side of the pipes."""

    def __init__(self, environment: Mapping[str, str], program: str | None = None, *options: str) -> None:
        command = [program, "host", "--greet", *options] if program else agent.command("host")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **environment},
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.partial = b""
        self.lines: list[bytes] = []

    def tell(self, action: str, **more: object) -> None:
        self.stdin.write(json.dumps({"action": action, **more}).encode() + b"\n")
        self.stdin.flush()

    def next(self) -> Message | None:
        """The next message; none at the end. Speaks meanwhile, as a controller does."""
        end = time.monotonic() + PATIENCE_S
        while True:
            while self.lines:
                if (line := self.lines.pop(0)).strip():
                    message: Message = json.loads(line)
                    return message
            assert time.monotonic() < end, "waited in vain for a message"
            if select.select([self.stdout], [], [], 0.5)[0]:
                chunk = os.read(self.stdout.fileno(), 1 << 16)
                if not chunk:
                    return None
                *self.lines, self.partial = (self.partial + chunk).split(b"\n")
            elif not self.stdin.closed:
                self.tell("beat")

    def expect(self, event: str) -> Message:
        while (message := self.next()) is not None:
            if message["event"] == event:
                return message
        raise AssertionError(f"it ended without {event}")

    def set(self, settings: Mapping[str, str] = WANTED) -> Message:
        """A session that has begun and changed these settings; its answer."""
        self.expect("hello")
        self.tell("set", id=1, settings=settings)
        return self.expect("set")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        self.kill()
        for pipe in (self.stdin, self.stdout):
            if not pipe.closed:
                pipe.close()
