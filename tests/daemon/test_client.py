"""A conversation with a stand-in for the daemon."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mptune.daemon.client import Client, NoDaemon, asked
from mptune.errors import MptuneError

Start = Callable[..., Path]


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[Start]:
    """A program that answers the first line with these bytes, and ends."""
    path = tmp_path / "daemon.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def start(answer: bytes) -> Path:
            def serve() -> None:
                there, _ = listener.accept()
                with there:
                    there.recv(4096)
                    there.sendall(answer)

            threading.Thread(target=serve, daemon=True).start()
            return path

        yield start


def test_without_a_daemon_the_error_names_the_socket(tmp_path: Path) -> None:
    with pytest.raises(NoDaemon, match=r"none.sock: no daemon answers: No such file"):
        Client(tmp_path / "none.sock")


def test_the_answer_is_recognised_among_events(stand_in: Start) -> None:
    lines = [{"event": "connections", "at_ns": 1}, {"event": "status", "pid": 7}]
    path = stand_in("".join(json.dumps(line) + "\n" for line in lines).encode())
    assert asked(path, "status")["pid"] == 7


def test_a_refusal_is_an_error(stand_in: Start) -> None:
    path = stand_in(b'{"event": "refused", "reason": "policy.toml: wrong"}\n')
    with pytest.raises(MptuneError, match=r"the daemon: policy.toml: wrong"):
        asked(path, "reload")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(b"", "the daemon has ended"), (b"nonsense\n", "expected a daemon"), (b"[1]\n", "expected a daemon")],
)
def test_what_is_no_daemon_is_named(stand_in: Start, answer: bytes, expected: str) -> None:
    with pytest.raises(NoDaemon, match=expected):
        asked(stand_in(answer), "status")
