"""Many MPTCP connections between two network namespaces: a server, and a client that sets the load.

Not a benchmark; run inside the namespaces by `daemon.py load`. Both are ordinary programs: one thread, one
epoll, no setting of MPTCP but the protocol of their sockets. The server discards what comes to its port, and
answers each request at the next one. Of the client's connections the first few always have more to send, the
others send a little now and then; besides, it may open short ones, each for a request and its answer. It
prints `open` when all long ones are there, and works until its standard input ends.

    python -m benchmarks.systems._traffic server ADDRESS
    python -m benchmarks.systems._traffic client ADDRESS SOURCE --connections 1000 --busy 5 --short 200
"""

import argparse
import contextlib
import resource
import selectors
import socket
import sys
import time
from typing import Any

#: Port of what is discarded; the next one answers, the one after that is for whoever measures.
PORT = 7000
#: Bytes of a request, of its answer, and of what a quiet connection sends at a time.
REQUEST, ANSWER, LITTLE = 200, 2000, 1000
#: A quiet connection sends this often, s.
EVERY_S = 10.0
#: Turns a second.
TURNS = 50
#: Connections opened a second while the long ones are opened.
OPENED = 400
_CHUNK = bytes(1 << 16)


def mptcp() -> socket.socket:
    """A socket."""
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)


class Server:
    """Takes and answers."""

    def __init__(self, address: str) -> None:
        self._selector = selectors.EpollSelector()
        for answers, port in ((False, PORT), (True, PORT + 1), (True, PORT + 2)):
            listener = mptcp()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # On all addresses, as joins may come to any; `address` is set once it is there.
            listener.bind(("0.0.0.0", port))
            listener.listen(1024)
            listener.setblocking(False)
            self._selector.register(listener, selectors.EVENT_READ, ("listener", answers))
        print(f"ready {address}", flush=True)

    def run(self) -> None:
        """Until it is killed."""
        while True:
            for key, _ in self._selector.select():
                kind, answers = key.data
                ready: Any = key.fileobj
                if kind == "listener":
                    self._accept(ready, answers)
                else:
                    self._take(ready, answers)

    def _accept(self, listener: socket.socket, answers: bool) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                connection, _ = listener.accept()
                connection.setblocking(False)
                self._selector.register(connection, selectors.EVENT_READ, ("connection", answers))

    def _take(self, connection: socket.socket, answers: bool) -> None:
        try:
            taken = connection.recv(1 << 18)
            if taken and answers:
                connection.send(bytes(ANSWER))
        except BlockingIOError:
            return
        except OSError:
            taken = b""
        if not taken:
            self._selector.unregister(connection)
            connection.close()


class Client:
    """Opens and sends."""

    def __init__(self, address: str, source: str, busy: int, short: int) -> None:
        self._address, self._source = address, source
        self._busy, self._short = busy, short
        self._selector = selectors.EpollSelector()
        self._selector.register(sys.stdin.fileno(), selectors.EVENT_READ, "orders")
        self._quiet: list[socket.socket] = []
        self._credit, self._next = 0.0, 0
        self.finished = 0

    def _connect(self, port: int) -> socket.socket:
        connection = mptcp()
        connection.bind((self._source, 0))
        connection.connect((self._address, port))
        return connection

    def open(self, connections: int) -> None:
        """Open the long ones; each has sent something, so that it is established."""
        began = time.monotonic()
        for number in range(connections):
            connection = self._connect(PORT)
            connection.sendall(b"x")
            connection.setblocking(False)
            if number < self._busy:
                self._selector.register(connection, selectors.EVENT_WRITE, "busy")
            else:
                self._quiet.append(connection)
            time.sleep(max(0.0, began + (number + 1) / OPENED - time.monotonic()))
        print("open", flush=True)

    def run(self) -> None:
        """Until the standard input ends."""
        turn_at = time.monotonic()
        while True:
            for key, _ in self._selector.select(max(0.0, turn_at - time.monotonic())):
                ready: Any = key.fileobj
                if key.data == "orders":
                    if not sys.stdin.readline():
                        return
                elif key.data == "busy":
                    with contextlib.suppress(BlockingIOError):
                        ready.send(_CHUNK)
                elif key.data == "begun":
                    self._ask(ready)
                else:
                    self._finish(ready)
            if time.monotonic() >= turn_at:
                turn_at = max(turn_at + 1 / TURNS, time.monotonic())
                self._turn()

    def _turn(self) -> None:
        self._credit += len(self._quiet) / EVERY_S / TURNS
        while self._credit >= 1 and self._quiet:
            self._credit -= 1
            self._next = (self._next + 1) % len(self._quiet)
            with contextlib.suppress(BlockingIOError):
                self._quiet[self._next].send(bytes(LITTLE))
        for _ in range(round(self._short / TURNS)):
            connection = mptcp()
            connection.setblocking(False)
            connection.bind((self._source, 0))
            connection.connect_ex((self._address, PORT + 1))
            self._selector.register(connection, selectors.EVENT_WRITE, "begun")

    def _ask(self, connection: socket.socket) -> None:
        try:
            connection.send(bytes(REQUEST))
        except BlockingIOError:
            return
        except OSError:
            self._selector.unregister(connection)
            connection.close()
            return
        self._selector.modify(connection, selectors.EVENT_READ, "short")

    def _finish(self, connection: socket.socket) -> None:
        try:
            connection.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            self.finished -= 1
        self._selector.unregister(connection)
        connection.close()
        self.finished += 1


def main() -> None:
    """Serve, or load."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    roles = parser.add_subparsers(dest="role", required=True)
    server = roles.add_parser("server")
    client = roles.add_parser("client")
    for command in (server, client):
        command.add_argument("address")
    client.add_argument("source")
    client.add_argument("--connections", type=int, default=1000)
    client.add_argument("--busy", type=int, default=5)
    client.add_argument("--short", type=int, default=0, help="short connections a second")
    asked = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if asked.role == "server":
        Server(asked.address).run()
    load = Client(asked.address, asked.source, asked.busy, asked.short)
    load.open(asked.connections)
    load.run()
    print(f"finished {load.finished}", flush=True)


if __name__ == "__main__":
    main()
