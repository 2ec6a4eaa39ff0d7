"""Sessions over a stand-in for ssh that runs the same bootstrap on this machine; its errors are real.

What the agent does on a host is tested where there are hosts (tests/hosts).
"""

import json
import os
import platform
import select
import signal
import stat
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from mptune import __version__
from mptune.errors import TrialError
from mptune.linux import agent
from mptune.machines import MachineError, SshMachine
from mptune.machines import ssh as sessions
from mptune.machines._bootstrap import Delivery
from mptune.machines.ssh import VARIABLE, command
from tests.plugins.waiting import until

#: Longer than any test.
FOREVER_S = 1000
FAKE = Path(__file__).parent / "fake_agent.py"

#: Runs the command that it is given, in a login shell that prints something.
LOCALLY = """#!/bin/sh
for last; do :; done
printf 'Welcome to this machine\\nnow playing: '
exec ${FAKE_SHELL:-/bin/sh} -c "$last"
"""


def program(path, text):
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The only directory where the agent is delivered to."""
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.setenv("HOME", str(tmp_path / "nowhere"))
    return runtime


@pytest.fixture
def ssh(tmp_path, monkeypatch, place):
    """Lets sessions use a program in place of ssh."""

    def use(text=LOCALLY):
        monkeypatch.setenv(VARIABLE, str(program(tmp_path / "ssh", text)))

    content = FAKE.read_text().replace("/usr/bin/env python3", sys.executable)
    monkeypatch.setattr(agent, "PROGRAM", program(tmp_path / "mptune-agent", content))
    monkeypatch.setenv("FAKE_NOTE", str(tmp_path / "note"))
    monkeypatch.setenv("FAKE_VERSION", __version__)
    use()
    return use


@contextmanager
def session(name="alice"):
    machine = SshMachine("user@alice", name)
    try:
        yield machine
    finally:
        machine.close()


def refused():
    """The reason for which there is none."""
    with pytest.raises(MachineError) as caught:
        SshMachine("user@alice", "alice")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_target_is_never_an_option(monkeypatch):
    monkeypatch.setenv(VARIABLE, "ssh -F 'some file'")
    line = command("-oProxyCommand=sh", "script")
    assert line[:3] == ["ssh", "-F", "some file"]
    assert line[-3:] == ["--", "-oProxyCommand=sh", "script"]
    assert "BatchMode=yes" in line and "-T" in line


def test_the_agent_is_delivered_greets_and_leaves_nothing(ssh, place, tmp_path):
    with session() as machine:
        assert machine.delivered and machine.hello["net_admin"] is True
        assert not list(place.iterdir())
    assert (tmp_path / "note").read_text() == "stopped"


def test_an_installed_agent_of_the_same_content_is_used(ssh, tmp_path, monkeypatch, place):
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with session() as machine:
        assert not machine.delivered


def test_another_agent_that_is_installed_is_not(ssh, tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin" / "mptune-agent", "#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    with session() as machine:
        assert machine.delivered


def test_what_a_killed_session_left_is_removed_and_nothing_else(ssh, place):
    names = ["mptune-agent-99999999-abcdef", f"mptune-agent-{os.getpid()}-abcdef", "mine"]
    for name in names:
        (place / name).mkdir()
    with session():
        assert sorted(entry.name for entry in place.iterdir()) == sorted(names[1:])


def test_a_bootstrap_that_nobody_hears_leaves_nothing(ssh, place):
    """The connection is lost before it has asked for the agent: its next word is its last."""
    line = Delivery.of(agent.PROGRAM).command()
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as unheard:
        subprocess.run(["/bin/sh", "-c", line], stdin=subprocess.DEVNULL, stdout=unheard, check=False)
    assert not list(place.iterdir())


def test_roles_talk_through_the_session(ssh):
    with session() as machine, machine.start("echo", "one") as process, machine.start("echo") as other:
        process.tell({"event": "first", "text": "ä" * 100_000})
        other.tell({"event": "second"})
        assert process.expect("first", 20)["text"] == "ä" * 100_000
        assert other.expect("second", 20) == {"event": "second"}

        assert select.select([process, other], [], [], 0)[0] == []
        process.close()
        until(lambda: process.take() == [] and process.ended, "its end")
        assert select.select([process, other], [], [], 0)[0] == [process]
        assert not process.killed and process.death() == "one on alice ended with status 0"


def stopped(machine):
    """Let a session's agent be silent from now on."""
    os.kill(machine.hello["pid"], signal.SIGSTOP)


def test_a_silent_host_is_given_up_at_once_if_it_has_to_hurry(ssh, monkeypatch):
    """Otherwise the farewell takes as long as it may."""
    monkeypatch.setattr(sessions, "_FAREWELL_S", FOREVER_S)
    monkeypatch.setattr(sessions, "_ANSWER_S", FOREVER_S)
    monkeypatch.setattr(sessions, "_HURRY_S", 0.2)
    machine = SshMachine("user@alice", "alice")
    role = machine.start("echo")
    stopped(machine)
    machine.hurry()
    with pytest.raises(TrialError, match=r"^alice: the connection was lost: no answer for 0\.2 s$"):
        machine.look()
    role.end(FOREVER_S)
    machine.close()
    assert machine.unheard


def test_a_host_that_answers_is_not_given_up_however_long_it_takes(ssh, monkeypatch):
    monkeypatch.setattr(sessions, "_HURRY_S", FOREVER_S)
    with session() as machine:
        machine.look()
        machine.hurry()
        machine._hurried = time.monotonic() - 20 * FOREVER_S
        assert machine.look()["kernel"] == "6.18"
    assert not machine.unheard


def test_a_session_that_nobody_waits_for_any_more_does_not_begin(ssh):
    ssh("#!/bin/sh\nexec sleep 1000\n")
    with pytest.raises(KeyboardInterrupt):
        SshMachine("user@alice", "alice", lambda: True)


def test_a_host_that_is_away_is_distinguished_from_one_that_needs_mending(ssh):
    def away(words):
        ssh(f"#!/bin/sh\necho '{words}' >&2\nexit 255\n")
        with pytest.raises(MachineError) as caught:
            SshMachine("user@alice", "alice")
        return caught.value.away

    assert away("ssh: connect to host alice port 22: Connection timed out")
    assert away("ssh: connect to host alice port 22: Connection refused")
    assert away("ssh: Could not resolve hostname alice: Temporary failure in name resolution")
    assert away("Connection closed by 192.0.2.1 port 22")
    assert not away("ssh: Could not resolve hostname alice: Name or service not known")
    assert not away("Host key verification failed.")
    assert not away("user@alice: Permission denied (publickey).")


def test_how_a_role_ended_is_reported(ssh):
    with session() as machine, machine.start("fails") as role:
        with pytest.raises(TrialError, match=r"^fails on alice ended with status 1: no such role$"):
            role.expect("ready", 20)
        assert not role.killed


def test_settings_and_facts_are_answered_in_any_order(ssh):
    with session() as machine:
        first, second = machine.ask("look", names=["a"], pairs=[]), machine.ask("look", names=["b"], pairs=[])
        assert machine.collect(second)["asked"] == ["b"] and machine.collect(first)["asked"] == ["a"]
        assert machine.set({"net.mptcp.path_manager": "userspace"}) == {"net.mptcp.path_manager": "kernel"}
        assert machine.restore() == {"net.mptcp.path_manager": "changed meanwhile"}
        with pytest.raises(TrialError, match=r"^alice: there is no such setting$") as caught:
            machine.set({"net.ipv4.ip_forward": "1"})
        assert caught.value.kind == "refused"


def test_a_host_that_dies_ends_its_roles_and_is_named(ssh):
    with session() as machine, machine.start("echo") as role:
        os.kill(machine.hello["pid"], signal.SIGKILL)
        with pytest.raises(TrialError, match=r"^alice: the connection was lost: ssh was killed by signal 9"):
            role.expect("anything", 20)
        assert role.killed and machine.killed
        with pytest.raises(TrialError, match="connection was lost"):
            machine.look()
        with machine.start("echo") as late:
            assert late.killed


@pytest.mark.parametrize(
    ("complaint", "error"),
    [
        (
            "@@@@@@\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n@@@@@@\n"
            "Host key verification failed.",
            "its host key has changed. If that is expected, remove the old one",
        ),
        (
            "No ED25519 host key is known for alice.\nHost key verification failed.",
            "accept it once with `ssh",
        ),
        (
            "user@alice: Permission denied (publickey,password).",
            "Permission denied (publickey,password): `ssh -o BatchMode=yes user@alice true` must work",
        ),
        (
            "ssh: Could not resolve hostname alice: Name or service not known",
            "Name or service not known: expected a host that `ssh user@alice` finds",
        ),
        (
            "ssh: connect to host alice port 22: Connection timed out",
            "Connection timed out: is it switched on",
        ),
        ("ssh: connect to host alice port 22: Connection refused", "is an SSH server running there?"),
        (
            "ssh: connect to host alice port 22: No route to host",
            "unreachable: connect to host alice port 22",
        ),
        ("some words of its own", "some words of its own"),
    ],
)
def test_what_ssh_complains_about_is_passed_on_with_the_remedy(ssh, complaint, error):
    ssh(f"#!/bin/sh\ncat >&2 <<'END'\n{complaint}\nEND\nexit 255\n")
    caught = refused()
    assert caught.startswith("alice (user@alice): ") and error in caught


def test_without_ssh_or_without_a_word_of_it_the_error_names_it(ssh, monkeypatch):
    ssh("#!/bin/sh\nexit 3\n")
    assert refused() == "alice (user@alice): ssh ended with status 3"
    monkeypatch.setenv(VARIABLE, "/nonexistent/ssh")
    assert refused() == "alice: cannot run /nonexistent/ssh: No such file or directory"


@pytest.mark.parametrize(
    ("hello", "error"),
    [
        ({"version": "0.0.9"}, f"its mptune-agent is version 0.0.9, this is {__version__}: install the same"),
        ({"protocol": 2}, "install the same"),
        ({"event": "refused", "reason": "in use by another session (pid 7)"}, "another session (pid 7)"),
    ],
)
def test_an_agent_that_does_not_fit_is_refused(ssh, monkeypatch, hello, error):

    monkeypatch.setenv("FAKE_HELLO", json.dumps(hello))
    assert error in refused()


@pytest.mark.parametrize(
    ("tool", "text", "error"),
    [
        ("uname", '#!/bin/sh\n[ "$1" = -m ] && echo sparc || echo Linux\n', "its processor is sparc"),
        ("uname", "#!/bin/sh\necho Darwin\n", "it runs Darwin: hosts need Linux"),
        ("mktemp", "#!/bin/sh\nexit 1\n", "cannot be written"),
        ("head", '#!/bin/sh\n[ "$3" = /dev/zero ] && exit 1\nexec /usr/bin/head "$@"\n', "no space"),
        ("chmod", "#!/bin/sh\nexit 1\n", "noexec"),
        ("sha256sum", "#!/bin/sh\necho 0\n", "the agent did not arrive as it was sent"),
    ],
)
def test_a_host_that_cannot_take_the_agent_is_refused_with_its_reason(
    ssh, place, tmp_path, monkeypatch, tool, text, error
):
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin" / tool, text)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    if tool == "chmod":  # nothing is executable then, as where everything is mounted noexec
        monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    assert error in refused()
    assert not list(place.iterdir())


@pytest.fixture
def sent(monkeypatch):
    """Names of the agents that sessions send."""
    names: list[str] = []
    deliver = SshMachine._deliver

    def noted(machine, content):
        names.extend(name for name, agent_ in machine._delivery.agents.items() if agent_ is content)
        deliver(machine, content)

    monkeypatch.setattr(SshMachine, "_deliver", noted)
    return names


@pytest.mark.parametrize(("processor", "name"), [("aarch64", "aarch64"), ("armv8l", "armv7l")])
def test_a_host_gets_the_agent_for_its_processor(ssh, tmp_path, monkeypatch, sent, processor, name):
    for built in ("aarch64", "armv7l"):
        program(tmp_path / f"mptune-agent-{built}", (tmp_path / "mptune-agent").read_text() + f"# {built}\n")
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin/uname", f'#!/bin/sh\n[ "$1" = -m ] && echo {processor} || echo Linux\n')
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    with session() as machine:
        assert machine.delivered
    assert sent == [name]


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ("exit 1", ["own", platform.machine()]),
        ("exit 0 # /lib/of-no-machine/ld-linux-none.so.2", [platform.machine()]),
    ],
    ids=["it does not run", "there is no loader for it"],
)
def test_a_host_of_another_c_library_gets_one_that_needs_none(ssh, tmp_path, sent, place, own, expected):
    program(tmp_path / f"mptune-agent-{platform.machine()}", (tmp_path / "mptune-agent").read_text())
    program(tmp_path / "mptune-agent", f"#!/bin/sh\n{own}\n")
    with session():
        assert not list(place.iterdir())
    assert sent == expected


def test_what_is_asked_for_twice_is_not_sent_again(ssh):
    ssh("#!/bin/sh\nfor i in 1 2; do echo mptune-bootstrap: need own; done\ncat > /dev/null\n")
    assert refused() == "alice (user@alice): need own"
