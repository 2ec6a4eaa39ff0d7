"""`mptune exec --supervise`: a real program whose sockets another process makes, over loopback."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mptune.apply import exec as programs
from mptune.linux import agent
from tests.plugins.needs import Thing, lack
from tests.plugins.waiting import PATIENCE_S, until

pytestmark = pytest.mark.needs("linux")


@pytest.fixture(autouse=True)
def able() -> None:
    if not agent.PROGRAM.exists():
        lack("supervised programs", Thing("the agent (make agent)", "elsewhere"))
    if not programs._can_supervise():
        lack("supervised programs", Thing("user notifications of seccomp", "elsewhere"))


def command(code: str, *options: str) -> list[str]:
    """Command line of a supervised Python program."""
    given = ["--supervise", *(options or ("--cc", "reno")), "--", sys.executable, "-c", code]
    return [sys.executable, "-m", "mptune.cli", "exec", *given]


def done(code: str, *options: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(code, *options), capture_output=True, text=True, check=False, timeout=PATIENCE_S, **more
    )


def supervisors(mark: str) -> list[int]:
    """Processes that make sockets for the program whose code has this in it."""
    return list(_marked(mark))


def _marked(mark: str) -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] == str(agent.PROGRAM).encode() and any(mark.encode() in word for word in words):
            yield int(folder.name)


@pytest.fixture
def mark(tmp_path) -> str:
    """Text that no other program prints."""
    return f"# {tmp_path}\n"


@pytest.mark.parametrize(("code", "expected"), [("raise SystemExit(7)", 7), ("os.kill(os.getpid(), 9)", -9)])
def test_the_process_is_the_programs(code, expected):
    assert done(f"import os\n{code}").returncode == expected


def test_a_program_that_cannot_be_started_is_reported():
    asked = [str(agent.PROGRAM), "exec", "/nowhere/program", "program"]
    refused = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1
    assert refused.stderr.startswith("mptune: error: COMMAND: cannot start /nowhere/program: ")


def test_a_socket_has_what_was_asked_for_and_flags_as_the_program_wants_them():
    completed = done(
        "import fcntl, os, socket\n"
        "other = socket.socket()\n"
        "print(bool(fcntl.fcntl(other, fcntl.F_GETFL) & os.O_NONBLOCK))\n"
        "one = socket.socket(type=socket.SOCK_STREAM | socket.SOCK_NONBLOCK)\n"
        "print(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b'\\0').decode(),"
        " one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF), os.get_inheritable(one.fileno()),"
        " bool(fcntl.fcntl(one, fcntl.F_GETFL) & os.O_NONBLOCK))",
        *("--cc", "reno", "--buffer", "64KiB"),
    )
    assert completed.stdout.split() == ["False", "reno", str(2 << 16), "False", "True"], completed.stderr


def test_it_ends_with_the_last_process_of_the_program(mark):
    code = (
        f"{mark}import os, socket, sys\n"
        "if os.fork() == 0: sys.stdin.read(); socket.socket(); os._exit(0)\n"
        "socket.socket(); print('left', flush=True)"
    )
    process = subprocess.Popen(command(code), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline() == "left\n" and process.wait(PATIENCE_S) == 0
    assert len(supervisors(mark.strip())) == 1, "the child may still make sockets"
    process.stdin.close()
    until(lambda: not supervisors(mark.strip()), "the end of the process that makes sockets")
    process.stdout.close()


def test_it_holds_no_file_of_the_program(mark):
    """A pipe ends when the program has closed it, whoever makes its sockets."""
    code = (
        f"{mark}import os, sys\nprint('said', flush=True); sys.stderr.close(); os.close(1); sys.stdin.read()"
    )
    process = subprocess.Popen(command(code), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.read() == "said\n" and process.poll() is None
    process.stdin.close()
    assert process.wait(PATIENCE_S) == 0
    process.stdout.close()


def test_if_it_is_killed_connections_live_on_and_new_sockets_fail(mark):
    code = (
        f"{mark}import errno, socket\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "client = socket.create_connection(server.getsockname())\n"
        "peer = server.accept()[0]\n"
        "print('connected', flush=True); input()\n"
        "client.sendall(b'on'); print(peer.recv(2).decode())\n"
        "try: socket.socket()\n"
        "except OSError as error: print(errno.errorcode[error.errno])\n"
        "socket.socket(socket.AF_UNIX).close()"
    )
    process = subprocess.Popen(command(code), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "connected\n"
    (supervisor,) = supervisors(mark.strip())
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: not supervisors(mark.strip()), "its end")
    assert process.communicate("\n", timeout=PATIENCE_S)[0] == "on\nENOSYS\n"
    assert process.returncode == 0


def test_a_program_with_too_many_files_open_gets_that_error():
    completed = done(
        "import errno, resource, socket\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))\n"
        "held = []\n"
        "try:\n    while True: held.append(socket.socket())\n"
        "except OSError as error: print(errno.errorcode[error.errno], 5 < len(held) < 20)"
    )
    assert completed.stdout == "EMFILE True\n", completed.stderr


def test_children_and_threads_have_it_too():
    completed = done(
        "import socket, subprocess, sys, threading\n"
        "made = []\n"
        "def make():\n"
        "    for _ in range(100):\n"
        "        with socket.socket() as one: made.append(one.getsockopt(6, 13, 16)[:5])\n"
        "every = [threading.Thread(target=make) for _ in range(8)]\n"
        "for one in every: one.start()\n"
        "for one in every: one.join()\n"
        "print(len(made), set(made), flush=True)\n"
        "child = 'import socket; print(socket.socket().getsockopt(6, 13, 16)[:5])'\n"
        "subprocess.run([sys.executable, '-c', child])"
    )
    assert completed.stdout == "800 {b'reno\\x00'}\nb'reno\\x00'\n", completed.stderr
