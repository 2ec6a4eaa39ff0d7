"""Two network namespaces without anything in them, and programs that run there."""

import os
import subprocess
from contextlib import ExitStack

from tests.plugins import needs


class TwoNamespaces:
    """As long as the block lasts; `ours` and `theirs` are the processes that live in them."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.ours, self.theirs = self._namespace(), self._namespace()

    def _namespace(self) -> int:
        # `unshare` becomes the program, whose number stays.
        return self._start(["unshare", "--net", "sh", "-c", "echo ready; exec cat"]).pid

    def _start(self, command: list[str]) -> "subprocess.Popen[str]":
        """A program, once it has printed that it is ready."""
        environment = {**os.environ, "PATH": needs.ADMINISTRATION}
        process = self._stack.enter_context(
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
            )
        )
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        return process

    def run(self, pid: int, *words: str) -> str:
        """Output of a command in a namespace."""
        command = ["nsenter", "--net", "--target", str(pid), *words]
        environment = {**os.environ, "PATH": needs.ADMINISTRATION}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def ip(self, pid: int, words: str) -> str:
        """The same of `ip`."""
        return self.run(pid, "ip", *words.split())
