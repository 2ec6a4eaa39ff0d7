"""The agent's role `host`, killed at any step, with or without its guardian: everything is put back."""

import json
import os
import signal
from collections.abc import Mapping

import pytest

from tests.linux.host_world import BEFORE, PLAIN, RMEM, WANTED, Session, World
from tests.plugins.kills import ending, everywhere, gone, kill, stopped
from tests.plugins.waiting import PATIENCE_S, until


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
    assert following.process.wait(PATIENCE_S) == 0
    until(world.is_as_before, "the guardian's end")


def whole(world: World, stop_at: str) -> Session:
    """A session that gets every order there is."""
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
    until(world.is_as_before, "the guardian's end")


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
    until(world.is_as_before, "the guardian's end")


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
    noted = json.loads(journal.read_text())
    noted["namespace"]["inode"] += 1
    journal.write_text(json.dumps(noted))
    session = world.session()
    assert session.expect("hello")["recovered"] == []
    assert world.values() == stopped_values and world.journals() == [journal]
    session.tell("stop")
    session.process.wait(PATIENCE_S)
    journal.write_text(json.dumps({**noted, "boot": "another"}))
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
    until(world.is_as_before, "the guardian's end")
