"""SIGTERM ends the agent in every role, whatever it waits for; what never ends by itself is no input."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mptune.linux import agent
from tests.kernel.trust_world import Realm, settled
from tests.plugins.waiting import PATIENCE_S

pytestmark = pytest.mark.needs("root", "namespaces")

#: They put back what others have left when they were ended: only the end of their work ends them.
LASTING = {"guardian", "reverter"}


def roles() -> list[str]:
    """As the agent names them."""
    done = subprocess.run([agent.program(), "no-role"], capture_output=True, text=True, check=False)
    names = done.stderr.partition("expected one of ")[2].partition(", --netns")[0].split(", ")
    assert {"host", "daemon", "settings"} <= set(names) and set(names) >= LASTING
    return [name for name in names if name not in LASTING]


ROLES = roles() if agent.PROGRAM.exists() else ["host"]


@pytest.fixture(scope="module")
def realm() -> Iterator[Realm]:
    realm = Realm()
    try:
        realm.run("os.mkdir('/run/user'); open('/run/p.toml', 'w').close()")
        yield realm
    finally:
        realm.close()


def words(role: str) -> list[str]:
    return [role, "--policy", "/run/p.toml"] if role == "daemon" else [role]


def ends(process: Any, number: int) -> None:
    """By a signal, after it has taken that over."""
    settled(process, number)
    assert process.poll() is None
    process.send_signal(number)
    process.wait(PATIENCE_S)


@pytest.fixture
def full() -> Iterator[int]:
    """The writing end of a pipe in which there is no room, and which nobody reads."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b"x")
    except BlockingIOError:
        os.set_blocking(writing, True)
        yield writing
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("role", ROLES)
def test_a_signal_ends_it_while_it_waits(realm, role, number):
    ends(realm.agent(*words(role)), number)


@pytest.mark.parametrize("role", ROLES)
def test_sigterm_ends_it_although_nobody_reads_its_output(realm, role, full):
    ends(realm.agent(*words(role), stdout=full, stderr=full), signal.SIGTERM)


@pytest.mark.parametrize("role", ROLES)
def test_sigterm_ends_it_although_whoever_started_it_has_blocked_that(realm, role):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        process = realm.agent(*words(role))
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    settled(process, signal.SIGHUP)  # blocked, it would be taken for SIGTERM's handler
    ends(process, signal.SIGTERM)


@pytest.mark.parametrize("role", [role for role in ROLES if role not in ("daemon", "awake")])
def test_an_endless_input_ends_with_a_line(realm, role):
    """A daemon reads none, and what only waits for its end has no use for lines."""
    with Path("/dev/zero").open() as endless:
        process = realm.agent(*words(role), stdin=endless)
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1, (output, errors)
    assert json.loads(output.splitlines()[-1])["event"] == "error" and "too long" in output


def test_a_policy_file_that_becomes_a_pipe_leaves_the_daemon_as_it_is(realm):
    process = realm.agent("daemon", "--policy", "/run/p.toml", stdin=subprocess.DEVNULL)
    assert "ready: " in process.stderr.readline()
    realm.run("os.remove('/run/p.toml'); os.mkfifo('/run/p.toml')")
    process.send_signal(signal.SIGHUP)
    line = process.stderr.readline()
    assert "reload refused: /run/p.toml: expected a policy file, found a named pipe" in line
    ends(process, signal.SIGTERM)
    realm.run("os.remove('/run/p.toml'); open('/run/p.toml', 'w').close()")
