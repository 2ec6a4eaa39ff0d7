"""The daemon after lost events: every connection has the subflows of its policy again."""

import os
import random
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from mptune.daemon.client import Client
from tests.plugins.crowd import FAR, NEAR, Crowd, crowd_of, dropped, forge_end
from tests.plugins.daemon_world import FULLMESH, Daemon, daemon_of
from tests.plugins.netlink import inside
from tests.plugins.path_world import World
from tests.plugins.waiting import until
from tests.plugins.watching import every, reported, watching

pytestmark = pytest.mark.usefixtures("may_manage_paths")


@contextmanager
def stopped(daemon: Daemon) -> Iterator[None]:
    """It reads nothing inside the block."""
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(daemon.pid, signal.SIGCONT)


def counts(daemon: Daemon) -> tuple[int, int]:
    """Its belief: connections and their subflows."""
    status = daemon.policy("default")
    return status["connections"], status["active"] + status["standby"]


def has(daemon: Daemon, world: World, connections: int, subflows: int) -> None:
    """Wait until all are as they should be, in the kernel and in the daemon's mind."""
    expected = connections, connections * subflows
    until(lambda: counts(daemon) == expected, f"{expected} connections and subflows")
    with watching(world) as child:
        reported(child, every(connections, subflows))


def tokens(world: World) -> list[int]:
    with watching(world) as child:
        return [
            connection.token for connection in reported(child, lambda census: census.connections).connections
        ]


def resync(daemon: Daemon) -> dict[str, Any]:
    """Its figures about lost events."""
    resynced: dict[str, Any] = daemon.ask("status")["resync"]
    return resynced


def test_connections_whose_establishment_was_missed_get_their_subflows(daemon, world, accepting):
    daemon.begin()
    with crowd_of(world) as crowd:
        with stopped(daemon):
            crowd.open(100)
            crowd.lose_events()
            crowd.speak()
        has(daemon, world, 100, 2)
        counted = resync(daemon)
        assert counted["overruns"] >= 1 and counted["lost_events"] >= 100
        assert counted["mended"]["connections_begun"] >= 100
    until(lambda: counts(daemon) == (0, 0), "their end")
    assert "events were lost" in daemon.heard("resynchronised:")


def test_a_connection_that_takes_the_ends_of_another_among_lost_events_is_a_new_one(daemon, world, accepting):
    daemon.begin()
    with crowd_of(world) as crowd:
        crowd.open(1)
        crowd.speak()
        has(daemon, world, 1, 2)
        port = crowd.pairs[0][0].getsockname()[1]
        with stopped(daemon):
            crowd.lose_events()
            crowd.close(0, at_once=True)
            crowd.open(1, port)
            crowd.speak()
        has(daemon, world, 1, 2)


def test_overruns_at_any_moment_leave_every_connection_with_its_subflows(daemon, world, accepting):
    rng = random.Random(20261124)
    daemon.begin()
    before = dropped(world.sites.local)

    def step(crowd: Crowd) -> None:
        first = len(crowd.pairs)
        crowd.open(rng.randint(1, 30))
        if rng.random() < 0.8:
            crowd.speak(first)
        for _ in range(rng.randint(0, 10)):
            crowd.close(rng.randrange(len(crowd.pairs)), at_once=rng.random() < 0.3)

    with crowd_of(world) as crowd:
        for _ in range(8):
            step(crowd)
            with stopped(daemon):
                for _ in range(rng.randint(0, 3)):
                    step(crowd)
                crowd.churn(100 * rng.randint(3, 12))
                for _ in range(rng.randint(0, 3)):
                    step(crowd)
        crowd.speak()
        assert dropped(world.sites.local) > before
        has(daemon, world, len(crowd.pairs), 2)
        # What is refused as a connection ends is no harm.
        refused = {event["token"] for event in daemon.ask("events")["events"] if event["what"] == "refused"}
        assert not refused & set(tokens(world))
    until(lambda: counts(daemon) == (0, 0), "their end")


def test_what_was_left_alone_stays_so_after_lost_events(daemon, world, accepting):
    daemon.begin()
    with crowd_of(world) as crowd, Client(daemon.socket) as client:
        client.ask("suspend", policy="default")
        crowd.open(3)
        crowd.speak()
        client.close()
        until(lambda: not daemon.policy("default")["suspended"], "the end of the suspension")
        with stopped(daemon):
            crowd.lose_events()
        until(lambda: resync(daemon)["overruns"], "a look at what there is")
        crowd.open(1)
        crowd.speak()
        until(lambda: counts(daemon) == (1, 2), "the new one alone")


def test_a_connection_to_a_program_without_mptcp_is_not_taken_for_one(daemon, world, accepting):
    daemon.begin()
    plain = inside(world.sites.remote, lambda: socket.create_server((FAR, 0)))
    with plain, crowd_of(world) as crowd:

        def connected() -> socket.socket:
            connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
            connection.bind((NEAR, 0))
            connection.connect(plain.getsockname())
            return connection

        with inside(world.sites.local, connected) as near, plain.accept()[0] as far:
            near.sendall(b"x")
            assert far.recv(1) == b"x"
            with stopped(daemon):
                crowd.lose_events()
            until(lambda: resync(daemon)["overruns"], "a look at what there is")
            assert counts(daemon) == (0, 0)
            assert daemon.policy("default")["errors"] == 0


def test_a_reload_looks_at_everything_again(daemon, world, accepting):
    daemon.begin()
    with crowd_of(world) as crowd:
        crowd.open(1)
        crowd.speak()
        has(daemon, world, 1, 2)
        forge_end(world.sites.local, *tokens(world))
        until(lambda: counts(daemon) == (0, 0), "what it was told")
        assert daemon.ask("reload")["event"] == "reloaded"
        has(daemon, world, 1, 2)
        assert resync(daemon)["mended"]["connections_found"] == 1


def test_it_looks_at_everything_now_and_then(world, tmp_path, accepting):
    with daemon_of(world, tmp_path, MPTUNE_RESYNC_MS="300") as daemon, crowd_of(world) as crowd:
        daemon.write(FULLMESH)
        daemon.begin()
        crowd.open(1)
        crowd.speak()
        has(daemon, world, 1, 2)
        mended = lambda: resync(daemon)["mended"]["connections_found"]  # noqa: E731
        for _ in range(2):
            before = mended()
            forge_end(world.sites.local, *tokens(world))
            until(partial(lambda before: mended() > before, before), "the connection")
            has(daemon, world, 1, 2)
        counted = resync(daemon)
        assert (counted["lost_events"], counted["overruns"]) == (0, 0)
        # What it mends is not what merely happens in the meantime.
        crowd.churn(300)
        until(lambda: resync(daemon)["times"] > counted["times"] + 2, "further looks")
        assert resync(daemon)["mended"] == counted["mended"]
