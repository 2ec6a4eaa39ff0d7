"""A daemon in the sender's namespace, in directories of its own, as the tests see it."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyroute2

from mptune.daemon.client import Client
from mptune.linux import agent
from tests.plugins.kills import ending, state
from tests.plugins.netlink import inside
from tests.plugins.path_world import World
from tests.plugins.waiting import PATIENCE_S, until

#: What the kernel calls its own path manager.
KERNEL, USERSPACE = "kernel", "userspace"
SYSCTL = Path("/proc/sys/net/mptcp/path_manager")
#: A policy file with which every connection gets every path.
FULLMESH = '[default]\npolicy = "fullmesh"\n'


class Daemon:
    """A daemon, its files, and what it prints."""

    def __init__(self, world: World, folder: Path, env: Mapping[str, str]) -> None:
        self.world, self.folder = world, folder
        self.run, self.socket, self.file = folder / "run", folder / "run/daemon.sock", folder / "policy.toml"
        self.env = {**os.environ, "MPTUNE_RUN_DIRECTORY": str(self.run), **env}
        self.process: subprocess.Popen[str] | None = None
        self.said: list[str] = []

    def write(self, text: str, **daemon: object) -> None:
        """The policy file, with its own socket."""
        keys = {"socket": str(self.socket), **daemon}
        lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
        self.file.write_text("\n".join(["[daemon]", *lines, text]), encoding="utf-8")

    def answer(
        self,
        pm: str,
        expected: float | None = None,
        curve: object = None,
        both_families: bool = False,
        **options: object,
    ) -> Path:
        """A directory with an answer of a run, for the paths of the world; over both families each is two."""
        place = self.folder / "answer"
        place.mkdir(exist_ok=True)
        paths: list[dict[str, object]] = [
            {
                "label": path.label + mark,
                "local": path.local,
                "remote": path.remote,
                "pairs": path.pairs[families],
            }
            for mark, families in (
                (("", slice(0, 1)), ("/6", slice(1, 2))) if both_families else (("", slice(None)),)
            )
            for path in self.world.paths
        ]
        document = {
            "version": 1,
            "run": "answer",
            "site": "local",
            "measured_at": "2026-11-20T12:00:00Z",
            "testbed": "hosts",
            "stack": "linux",
            "pm": pm,
            "pm_options": options,
            "paths": paths,
            "congestion": "cubic",
            "buffer_bytes": 262144,
            "curve": curve,
            "expected_mbit_s": expected,
        }
        (place / "policy.json").write_text(json.dumps(document), encoding="utf-8")
        return place

    def command(self, *options: str) -> list[str]:
        """Its command line in the sender's namespace."""
        return [*agent.command("daemon", self.world.sites.local), "--policy", str(self.file), *options]

    def done(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        return subprocess.run(
            self.command(*options),
            env=self.env,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def begin(self, *before: str) -> None:
        """Start it, and wait until it is at work."""
        self.start(*before)
        self.heard("ready:")

    def start(self, *before: str, **environment: str) -> None:
        """Start it."""
        self.process = subprocess.Popen(
            [*before, *self.command()],
            env={**self.env, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.said = []
        self.listener = threading.Thread(target=self._listen, args=(self.process, self.said), daemon=True)
        self.listener.start()

    def stops(self) -> bool:
        """It stops at its step, as it begins or as it is ended; false if it ends."""

        def is_ready() -> bool:
            return any("ready:" in line for line in self.said)

        until(lambda: is_ready() or state(self.pid) in "TZ", "a daemon at work, or stopped")
        if state(self.pid) not in "TZ":
            os.kill(self.pid, signal.SIGTERM)
        return ending(self.pid) == "T"

    @staticmethod
    def _listen(process: subprocess.Popen[str], lines: list[str]) -> None:
        assert process.stderr is not None
        with process.stderr:
            lines.extend(process.stderr)

    def heard(self, words: str) -> str:
        """Wait for a line with these words."""

        def matching() -> str | None:
            # Before the lines: of a daemon that has ended all are there once its listener has ended too.
            is_over = not self.listener.is_alive()
            line = next((line for line in self.said if words in line), None)
            assert line or not is_over, self.said
            return line

        return until(matching, f"{words!r} among {self.said}")

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def kill(self, number: int = signal.SIGKILL) -> int:
        """End it by a signal; its exit status."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def guardian(self) -> int:
        """The process that puts settings back if the daemon dies."""
        return until(self.guardians, "a guardian")[0]

    def guardians(self) -> list[int]:
        """All that there are."""

        def is_one(directory: Path) -> bool:
            words = (directory / "cmdline").read_bytes().split(b"\0")
            inside = f"MPTUNE_RUN_DIRECTORY={self.run}\0".encode() in (directory / "environ").read_bytes()
            return inside and words[1:2] == [b"guardian"]

        pids = []
        for directory in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if is_one(directory):
                    pids.append(int(directory.name))
        return pids

    def everything(self) -> tuple[str, list[str], list[str]]:
        """Everything that a daemon changes: the path manager, endpoints and limits, and its files."""

        def look() -> list[str]:
            with pyroute2.MPTCP() as manager:
                messages = [*manager.endpoint("show"), *manager.limits("show")]
            return sorted(str(message["attrs"]) for message in messages)

        return self.path_manager(), inside(self.world.sites.local, look), self.left()

    def path_manager(self) -> str:
        """The kernel's setting in the sender's namespace."""
        return inside(self.world.sites.local, lambda: SYSCTL.read_text(encoding="ascii").strip())

    def left(self) -> list[str]:
        """Files that it has left."""
        return sorted(str(file.relative_to(self.run)) for file in self.run.rglob("*") if not file.is_dir())

    def ask(self, action: str, **what: object) -> dict[str, Any]:
        """The answer to a question at its socket."""
        with Client(self.socket) as client:
            return client.ask(action, **what)

    def policy(self, name: str) -> dict[str, Any]:
        """The status of a policy."""
        return next(policy for policy in self.ask("status")["policies"] if policy["name"] == name)

    def end(self) -> None:
        """End it however it is."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.kill(signal.SIGTERM)


class Server(Daemon):
    """A daemon at the receiver's side."""

    def command(self, *options: str) -> list[str]:
        return [*agent.command("daemon", self.world.sites.remote), "--policy", str(self.file), *options]

    def path_manager(self) -> str:
        return inside(self.world.sites.remote, lambda: SYSCTL.read_text(encoding="ascii").strip())


@contextmanager
def daemon_of(world: World, folder: Path, **env: str) -> Iterator[Daemon]:
    """A daemon that is not started yet; the kernel's path manager is the kernel's until then."""
    world.sysctl("local", KERNEL)
    daemon = Daemon(world, folder, env)
    try:
        yield daemon
    finally:
        daemon.end()
        world.sysctl("local", USERSPACE)


def pcdc(daemon: Daemon, **more: Any) -> str:
    """A policy file with an answer for the world's paths: 0-0 and 1-1 carry data."""
    place = daemon.answer("pcdc", active=[0, 3], standby_order=[1, 2], **more)
    return f'[[policy]]\nname = "answer"\nto = ["10.65.0.0/16", "fd65::/16"]\nrun = "{place}"\n'


# Limits of the buffers of TCP.


def setting(namespace: str, name: str) -> list[int]:
    """The three values of a setting."""
    file = Path("/proc/sys/net/ipv4", name)
    return [int(word) for word in inside(namespace, lambda: file.read_text(encoding="ascii")).split()]


def give(namespace: str, name: str, limit: int) -> None:
    value = f"4096 16384 {limit}"
    inside(namespace, lambda: Path("/proc/sys/net/ipv4", name).write_text(value, encoding="ascii"))


def limit_of(daemon: Daemon, name: str) -> dict[str, Any]:
    limits: list[dict[str, Any]] = daemon.ask("status")["buffers"]["limits"]
    return next(limit for limit in limits if limit["name"] == f"net.ipv4.{name}")
