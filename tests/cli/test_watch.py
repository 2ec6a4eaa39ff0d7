"""`mptune watch`: what is refused, what is printed, and that it ends cleanly at a terminal and in a pipe."""

import json
import os
import pty
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO

import pytest
from rich.console import Console
from typer.testing import CliRunner

from mptune.cli import app, watch
from mptune.machines import ssh
from mptune.monitor.figures import Machine
from mptune.monitor.shape import census
from tests.monitor.reports import FakeAgent, connection, report, subflow
from tests.plugins.needs import Thing, lack
from tests.plugins.program import command_line, running
from tests.plugins.waiting import PATIENCE_S

pytestmark = pytest.mark.needs("linux")


@pytest.fixture(scope="module")
def may_watch() -> None:
    """There is MPTCP here, and the agent can see it."""
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).close()
        done = CliRunner().invoke(app, ["watch", "--json", "--once"])
    except OSError as error:
        lack("mptune watch", Thing(str(error), "elsewhere"))
    if done.exit_code:
        lack("mptune watch", Thing(done.stderr, "elsewhere"))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--interval", "1ms"], "--interval: expected 50ms or more"),
        (["--interval", "5"], "--interval: expected a time"),
        (["one", "--hosts", "UiB-HiN"], "--hosts: expected a host or a file of hosts, found both"),
        (["--hosts", "UiB-HiN"], "expected ssh at one site at least"),
        ([" "], "HOST: expected a machine as ssh knows it"),
    ],
)
def test_bad_input_is_refused_in_a_line(arguments, error):
    done = CliRunner().invoke(app, ["watch", *arguments])
    assert done.exit_code == 2
    assert error in done.stderr and done.stderr.count("\n") == 1


class FakeMachine:
    """A session with a host whose agent has sent two messages."""

    def __init__(self, target, name):
        self.closed = False
        self.agent = FakeAgent()
        flows = subflow(1), subflow(2, backup=True)
        self.agent.say(report(1, connection(1, *flows), limits=["processes: they take root"]))
        self.agent.say(
            report(2, connection(1, *flows, acked_bytes=10**6), limits=["processes: they take root"])
        )

    def start(self, role):
        assert role == "watch"
        return self.agent

    def close(self):
        self.closed = True


@pytest.fixture
def sessions(monkeypatch):
    outputs = {}

    def connect(target, name):
        outputs[target] = FakeMachine(target, name)
        return outputs[target]

    monkeypatch.setattr(ssh, "connect", connect)
    return outputs


def test_another_machine_is_reached_by_ssh_and_shown_as_a_table(sessions):
    done = CliRunner().invoke(app, ["watch", "me@there", "--interval", "100ms"])
    assert done.exit_code == 0, done.output
    assert sessions["me@there"].agent.told == [{"interval_ns": 100_000_000}]
    assert sessions["me@there"].closed
    lines = done.stdout.splitlines()
    assert "me@there: curl > 10.9.0.1:443" in lines[1] and " 8.00 " in lines[1] and " 1+1 " in lines[1]
    assert [line.split()[0] for line in lines[2:4]] == ["eth1", "eth2"]
    assert lines[-1] == "Not known: processes: they take root"


def test_both_machines_of_a_file_are_shown(sessions, tmp_path):
    ends = "".join(
        f'[sites.{name}]\nname = "{name}"\nlocation = "here"\nssh = "{name}.example"\n'
        f'[[sites.{name}.interfaces]]\nisp = "{name}"\nabbr = "{name}"\ndevice = "eth0"\nipv4 = "{ip}"\n'
        for name, ip in [("S", "192.0.2.1"), ("R", "192.0.2.2")]
    )
    file = tmp_path / "sites.toml"
    file.write_text(
        f'name = "two"\ndescription = "two"\nsource = "here"\nsender = "S"\nreceiver = "R"\n{ends}'
    )
    done = CliRunner().invoke(app, ["watch", "--hosts", str(file), "--json", "--once"])
    assert done.exit_code == 0, done.output
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(report["host"], report["connections"][0]["token"]) for report in reports] == [("S", 1), ("R", 1)]
    assert set(sessions) == {"S.example", "R.example"}


@pytest.mark.usefixtures("may_watch")
def test_lines_of_json_end_with_their_reader():
    with subprocess.Popen(
        command_line("watch", "--json", "--interval", "50ms"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as program:
        assert program.stdout is not None and program.stderr is not None
        assert json.loads(program.stdout.readline())["event"] == "connections"
        program.stdout.close()
        assert program.wait(PATIENCE_S) == 0
        assert program.stderr.read() == b""


@pytest.mark.usefixtures("may_watch")
def test_lines_of_json_end_with_ctrl_c():
    with subprocess.Popen(
        command_line("watch", "--json", "--interval", "50ms"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as program:
        assert program.stdout is not None and program.stderr is not None
        program.stdout.readline()
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=PATIENCE_S)
        assert (program.returncode, errors) == (130, b"mptune: interrupted\n")


@contextmanager
def at_a_terminal() -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """The screen, once it has drawn its totals."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command_line("watch"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"},
    ) as program:
        os.close(theirs)
        try:
            read_until(ours, b"connection")
            yield program, ours
        finally:
            program.kill()
    os.close(ours)


def read_until(terminal: int, words: bytes) -> bytes:
    """Output of a terminal until these words come, or until it is closed."""
    printed, end = b"", time.monotonic() + PATIENCE_S
    while words not in printed:
        assert select.select([terminal], [], [], max(0.0, end - time.monotonic()))[0], printed
        try:
            printed += os.read(terminal, 1 << 16)
        except OSError:  # EIO: nobody has it open any more
            break
    return printed


@pytest.mark.usefixtures("may_watch")
@pytest.mark.parametrize("how", ["q", "ctrl+c", "SIGINT", "SIGTERM"])
def test_the_screen_gives_the_terminal_back(how):
    with at_a_terminal() as (program, terminal):
        if how.startswith("SIG"):
            program.send_signal(getattr(signal, how))
        else:
            os.write(terminal, {"q": b"q", "ctrl+c": b"\x03"}[how])
        rest = read_until(terminal, b"never")
        assert program.wait(PATIENCE_S) == 0
        assert b"\x1b[?1049l" in rest and b"\x1b[?25h" in rest  # the other screen, the cursor
        assert b"Traceback" not in rest


def test_the_table_has_a_line_for_each_held_subflow_with_the_reason():
    flows = [subflow(1, delivery_rate_bps=18_000_000), subflow(2, held=True, cc="cubic_hold")]
    shown = Machine()
    shown.update(census(report(1, connection(1, *flows))))
    text = StringIO()
    watch._show(Console(file=text, width=200), {"": shown})
    *_, reason = text.getvalue().splitlines()
    assert reason.endswith("is held: would block 18.0 Mbit/s for 40.0 ms")


@pytest.mark.usefixtures("may_watch")
def test_where_there_is_no_terminal_it_prints_once():
    with running("watch", "--interval", "50ms") as program:
        assert program.wait(PATIENCE_S) == 0
