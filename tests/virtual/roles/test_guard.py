"""Guard's samples of connections of its own: which buffer holds one up, and what does not."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mptune.linux.sandbox.namespaces import Sites
from tests.plugins.path_world import KIB, Stream
from tests.plugins.trials import SECOND
from tests.plugins.waiting import until


class Exchange(Stream):
    """A connection that sends pieces of a size, the next once the last has arrived, between managed sites."""

    def __init__(self, sites: Sites, piece: int, send_buffer: int, receive_buffer: int) -> None:
        self._piece, self.pieces = piece, 0
        super().__init__(sites, buffers=(send_buffer, receive_buffer))

    def _send(self) -> None:
        while self._more:
            self._sender.sendall(bytes(self._piece))
            assert self._sender.recv(1) == b"."
            self.pieces += 1
        self._sender.shutdown(socket.SHUT_WR)

    def _receive(self) -> None:
        missing = self._piece
        while data := self._receiver.recv(1 << 16):
            missing -= len(data)
            if missing == 0:
                self._receiver.sendall(b".")
                missing = self._piece


@contextmanager
def exchange(world, piece, send_buffer, receive_buffer) -> Iterator[Exchange]:
    made = Exchange(world.sites, piece, send_buffer, receive_buffer)
    try:
        yield made
    finally:
        made.end()


def sampled_for(managed, ns):
    """The summary of the only connection's samples once they cover this long."""

    def enough():
        sampled = managed.report()["sampled"]
        return sampled if sampled and sampled["span_ns"] >= ns else None

    return until(enough)


@pytest.mark.usefixtures("may_manage_paths")
def test_a_sender_that_waits_for_its_application_is_not_held_up(world):
    """A piece fills a fifth of the buffers, and the next one comes when it has arrived."""
    with (
        world.managed("guard") as managed,
        exchange(world, piece=100 * KIB, send_buffer=512 * KIB, receive_buffer=512 * KIB),
    ):
        sampled = sampled_for(managed, 3 * SECOND)
        assert sampled["receive_limited_ns"] + sampled["send_limited_ns"] < 0.1 * sampled["span_ns"]


@pytest.mark.usefixtures("may_manage_paths")
def test_a_small_send_buffer_is_distinguished_from_a_small_receive_buffer(world):
    """The queues of the two paths hold 120 kB before a subflow's window is full."""
    small, large, endless = 16 * KIB, 1024 * KIB, 8192 * KIB
    for which, sizes in {"send": (small, large), "receive": (large, small)}.items():
        with world.managed("guard", promised_gain=1000) as managed, exchange(world, endless, *sizes):
            sampled = sampled_for(managed, 3 * SECOND)
        other = {"send": "receive", "receive": "send"}[which]
        assert sampled[f"{which}_limited_ns"] > 0.5 * sampled["span_ns"], (which, sampled)
        assert sampled[f"{other}_limited_ns"] < 0.1 * sampled["span_ns"], (which, sampled)
