"""Programs with something to transfer, for the picture of `mptune watch`.

Not a benchmark. Run as a program it is one of them: it connects and acts by its name.
"""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from mptune.linux.sandbox.namespaces import Sites
from tests.plugins.netlink import inside

KIB = 1024
#: Whatever the machine's default is.
CUBIC = (socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")


def paced(send: Callable[[bytes], object], mbps: float) -> None:
    """Send at a rate until the other end has gone."""
    while True:
        send(bytes(round(mbps * 1e6 / 8 / 20)))
        time.sleep(1 / 20)


def drain(connection: socket.socket, bytes_per_s: float = 1e12) -> None:
    """Read until the end, no faster than this rate."""
    while data := connection.recv(64 * KIB):
        time.sleep(len(data) / bytes_per_s)


#: Name of a program -> what it does, what its server does, and whether the server knows MPTCP.
Serve = Callable[[socket.socket], None]
PROGRAMS: dict[str, tuple[Serve, Serve, bool]] = {
    "upload": (lambda connection: paced(connection.sendall, 1000), drain, True),
    "stream": (lambda connection: paced(connection.sendall, 4), drain, True),
    "download": (drain, lambda connection: paced(connection.sendall, 30), True),
    "slow-disk": (
        lambda connection: paced(connection.sendall, 50),
        lambda connection: drain(connection, 400_000),
        True,
    ),
    "legacy": (lambda connection: paced(connection.sendall, 2), drain, False),
}


def serve(namespace: str, name: str) -> tuple[socket.socket, int]:
    """Listen for a program, and do with its connection what belongs to it."""
    _, act, knows = PROGRAMS[name]

    def listen() -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP if knows else 0)
        made.setsockopt(*CUBIC)
        if name == "slow-disk":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * KIB)
        made.bind(("10.0.0.2", 0))
        made.listen()
        return made

    listener = inside(namespace, listen)

    def accept() -> None:
        connection, _ = listener.accept()
        with connection:
            quietly(act, connection)

    threading.Thread(target=accept, daemon=True).start()
    return listener, listener.getsockname()[1]


def quietly(act: Serve, connection: socket.socket) -> None:
    """Until the other end has gone."""
    try:
        act(connection)
    except OSError:
        return


@contextmanager
def transfers(sites: Sites) -> Iterator[None]:
    """All programs at work, until the end of the block."""
    running = []
    listeners = []
    try:
        for name in PROGRAMS:
            listener, port = serve(sites.remote, name)
            listeners.append(listener)
            command = [sys.executable, __file__, name, str(port)]
            running.append(inside(sites.local, partial(subprocess.Popen[bytes], command)))
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()
        for listener in listeners:
            listener.close()


def main() -> None:
    """Be a program."""
    name, port = sys.argv[1:]
    Path("/proc/self/comm").write_text(name, encoding="ascii")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP) as connection:
        connection.setsockopt(*CUBIC)
        connection.connect(("10.0.0.2", int(port)))
        quietly(PROGRAMS[name][0], connection)


if __name__ == "__main__":
    main()
