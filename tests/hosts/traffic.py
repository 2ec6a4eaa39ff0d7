"""Connections between the two machines, made by sockets of this process in their network namespaces."""

import errno
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from tests.hosts.world import World
from tests.plugins.waiting import PATIENCE_S

SOL_MPTCP, MPTCP_INFO = 284, 1  # include/linux/socket.h, include/uapi/linux/mptcp.h
_FALLBACK = 1


class Ends(NamedTuple):
    """Two connected sockets, of who connected and of who accepted."""

    client: socket.socket
    server: socket.socket


class Mptcp(NamedTuple):
    """The kernel's view of a connection: whether it is MPTCP, and its subflows."""

    alive: bool
    subflows: int


@contextmanager
def connected(
    world: World,
    local: int = 0,
    remote: int = 0,
    *,
    family: str = "ipv4",
    mptcp: bool = True,
    reverse: bool = False,
    within_s: float = PATIENCE_S,
) -> Iterator[Ends]:
    """A connection from alice's uplink to bob's, or the other way round.

    Raises
    ------
    OSError : there is none.
    """
    here, there = world.uplink("alice", local), world.uplink("bob", remote)
    if reverse:
        here, there = there, here
    source = here.ipv6 if family == "ipv6" else here.ipv4
    target = there.ipv6 if family == "ipv6" else there.public
    assert source is not None and target is not None
    kind = socket.AF_INET6 if family == "ipv6" else socket.AF_INET
    protocol = socket.IPPROTO_MPTCP if mptcp else 0
    listener = there.machine.inside(lambda: socket.socket(kind, socket.SOCK_STREAM, protocol))
    client = here.machine.inside(lambda: socket.socket(kind, socket.SOCK_STREAM, protocol))
    with listener, client:
        listener.bind(("", 0))
        listener.listen()
        for end in (listener, client):
            end.settimeout(within_s)
        client.bind((source, 0))
        client.connect((target, listener.getsockname()[1]))
        server, _ = listener.accept()
        with server:
            server.settimeout(within_s)
            yield Ends(client, server)


def exchange(ends: Ends, count: int = 1) -> float:
    """Send a byte there and back a few times; the shortest round trip, seconds."""
    trips = []
    for _ in range(count):
        begin = time.perf_counter()
        ends.client.sendall(b"?")
        ends.server.recv(1)
        ends.server.sendall(b"!")
        ends.client.recv(1)
        trips.append(time.perf_counter() - begin)
    return min(trips)


def exchange_until_silence(ends: Ends) -> float:
    """Exchange bytes until none comes any more; the time of the last one (`time.perf_counter`)."""
    last = time.perf_counter()
    with suppress(TimeoutError):
        while True:
            exchange(ends)
            last = time.perf_counter()
    return last


def rate_mbps(sender: socket.socket, receiver: socket.socket, count: int) -> float:
    """Payload received per second, once `count` bytes have been sent; the first tenth does not count."""
    thread = threading.Thread(target=sender.sendall, args=(bytes(count),))
    thread.start()
    received, begin, skipped = 0, 0.0, 0
    while received < count:
        data = receiver.recv(1 << 16)
        assert data, "the connection has ended"
        received += len(data)
        if not skipped and received >= count // 10:
            begin, skipped = time.perf_counter(), received
    took = time.perf_counter() - begin
    thread.join()
    return (received - skipped) * 8e-6 / took


def mptcp(end: socket.socket) -> Mptcp:
    """An end's protocol, and its number of subflows."""
    try:
        info = end.getsockopt(SOL_MPTCP, MPTCP_INFO, 64)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.ENOPROTOOPT):
            raise
        return Mptcp(False, 1)
    (flags,) = struct.unpack_from("=I", info, 8)
    return Mptcp(not flags & _FALLBACK, 1 + info[0])


@contextmanager
def joining(world: World) -> Iterator[None]:
    """Alice's kernel uses all her uplinks for connections that begin inside the block."""
    extra = [uplink for uplink in world.uplinks["alice"][1:] if uplink.ipv4]
    for process in extra:
        world.alice.run("ip", "mptcp", "endpoint", "add", str(process.ipv4), "dev", process.device, "subflow")
    try:
        yield
    finally:
        world.alice.run("ip", "mptcp", "endpoint", "flush")
