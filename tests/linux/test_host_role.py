"""The agent's role `host`: a session with its settings, its end, facts about the host, started roles."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from mptune.linux import agent
from tests.linux.host_world import BEFORE, MANAGER, PLAIN, RMEM, WANTED, Session
from tests.plugins.kills import gone
from tests.plugins.waiting import PATIENCE_S, until

# The session.


def test_it_greets_with_what_it_is(world):
    session = world.session()
    hello = session.expect("hello")
    assert hello["protocol"] == 1 and hello["pid"] == session.process.pid
    assert hello["kernel"] == os.uname().release and hello["machine"] == os.uname().machine
    assert hello["hostname"] == os.uname().nodename and hello["uid"] == os.geteuid()
    assert hello["recovered"] == [] and hello["kept"] == {}


def test_settings_are_set_and_put_back_byte_for_byte(world):
    session = world.session()
    words = {name: " ".join(value.decode().split()) for name, value in BEFORE.items()}
    assert session.set()["before"] == words
    assert {name: value.decode() for name, value in world.values().items()} == WANTED
    assert len(world.journals()) == 1
    session.tell("restore", id=2, names=[MANAGER])
    assert session.expect("restored") == {"event": "restored", "id": 2, "kept": {}}
    assert world.values()[MANAGER] == BEFORE[MANAGER] and world.values()[RMEM] != BEFORE[RMEM]
    session.tell("restore", id=3, names=None)
    session.expect("restored")
    assert world.values() == BEFORE and not world.journals()


def test_a_setting_is_put_back_to_what_it_was_before_the_first_change(world):
    session = world.session()
    session.set({RMEM: "1 2 3"})
    for id, sizes in enumerate(["4 5 6", "7 8 9"]):
        session.tell("set", id=id, settings={RMEM: sizes})
        session.expect("set")
    session.tell("restore", id=9, names=None)
    assert session.expect("restored")["kept"] == {} and world.values() == BEFORE


def test_what_somebody_else_changed_meanwhile_is_left_alone(world):
    session = world.session()
    session.set()
    world.file(RMEM).write_bytes(b"1\t2\t3\n")
    session.tell("restore", id=2, names=None)
    assert session.expect("restored")["kept"] == {RMEM: "somebody else has set it to 1 2 3 meanwhile"}
    assert world.values() == {**BEFORE, RMEM: b"1\t2\t3\n"} and not world.journals()


def test_what_is_already_as_wanted_is_not_touched(world):
    session = world.session()
    assert session.set({MANAGER: "kernel"})["before"] == {MANAGER: "kernel"}
    assert not world.journals()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("net.ipv4.tcp_nothing", "net.ipv4.tcp_nothing: there is no such setting here"),
        ("kernel.core_pattern", 'expected a setting of the network, found "kernel.core_pattern"'),
        ("net.ipv4.zzz", "net.ipv4.zzz: "),
    ],
)
def test_a_set_that_fails_changes_nothing(world, name, reason):
    # The last one can be read and not be written.
    world.file("net.ipv4.zzz").symlink_to("/proc/version")
    session = world.session()
    session.expect("hello")
    session.tell("set", id=4, settings={**WANTED, name: "1"})
    refused = session.expect("refused")
    assert refused["id"] == 4 and refused["reason"].startswith(reason)
    assert world.values() == BEFORE and not world.journals()


def test_without_a_journal_nothing_is_changed(world):
    session = world.session()
    session.set({PLAIN: "0"})
    shutil.rmtree(world.run)
    world.run.write_text("no directory")
    session.tell("set", id=5, settings={MANAGER: "userspace"})
    assert "journal-" in session.expect("refused")["reason"]
    assert world.values()[MANAGER] == BEFORE[MANAGER]


def test_when_the_directory_of_the_journal_is_gone_nothing_more_is_changed(world):
    session = world.session()
    session.set({PLAIN: "0"})
    shutil.rmtree(world.run)
    session.tell("set", id=5, settings={MANAGER: "userspace"})
    assert "journal-" in session.expect("refused")["reason"]
    assert world.values()[MANAGER] == BEFORE[MANAGER]
    session.tell("stop")
    assert session.process.wait(PATIENCE_S) == 0
    until(world.is_as_before, "the guardian's end")


def test_a_second_session_is_refused_with_the_first_ones_number(world):
    first = world.session()
    first.set()
    second = world.session()
    assert f"process {first.process.pid}" in second.expect("error")["reason"]
    assert second.next() is None and second.process.wait() == 1
    assert world.values() != BEFORE
    first.tell("stop")
    until(world.is_as_before, "the end of the session")
    assert world.session().expect("hello")


# Ways to end.


def closes(session: Session) -> None:
    session.stdin.close()


def stops(session: Session) -> None:
    session.tell("stop")


def is_told_nonsense(session: Session) -> None:
    session.tell("dance")


def is_terminated(session: Session) -> None:
    session.process.terminate()


def hangs_up(session: Session) -> None:
    session.process.send_signal(signal.SIGHUP)


def breaks(session: Session) -> None:
    session.stdout.close()


@pytest.mark.parametrize(
    ("ends", "status"),
    [(closes, 0), (stops, 0), (is_told_nonsense, 1), (is_terminated, 1), (hangs_up, 1), (breaks, 1)],
)
def test_whatever_ends_the_session_puts_everything_back_and_ends_the_roles(world, ends, status):
    session = world.session()
    session.set()
    session.tell("start", id=7, role="awake")
    session.expect("said")
    (role,) = world.processes("awake")
    ends(session)
    assert session.process.wait(PATIENCE_S) == status
    until(world.is_as_before, "the guardian's end")
    assert gone(role)


CONTROLLER = """
import os, subprocess, sys, time
# Somebody else holds the other end of its standard input, whose end is thus not what ends it.
ends = os.pipe()
os.set_inheritable(ends[1], True)
subprocess.Popen([sys.argv[1], "host"], stdin=ends[0], stdout=sys.stdout, close_fds=False)
os.write(ends[1], sys.argv[2].encode() + b"\\n")
sys.stdin.read()
"""


def test_a_controller_that_is_killed_ends_the_session(world):
    order = json.dumps({"action": "set", "id": 1, "settings": WANTED})
    command = [sys.executable, "-c", CONTROLLER, str(agent.PROGRAM), order]
    environment = {**os.environ, **world.environment()}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as controller:
        assert controller.stdout is not None
        while b'"event":"set"' not in controller.stdout.readline():
            pass
        assert world.values() != BEFORE
        controller.kill()
    until(world.is_as_before, "the end of the session")


def test_silence_ends_the_session(world):
    session = world.session(MPTUNE_SILENCE_MS="10000")
    session.set()
    assert session.process.wait(PATIENCE_S) == 1
    assert "nothing heard" in session.expect("error")["reason"]
    until(world.is_as_before, "the guardian's end")


def test_a_role_that_does_not_end_with_its_input_is_killed(world):
    session = world.session()
    session.expect("hello")
    session.tell("start", id=7, role="awake")
    session.expect("said")
    (role,) = world.processes("awake")
    os.kill(role, signal.SIGSTOP)
    session.tell("stop")
    assert session.expect("ended")["signal"] == signal.SIGKILL
    assert session.process.wait(PATIENCE_S) == 0


# Facts.


def test_a_look_reports_facts_of_the_host_and_changes_nothing(world):
    session = world.session()
    session.expect("hello")
    pairs = [["127.0.0.1", "127.0.0.1"], ["192.0.2.77", "203.0.113.1"]]
    session.tell("look", id=11, names=[MANAGER, "net.ipv4.nothing"], pairs=pairs)
    facts = session.expect("looked")
    assert facts["id"] == 11 and facts["kernel"] == os.uname().release
    assert facts["processors"] == len(os.sched_getaffinity(0)) and facts["load"] >= 0
    assert facts["sysctls"] == {MANAGER: "kernel"}
    (loopback,) = (interface for interface in facts["interfaces"] if interface["device"] == "lo")
    if loopback["up"]:
        assert {"ip": "127.0.0.1", "prefix": 8} in loopback["addresses"]
        assert facts["leaves"][0]["device"] == "lo"
    here, elsewhere = facts["leaves"]
    assert [here["from"], here["to"]] == pairs[0]
    # An address that is not this machine's.
    assert elsewhere["device"] is None and "192.0.2.77" in elsewhere["reason"]
    assert {rule["table"] for rule in facts["rules"]} >= {253, 254, 255}
    assert {*facts["offloads"]} == {interface["device"] for interface in facts["interfaces"]}
    # Of the kernel's path manager: what it has, where this process may read it, and what it would take.
    if facts["endpoints"] is not None:
        assert {*facts["limits"]} == {"subflows", "add_addr_accepted"}
    if (most := facts["most"]) is not None:
        assert most in ({"endpoints": 8, "subflows": 8}, {"endpoints": 255, "subflows": 64})
    assert world.values() == BEFORE and not world.processes("guardian")


# Roles.


def test_lines_pass_through_in_both_directions(world):
    session = world.session()
    session.expect("hello")
    session.tell("start", id=3, role="sender")
    session.tell("tell", id=3, line={"nonsense": 2**64 - 1})
    message = session.expect("said")
    assert (
        message["id"] == 3 and message["line"]["event"] == "error" and "nonsense" in message["line"]["reason"]
    )
    ended = {"event": "ended", "id": 3, "status": 1, "signal": None, "stderr": ""}
    assert session.expect("ended") == ended


def test_roles_end_with_their_input_and_can_be_killed(world):
    session = world.session()
    session.expect("hello")
    for id in (1, 2):
        session.tell("start", id=id, role="awake")
        assert session.expect("said")["line"]["event"] == "ready"
    session.tell("close", id=1)
    assert session.expect("ended") == {"event": "ended", "id": 1, "status": 0, "signal": None, "stderr": ""}
    session.tell("kill", id=2)
    ended = {"event": "ended", "id": 2, "status": None, "signal": 9, "stderr": ""}
    assert session.expect("ended") == ended
    # One that has ended hears nothing, and its number is free again.
    session.tell("tell", id=2, line={})
    session.tell("start", id=2, role="awake")
    assert session.expect("said")["id"] == 2


@pytest.mark.parametrize("role", ["juggler", "host", "guardian"])
def test_what_is_no_role_ends_at_once_with_the_names_of_those_there_are(world, role):
    session = world.session()
    session.expect("hello")
    session.tell("start", id=1, role=role)
    ended = session.expect("ended")
    *_, names = ended["stderr"].partition("expected one of ")
    known, _, word = names.partition(", found ")
    assert (ended["status"], word) == (2, role)
    assert {"sender", "receiver", "paths"} <= {*known.split(", ")} and role not in known.split(", ")


def test_roles_are_killed_with_their_host(world):
    session = world.session()
    session.expect("hello")
    session.tell("start", id=1, role="awake")
    session.expect("said")
    (role,) = world.processes("awake")
    session.kill()
    until(lambda: gone(role), "the role's end")


def test_a_program_that_was_sent_removes_itself_and_still_starts_roles_and_a_guardian(world, tmp_path):
    directory = tmp_path / "sent"
    directory.mkdir()
    program = shutil.copy(agent.PROGRAM, directory / "mptune-agent")
    session = Session(world.environment(), str(program), "--unlink")
    world.sessions.append(session)
    session.set()
    assert not directory.exists()
    session.tell("start", id=1, role="awake")
    assert session.expect("said")["line"]["event"] == "ready"
    session.kill()
    until(world.is_as_before, "the guardian's work")
