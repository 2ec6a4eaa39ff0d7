"""Many MPTCP connections between programs of both sites, and how their events are made to be lost."""

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.plugins.netlink import NETLINK_GENERIC, inside
from tests.plugins.path_world import World, attribute

NEAR, FAR = "10.64.0.1", "10.65.0.1"


class Crowd:
    """Connections from the sender's first interface to the receiver's, in the order of their opening.

    One that is only opened is not fully established (RFC 8684 section 3.1) before it has spoken.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.pairs: list[tuple[socket.socket, socket.socket]] = []
        self._listener = self._socket("remote")
        self._listener.bind(("0.0.0.0", 0))
        self._listener.listen(4096)

    def _socket(self, site: str) -> socket.socket:
        made = lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)  # noqa: E731
        return inside(self.world.sites.of(site), made)  # type: ignore[arg-type]

    def open(self, count: int, port: int = 0) -> None:
        """More of them, from a port of theirs."""

        def opened() -> list[socket.socket]:
            made = []
            for _ in range(count):
                connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                connection.bind((NEAR, port))
                connection.connect((FAR, self._listener.getsockname()[1]))
                made.append(connection)
            return made

        # Each side's in one go: entering a namespace takes a thread.
        near = inside(self.world.sites.local, opened)
        by_end = {connection.getsockname()[1]: connection for connection in near}
        for _ in range(count):
            accepted, end = self._listener.accept()
            self.pairs.append((by_end[end[1]], accepted))

    def speak(self, first: int = 0) -> None:
        """A byte there and back on all from one on."""
        for near, _ in self.pairs[first:]:
            near.sendall(b"x")
        for near, far in self.pairs[first:]:
            assert far.recv(1) == b"x"
            far.sendall(b"y")
            assert near.recv(1) == b"y"

    def close(self, number: int, *, at_once: bool = False) -> None:
        """End one of them, leaving nothing of it."""
        near, far = self.pairs.pop(number)
        if at_once:
            near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        near.close()
        far.close()

    def churn(self, count: int) -> None:
        """Short connections, one after the other."""
        for _ in range(0, count, 100):
            first = len(self.pairs)
            self.open(100)
            self.speak(first)
            while len(self.pairs) > first:
                self.close(-1)

    def lose_events(self) -> None:
        """Short connections until the kernel drops events, from then on all of them until somebody reads."""
        before = dropped(self.world.sites.local)
        while dropped(self.world.sites.local) == before:
            self.churn(100)

    def end(self) -> None:
        """Close all."""
        while self.pairs:
            self.close(-1)
        self._listener.close()


@contextmanager
def crowd_of(world: World) -> Iterator[Crowd]:
    """None are open yet."""
    with ExitStack() as stack:
        crowd = Crowd(world)
        stack.callback(crowd.end)
        yield crowd


def _sockets(namespace: str) -> list[list[str]]:
    """The lines of /proc/net/netlink in a namespace."""

    def read() -> list[list[str]]:
        lines = Path("/proc/thread-self/net/netlink").read_text(encoding="ascii").splitlines()[1:]
        return [line.split() for line in lines]

    return inside(namespace, read)


def dropped(namespace: str) -> int:
    """Netlink messages that the kernel had to drop there, because nobody read them in time."""
    return sum(int(fields[8]) for fields in _sockets(namespace))


def forge_end(namespace: str, token: int) -> None:
    """Report to the only listener to a namespace's events that a connection is over, which is not true."""
    (port,) = (
        int(fields[2])
        for fields in _sockets(namespace)
        if int(fields[1]) == NETLINK_GENERIC and int(fields[2]) and int(fields[3], 16)
    )
    body = struct.pack("=BBH", 3, 1, 0) + attribute(1, struct.pack("=I", token))
    message = struct.pack("=IHHII", 16 + len(body), 28, 0, 0, 0) + body

    def send() -> None:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC) as netlink:
            netlink.sendto(message, (port, 0))

    inside(namespace, send)
