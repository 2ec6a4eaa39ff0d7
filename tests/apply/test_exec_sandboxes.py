"""Programs under `mptune exec` that put themselves into a sandbox: no call of the library has one killed."""

import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from mptune.linux import preload
from tests.plugins.exec_world import document
from tests.plugins.needs import Thing, compiler, lack

pytestmark = pytest.mark.needs("linux", "compiler")

#: Everything that the library does to a socket.
EVERYTHING = ["--json", "--cc", "reno", "--buffer", "64KiB"]

#: Asks twice whether there are sandboxes, as libraries do, and connects to itself.
ASKING = """
import ctypes, socket
libc = ctypes.CDLL(None)
assert libc.prctl(22, 2, None) == -1 and libc.syscall(SECCOMP, 2, 0, None) == -1
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
server.accept()[0].close()
client.close()
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Enters the sandbox that its arguments name, and opens a connection."""
    if not preload.LIBRARY.exists():
        lack("programs under mptune exec", Thing("the preloaded library (make agent)", "elsewhere"))
    made = tmp_path_factory.mktemp("sandboxes") / "program"
    command = [
        str(compiler()),
        "-Wall",
        "-Werror",
        "-o",
        str(made),
        str(Path(__file__).with_name("sandboxes.c")),
    ]
    subprocess.run(command, check=True)
    return made


def done(*command: object) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)


def under(*options: str) -> Sequence[str]:
    return [sys.executable, "-m", "mptune.cli", "exec", *options, "--"]


@pytest.mark.parametrize("name", ["options", "few"])
@pytest.mark.parametrize("way", ["prctl", "syscall"])
def test_a_filter_by_the_c_library_is_respected(program, way, name):
    completed = done(*under(*EVERYTHING), program, way, name)
    assert (completed.returncode, completed.stdout) == (0, "done\n"), completed


def test_a_filter_past_the_c_library_is_respected(program):
    completed = done(*under(*EVERYTHING), program, "instruction", "options")
    assert (completed.returncode, completed.stdout) == (0, "done\n"), completed


@pytest.mark.parametrize("way", ["prctl", "syscall", "instruction"])
def test_a_filter_of_whoever_started_the_program_is_respected(program, way):
    completed = done(*under(*EVERYTHING), program, way, "options", program, "none", "none")
    assert (completed.returncode, completed.stdout) == (0, "done\n"), completed


def test_in_a_container_connections_are_described(program):
    """All programs there have a filter, which `mptune exec` has too."""
    completed = done(program, "prctl", "all", *under(*EVERYTHING), program, "none", "none")
    assert (completed.returncode, completed.stdout) == (0, "done\n"), completed
    assert document(completed.stderr)["failed"] == 1


def test_in_a_container_a_further_filter_is_respected(program):
    completed = done(program, "prctl", "all", *under(*EVERYTHING), program, "syscall", "options")
    assert (completed.returncode, completed.stdout) == (0, "done\n"), completed
    inherited = [program, "syscall", "options", program, "none", "none"]
    completed = done(program, "prctl", "all", *under(*EVERYTHING), *inherited)
    assert (completed.returncode, completed.stdout) == (0, "done\n"), completed


def test_whoever_only_asks_about_sandboxes_is_described(program):
    numbers = {"x86_64": 317, "aarch64": 277}
    machine = platform.machine()
    if machine not in numbers:
        lack(
            "programs under mptune exec", Thing("a machine whose number of seccomp(2) is known", "elsewhere")
        )
    code = ASKING.replace("SECCOMP", str(numbers[machine]))
    completed = done(*under(*EVERYTHING), sys.executable, "-c", code)
    assert completed.returncode == 0, completed
    assert len(document(completed.stderr)["connections"]) == 2
