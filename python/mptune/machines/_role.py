"""A role of the agent on a host: a `Talker` whose lines travel in the session's (`mptune.machines.ssh`).

The session's thread hands over what arrives; everything else happens in the thread of the trial.
"""

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from mptune.errors import FailureKind
from mptune.linux.talker import GRACE_S, Message, Talker
from mptune.machines._messages import QUEUED, QUEUED_BYTES, Misbehaved

#: Sends one line to the host.
Send = Callable[[Mapping[str, Any]], None]


class RemoteRole(Talker):
    """A role. Its pipe carries no data: it only wakes select(2) when there are messages.

    Parameters
    ----------
    number : its id in the session.
    """

    def __init__(self, name: str, number: int, send: Send) -> None:
        super().__init__(name)
        self._number, self._send = number, send
        #: Messages that nobody has taken, and their bytes.
        self._arrived: list[Message] = []
        self._arrived_bytes = 0
        #: Held by either thread for a message and its byte in the pipe, and for the end of both: what is
        #: readable has a message, or has ended.
        self._lock = threading.Lock()
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._over = threading.Event()
        self._how, self._killed, self._closed = "", False, False

    def heard(self, message: Message, size: int) -> None:
        """A message of so many bytes arrived; for the session's thread.

        Raises
        ------
        Misbehaved : more have come than anybody takes.
        """
        with self._lock:
            self._arrived_bytes += size
            if len(self._arrived) >= QUEUED or self._arrived_bytes > QUEUED_BYTES:
                raise Misbehaved(f"it sent more than {QUEUED} messages at once, or {QUEUED_BYTES} bytes")
            self._arrived.append(message)
            with suppress(OSError):  # full already, or closed by the trial
                os.write(self._write, b"\n")

    def finished(self, how: str, *, killed: bool, kind: FailureKind = "died") -> None:
        """It has ended, `how` in a sentence; called once, after its last message, by the session's thread."""
        self._how, self._killed, self.kind = how, killed, kind
        with self._lock:
            self._over.set()
            os.close(self._write)

    def fileno(self) -> int:
        """The pipe's end to read; once the role has ended it stays readable."""
        return self._read

    @property
    def killed(self) -> bool:
        """A signal ended it, or the session is over."""
        return self._over.is_set() and self._killed

    def tell(self, message: Mapping[str, object]) -> None:
        """Send a line to its standard input."""
        if not self._over.is_set():
            self._send({"action": "tell", "id": self._number, "line": message})

    def close(self) -> None:
        """End its input."""
        if not self._closed and not self._over.is_set():
            self._send({"action": "close", "id": self._number})
        self._closed = True

    def end(self, grace_s: float = GRACE_S) -> None:
        """End its input, and kill it if it goes on."""
        self.close()
        if not self._over.wait(grace_s):
            self._send({"action": "kill", "id": self._number})
            # If the host is silent about that too, the session ends, and its end is reported.
            self._over.wait(grace_s)
        self._receive()
        self._ended = True
        if self._read >= 0:
            os.close(self._read)
            self._read = -1

    def death(self) -> str:
        """Reason of its end, in a sentence."""
        self._over.wait(GRACE_S)
        return self._how or f"{self.name} closed its output"

    def _receive(self) -> None:
        with self._lock:
            over = self._over.is_set()
            with suppress(OSError):
                while self._read >= 0 and os.read(self._read, 4096):
                    pass
            self._messages.extend(self._arrived)
            self._arrived.clear()
            self._arrived_bytes = 0
        self._ended = self._ended or over
