"""A conversation with the daemon by its socket: one question, one answer, in lines of JSON.

Unsolicited lines are passed over: `mptune.monitor.daemon` listens to them.
"""

import json
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mptune.errors import MptuneError
from mptune.linux.daemon import SOCKET

#: Environment variable with another path of the socket.
VARIABLE = "MPTUNE_DAEMON_SOCKET"

#: Seconds that an answer may take.
_ANSWER_S = 10.0
_CHUNK = 1 << 16
#: Longest line; whoever sends more is no daemon.
_LINE_BYTES = 1 << 26

Message = dict[str, Any]


class NoDaemon(MptuneError):
    """Nobody answers at the socket."""


def usual_socket() -> Path:
    """Default path of the socket."""
    return Path(os.environ.get(VARIABLE) or SOCKET)


class Client:
    """A connection to the daemon. A suspension that was asked for lasts as long as it.

    Raises
    ------
    NoDaemon : there is none, or it lets nobody in.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._partial = path, b""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(_ANSWER_S)
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise NoDaemon(f"{path}: no daemon answers: {error.strerror or error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect."""
        self._socket.close()

    def ask(self, action: str, **what: object) -> Message:
        """Ask for something; the answer.

        Raises
        ------
        MptuneError : it is refused, or there is no answer.
        """
        try:
            self._socket.sendall(json.dumps({"action": action, **what}).encode() + b"\n")
            return self._answer()
        except OSError as error:
            raise NoDaemon(f"{self._path}: the daemon does not answer: {error.strerror or error}") from None

    def _answer(self) -> Message:
        end = time.monotonic() + _ANSWER_S
        while (left := end - time.monotonic()) > 0:
            line, newline, rest = self._partial.partition(b"\n")
            if newline:
                self._partial = rest
                message = self._message(line)
                if message.get("event") == "refused":
                    raise MptuneError(f"the daemon: {message.get('reason')}")
                if message.get("event") != "connections":
                    return message
                continue
            self._socket.settimeout(left)
            chunk = self._socket.recv(_CHUNK)
            self._partial += chunk
            if not chunk or len(self._partial) > _LINE_BYTES:
                raise NoDaemon(f"{self._path}: the daemon has ended")
        raise NoDaemon(f"{self._path}: the daemon does not answer within {_ANSWER_S:g} s")

    def _message(self, line: bytes) -> Message:
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            raise NoDaemon(f"{self._path}: expected a daemon, found something else")
        return message


def asked(path: Path, action: str, **what: object) -> Mapping[str, Any]:
    """The answer to one question; errors as `Client`."""
    with Client(path) as client:
        return client.ask(action, **what)
