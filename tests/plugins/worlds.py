"""Fixtures of small worlds on a Linux kernel: sites with two interfaces each, daemons and meters in them.

The kernel is this machine's (tests/kernel), or that of the guest in which a test runs (tests/virtual/roles).
A conftest.py imports those that its tests use.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mptune.errors import TrialError
from mptune.linux.sandbox.namespaces import Sites
from tests.plugins import path_world
from tests.plugins.daemon_world import FULLMESH, Daemon, Server, daemon_of
from tests.plugins.meter_world import JoinedSites
from tests.plugins.needs import Thing, lack
from tests.plugins.path_world import World
from tests.plugins.waiting import PATIENCE_S


@pytest.fixture(scope="session")
def may_manage_paths() -> None:
    """The tests of path managers can run here."""
    missing = path_world.lacking()
    if missing is not None:
        lack("path managers on the kernel", missing)


@pytest.fixture(scope="module")
def world(may_manage_paths: None) -> Iterator[World]:
    """Two sites with two interfaces each."""
    with ExitStack() as stack:
        yield World(2, stack)


@pytest.fixture
def daemon(world: World, tmp_path: Path) -> Iterator[Daemon]:
    """A daemon of the sender's side, not begun, whose file gives every connection every path."""
    with daemon_of(world, tmp_path) as daemon_here:
        daemon_here.write(FULLMESH)
        yield daemon_here


@pytest.fixture
def accepting(world: World) -> Iterator[None]:
    """The other side takes what is opened."""
    with world.receiver() as receiver:
        receiver.expect("ready", PATIENCE_S)
        yield


@pytest.fixture
def server(world: World, tmp_path: Path) -> Iterator[Server]:
    folder = tmp_path / "server"
    folder.mkdir()
    server = Server(world, folder, {})
    try:
        yield server
    finally:
        server.end()
        world.sysctl("remote", "userspace")


@pytest.fixture
def joined() -> Iterator[JoinedSites]:
    """Two joined sites; where this machine cannot make them the test is skipped, in CI it fails."""
    with ExitStack() as stack:
        try:
            sites = stack.enter_context(Sites())
        except TrialError as error:
            lack("the meter by itself", Thing(str(error), "elsewhere"))
        if sites.user is not None:  # the devices are made from the test's own process
            lack("the meter by itself", Thing("root", "root"))
        yield JoinedSites(sites)
