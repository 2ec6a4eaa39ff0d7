"""The daemon brings the limits of the buffers within bounds, and puts them back whatever ends it.

How it adapts them is held on a guest's kernel (tests/virtual/roles/test_daemon_buffers.py).
"""

import os
import signal

import pytest

from tests.plugins.daemon_world import FULLMESH, Daemon, give, limit_of, setting
from tests.plugins.kills import everywhere, kill
from tests.plugins.waiting import until

pytestmark = pytest.mark.usefixtures("may_manage_paths")

MIB = 1 << 20
NAMES = ("tcp_wmem", "tcp_rmem")
#: Bounds in which no usual limit is, so that both are changed at once.
NARROW = '[buffers]\nleast = "5MiB"\nmost = "5MiB"\nevery = "1s"\n'


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
