"""`mptune exec` without a network: what it asks for and refuses, how it ends, what it makes of lines."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mptune.apply import exec as programs
from mptune.cli import app
from mptune.errors import InputError, MptuneError
from mptune.linux import preload
from mptune.linux.preload.program import Obstacle, Program
from mptune.linux.preload.statistics import collected, gathered
from tests.plugins.answers import ANSWER
from tests.plugins.waiting import until

pytestmark = pytest.mark.needs("linux")

TRUE = [sys.executable, "-c", ""]


@pytest.fixture(autouse=True)
def library(tmp_path, monkeypatch):
    """Nothing here is loaded, so that it need not be built."""
    file = tmp_path / "library.so"
    file.touch()
    monkeypatch.setattr(preload, "LIBRARY", file)
    return file


def run_directory(path: Path, **changes: object) -> Path:
    """A run directory as far as it is read here."""
    path.mkdir()
    (path / "config.json").write_text(json.dumps({"kind": "mptune run"}))
    answer = ANSWER | {"obs_bytes": 655360, "buffer_mode": "fixed", "protocol": "mptcp"} | changes
    (path / "result.json").write_text(json.dumps(answer))
    return path


@pytest.mark.parametrize("own", [None, "7"])
def test_the_program_has_the_threads_that_its_user_gives_it(own: str | None):
    # This program limits its own, by a variable that a program with numpy would inherit.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": own or ""}
    if own is None:
        del environment["OPENBLAS_NUM_THREADS"]
    shown = "import os; print(os.environ.get('OPENBLAS_NUM_THREADS'))"
    command = [
        sys.executable,
        "-m",
        "mptune.cli",
        "exec",
        "--",
        sys.executable,
        "-c",
        shown,
    ]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.returncode) == (f"{own}\n", 0), ran.stderr


def test_the_environment_carries_the_settings(library, monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", f"other.so {library}:third.so")
    monkeypatch.setenv("GODEBUG", "http2client=0")
    planned = programs.plan(TRUE, programs.Wanted(cc="reno", buffer_bytes=8192))
    assert planned.environment == {
        "LD_PRELOAD": f"{library}:other.so:third.so",
        "MPTUNE_EXEC_PROTOCOL": "mptcp",
        "MPTUNE_EXEC_CC": "reno",
        "MPTUNE_EXEC_BUFFER": "8192",
        "MPTUNE_EXEC_STATS": "",
        "MPTUNE_EXEC_FORCE": "",
        "MPTUNE_EXEC_FILTERS": planned.environment["MPTUNE_EXEC_FILTERS"],  # of this process: tests of exec
        "GODEBUG": "http2client=0,multipathtcp=1",
    }
    assert planned.summary == "MPTCP, reno, buffers of 8 KiB"


def test_a_choice_of_go_that_is_there_stays(monkeypatch):
    monkeypatch.setenv("GODEBUG", "multipathtcp=0")
    assert "GODEBUG" not in programs.plan(TRUE, programs.Wanted()).environment


def test_plain_tcp_leaves_go_alone_too(monkeypatch):
    monkeypatch.delenv("GODEBUG", raising=False)
    planned = programs.plan(TRUE, programs.Wanted(protocol="tcp"))
    assert planned.environment["MPTUNE_EXEC_PROTOCOL"] == "tcp" and "GODEBUG" not in planned.environment


def test_a_missing_library_and_one_that_the_loader_cannot_name_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(preload, "LIBRARY", tmp_path / "none.so")
    with pytest.raises(MptuneError, match=r"none\.so is missing: run `make setup`"):
        programs.plan(TRUE, programs.Wanted())
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "l.so").touch()
    monkeypatch.setattr(preload, "LIBRARY", tmp_path / "a b" / "l.so")
    with pytest.raises(MptuneError, match="LD_PRELOAD cannot take"):
        programs.plan(TRUE, programs.Wanted())


def test_the_answer_of_a_run(tmp_path):
    fixed = programs.from_run(run_directory(tmp_path / "fixed"))
    assert (fixed.protocol, fixed.cc, fixed.buffer_bytes) == ("mptcp", "cubic", 655360)
    auto = programs.from_run(run_directory(tmp_path / "auto", buffer_mode="auto"))
    assert auto.buffer_bytes is None and "net.ipv4.tcp_wmem and tcp_rmem" in auto.notes[1]
    tcp = programs.from_run(run_directory(tmp_path / "tcp", protocol="tcp"))
    assert tcp.protocol == "tcp"
    other = programs.from_run(run_directory(tmp_path / "other", stack="v0.9x (the papers' kernels)"))
    assert "which this kernel does not have" in other.notes[-1]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("config.json", None, "expected a run directory, found no config.json"),
        ("result.json", None, "expected a run with an answer, found no result.json"),
        ("result.json", "{", "result.json: expected a readable JSON file"),
        ("result.json", '{"sizes": []}', "one for each size of transfer: choose with --cc and --buffer"),
        ("result.json", '{"occ": 3}', "result.json: expected what this version writes"),
    ],
)
def test_a_run_without_an_answer_is_refused(tmp_path, name, content, expected):
    directory = run_directory(tmp_path / "run")
    if content is None:
        (directory / name).unlink()
    else:
        (directory / name).write_text(content)
    with pytest.raises(InputError, match=expected) as refused:
        programs.from_run(directory)
    assert str(refused.value).startswith(f"--run {directory}: ")


class Stubborn(socket.socket):
    """A kernel that lets this user choose no congestion control."""

    def setsockopt(self, *given: object) -> None:
        raise PermissionError(1, "Operation not permitted")


def test_a_congestion_control_that_is_not_there_is_refused_with_what_to_do(monkeypatch):
    result = CliRunner().invoke(app, ["exec", "--cc", "nonsense", "true"])
    assert result.exit_code == 2
    assert "--cc: expected a congestion control of this kernel (" in result.stderr
    monkeypatch.setattr(socket, "socket", Stubborn)
    with pytest.raises(InputError, match=r"may not choose mptune_olia; sudo sysctl -w .*mptune_olia"):
        programs.plan(TRUE, programs.Wanted(cc="mptune_olia"))


def test_a_buffer_above_the_kernels_limit_is_reported():
    (send, receive) = programs.plan(TRUE, programs.Wanted(buffer_bytes=2**40)).warnings
    assert "the send buffer is" in send and "net.core.wmem_max=" in send
    assert "the receive buffer is" in receive and "net.core.rmem_max=" in receive


def odd(monkeypatch, obstacle: Obstacle, *, go: str = "go1.25", notifies: bool = True) -> None:
    """A program with an obstacle, on a kernel that has user notifications of seccomp, or not."""
    program = Program(
        path=Path("/x"), loaded=Path("/x"), obstacle=obstacle, detail="/x is odd", go_version=go
    )
    monkeypatch.setattr(programs, "find", lambda _: program)
    monkeypatch.setattr(programs, "_can_supervise", lambda: notifies)


@pytest.mark.parametrize(
    ("obstacle", "asked", "statistics", "expected"),
    [
        ("static", programs.Wanted(), False, "use a build with shared libraries"),
        ("static", programs.Wanted(cc="reno"), False, "sysctl net.ipv4.tcp_congestion_control"),
        ("musl", programs.Wanted(), False, "use a build for glibc"),
        ("architecture", programs.Wanted(), False, "this machine's own architecture"),
        ("privileges", programs.Wanted(), False, "sudo mptune exec"),
        ("go", programs.Wanted(cc="reno"), True, "GODEBUG=multipathtcp=1; sysctl .*`ss -Mti`"),
    ],
)
def test_a_program_that_cannot_be_given_its_sockets_is_refused_with_what_to_do(
    monkeypatch, obstacle, asked, statistics, expected
):
    odd(monkeypatch, obstacle, notifies=False)
    with pytest.raises(InputError, match=f"COMMAND: /x is odd, so nothing can be preloaded: .*{expected}"):
        programs.plan(["x"], asked, statistics=statistics)


@pytest.mark.parametrize("obstacle", ["static", "musl", "go"])
def test_where_nothing_can_be_preloaded_another_process_makes_the_sockets(monkeypatch, obstacle):
    monkeypatch.delenv("GODEBUG", raising=False)
    odd(monkeypatch, obstacle)
    planned = programs.plan(["x"], programs.Wanted(cc="reno"))
    assert planned.supervised and "another process" in planned.summary
    assert planned.environment == {"GODEBUG": "multipathtcp=0"}, "else Go's are left alone as MPTCP already"
    with pytest.raises(InputError, match="can be started without --stats"):
        programs.plan(["x"], programs.Wanted(), statistics=True)


@pytest.mark.parametrize("obstacle", ["architecture", "privileges"])
def test_rights_and_architectures_are_an_obstacle_for_that_too(monkeypatch, obstacle):
    odd(monkeypatch, obstacle)
    with pytest.raises(InputError, match="COMMAND: /x is odd"):
        programs.plan(["x"], programs.Wanted(), supervised=True)


def test_a_supervisor_that_is_asked_for(monkeypatch):
    assert programs.plan(TRUE, programs.Wanted(), supervised=True).supervised
    with pytest.raises(InputError, match="--supervise: expected no --stats"):
        programs.plan(TRUE, programs.Wanted(), supervised=True, statistics=True)
    monkeypatch.setattr(programs, "_can_supervise", lambda: False)
    with pytest.raises(InputError, match="--supervise: this kernel has no user notifications"):
        programs.plan(TRUE, programs.Wanted(), supervised=True)


def test_a_go_that_knows_mptcp_needs_nobody_for_that_alone(monkeypatch):
    def planned(version: str, **asked: Any) -> programs.Plan:
        odd(monkeypatch, "go", go=version)
        return programs.plan(["x"], programs.Wanted(**asked))

    own = planned("go1.21.0")
    assert not own.supervised and own.environment["GODEBUG"].endswith("multipathtcp=1")
    assert not planned("go1.20.1", protocol="tcp").supervised
    for version in ("go1.20.1", ""):
        assert planned(version).supervised


# What follows starts programs, with the library that is built, or none: a loader only complains about it.


def started(*arguments: str, **more: Any) -> Any:
    command = [sys.executable, "-m", "mptune.cli", "exec", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


@pytest.mark.parametrize("options", [[], ["--stats"], ["-v"]], ids=["replaced", "watched", "verbose"])
@pytest.mark.parametrize(
    ("code", "expected"),
    [("", 0), ("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", 137)],
    ids=["done", "code", "killed"],
)
def test_the_exit_code_is_the_programs(options, code, expected):
    process = started(*options, "--", sys.executable, "-c", code)
    process.communicate(timeout=60)
    # Replaced, it is the program itself that a signal ends.
    assert process.returncode in ({expected} if "--stats" in options else {expected, -(expected - 128)})


#: Prints that it is there, and which signals came until the one that ends it.
LISTENER = """
import signal, sys
from tests.plugins.answers import ANSWER
signal.signal(signal.SIGINT, lambda *_: print("interrupted", flush=True))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
print(signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN, flush=True)  # Python's own, not inherited
print("ready", flush=True)
while True:
    signal.pause()
"""


@pytest.mark.parametrize("options", [[], ["--stats"]], ids=["replaced", "watched"])
def test_a_signal_that_is_sent_reaches_the_program(options):
    process = started(*options, "--", sys.executable, "-c", LISTENER)
    until(lambda: process.stdout.readline() == "ready\n")
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "interrupted\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 5


@pytest.mark.parametrize("options", [[], ["--stats"]], ids=["replaced", "watched"])
def test_ctrl_c_reaches_the_program_once(options):
    ours, theirs = os.openpty()
    process = started(
        *options,
        *("--", sys.executable, "-c", LISTENER),
        stdin=theirs,
        start_new_session=True,
        preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0),
    )
    os.close(theirs)
    until(lambda: process.stdout.readline() == "ready\n")
    os.write(ours, b"\x03")
    assert process.stdout.readline() == "interrupted\n"
    process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=60)
    os.close(ours)
    assert (process.returncode, rest) == (5, "")


def test_what_follows_the_program_is_the_programs():
    process = started(sys.executable, "-c", "import sys; print(sys.argv[1:])", "--stats", "--", "-v")
    assert process.communicate(timeout=60)[0] == "['--stats', '--', '-v']\n"


def test_nothing_is_left_behind(tmp_path):
    process = started("--stats", "--", *TRUE, env={**os.environ, "TMPDIR": str(tmp_path)})
    _, errors = process.communicate(timeout=60)
    assert "mptune: connections: none" in errors.splitlines()
    assert not list(tmp_path.glob("mptune-exec-*"))


def test_other_users_can_add_to_the_file_but_neither_find_nor_read_it():
    with collected() as file:
        assert file.stat().st_mode & 0o777 == 0o622
        assert file.parent.stat().st_mode & 0o777 == 0o711
        assert len(file.name) == 32
    assert not file.parent.exists()


def line(event: str, cookie: int = 1, at: int = 1, **more: object) -> bytes:
    base = {"event": event, "pid": 9, "at_ns": at, "command": "curl", "cookie": cookie}
    return json.dumps({**base, **more}).encode()


def flow(number: int, **tcp: object) -> dict[str, object]:
    return {"id": number, "local": "10.0.1.1:1", "remote": "10.0.9.1:80", "tcp": {"state": 1} | tcp}


def state(at: int, *flows: object, cookie: int = 1, **more: object) -> bytes:
    given = {"kind": "mptcp", "local": "10.0.1.1:1", "remote": None, "cc": "reno", "subflows": flows}
    return line("state", cookie, at, **{**given, **more})


def test_later_figures_replace_earlier_ones_and_what_is_gone_stays():
    report = gathered(
        [
            line("open", at=5, role="client", remote="10.0.9.1:80"),
            state(6, flow(1, rtt_ns=10, received_bytes=5), flow(2, rtt_ns=20), received_bytes=5),
            state(
                7, {**flow(1, received_bytes=9), "tcp": {"state": 7, "received_bytes": 9}}, received_bytes=9
            ),
        ]
    )
    (connection,) = report.connections
    assert (
        connection.remote,
        connection.role,
        connection.received_bytes,
        connection.opened_ns,
        connection.last_ns,
    ) == (
        "10.0.9.1:80",
        "client",
        9,
        5,
        7,
    )
    assert [(flow.id, flow.rtt_ns, flow.received_bytes, flow.state) for flow in connection.subflows] == [
        (1, 10, 9, "closed"),
        (2, 20, None, "established"),
    ]


def test_the_end_of_the_data_is_no_byte():
    flows = flow(1, rtt_ns=1, sent_bytes=10, acked_bytes=11)
    (connection,) = gathered([state(1, flows, sent_bytes=10, acked_bytes=11)]).connections
    assert (connection.acked_bytes, connection.subflows[0].acked_bytes) == (10, 10)


def test_a_connection_that_the_peer_reset_has_its_counters_and_no_subflows():
    (connection,) = gathered([line("open", role="client", remote="b:2"), state(2, acked_bytes=5)]).connections
    assert (connection.kind, connection.acked_bytes, connection.subflows) == ("mptcp", 5, [])


def test_plain_tcp_is_one_subflow():
    tcp = {"state": 1, "rtt_ns": 5, "sent_bytes": 100, "retransmitted_bytes": 20, "received_bytes": 7}
    lines = [line("state", kind="fallback", local="a:1", remote="b:2", cc="cubic", tcp=tcp)]
    (connection,) = gathered(lines).connections
    assert (connection.kind, connection.fallback, connection.sent_bytes, connection.received_bytes) == (
        "fallback",
        True,
        80,
        7,
    )
    assert [(flow.local, flow.remote, flow.sent_bytes) for flow in connection.subflows] == [
        ("a:1", "b:2", 100)
    ]


def test_before_linux_6_5_subflows_are_known_by_their_ends_and_added_up():
    def state(*sizes):
        counted = [{"state": 1, "sent_bytes": size, "acked_bytes": size} for size in sizes]
        counted[0]["retransmitted_bytes"] = 10
        flows = [{"local": f"a:{place}", "remote": "b:2", "tcp": tcp} for place, tcp in enumerate(counted)]
        return line("state", kind="mptcp", local="a:0", remote="b:2", cc="cubic", subflows=flows)

    (connection,) = gathered([state(100), state(300, 50)]).connections
    assert [(flow.id, flow.local, flow.sent_bytes) for flow in connection.subflows] == [
        (None, "a:0", 300),
        (None, "a:1", 50),
    ]
    assert (connection.sent_bytes, connection.acked_bytes) == (340, 350)
    assert connection.received_bytes is None and connection.reinjected_bytes is None


def test_connections_are_distinguished_and_counted():
    report = gathered(
        [
            line("open", 1, 3, role="client", remote="10.0.9.1:80"),
            state(4, flow(1, rtt_ns=1), cookie=1),
            line("open", 2, 1, role="server", remote="10.0.9.1:81"),  # killed before it printed more
            line("open", 3, 2, role="client", remote="10.0.9.1:82"),
            state(5, cookie=3),  # nobody answered
            state(6, cookie=4),  # a socket that was never used
            b'{"event": "refused", "pid": 1, "at_ns": 1, "command": "", "what": "mptcp", "errno": 92}',
            b'{"event": "refused", "pid": 2, "at_ns": 1, "command": "", "what": "mptcp", "errno": 92}',
            b'{"event": "state", "pid": 1, "at_',
            b"[]",
        ]
    )
    assert [(connection.remote, connection.kind) for connection in report.connections] == [
        ("10.0.9.1:81", None),
        ("10.0.9.1:80", "mptcp"),
    ]
    assert report.failed == 1
    (refused,) = report.refused
    assert (refused.what, refused.error, refused.count) == ("mptcp", "ENOPROTOOPT", 2)
