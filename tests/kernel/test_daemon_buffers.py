"""The daemon adapts the limits of the buffers: on a far path of the emulator, and whatever ends it."""

import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mptune.linux.addresses import Side
from tests.kernel.test_emulator import Emulation, links
from tests.plugins.daemon_world import FULLMESH, Daemon
from tests.plugins.kills import everywhere, kill
from tests.plugins.netlink import inside
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
#: Bounds in which no usual limit is, so that both are changed at once.
NARROW = '[buffers]\nleast = "5MiB"\nmost = "5MiB"\nevery = "1s"\n'


def setting(namespace: str, name: str) -> list[int]:
    """The three values of a setting."""
    file = Path("/proc/sys/net/ipv4", name)
    return [int(word) for word in inside(namespace, lambda: file.read_text(encoding="ascii")).split()]


def give(namespace: str, name: str, limit: int) -> None:
    value = f"4096 16384 {limit}"
    inside(namespace, lambda: Path("/proc/sys/net/ipv4", name).write_text(value, encoding="ascii"))


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


def limit_of(daemon: Daemon, name: str) -> dict[str, Any]:
    limits: list[dict[str, Any]] = daemon.ask("status")["buffers"]["limits"]
    return next(limit for limit in limits if limit["name"] == f"net.ipv4.{name}")


def gives_the_curve(emulation: Emulation, *, lives: bool) -> bool:
    """Whether a connection reaches nearly the curve's most: one that lives on, or within some seconds.

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


@pytest.mark.measures("the throughput over an emulated path")
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


def bounded(daemon: Daemon) -> None:
    daemon.write(f"{NARROW}{FULLMESH}")


@pytest.fixture
def present(daemon: Daemon) -> dict[str, list[int]]:
    """Limits outside the bounds, which the namespace has at first."""
    for name in NAMES:
        give(daemon.world.sites.local, name, 4 * MIB)
    bounded(daemon)
    return limits(daemon)


def limits(daemon: Daemon) -> dict[str, list[int]]:
    return {name: setting(daemon.world.sites.local, name) for name in NAMES}


IN_BOUNDS = {name: [4096, 16384, 5 * MIB] for name in NAMES}


def test_limits_outside_the_bounds_are_brought_within_them_and_put_back(daemon, present):
    daemon.begin()
    assert limits(daemon) == IN_BOUNDS
    assert "net.ipv4.tcp_wmem 4 MiB to 5 MiB: 4 MiB was outside the bounds" in daemon.heard("limit: ")
    assert daemon.kill(signal.SIGTERM) == 0
    assert limits(daemon) == present and not daemon.run.exists()


def test_a_daemon_that_is_killed_leaves_no_limit(daemon, present):
    daemon.begin()
    assert daemon.kill() == -signal.SIGKILL
    until(lambda: limits(daemon) == present, "the limits before")


def test_killed_anywhere_with_its_watchdog_it_leaves_nothing_to_the_next(daemon, present):
    def kills_at(number: int) -> bool:
        daemon.start(MPTUNE_STOP_AT=f"daemon {number}")
        if not daemon.stops():
            assert limits(daemon) == present
            return False
        guardians = daemon.guardians()
        for guardian in guardians:
            os.kill(guardian, signal.SIGSTOP)
        daemon.kill()
        for guardian in guardians:
            kill(guardian)
        assert daemon.done("--restore").returncode == 0
        assert limits(daemon) == present, number
        return True

    assert everywhere("daemon, limits of the buffers", kills_at) > 8


def test_a_reload_takes_the_limits_up_and_gives_them_back(daemon, present):
    daemon.write(FULLMESH)
    daemon.begin()
    assert limits(daemon) == present and daemon.ask("status")["buffers"] is None
    bounded(daemon)
    daemon.ask("reload")
    assert limits(daemon) == IN_BOUNDS
    daemon.write(f'[buffers]\nleast = "6MiB"\nmost = "8MiB"\n{FULLMESH}')
    daemon.ask("reload")
    assert {limit_of(daemon, name)["limit_bytes"] for name in NAMES} == {6 * MIB}
    assert {limit_of(daemon, name)["before_bytes"] for name in NAMES} == {4 * MIB}
    daemon.write(FULLMESH)
    daemon.ask("reload")
    assert limits(daemon) == present and daemon.ask("status")["buffers"] is None


def test_what_somebody_else_sets_is_not_fought_and_stays(daemon, present):
    daemon.begin()
    give(daemon.world.sites.local, "tcp_wmem", 3 * MIB)
    assert "somebody has set it to 3 MiB" in daemon.heard("overruled: net.ipv4.tcp_wmem")
    assert not limit_of(daemon, "tcp_wmem")["adapted"] and limit_of(daemon, "tcp_rmem")["adapted"]
    daemon.kill(signal.SIGTERM)
    assert limits(daemon) == {**present, "tcp_wmem": [4096, 16384, 3 * MIB]}
    assert "somebody else has set it" in daemon.heard("kept: net.ipv4.tcp_wmem")
