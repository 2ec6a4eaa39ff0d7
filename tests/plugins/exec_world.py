"""Two hosts with two links between them, for programs that know nothing of MPTCP.

The server's second address is announced to clients, so that every MPTCP connection gets a second subflow. The
links are slow enough that a transfer of a few megabytes uses both.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from mptune.errors import MptuneError
from mptune.linux.addresses import SIDES, Side
from mptune.linux.sandbox.namespaces import Sites
from tests.plugins.needs import Thing, lack, require
from tests.plugins.waiting import PATIENCE_S, until

#: Of the server; the second one is announced.
SERVER = "10.77.1.2"
SECOND = "10.77.2.2"
SERVER6 = "fd77:1::2"

TESTED = "programs under mptune exec"
_RATE = "50mbit burst 32kb limit 300kb"

_LINKS = """
link set lo up
link add a{n} type veth peer name b{n} netns {remote}
address add 10.77.{n}.1/24 dev a{n}
address add fd77:{n}::1/64 dev a{n} nodad
link set a{n} up
"""
_ENDS = """
link set lo up
address add 10.77.{n}.2/24 dev b{n}
address add fd77:{n}::2/64 dev b{n} nodad
link set b{n} up
"""


def python(code: str, *arguments: str) -> list[str]:
    """Command line of a Python program."""
    return [sys.executable, "-c", code, *arguments]


def document(text: str) -> dict[str, Any]:
    """The JSON that ends what `mptune exec --json` has printed on stderr."""
    lines = text.splitlines()
    start = max(number for number, line in enumerate(lines) if line == "{")
    document: dict[str, Any] = json.loads("\n".join(lines[start:]))
    return document


class Hosts:
    """A client (local) and a server (remote)."""

    def __init__(self, stack: ExitStack) -> None:
        require("namespaces", tested=TESTED)
        try:
            self.sites = stack.enter_context(Sites())
        except (MptuneError, OSError) as error:
            lack(TESTED, Thing(str(error), "elsewhere"))
        if self.sites.user is not None:
            lack(TESTED, Thing("root", "root"))
        with self.named(self.sites.remote) as remote:
            for number in (1, 2):
                self.ip("local", _LINKS.format(n=number, remote=remote))
                self.ip("remote", _ENDS.format(n=number))
                self.call("local", "tc", "qdisc", "add", "dev", f"a{number}", "root", "tbf", *self._rate())
                self.call("remote", "tc", "qdisc", "add", "dev", f"b{number}", "root", "tbf", *self._rate())
        for side in SIDES:
            self.sysctl(side, "net.mptcp.path_manager", "kernel")
            self.call(side, "ip", "mptcp", "limits", "set", "subflows", "4", "add_addr_accepted", "4")
        self.call("remote", "ip", "mptcp", "endpoint", "add", SECOND, "dev", "b2", "signal")

    @staticmethod
    def _rate() -> list[str]:
        return ["rate", *_RATE.split()]

    @contextmanager
    def named(self, namespace: str) -> Iterator[str]:
        """A namespace as `ip` wants it: by the number of a process inside."""
        sleeper = subprocess.Popen(["nsenter", f"--net={namespace}", "--", "sleep", "infinity"])
        try:
            until(lambda: Path(f"/proc/{sleeper.pid}/exe").readlink().name == "sleep", "a process inside")
            yield str(sleeper.pid)
        finally:
            sleeper.kill()
            sleeper.wait()

    def inside(self, side: Side, *command: str) -> list[str]:
        """A command line that runs on a host."""
        return ["nsenter", f"--net={self.sites.of(side)}", "--", *command]

    def ip(self, side: Side, lines: str) -> None:
        """Several commands of `ip`."""
        self.call(side, "ip", "-batch", "-", text=lines)

    def call(self, side: Side, *command: str, text: str | None = None) -> str:
        """Run something that must not fail; its output."""
        done = subprocess.run(
            self.inside(side, *command),
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout

    def sysctl(self, side: Side, name: str, value: str) -> None:
        """Change a setting of the network namespace."""
        self.call(side, "sh", "-c", f"echo {shlex.quote(value)} > /proc/sys/{name.replace('.', '/')}")

    def command(self, side: Side, command: Sequence[str], options: Sequence[str] = ("--json",)) -> list[str]:
        """Command line of a program under `mptune exec`."""
        return self.inside(side, sys.executable, "-m", "mptune.cli", "exec", *options, "--", *command)

    def run(
        self, side: Side, command: Sequence[str], *options: str, **more: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end under `mptune exec`."""
        return subprocess.run(
            self.command(side, command, options),
            **{"capture_output": True, "text": True, "check": False, "timeout": 2 * PATIENCE_S, **more},
        )

    def watched(self, command: Sequence[str], *options: str, **more: Any) -> dict[str, Any]:
        """Run a client that must succeed; what its connections did."""
        done = self.run("local", command, "--json", *options, **more)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return document(done.stderr)

    @contextmanager
    def server(
        self,
        command: Sequence[str],
        port: int,
        options: Sequence[str] | None = ("--json",),
        ending: signal.Signals = signal.SIGTERM,
    ) -> Iterator[list[dict[str, Any]]]:
        """Run a server; after the block the list has what its connections did. No options: a plain one."""
        full = self.inside("remote", *command)
        if options is not None:
            full = self.command("remote", command, options)
        documents: list[dict[str, Any]] = []
        process = subprocess.Popen(
            full,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            until(lambda: self.listens(port) or process.poll() is not None, f"a server at port {port}")
            assert process.poll() is None, process.communicate()
            yield documents
            process.send_signal(ending)
            _, errors = process.communicate(timeout=PATIENCE_S)
            if options is not None and "--json" in options:
                documents.append(document(errors))
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # its children, too
            process.communicate()

    def listens(self, port: int) -> bool:
        """The server accepts connections at a port."""
        return f":{port} " in self.call("remote", "ss", "-Hltn", f"sport = :{port}")


def of_kind(report: Mapping[str, Any], kind: str | None) -> list[dict[str, Any]]:
    """The connections of a kind."""
    return [connection for connection in report["connections"] if connection["kind"] == kind]


def joined(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The connections of MPTCP with more than one subflow that carried data."""
    return [
        connection
        for connection in of_kind(report, "mptcp")
        if sum(1 for flow in connection["subflows"] if flow["received_bytes"] or flow["acked_bytes"]) > 1
    ]


def web(folder: Path, port: int = 8000) -> list[str]:
    """Command line of a web server."""
    bind = ["--bind", "::"]
    return [sys.executable, "-m", "http.server", str(port), *bind, "--directory", str(folder)]
