"""Events of this machine's daemon, if there is one; nothing else of it is known here.

Its UNIX socket gives a line of JSON about every second in the shape of `Census`, whose `events` list what it
did and why. Whoever connects only reads. Nothing else of these lines is used: connections come from the
agent's role `watch`, with the daemon or without it.
"""

import contextlib
import json
import os
import socket
from pathlib import Path

from mptune.errors import MptuneError
from mptune.monitor.shape import Happening, census

#: Environment variable with another path of the socket.
VARIABLE = "MPTUNE_DAEMON_SOCKET"
_PATH = "/run/mptune/daemon.sock"
_CHUNK = 1 << 16
#: Longest line; whoever sends more is no daemon.
_LINE_BYTES = 1 << 26


def connect() -> "DaemonEvents | None":
    """A connection to the daemon; None if there is no daemon, or it does not let us in."""
    path = Path(os.environ.get(VARIABLE, _PATH))
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.connect(str(path))
    except OSError:
        sock.close()
        return None
    return DaemonEvents(sock)


class DaemonEvents:
    """Events from now on."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket, self._partial = connection, b""
        self.ended = False

    def fileno(self) -> int:
        """Descriptor that is readable when there is something to `take`."""
        return self._socket.fileno()

    def take(self) -> list[Happening]:
        """Events since the last call, without waiting."""
        happenings: list[Happening] = []
        while not self.ended:
            try:
                chunk = self._socket.recv(_CHUNK)
            except BlockingIOError:
                break
            except OSError:
                chunk = b""
            *lines, self._partial = (self._partial + chunk).split(b"\n")
            self.ended = not chunk or len(self._partial) > _LINE_BYTES
            for line in lines:
                with contextlib.suppress(ValueError, MptuneError):
                    happenings += census(json.loads(line)).events
        return happenings

    def close(self) -> None:
        """Disconnect."""
        self._socket.close()
