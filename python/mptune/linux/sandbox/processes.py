"""A helper process that uses JSON lines on its standard input and output.

This module starts and ends it and exchanges messages; the caller knows their meaning. Nothing blocks without
a limit.
"""

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from mptune.errors import TrialError
from mptune.linux.sandbox import leftovers

#: Seconds a process has to end after its input ended, before it is killed.
_GRACE_S = 3.0

_CHUNK = 1 << 16
#: Characters from the end of standard error that are included in a reason.
_TOLD_CHARACTERS = 200

Message = dict[str, Any]


def module(name: str, user_namespace: str | None = None) -> list[str]:
    """Command line of a module of mptune, in the user namespace at that path or in the present one."""
    namespaces = [] if user_namespace is None else [user_namespace]
    return [sys.executable, "-m", "mptune.linux.sandbox.launcher", name, *namespaces]


class Child:
    """A program run as a separate process, which ends at the latest with the block.

    Parameters
    ----------
    name : for messages, such as "emulator".
    command : the program and its arguments; `module` makes one for a module of mptune.
    run : mark of the trial (`mptune.linux.sandbox.leftovers`).
    """

    def __init__(self, name: str, command: Sequence[str], run: str) -> None:
        self.name = name
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env={**os.environ, leftovers.VARIABLE: run},
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
        self._messages: deque[Message] = deque()
        self._ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    def fileno(self) -> int:
        """Descriptor that is readable when there is something to `take`, for select(2)."""
        return self._stdout.fileno()

    @property
    def ended(self) -> bool:
        """Its output has ended and all its messages have been taken."""
        return self._ended and not self._messages

    @property
    def killed(self) -> bool:
        """A signal ended it. Its files, including devices, are closed just before the kernel reports it."""
        self._messages.extend(self.take())
        if self._ended:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_S)
        status = self._process.poll()
        return status is not None and status < 0

    def tell(self, message: Mapping[str, object]) -> None:
        """Send a line; it is lost if the process has ended, which is noticed elsewhere."""
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._stdin.write(json.dumps(message).encode() + b"\n")
            self._stdin.flush()

    def take(self) -> list[Message]:
        """Its messages so far, without waiting."""
        while not self._ended:
            try:
                chunk = os.read(self._stdout.fileno(), _CHUNK)
            except BlockingIOError:
                break
            self._ended = not chunk
            *lines, self._partial = (self._partial + chunk).split(b"\n")
            self._messages.extend(json.loads(line) for line in lines if line.strip())
        said = list(self._messages)
        self._messages.clear()
        return said

    def expect(self, event: str, within_s: float) -> Message:
        """Wait for a message of that kind and discard earlier ones; later ones can still be taken.

        Raises
        ------
        TrialError : it reports an error, or ends, or the time is up.
        """
        end = time.monotonic() + within_s
        while True:
            said = deque(self.take())
            while said:
                message = said.popleft()
                if message.get("event") == "error":
                    raise TrialError(f"{self.name}: {message.get('reason')}", "refused")
                if message.get("event") == event:
                    self._messages = said
                    return message
            if self._ended:
                raise TrialError(self.death())
            if time.monotonic() > end:
                raise TrialError(f"{self.name}: no {event!r} within {within_s:g} s")
            select.select([self], [], [], max(0.0, end - time.monotonic()))

    def death(self) -> str:
        """How it ended, in a sentence, with the last line of its standard error."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_S)
        status = self._process.poll()
        if status is None:
            how = "closed its output"
        elif status < 0:
            how = f"was killed by signal {-status}"
        else:
            how = f"ended with status {status}"
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f"{self.name} {how}" + (f": {last[-_TOLD_CHARACTERS:]}" if last else "")

    def close(self) -> None:
        """End its input, which ends it; its last messages can still be taken."""
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()

    def end(self, grace_s: float = _GRACE_S) -> None:
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
            self._messages.extend(self.take())
            self._ended = True
            self._stdout.close()
            self._stderr.close()
