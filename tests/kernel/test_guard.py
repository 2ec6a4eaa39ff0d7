"""Guard on the running kernel: what its samples show of the buffers, and what it makes of them."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from mptune.linux.sandbox.namespaces import Sites
from mptune.testbeds import create
from mptune.topology import Topology, load
from mptune.trial import Observation
from tests.plugins import trials, two_paths
from tests.plugins.path_world import KIB, Stream
from tests.plugins.trials import SECOND
from tests.plugins.two_paths import Uplink
from tests.plugins.waiting import until


@pytest.fixture
def paths(tmp_path):
    """A topology of a fast path, F-X, and another, O-X."""

    def made(rate: str, rtt: str) -> Topology:
        path = tmp_path / "topology.toml"
        path.write_text(two_paths.text(Uplink("Fast", "20 Mbit/s", "20 ms"), Uplink("Other", rate, rtt)))
        return load(path)

    return made


def mbps(observation: Observation) -> float:
    return observation.in_order_bytes * 8e3 / observation.duration_ns


def number(observation: Observation, name: str) -> float:
    return float(observation.metadata[name])


@pytest.mark.measures("which segments meet a full queue, and so what a connection gives")
def test_a_path_that_costs_more_than_it_brings_is_made_standby(side_by_side, paths):
    """64 KiB hold 100 ms of the fast path, and only 2 Mbit/s of one with 200 ms."""
    trial = partial(trials.trial, paths("5 Mbit/s", "200 ms"), buffer_bytes=64 * KIB, duration_ns=12 * SECOND)
    observations = side_by_side({pm: trial(pm=pm) for pm in ("guard", "fullmesh")})
    assert "O-X standby" in observations["guard"].metadata["path_manager_changes"]
    assert "F-X standby" not in observations["guard"].metadata["path_manager_changes"]
    assert mbps(observations["guard"]) > 2 * mbps(observations["fullmesh"])
    assert observations["guard"].metadata["path_manager_problems"] == ""


@pytest.mark.measures("which segments meet a full queue, and so what a connection gives")
def test_paths_that_both_help_stay_active(side_by_side, paths):
    trial = partial(trials.trial, paths("10 Mbit/s", "40 ms"), buffer_bytes=4096 * KIB)
    observations = side_by_side({pm: trial(pm=pm, duration_ns=8 * SECOND) for pm in ("guard", "fullmesh")})
    assert observations["guard"].metadata["path_manager_changes"] == ""
    assert mbps(observations["guard"]) > 0.9 * mbps(observations["fullmesh"]) > 20


def test_what_guard_lets_through_arrives_whole(side_by_side, paths):
    """The receiver compares every byte; the harmful path goes on standby meanwhile."""
    trial = partial(trials.trial, paths("5 Mbit/s", "200 ms"), buffer_bytes=64 * KIB)
    (observation,) = side_by_side({"guard": trial(pm="guard", transfer_bytes=8_000_001)}).values()
    assert observation.in_order_bytes == 8_000_001
    assert "O-X standby" in observation.metadata["path_manager_changes"]


@pytest.mark.measures("how much of the time the buffers are full")
def test_the_buffers_hold_up_a_connection_as_long_as_they_do_in_the_simulator(side_by_side, paths):
    """Share of the time; guard is to promise itself ten times the throughput, so that it only watches."""
    watching = partial(
        trials.trial, pm="guard", pm_options={"promised_gain": 1000}, duration_ns=6 * SECOND, seed=2
    )
    alike, unlike = paths("20 Mbit/s", "20 ms"), paths("5 Mbit/s", "200 ms")
    asked = {
        "plenty": watching(alike, buffer_bytes=4096 * KIB),
        "small": watching(unlike, buffer_bytes=128 * KIB),
        "smaller": watching(unlike, buffer_bytes=64 * KIB),
    }
    simulator = create("simulated")
    shares = {}
    for name, seen in side_by_side(asked).items():
        share = number(simulator.run(asked[name]), "window_limited_ns") / (6 * SECOND)
        shares[name] = number(seen, "window_limited_ns") / number(seen, "sampled_ns")
        assert shares[name] == pytest.approx(share, abs=0.25), name
        assert number(seen, "sampled_ns") > 5 * SECOND
    # At the beginning the window of a large receive buffer is small as well.
    assert shares["plenty"] < 0.4 and min(shares["small"], shares["smaller"]) > 0.7


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
@pytest.mark.measures("how much of the time the buffers are full")
def test_a_sender_that_waits_for_its_application_is_not_held_up(world):
    """A piece fills a fifth of the buffers, and the next one comes when it has arrived."""
    with (
        world.managed("guard") as managed,
        exchange(world, piece=100 * KIB, send_buffer=512 * KIB, receive_buffer=512 * KIB),
    ):
        sampled = sampled_for(managed, 3 * SECOND)
        assert sampled["receive_limited_ns"] + sampled["send_limited_ns"] < 0.1 * sampled["span_ns"]


@pytest.mark.usefixtures("may_manage_paths")
@pytest.mark.measures("how much of the time the buffers are full")
def test_a_small_send_buffer_is_distinguished_from_a_small_receive_buffer(world):
    """The queues of the two paths hold 120 kB before a subflow's window is full."""
    small, large, endless = 16 * KIB, 1024 * KIB, 8192 * KIB
    for which, sizes in {"send": (small, large), "receive": (large, small)}.items():
        with world.managed("guard", promised_gain=1000) as managed, exchange(world, endless, *sizes):
            sampled = sampled_for(managed, 3 * SECOND)
        other = {"send": "receive", "receive": "send"}[which]
        assert sampled[f"{which}_limited_ns"] > 0.5 * sampled["span_ns"], (which, sampled)
        assert sampled[f"{other}_limited_ns"] < 0.1 * sampled["span_ns"], (which, sampled)
