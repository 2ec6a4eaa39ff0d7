"""A helper process that uses JSON lines on its standard input and output: a `Talker` on this machine.

This module starts and ends it and exchanges messages; the caller knows their meaning. Nothing blocks without
a limit.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

from mptune import _threads
from mptune.linux.sandbox import leftovers
from mptune.linux.talker import GRACE_S, Talker, last_words, manner

_CHUNK = 1 << 16
#: Bytes read of what a process wrote to its standard error.
_TOLD_BYTES = 1 << 16


def module(name: str, user_namespace: str | None = None) -> list[str]:
    """Command line of a module of mptune, in the user namespace at that path or in the present one."""
    namespaces = [] if user_namespace is None else [user_namespace]
    return [sys.executable, "-m", "mptune.linux.sandbox.launcher", name, *namespaces]


class Child(Talker):
    """A program run as a separate process, which ends at the latest with the block.

    Parameters
    ----------
    name : for messages, such as "emulator".
    command : the program and its arguments; `module` makes one for a module of mptune.
    run : mark of the trial (`mptune.linux.sandbox.leftovers`).
    """

    def __init__(self, name: str, command: Sequence[str], run: str) -> None:
        super().__init__(name)
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env={**_threads.inherited(), leftovers.VARIABLE: run},
                # Ctrl-C is for the program, which then ends this process.
                start_new_session=True,
            )
        except BaseException:
            self._stderr.close()
            raise
        assert self._process.stdin is not None and self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        os.set_blocking(self._stdout.fileno(), False)
        self._partial = b""

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    def fileno(self) -> int:
        """Descriptor that is readable when there is something to `take`, for select(2)."""
        return self._stdout.fileno()

    @property
    def killed(self) -> bool:
        """A signal ended it. Its files, including devices, are closed just before the kernel reports it."""
        self._receive()
        if self._ended:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_S)
        status = self._process.poll()
        return status is not None and status < 0

    def tell(self, message: Mapping[str, object]) -> None:
        """Send a line; it is lost if the process has ended, which is noticed elsewhere."""
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._stdin.write(json.dumps(message).encode() + b"\n")
            self._stdin.flush()

    def _receive(self) -> None:
        while not self._ended:
            try:
                chunk = os.read(self._stdout.fileno(), _CHUNK)
            except BlockingIOError:
                break
            self._ended = not chunk
            *lines, self._partial = (self._partial + chunk).split(b"\n")
            self._messages.extend(json.loads(line) for line in lines if line.strip())

    def death(self) -> str:
        """Reason of its end, in a sentence, with the last line of its standard error."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_S)
        # The end of it is enough: only its last line is reported.
        self._stderr.seek(max(0, self._stderr.seek(0, os.SEEK_END) - _TOLD_BYTES))
        output = self._stderr.read(_TOLD_BYTES).decode(errors="replace")
        return f"{self.name} {manner(self._process.poll())}{last_words(output)}"

    def close(self) -> None:
        """End its input, which ends it; its last messages can still be taken."""
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()

    def end(self, grace_s: float = GRACE_S) -> None:
        """End its input, and kill it if that does not end it."""
        self.close()
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self._process.kill()
            self._process.wait()
            # Its last messages can be taken later, when its pipe is closed.
            self._receive()
            self._ended = True
            self._stdout.close()
            self._stderr.close()
