"""Many MPTCP connections whose every byte is compared: both ends in one process, in two network namespaces.

Not a benchmark; a process of `soak.py`, which it obeys by lines of JSON. One thread, one epoll. The payload
is a function of the connection and the offset. The first connections always have more to send, the others a
message now and then. A connection that waits, for its peer or with bytes that have not arrived, and of which
nothing has arrived for `STALL_S`, has stalled.

    in   {"local": path, "remote": path, "server": address, "source": address, "connections": 1000, ...}
    in   {"action": "use", "cc": "cubic_hold", "generation": 3}   for new connections
    in   {"action": "reopen", "count": 100}                       the oldest end, as many others begin
    in   {"action": "look"}    out  {"event": "looked", ...}      `Counts`, and what is of this moment
    in   {"action": "close"}   out  {"event": "closed", ...}      when all have arrived and ended
"""

import contextlib
import json
import math
import os
import random
import resource
import selectors
import socket
import sys
import time
from dataclasses import asdict, dataclass
from functools import partial
from io import RawIOBase
from typing import Any

from benchmarks.systems._traffic import PORT, mptcp
from mptune.linux.sandbox import syscalls
from tests.plugins.netlink import inside

#: Nothing arrives of what was sent, for this long: a stall, s.
STALL_S = 10.0
#: Turns a second, in which messages are sent and connections opened; what arrives is read as often, and
#: together, which costs less.
TURNS = 100
#: Connections opened in a turn, and their time to have both subflows before they send, s: Linux 6.18 delivers
#: wrong payload if data arrive while a subflow joins (docs/explanation/kernel-findings.md, 1).
OPENED, JOINING_S = 4, 5.0
#: A message, bytes; sizes are drawn evenly by their logarithm.
SMALLEST, LARGEST = 100, 1 << 14
#: The payload repeats after this many bytes, a prime, so that no misplaced piece fits by chance; that of
#: each connection begins this much later than that of the one before.
PERIOD, SHIFT = 1_000_003, 7919
CHUNK = 1 << 16
#: Send buffers of connections by their number, None for those that grow: small ones are what `hold` is for.
BUFFERS = (None, 1 << 15, None, 1 << 17)
#: The congestion control of connections that are refused theirs, and of the other end.
PLAIN = b"cubic"
_SOL_MPTCP, _MPTCP_INFO = 284, 1  # include/linux/socket.h, include/uapi/linux/mptcp.h


@dataclass
class Counts:
    """So far.

    Attributes
    ----------
    wrong, lost : bytes that were not those sent, and bytes of ended connections that never arrived.
    refused : connections that could not have their congestion control, as it was not registered.
    changed : connections found with another congestion control than they had.
    alone : connections without a second subflow after `JOINING_S`.
    stalls : how many; `longest_s` is the longest wait of any connection.
    """

    opened: int = 0
    ended: int = 0
    sent: int = 0
    compared: int = 0
    wrong: int = 0
    lost: int = 0
    refused: int = 0
    changed: int = 0
    alone: int = 0
    stalls: int = 0
    longest_s: float = 0.0


class Connection:
    """Both ends, and how far they are."""

    def __init__(self, number: int, generation: int, busy: bool) -> None:
        self.number, self.generation = number, generation
        self.sender = mptcp()
        self.receiver: socket.socket | None = None
        self.began_at = self.moved_at = time.monotonic()
        self.cc = ""
        self.sent = self.got = 0
        #: Bytes to be sent so far: one at first, which opens the connection.
        self.wanted: float = 1
        #: `ready` to send, asked to end, found to have stalled, ended.
        self.ready = self.closing = self.stalled = self.over = False
        self.busy = busy

    @property
    def waits(self) -> bool:
        """Something has to arrive: the peer, payload, or the end."""
        return self.receiver is None or self.sent > self.got or self.closing

    @property
    def subflows(self) -> int:
        """As many as both ends have."""
        ends = [end for end in (self.sender, self.receiver) if end is not None]
        try:
            return 1 + min(end.getsockopt(_SOL_MPTCP, _MPTCP_INFO, 64)[0] for end in ends)
        except OSError:  # it has fallen back to TCP, as after lost SYNs
            return 1


class Traffic:
    """The connections."""

    def __init__(self, order: dict[str, Any], orders: RawIOBase) -> None:
        self._order, self._orders = order, orders
        self._draw = random.Random(order["seed"])
        block = random.Random(order["seed"]).randbytes(PERIOD)
        self._payload = block + block[:CHUNK]
        self._selector = selectors.EpollSelector()
        self._selector.register(orders.fileno(), selectors.EVENT_READ, self._obey)
        self._listener = inside(order["remote"], self._listen)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        #: In the order in which they began.
        self._all: list[Connection] = []
        self._joining: list[Connection] = []
        self._quiet: list[Connection] = []
        self._by_port: dict[int, Connection] = {}
        self._numbers, self._living, self._busy, self._credit = 0, 0, 0, 0.0
        self._cc = PLAIN.decode()
        self._generation = 0
        self._over = False
        self.counts = Counts()
        self.broken: dict[str, int] = {}
        self.stalled: list[dict[str, Any]] = []

    def _listen(self) -> socket.socket:
        listener = mptcp()
        # On all addresses, as joins may come to any.
        listener.bind(("0.0.0.0", PORT))
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, PLAIN)
        listener.listen(1024)
        listener.setblocking(False)
        return listener

    def run(self) -> None:
        """Until the input ends, or all have ended after `close`."""
        turn_at = checked_at = time.monotonic()
        while True:
            for key, events in self._selector.select(0):
                if key.data(key.fileobj, events) is False:
                    return
            if self._over and not self._all:
                self._tell("closed")
                return
            self._turn()
            if turn_at - checked_at >= 1:
                checked_at = turn_at
                self._check(turn_at)
            turn_at = max(turn_at + 1 / TURNS, time.monotonic())
            time.sleep(max(0.0, turn_at - time.monotonic()))

    def _obey(self, _: Any, __: int) -> bool:
        line = self._orders.readline()
        if not line:
            return False
        order = json.loads(line)
        if order["action"] == "use":
            self._cc, self._generation = order["cc"], order["generation"]
        elif order["action"] == "look":
            self._tell("looked")
        else:
            self._over = order["action"] == "close"
            # The oldest, so that no generation of a program stays for ever.
            ready = [one for one in self._all if one.ready and not one.closing]
            for connection in ready[: None if self._over else order["count"]]:
                self._close(connection)
        return True

    def _tell(self, event: str) -> None:
        now = time.monotonic()
        for connection in self._all:
            if not connection.closing and (cc := _congestion(connection)) != connection.cc:
                self.counts.changed += 1
                connection.cc = cc
        moment = {
            "alive": sum(connection.ready for connection in self._all),
            "waiting_s": max((now - one.moved_at for one in self._all if one.waits), default=0.0),
            "generations": sorted({one.generation for one in self._all}),
            "broken": self.broken,
            "stalled": self.stalled,
        }
        print(json.dumps({"event": event, **asdict(self.counts), **moment}), flush=True)

    # Beginning and end

    def _open(self, count: int) -> None:
        for _ in range(count):
            connection = Connection(self._numbers, self._generation, self._busy < self._order["busy"])
            self._numbers += 1
            self._living += 1
            self._busy += connection.busy
            sender, size = connection.sender, BUFFERS[connection.number % len(BUFFERS)]
            sender.setblocking(False)
            sender.bind((self._order["source"], 0))
            if size is not None:
                sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
            try:
                sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, self._cc.encode())
            except FileNotFoundError:
                sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, PLAIN)
                connection.generation = 0
                self.counts.refused += 1
            connection.cc = _congestion(connection)
            sender.connect_ex((self._order["server"], PORT))
            self._by_port[sender.getsockname()[1]] = connection
            self._selector.register(sender, selectors.EVENT_WRITE, partial(self._write, connection))
            self._all.append(connection)
            self._joining.append(connection)

    def _accept(self, listener: Any, _: int) -> None:
        while True:
            try:
                receiver, (_, port) = listener.accept()
            except BlockingIOError:
                return
            connection = self._by_port.pop(port)
            receiver.setblocking(False)
            connection.receiver, connection.moved_at = receiver, time.monotonic()
            self._selector.register(receiver, selectors.EVENT_READ, partial(self._read, connection))
            self.counts.opened += 1

    def _leave(self, connection: Connection) -> None:
        """It is none of those that are to be there any more."""
        if not connection.closing:
            connection.closing = True
            self._living -= 1
            self._busy -= connection.busy
            if connection in self._quiet:
                self._quiet.remove(connection)

    def _close(self, connection: Connection) -> None:
        """No more; it has ended once all has arrived."""
        self._leave(connection)
        connection.moved_at = time.monotonic()
        connection.wanted = connection.sent
        self._push(connection)

    def _end(self, connection: Connection, reason: str | None = None) -> None:
        """With a reason if nobody asked for it."""
        if connection.over:
            return
        self._leave(connection)
        connection.over = True
        if reason is not None:
            self.broken[reason] = self.broken.get(reason, 0) + 1
        self.counts.ended += 1
        self.counts.lost += connection.sent - connection.got
        for end in (connection.sender, connection.receiver):
            if end is not None:
                if end in self._selector.get_map():
                    self._selector.unregister(end)
                end.close()
        self._by_port = {port: other for port, other in self._by_port.items() if other is not connection}
        self._all.remove(connection)

    # Payload

    def _bytes(self, connection: Connection, offset: int, count: int) -> bytes:
        at = (connection.number * SHIFT + offset) % PERIOD
        return self._payload[at : at + count]

    def _write(self, connection: Connection, _: Any, __: int) -> None:
        self._push(connection)

    def _push(self, connection: Connection) -> None:
        """Send what there is to send, as far as there is room."""
        while connection.sent < connection.wanted and not connection.over:
            count = int(min(CHUNK, connection.wanted - connection.sent))
            try:
                sent = connection.sender.send(self._bytes(connection, connection.sent, count))
            except BlockingIOError:
                self._await_room(connection, True)
                return
            except OSError as error:
                self._end(connection, f"send: {os.strerror(error.errno or 0)}")
                return
            if connection.sent == connection.got and connection.receiver is not None:
                connection.moved_at = time.monotonic()
            connection.sent += sent
            self.counts.sent += sent
        if connection.over:
            return
        self._await_room(connection, False)
        if connection.closing:
            # What is broken is found where its end is read.
            with contextlib.suppress(OSError):
                connection.sender.shutdown(socket.SHUT_WR)

    def _await_room(self, connection: Connection, wanted: bool) -> None:
        there = connection.sender in self._selector.get_map()
        if wanted and not there:
            write = partial(self._write, connection)
            self._selector.register(connection.sender, selectors.EVENT_WRITE, write)
        elif there and not wanted:
            self._selector.unregister(connection.sender)

    def _read(self, connection: Connection, receiver: Any, _: int) -> None:
        if connection.over:
            return
        try:
            data = receiver.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            self._end(connection, f"recv: {os.strerror(error.errno or 0)}")
            return
        if not data:
            self._end(connection, None if connection.closing else "recv: end")
            return
        expected = self._bytes(connection, connection.got, len(data))
        if data != expected:
            self.counts.wrong += sum(one != other for one, other in zip(data, expected, strict=True))
        connection.got += len(data)
        self.counts.compared += len(data)
        connection.moved_at, connection.stalled = time.monotonic(), False

    # Turns

    def _turn(self) -> None:
        if not self._over:
            self._open(min(OPENED, self._order["connections"] - self._living))
        for connection in [one for one in self._joining if self._settled(one)]:
            self._joining.remove(connection)
            connection.ready = not connection.over
            if self._over and connection.ready:
                self._close(connection)
            elif connection.busy:
                connection.wanted = math.inf
                self._push(connection)
            elif connection.ready:
                self._quiet.append(connection)
        self._credit += len(self._quiet) / self._order["every_s"] / TURNS
        while self._credit >= 1 and self._quiet:
            self._credit -= 1
            connection = self._draw.choice(self._quiet)
            connection.wanted += int(SMALLEST * (LARGEST / SMALLEST) ** self._draw.random())
            self._push(connection)

    def _settled(self, connection: Connection) -> bool:
        """It has both subflows, or has waited for them in vain, or has ended."""
        if connection.over:
            return True
        if connection.receiver is None or connection.got == 0:
            return False
        alone = connection.subflows < 2
        late = time.monotonic() > connection.began_at + JOINING_S
        self.counts.alone += alone and late
        return late or not alone

    def _check(self, now: float) -> None:
        """Count stalls, each once."""
        for connection in self._all:
            waited_s = now - connection.moved_at
            if connection.waits:
                self.counts.longest_s = max(self.counts.longest_s, waited_s)
            if connection.waits and waited_s > STALL_S and not connection.stalled:
                connection.stalled = True
                self.counts.stalls += 1
                about = ("number", "cc", "generation", "sent", "got", "busy", "closing")
                facts = {name: getattr(connection, name) for name in about}
                port = connection.sender.getsockname()[1]
                self.stalled.append({**facts, "port": port, "accepted": connection.receiver is not None})
                del self.stalled[100:]


def _congestion(connection: Connection) -> str:
    """What the kernel has for it."""
    name = connection.sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    return name.split(b"\0")[0].decode()


def main() -> None:
    """Work until the input ends."""
    syscalls.die_with_parent()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # Unbuffered: epoll knows nothing of lines that were read already.
    orders = open(sys.stdin.fileno(), "rb", buffering=0)  # noqa: PTH123, SIM115 - a descriptor, to the end
    order = json.loads(orders.readline())
    with open(order["local"]) as namespace:  # noqa: PTH123 - a namespace
        syscalls.setns(namespace.fileno(), syscalls.CLONE_NEWNET)
    Traffic(order, orders).run()


if __name__ == "__main__":
    main()
