"""An answer that becomes the policy of a running daemon on one of two machines, and goes again."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mptune.linux import agent
from mptune.machines.ssh import VARIABLE
from tests.apply.worlds import make_runs
from tests.hosts.test_verify import of
from tests.hosts.traffic import Ends, connected, exchange, mptcp
from tests.hosts.world import World
from tests.plugins.program import command_line
from tests.plugins.waiting import until

POLICY = "/etc/mptune/policy.toml"
SOCKET = "/run/mptune/daemon.sock"
PROGRAM = "/tmp/mptune-agent"
#: What alice's operator wrote.
OWN = '[[policy]]\nname = "own"\nto = ["192.0.2.0/24"]\npolicy = "default"\n'
#: The daemon's words for what it knows of itself, asked by a program of the machine's own.
ASK = f"""import socket
one = socket.socket(socket.AF_UNIX)
one.connect({SOCKET!r})
one.sendall(b'{{"action": "status"}}\\n')
print(next(line for line in one.makefile() if '"event":"status"' in line.replace(" ", "")))
"""


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("answered")
    make_runs(place, "grid")
    return place / "grid"


@pytest.fixture
def daemon(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts alice's daemon, which ends with the test."""
    monkeypatch.setenv(VARIABLE, str(world.bin / "ssh"))
    started: list[subprocess.Popen[bytes]] = []
    program = world.alice.file(PROGRAM)
    program.write_bytes(agent.program().read_bytes())
    program.chmod(0o755)

    def start() -> subprocess.Popen[bytes]:
        process = world.alice.start(PROGRAM, "daemon")
        started.append(process)
        until(lambda: process.poll() is None and world.alice.file(SOCKET).exists(), "the daemon's socket")
        return process

    yield start
    # What was started is the program that entered the machine; the daemon itself has to hear it.
    for number in daemons(world):
        world.alice.run("kill", "-TERM", str(number))
    for process in started:
        process.communicate()
    program.unlink()
    world.alice.sh("rm -rf /etc/mptune")


def daemons(world: World) -> list[int]:
    """Alice's processes of that role."""
    return [number for number, _, words in world.alice.processes() if words[1:2] == ["daemon"]]


def names(world: World) -> list[str]:
    """The policies of alice's daemon."""
    status: dict[str, Any] = json.loads(world.alice.run("python3", "-c", ASK).stdout)
    return [policy["name"] for policy in status["policies"]]


def subflows(ends: Ends, count: int) -> None:
    """Wait for this many."""
    exchange(ends)
    until(lambda: mptcp(ends.client).subflows == count, f"{count} subflows")


def test_a_running_daemon_takes_the_answer_and_gives_it_back(world, answered, tmp_path, daemon):
    run = of(world, answered, tmp_path / "my-sites", ["A-X", "B-X"])
    world.alice.sh(f"mkdir -p /etc/mptune && cat > {POLICY} <<'END'\n{OWN}END")
    daemon()
    assert "my-sites" not in names(world)
    for words in (("apply", run, "--daemon"), ("rollback", run)):
        done = subprocess.run(command_line(*words), capture_output=True, text=True, check=False)
        assert done.returncode == 0, (done.stdout, done.stderr)
        if words[0] == "apply":
            assert {"own", "my-sites"} <= set(names(world))
            with connected(world) as ends:
                subflows(ends, 2)
    assert "my-sites" not in names(world)
    assert world.alice.file(POLICY).read_text() == OWN


def test_without_a_policy_file_of_its_own_a_machine_returns_to_the_default(world, answered, tmp_path, daemon):
    """The file is gone with the rollback; the daemon that began with it goes on without policies."""
    run = of(world, answered, tmp_path / "my-sites", ["A-X", "B-X"])
    done = subprocess.run(command_line("apply", run, "--daemon"), capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "No daemon runs there" in done.stdout, (done.stdout, done.stderr)
    daemon()
    assert "my-sites" in names(world)
    done = subprocess.run(command_line("rollback", run), capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert not world.alice.file(POLICY).exists()
    assert "my-sites" not in names(world)
