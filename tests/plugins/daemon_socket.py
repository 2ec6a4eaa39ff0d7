"""A stand-in for the daemon's socket, for tests of what reads from it."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from mptune.monitor import daemon


@pytest.fixture
def listener(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Listens where the daemon would."""
    path = tmp_path / "daemon.sock"
    monkeypatch.setenv(daemon.VARIABLE, str(path))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        yield server
