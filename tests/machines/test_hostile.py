"""Hosts that lie or flood: one sentence that names them, in bounded memory, and no hang.

The limits are as they are, but for times; the floods are larger than any of them.
"""

import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mptune import __version__
from mptune.cli import app
from mptune.errors import MptuneError, TrialError
from mptune.linux import agent, meter_report
from mptune.machines import MachineError, SshMachine
from mptune.machines import ssh as sessions
from mptune.machines._messages import (
    GREETING_BYTES,
    LINE_BYTES,
    QUEUED_BYTES,
    STDERR_BYTES,
    Lines,
    Misbehaved,
    message_of,
)
from mptune.machines.ssh import VARIABLE
from mptune.monitor import sources
from tests.plugins import two_hosts

HOSTILE = Path(__file__).parent / "hostile_ssh.py"
#: A sentence about a host, whatever it sent.
LONGEST = 1100

#: Before its greeting -> the error.
BEGINNINGS = {
    "endless": "unreachable: more than 1048576 bytes, and no greeting in them",
    "chatter": "unreachable: more than 1048576 bytes, and no greeting in them",
    "silent": "unreachable: no greeting in time",
    "stderr": "the last word",
    "stderr-line": "EEE",
    "esc-refuse": r"there is no place to run the agent from: \x1b]0;PWNED\x07",
    "esc-word": r"\x1b]0;PWNED\x07",
    "esc-stderr": r"\x1b]0;PWNED\x07\x1b[2J\x1b[31mred\x9b1m\u202e[/x][link=http://x] something",
    "hello-bigint": "unreachable: no greeting in time",
    "hello-num": "unreachable: no greeting in time",
    "hello-version-esc": r"its mptune-agent is version \x1b]0;PWNED",
    "hello-version-long": "its mptune-agent is version vvv",
    "hello-version-list": "its mptune-agent is version [[{}]]",
    "hello-error-esc": r"\x1b]0;PWNED\x07",
    "hello-error-empty": "refused: it sent a message that is not as expected",
    "hello-types": "refused: it sent a message that is not as expected",
    "hello-without": "refused: it sent a message that is not as expected",
    "hello-event": "refused: it sent a message of an unknown kind",
}
#: After it, when it is asked for its facts -> the error.
ANSWERS = {
    "list": "it sent a line that is no message",
    "deep": "it sent a ",
    "number": "it sent a ",
    "not-a-number": "it sent a ",
    "big-number": "it sent a message that is not as expected",
    "bytes": "it sent a line that is no JSON",
    "notjson": r"it sent a line that is no JSON: b'oops \x1b]0;PWNED",
    "unknown": "it sent a message of an unknown kind",
    "no-event": "it sent a message of an unknown kind",
    "refuse-esc": r"alice: \x1b]0;PWNED\x07\x1b[2J",
    "refuse-long": "alice: rrr",
    "refuse-noreason": "it sent a message that is not as expected",
    "refuse-types": "it sent a message that is not as expected",
    "looked-empty": "it sent a message that is not as expected",
    "looked-types": "it sent a message that is not as expected",
    "other-answer": "alice: expected a message with interfaces, found none in it",
    "ended": "it sent a message that is not as expected",
    "said-list": "it sent a message that is not as expected",
    "said-empty": "it passed on a message without a kind",
    "unended": f"it sent a line of more than {LINE_BYTES} bytes",
    "flood": "it sent more than 10000 lines unasked",
    "flood-answers": "alice: expected a message with interfaces, found none in it",
    "flood-stderr": "alice: the connection was lost: E",
    "dies-esc": r"alice: the connection was lost: \x1b]0;PWNED\x07",
}


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long for a silent host; one that answers is fast."""
    monkeypatch.setenv(VARIABLE, f"{sys.executable} {HOSTILE}")
    monkeypatch.setenv("FAKE_VERSION", __version__)
    monkeypatch.setattr(sessions, "_ANSWER_S", 50.0)


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    mode: str = request.param
    monkeypatch.setenv("FAKE", mode)
    if BEGINNINGS.get(mode, "").endswith("in time"):
        monkeypatch.setattr(sessions, "_GREET_S", 0.5)
    return mode


@contextmanager
def memory(most: int) -> Iterator[None]:
    """The block allocates at most so many bytes at a time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def is_one_sentence(error: BaseException) -> bool:
    return str(error).isprintable() and len(str(error)) < LONGEST and str(error).startswith("alice")


@pytest.mark.parametrize("hostile", BEGINNINGS, indirect=True)
def test_a_host_that_does_not_greet_is_named_in_one_sentence(hostile: str) -> None:
    most = 4 * GREETING_BYTES + 8 * agent.program().stat().st_size
    with memory(most), pytest.raises(MachineError) as caught:
        SshMachine("user@alice", "alice")
    assert is_one_sentence(caught.value)
    assert BEGINNINGS[hostile] in str(caught.value)


@pytest.mark.parametrize("hostile", ["hello-deep"], indirect=True)
def test_what_comes_before_the_greeting_may_be_anything(hostile: str) -> None:
    machine = SshMachine("user@alice", "alice")
    machine.close()
    assert machine.hello["net_admin"] is True


@pytest.mark.parametrize("hostile", ANSWERS, indirect=True)
def test_a_host_that_does_not_answer_as_it_should_is_refused(hostile: str) -> None:
    machine = SshMachine("user@alice", "alice")
    try:
        with memory(4 * LINE_BYTES), pytest.raises(TrialError) as caught:
            machine.look()["interfaces"]
    finally:
        machine.close()
    assert is_one_sentence(caught.value) and ANSWERS[hostile] in str(caught.value)
    lost = hostile in ("flood-stderr", "dies-esc")
    assert caught.value.kind == ("died" if lost else "refused")
    assert len(machine._errors) <= STDERR_BYTES


@pytest.mark.parametrize(
    ("hostile", "error"),
    [
        ("flood", "it sent more than 10000 messages at once"),
        ("ended", "it sent a message that is not as expected"),
        ("said-list", "it sent a message that is not as expected"),
        ("said-empty", "it passed on a message without a kind"),
        ("deep-line", "it sent a message of too many brackets"),
        ("unended", f"it sent a line of more than {LINE_BYTES} bytes"),
        ("list", "it sent a line that is no message"),
    ],
    indirect=["hostile"],
)
def test_a_role_on_such_a_host_ends_with_the_session(hostile: str, error: str) -> None:
    machine = SshMachine("user@alice", "alice")
    try:
        with memory(2 * QUEUED_BYTES), machine.start("meter", "meter") as role:
            assert role._over.wait(50)
            assert role.killed and error in role.death() and role.death().startswith("alice: ")
            with pytest.raises(TrialError) as caught:
                role.expect("ready", 50)
            assert caught.value.kind == "refused"
    finally:
        machine.close()


def test_a_field_that_a_message_lacks_is_the_hosts_refusal() -> None:
    message = message_of(b'{"event":"said","id":1,"line":{"event":"x","a":[{"b":1}]}}', "alice")
    assert message["line"]["a"][0]["b"] == 1 and message["line"].get("port") is None
    for lacking in (message["line"], message["line"]["a"][0]):
        with pytest.raises(TrialError, match=r"^alice: expected a message with port, found none") as caught:
            lacking["port"]
        assert caught.value.kind == "refused"


def test_lines_are_assembled_however_they_are_cut() -> None:
    text = b"".join(b"x" * size + b"\n" for size in (0, 1, 5, 100, 99, 3))
    for step in range(1, 30):
        lines, got = Lines(100), []
        for start in range(0, len(text), step):
            lines.add(text[start : start + step])
            while (line := lines.next()) is not None:
                got.append(len(line))
        assert got == [0, 1, 5, 100, 99, 3]


@pytest.mark.parametrize("content", [b"x" * 101, b"x" * 101 + b"\n", b"\n" + b"x" * 200 + b"\nshort\n"])
def test_a_line_that_is_too_long_is_none(content: bytes) -> None:
    lines = Lines(100)
    lines.add(content)
    if content.startswith(b"\n"):
        assert lines.next() == b""
    with pytest.raises(Misbehaved, match=r"^it sent a line of more than 100 bytes$"):
        lines.next()


COMMANDS = (
    ("doctor", "--hosts", "hosts.toml"),
    ("probe", "alice", "bob", "--out", "found.toml", "--quiet"),
    ("run", "hosts.toml", "--testbed", "hosts"),
    ("watch", "alice", "--once"),
)
SOME = (
    *("endless", "silent", "stderr", "esc-refuse", "esc-stderr", "hello-version-esc", "hello-error-esc"),
    *("hello-types", "list", "deep", "notjson", "refuse-esc", "refuse-long", "refuse-noreason"),
    *("looked-empty", "looked-types", "other-answer", "unended", "flood", "flood-stderr", "dies-esc"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize("hostile", SOME, indirect=True)
def test_every_command_reports_it_in_one_line(
    command: tuple[str, ...], hostile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOSTILE_BYTES", "12000000")
    monkeypatch.setattr(sources, "LATE_S", 3.0)
    text = two_hosts.TEXT.replace('max_data = "2 GB"\n', "")
    (tmp_path / "hosts.toml").write_text(text, encoding="utf-8")
    done = CliRunner().invoke(app, list(command))
    printed = done.stdout + done.stderr
    assert done.exit_code in (1, 2), printed
    assert "unexpected" not in printed and "Traceback" not in printed
    assert all(line.isprintable() and len(line) < LONGEST + 60 for line in printed.split("\n"))
    assert sum(line.startswith("mptune: error: ") for line in done.stderr.splitlines()) <= 1
    assert not (tmp_path / "found.toml").exists()
    assert isinstance(done.exception, SystemExit | MptuneError | None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"ending": "complete"},
        {"ending": {}},
        {"subflows": 7},
        {"subflows": [{"local": "10.0.0.1:x", "remote": "10.0.0.2:1"}]},
        {"subflows": [{"local": "10.0.0.1:1", "remote": "10.0.0.2:1", "bins": ["x"]}]},
        {"bins": {"0": 1}},
        {"in_order_bytes": "many"},
        {"counters": [1]},
        {"busy_share": "all"},
    ],
)
def test_a_report_of_a_measurement_has_the_types_of_one(wrong: dict[str, object]) -> None:
    report = {"event": "result", "ending": {"kind": "complete"}, "bins": [1], "busy_share": None}
    meter_report.check("sender on alice", report)
    with pytest.raises(TrialError, match=r"^sender on alice: its report is not as expected: ") as caught:
        meter_report.check("sender on alice", report | wrong)
    assert caught.value.kind == "refused" and len(str(caught.value)) < LONGEST
