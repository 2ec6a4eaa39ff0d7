"""The daemon adapts the limits of the buffers, on a far path of the emulator."""

import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from mptune.linux.addresses import Side
from tests.plugins.daemon_world import Daemon, give, limit_of, setting
from tests.plugins.emulation import Emulation, links
from tests.plugins.waiting import until

pytestmark = pytest.mark.usefixtures("may_manage_paths")

KIB, MIB = 1 << 10, 1 << 20
#: 40 Mbit/s and 100 ms: 500 kB on the way, about twice that in memory.
RATE_MBPS, RTT_MS = 40, 100
#: Throughput over the limit there, as a run would have it: half the limit in a round trip, up to the rate.
CURVE = ((64 * KIB, 2.6), (1 * MIB, 38.0), (8 * MIB, 38.0))
#: The smallest limit that gives 95 % of the curve's most is between these.
WANTED = (512 * KIB, 1 * MIB)
LOW = 128 * KIB
NAMES = ("tcp_wmem", "tcp_rmem")


class Stream:
    """A sender that always has more, with buffers that the kernel sizes."""

    def __init__(self, emulation: Emulation, stack: ExitStack) -> None:
        self._sender, self._receiver = emulation.connection(stack, socket.AF_INET, socket.IPPROTO_MPTCP)
        self._sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        self.received, self._more = 0, True
        self._threads = [threading.Thread(target=self._send), threading.Thread(target=self._receive)]
        for thread in self._threads:
            thread.start()
        stack.callback(self._end)

    def mbps(self) -> float:
        """Throughput of about a second, Mbit/s."""
        before, began = self.received, time.monotonic()
        until(lambda: time.monotonic() >= began + 1, "a second")
        return (self.received - before) * 8e-6 / (time.monotonic() - began)

    def _send(self) -> None:
        while self._more:
            self._sender.sendall(bytes(1 << 16))
        self._sender.shutdown(socket.SHUT_WR)

    def _receive(self) -> None:
        while data := self._receiver.recv(1 << 18):
            self.received += len(data)

    def _end(self) -> None:
        self._more = False
        for thread in self._threads:
            thread.join()


@pytest.fixture
def emulation() -> Iterator[Emulation]:
    queue = RATE_MBPS * RTT_MS * 125
    far = links(rate_bps=RATE_MBPS * 10**6, delay_ns=RTT_MS * 500_000, queue_bytes=queue)
    with Emulation(far) as emulated:
        yield emulated


def beside(emulation: Emulation, side: Side, folder: Path, text: str) -> Daemon:
    """A daemon of one side."""
    pairs = [("10.64.0.1", "10.65.0.1")]
    path = SimpleNamespace(label="0-0", local=0, remote=0, pairs=pairs)
    world = SimpleNamespace(sites=SimpleNamespace(local=emulation.sites.of(side)), paths=(path,))
    daemon = Daemon(world, folder, {})  # type: ignore[arg-type]
    place = daemon.answer("fullmesh", curve=CURVE)
    policy = f'[[policy]]\nname = "far"\nto = ["10.64.0.0/15"]\nrun = "{place}"\n'
    daemon.write(f"{text}{policy}")
    return daemon


def gives_the_curve(emulation: Emulation, *, lives: bool) -> bool:
    """A connection reaches nearly the curve's most: one that lives on, or within some seconds.

    A receive buffer does not always follow a limit that rises, as it grows only if more is read in a round
    trip than ever before: connections that begin later show the limit.
    """
    wanted = 0.9 * CURVE[-1][1]
    with ExitStack() as stack:
        stream = Stream(emulation, stack)
        if lives:
            until(lambda: stream.mbps() >= wanted, "the throughput of the curve")
            return True
        return any(stream.mbps() >= wanted for _ in range(8))


@pytest.mark.parametrize(("side", "name", "words"), [
    ("local", "tcp_wmem", "send buffer limited"),
    ("remote", "tcp_rmem", "receive window limited"),
])  # fmt: skip
def test_a_low_limit_rises_with_what_is_seen_and_is_put_back(emulation, tmp_path, side, name, words):
    namespace = emulation.sites.of(side)
    give(namespace, name, LOW)
    before = {each: setting(namespace, each) for each in NAMES}
    daemon = beside(emulation, side, tmp_path, '[buffers]\nleast = "64KiB"\nmost = "8MiB"\nevery = "1s"\n')
    daemon.begin()
    try:
        until(lambda: gives_the_curve(emulation, lives=side == "local"), "the throughput of the curve")
        first = daemon.heard(words)
        slow = float(re.findall(r"([0-9.]+) Mbit/s", first)[0])
        assert CURVE[-1][1] > 3 * slow
        last = limit_of(daemon, name)
        assert last["before_bytes"] == LOW and last["adapted"]
        until(lambda: setting(namespace, name)[2] == limit_of(daemon, name)["limit_bytes"], "one limit")
        assert setting(namespace, name)[:2] == [4096, 16384]
        metrics = daemon.ask("metrics")["text"]
        assert f'mptune_daemon_buffer_limit_bytes{{setting="net.ipv4.{name}"}}' in metrics
        events = [event["why"] for event in daemon.ask("events")["events"] if event["what"] == "limit"]
        rises = [why for why in events if name in why]
        assert rises[0].startswith(f"net.ipv4.{name} 128 KiB to 256 KiB: {words} ")
        assert len(rises) >= 3
        if side == "local":
            # The inverse of the answer's curve ends the rise; twice that if the path was disturbed.
            assert WANTED[0] < last["limit_bytes"] <= 2 * WANTED[1] and "of 36 Mbit/s" in first
        assert daemon.kill(signal.SIGTERM) == 0
    finally:
        daemon.end()
    assert {each: setting(namespace, each) for each in NAMES} == before
