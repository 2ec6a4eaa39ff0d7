"""A helper process that speaks JSON lines on its standard input and output.

It is started, told, heard and ended here; what is said is the caller's. Nothing blocks without a limit.
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
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from mptune.errors import TrialError
from mptune.linux import marker

#: Seconds a process has to end after its input ended, before it is killed.
_GRACE_S = 3.0

_CHUNK = 1 << 16
#: So much of the end of standard error goes into a reason.
_TOLD_CHARACTERS = 200

Message = dict[str, Any]


class Child:
    """A module of mptune run as a process of its own, which ends at the latest with the block.

    Parameters
    ----------
    name : for messages: "emulator".
    module : what to run (`python -m`).
    run : mark of the trial (`mptune.linux.marker`).
    user_namespace : path of the user namespace to run in; None for the present one.
    """

    def __init__(self, name: str, module: str, run: str, user_namespace: str | None = None) -> None:
        self.name = name
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        arguments = [module] if user_namespace is None else [module, user_namespace]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mptune.linux.start", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env={**os.environ, marker.VARIABLE: run},
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
        """Its output has ended and everything it said was taken."""
        return self._ended and not self._messages

    @property
    def killed(self) -> bool:
        """A signal ended it. Its files are closed, devices among them, a moment before the kernel says so."""
        self._messages.extend(self.take())
        if self._ended:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_S)
        status = self._process.poll()
        return status is not None and status < 0

    def tell(self, message: Mapping[str, object]) -> None:
        """Send a line; to a process that has ended it is lost, which its own end will tell."""
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._stdin.write(json.dumps(message).encode() + b"\n")
            self._stdin.flush()

    def take(self) -> list[Message]:
        """What it has said so far, without waiting."""
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
        """Wait for a message of that kind, passing over others; what comes after it stays to be taken.

        Raises
        ------
        TrialError : it says "error", or ends, or the time is over.
        """
        end = time.monotonic() + within_s
        while True:
            said = deque(self.take())
            while said:
                message = said.popleft()
                if message.get("event") == "error":
                    raise TrialError(f"{self.name}: {message.get('reason')}")
                if message.get("event") == event:
                    self._messages = said
                    return message
            if self._ended:
                raise TrialError(self.death())
            if time.monotonic() > end:
                raise TrialError(f"{self.name}: no {event!r} within {within_s:g} s")
            select.select([self], [], [], max(0.0, end - time.monotonic()))

    def death(self) -> str:
        """How it ended, in a sentence, with the last line of its complaints."""
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

    def end(self, grace_s: float = _GRACE_S) -> None:
        """End its input, and kill it if it does not end for that."""
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self._process.kill()
            self._process.wait()
            # What it said last can be taken later; its pipe is gone by then.
            self._messages.extend(self.take())
            self._ended = True
            self._stdout.close()
            self._stderr.close()
