"""The agent's role `host`: roles under a controller elsewhere, and settings put back whatever happens.

A directory of files stands in for /proc/sys, so that nothing here needs root or touches this machine.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mptune.linux import agent
from tests.plugins.kills import ending, everywhere, gone, kill, stopped
from tests.plugins.waiting import PATIENCE_S, until

MANAGER, RMEM, PLAIN = "net.mptcp.path_manager", "net.ipv4.tcp_rmem", "net.ipv4.tcp_plain"
#: As the kernel writes them, and one without the line feed at the end.
BEFORE = {MANAGER: b"kernel\n", RMEM: b"4096\t131072\t6291456\n", PLAIN: b"1"}
WANTED = {MANAGER: "userspace", RMEM: "4096 131072 1048576", PLAIN: "0"}

Message = dict[str, Any]


class World:
    """Settings and a directory for sessions, and what runs with them."""

    def __init__(self, directory: Path) -> None:
        self.root, self.run = directory / "sys", directory / "run"
        for name, value in BEFORE.items():
            self.file(name).parent.mkdir(parents=True, exist_ok=True)
            self.file(name).write_bytes(value)
        self.sessions: list[Session] = []

    def file(self, name: str) -> Path:
        return Path(self.root, *name.split("."))

    def values(self) -> dict[str, bytes]:
        return {name: self.file(name).read_bytes() for name in BEFORE}

    def journals(self) -> list[Path]:
        return sorted(self.run.glob("journal-*.json"))

    def environment(self) -> dict[str, str]:
        return {"MPTUNE_SYSCTL_ROOT": str(self.root), "MPTUNE_RUN_DIRECTORY": str(self.run)}

    def session(self, stop_at: str = "", **others: str) -> "Session":
        session = Session({**self.environment(), "MPTUNE_STOP_AT": stop_at, **others})
        self.sessions.append(session)
        return session

    def processes(self, role: str) -> list[int]:
        """The processes of a role that belong here."""
        mark = f"MPTUNE_RUN_DIRECTORY={self.run}".encode()
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
                if words[1:2] == [role.encode()] and mark in (process / "environ").read_bytes().split(b"\0"):
                    found.append(int(process.name))
            except OSError:
                continue  # it has ended
        return found

    def guardian(self) -> int:
        """The guardian, which is one process once it watches."""
        found = until(lambda: pids if len(pids := self.processes("guardian")) == 1 else None, "a guardian")
        return found[0]

    def is_as_before(self) -> bool:
        """Nothing is changed, noted or running."""
        return self.values() == BEFORE and not self.run.exists() and not self.processes("guardian")

    def end(self) -> None:
        for session in self.sessions:
            session.end()
        for role in ("guardian", "awake"):
            for pid in self.processes(role):
                os.kill(pid, signal.SIGKILL)


class Session:
    """A process of the role `host`, and its controller's side of the pipes."""

    def __init__(self, environment: Mapping[str, str], program: str | None = None, *options: str) -> None:
        command = [program, "host", "--greet", *options] if program else agent.command("host")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **environment},
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.partial = b""
        self.lines: list[bytes] = []

    def tell(self, action: str, **more: object) -> None:
        self.stdin.write(json.dumps({"action": action, **more}).encode() + b"\n")
        self.stdin.flush()

    def next(self) -> Message | None:
        """The next message; none at the end. Speaks meanwhile, as a controller does."""
        end = time.monotonic() + PATIENCE_S
        while True:
            while self.lines:
                if (line := self.lines.pop(0)).strip():
                    message: Message = json.loads(line)
                    return message
            assert time.monotonic() < end, "waited in vain for a message"
            if select.select([self.stdout], [], [], 0.5)[0]:
                chunk = os.read(self.stdout.fileno(), 1 << 16)
                if not chunk:
                    return None
                *self.lines, self.partial = (self.partial + chunk).split(b"\n")
            elif not self.stdin.closed:
                self.tell("beat")

    def expect(self, event: str) -> Message:
        while (message := self.next()) is not None:
            if message["event"] == event:
                return message
        raise AssertionError(f"it ended without {event}")

    def set(self, settings: Mapping[str, str] = WANTED) -> Message:
        """A session that has begun and changed these settings; its answer."""
        self.expect("hello")
        self.tell("set", id=1, settings=settings)
        return self.expect("set")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        self.kill()
        for pipe in (self.stdin, self.stdout):
            if not pipe.closed:
                pipe.close()


@pytest.fixture
def world(tmp_path) -> Iterator[World]:
    world = World(tmp_path)
    try:
        yield world
    finally:
        world.end()


# The session


def test_it_greets_with_what_it_is(world):
    session = world.session()
    hello = session.expect("hello")
    assert hello["protocol"] == 1 and hello["pid"] == session.process.pid
    assert hello["kernel"] == os.uname().release and hello["machine"] == os.uname().machine
    assert hello["hostname"] == os.uname().nodename and hello["uid"] == os.geteuid()
    assert hello["recovered"] == [] and hello["kept"] == {}


def test_settings_are_set_and_put_back_byte_for_byte(world):
    session = world.session()
    shown = {name: " ".join(value.decode().split()) for name, value in BEFORE.items()}
    assert session.set()["before"] == shown
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
    assert world.is_as_before()


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


# Ways to end


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
    assert world.is_as_before() and gone(role)


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
    session = world.session(MPTUNE_SILENCE_MS="200")
    session.set()
    assert session.process.wait(PATIENCE_S) == 1
    assert "nothing heard" in session.expect("error")["reason"]
    assert world.is_as_before()


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


# Kills


def test_a_session_that_is_killed_as_it_begins_changes_nothing(world):
    session = world.session("host 3")  # the directory, the lock, its signature
    stopped(session.process.pid)
    session.kill()
    assert world.values() == BEFORE
    (lock,) = world.run.iterdir()
    assert f"{session.process.pid} " in lock.read_text()
    # The next one takes it.
    following = world.session()
    following.expect("hello")
    assert [*world.run.iterdir()] == [lock]
    following.tell("stop")
    assert following.process.wait(PATIENCE_S) == 0 and world.is_as_before()


def whole(world: World, stop_at: str) -> Session:
    """A session that is told all that one is told."""
    session = world.session(stop_at)
    session.tell("set", id=1, settings=WANTED)
    session.tell("set", id=2, settings={RMEM: "1 2 3"})
    session.tell("restore", id=3, names=[PLAIN])
    session.tell("stop")
    return session


def test_a_session_that_is_killed_anywhere_is_tidied_up_by_its_guardian(world):
    def kills_at(number: int) -> bool:
        session = whole(world, f"host {number}")
        if ending(session.process.pid) == "Z":
            return False
        session.kill()
        until(lambda: not world.processes("guardian"), "the guardian's work")
        assert world.values() == BEFORE and not world.journals(), number
        recovered(world, BEFORE)
        return True

    assert everywhere("session and its guardian", kills_at) > 15


@pytest.mark.parametrize("first", ["host", "guardian"])
def test_when_both_are_killed_anywhere_the_next_session_puts_everything_back_first(world, first):
    def kills_at(number: int) -> bool:
        session = whole(world, f"host {number}")
        if ending(session.process.pid) == "Z":
            return False
        guardians = world.processes("guardian")
        for guardian in guardians:
            os.kill(guardian, signal.SIGSTOP)
        left = world.values()
        if first == "host":
            session.kill()
        for guardian in guardians:
            kill(guardian)
        session.kill()
        assert world.values() == left and (world.journals() or left == BEFORE), number
        recovered(world, left)
        return True

    assert everywhere(f"session and guardian, {first} first", kills_at) > 15


def test_a_guardian_that_is_killed_anywhere_leaves_the_rest_to_the_next_session(world):
    def kills_at(number: int) -> bool:
        session = world.session(f"guardian {number}")
        session.set()
        guardian = world.guardian()
        session.kill()
        if ending(guardian) == "Z":
            return False
        left = world.values()
        kill(guardian)
        recovered(world, left)
        return True

    assert everywhere("guardian at work", kills_at) > 4
    assert world.is_as_before()


def test_a_session_that_is_killed_anywhere_while_it_tidies_up_leaves_the_rest_to_the_next(world):
    def kills_at(number: int) -> bool:
        session = world.session("guardian alone")
        session.set()
        guardian = world.guardian()
        session.kill()
        stopped(guardian)
        kill(guardian)
        second = world.session(f"host {number}")
        second.tell("stop")
        if ending(second.process.pid) == "Z":
            return False
        left = world.values()
        second.kill()
        recovered(world, left)
        return True

    assert everywhere("session that tidies up", kills_at) > 5
    assert world.is_as_before()


def test_a_guardian_that_is_killed_gets_a_successor(world):
    session = world.session()
    session.set()
    seen = set()
    for _ in range(3):
        seen.add(guardian := world.guardian())
        os.kill(guardian, signal.SIGKILL)
        until(lambda: {*world.processes("guardian")} - seen, "another guardian")
    world.guardian()
    session.tell("restore", id=2, names=[PLAIN])
    assert session.expect("restored")["kept"] == {}
    session.kill()
    until(world.is_as_before, "the guardian's work")


def test_a_guardian_is_not_ended_by_what_ends_a_session(world):
    session = world.session()
    session.set()
    guardian = world.guardian()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(guardian, number)
    assert os.getsid(guardian) == os.getpgid(guardian) == guardian
    session.kill()
    until(world.is_as_before, "the guardian's work")


def test_a_session_begins_when_the_guardian_of_the_last_one_is_done(world):
    session = world.session("guardian 1")
    session.set()
    guardian = world.guardian()
    session.kill()
    stopped(guardian)
    following = world.session()
    os.kill(guardian, signal.SIGCONT)
    following.expect("hello")
    assert world.values() == BEFORE and not world.journals()


def test_journals_of_other_namespaces_are_left_and_those_of_another_start_removed(world):
    session = world.session()
    session.set()
    guardian = world.guardian()
    os.kill(guardian, signal.SIGSTOP)
    stopped(guardian)
    session.kill()
    stopped_values = world.values()
    (journal,) = world.journals()
    os.kill(guardian, signal.SIGKILL)
    until(lambda: gone(guardian), "the guardian's end")
    told = json.loads(journal.read_text())
    told["namespace"]["inode"] += 1
    journal.write_text(json.dumps(told))
    session = world.session()
    assert session.expect("hello")["recovered"] == []
    assert world.values() == stopped_values and world.journals() == [journal]
    session.tell("stop")
    session.process.wait(PATIENCE_S)
    journal.write_text(json.dumps({**told, "boot": "another"}))
    session = world.session()
    assert session.expect("hello")["recovered"] == []
    assert world.values() == stopped_values and not world.journals()


def recovered(world: World, left: Mapping[str, bytes]) -> None:
    """The next session tidies up before it greets; `left` is what it finds."""
    session = world.session()
    hello = session.expect("hello")
    assert world.values() == BEFORE and not world.journals() and hello["kept"] == {}
    assert {name for name in BEFORE if left[name] != BEFORE[name]} <= {*hello["recovered"]}
    session.tell("stop")
    assert session.process.wait(PATIENCE_S) == 0
    assert world.is_as_before()


# Facts


def test_a_look_tells_what_the_host_is_like_and_changes_nothing(world):
    session = world.session()
    session.expect("hello")
    pairs = [["127.0.0.1", "127.0.0.1"], ["192.0.2.77", "203.0.113.1"]]
    session.tell("look", id=11, names=[MANAGER, "net.ipv4.nothing"], pairs=pairs)
    found = session.expect("looked")
    assert found["id"] == 11 and found["kernel"] == os.uname().release
    assert found["processors"] == len(os.sched_getaffinity(0)) and found["load"] >= 0
    assert found["sysctls"] == {MANAGER: "kernel"}
    (loopback,) = (one for one in found["interfaces"] if one["device"] == "lo")
    if loopback["up"]:
        assert {"ip": "127.0.0.1", "prefix": 8} in loopback["addresses"]
        assert found["leaves"][0]["device"] == "lo"
    here, elsewhere = found["leaves"]
    assert [here["from"], here["to"]] == pairs[0]
    # An address that is not this machine's.
    assert elsewhere["device"] is None and "192.0.2.77" in elsewhere["reason"]
    assert {rule["table"] for rule in found["rules"]} >= {253, 254, 255}
    assert {*found["offloads"]} == {one["device"] for one in found["interfaces"]}
    assert world.values() == BEFORE and not world.processes("guardian")


# Roles


def test_lines_pass_through_in_both_directions(world):
    session = world.session()
    session.expect("hello")
    session.tell("start", id=3, role="sender")
    session.tell("tell", id=3, line={"nonsense": 2**64 - 1})
    said = session.expect("said")
    assert said["id"] == 3 and said["line"]["event"] == "error" and "nonsense" in said["line"]["reason"]
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
    known, _, found = names.partition(", found ")
    assert (ended["status"], found) == (2, role)
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
