"""Parts of mptune that only Linux has."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.linux.host_world import World

collect_ignore_glob = [] if sys.platform == "linux" else ["*"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Settings of a host, and sessions on it."""
    world = World(tmp_path)
    try:
        yield world
    finally:
        world.end()
