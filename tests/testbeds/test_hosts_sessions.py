"""The two ends of a session on hosts: what is put back, who is waited for, and what is repeated."""

from typing import Any

import pytest

from mptune.errors import Failure, InputError, MptuneError, TrialError
from mptune.machines import MachineError
from mptune.runner.running import run_trials
from mptune.testbeds import hosts as hosts_testbed
from mptune.testbeds._hosts_venue import HostsVenue
from mptune.testbeds.hosts import HostsTestbed
from mptune.trial import Observation
from tests.plugins import two_hosts

SECOND = 1_000_000_000


# the venue


class Host:
    """Answers requests, and notes them."""

    def __init__(self, name, *, kept=(), gone=False):
        self.name, self.heard, self._kept, self._gone = name, [], kept, gone

    def ask(self, action, **arguments):
        self.heard.append((action, *arguments.values()))
        return len(self.heard) - 1

    def collect(self, number):
        if self._gone:
            raise TrialError(f"{self.name} is gone")
        answer = {"kept": dict.fromkeys(self._kept, "changed meanwhile")}
        return answer if self.heard[number][0] == "restore" else {"before": {}}


USERSPACE = {"net.mptcp.path_manager": "userspace"}


def venue(alice, bob, lasting=None):
    both: dict[Any, Any] = {"local": alice, "remote": bob}
    return HostsVenue(both, lasting or {}, dict.fromkeys(both, USERSPACE), {})


def test_the_path_manager_is_chosen_for_a_moment_and_all_is_put_back_in_the_end():
    alice, bob = Host("alice"), Host("bob")
    with venue(alice, bob, {"remote": {"net.mptcp.enabled": "1"}}) as place:
        place.prepare()
        place.open()
        place.confirm()
        place.close()
        assert alice.heard == [("set", USERSPACE), ("restore", list(USERSPACE))]
    assert alice.heard[2:] == [("restore", None)]
    assert bob.heard[:2] == [("set", {"net.mptcp.enabled": "1"}), ("set", USERSPACE)]
    assert bob.heard[2:] == [("restore", list(USERSPACE)), ("restore", None)]


def test_nothing_is_put_back_where_nothing_was_changed():
    alice, bob = Host("alice"), Host("bob")
    with venue(alice, bob) as place:
        place.prepare()
    assert not alice.heard and not bob.heard


def test_a_host_that_is_gone_does_not_keep_the_other_from_being_restored():
    alice, bob = Host("alice", gone=True), Host("bob", kept=["net.mptcp.path_manager"])
    place = venue(alice, bob)

    def opened():
        with place:
            place.open()
            place.confirm()

    with pytest.raises(TrialError, match="alice is gone"):
        opened()
    assert bob.heard[-1] == ("restore", None)
    assert place.about == {"not put back on bob: net.mptcp.path_manager": "changed meanwhile"}


def test_paths_between_hosts_are_not_cut():
    with pytest.raises(TrialError, match="cannot be cut"):
        venue(Host("alice"), Host("bob")).cut("down", 0)


# sessions


class Session(Host):
    """A session that can be over."""

    def __init__(self, target, name):
        super().__init__(name)
        self.target, self.killed, self.closed, self.gone = target, False, False, False
        self.hello, self.hurried, self.unheard = {"net_admin": False}, False, False

    def collect(self, number):
        return two_hosts.LOOKED

    def start(self, role, name):
        raise AssertionError("no role is needed")

    def look(self):
        if self.gone:
            raise TrialError(f"{self.name}: the connection was lost")
        return two_hosts.LOOKED

    def hurry(self):
        self.hurried = True

    def close(self):
        self.closed, self.unheard = True, self.gone and self.hurried


@pytest.fixture
def sessions(monkeypatch):
    """All sessions that were made; the last entry of `refused` is why there are no more.

    What begins with "unreachable" is away.
    """
    made: list[Session] = []
    refused: list[str] = []

    def connect(target, name, interrupted):
        if refused:
            raise MachineError(f"{name}: {refused[-1]}", away=refused[-1].startswith("unreachable"))
        made.append(Session(target, name))
        return made[-1]

    monkeypatch.setattr("mptune.machines.ssh.connect", connect)
    return made, refused


def test_nothing_is_connected_before_a_session_or_trial_needs_it(sessions, trial):
    made, refused = sessions
    refused.append("unreachable")
    bed = HostsTestbed()
    bed.check(trial())
    assert not made
    with pytest.raises(MptuneError, match="Laptop: unreachable"):
        run_trials(bed, [trial()])


def test_a_session_refuses_the_last_of_its_trials_before_the_first(sessions, trial):
    """Plain TCP could run without privilege."""
    bed = HostsTestbed()
    first = trial(pm="default", protocol="tcp", cc="reno")
    with pytest.raises(InputError, match="--pm"):
        run_trials(bed, [first, trial(cc="reno")])
    made, _ = sessions
    assert [session.target for session in made] == ["me@laptop.example", "server"]
    bed.close()
    assert all(session.closed for session in made)


def test_a_session_that_is_over_is_begun_again_and_a_host_that_is_away_fails_the_trial_alone(sessions, trial):
    made, refused = sessions
    bed = HostsTestbed()
    asked = trial(pm="default", protocol="tcp", cc="reno")
    bed.check(asked)
    with bed.session():
        pass
    made[0].killed = True
    bed.check(asked)
    with bed.session():
        pass
    assert len(made) == 3 and made[0].closed
    made[2].killed = True
    refused.append("unreachable")
    with pytest.raises(TrialError, match="Laptop: unreachable") as caught:
        bed.run(asked)
    assert caught.value.kind == "unreachable"


@pytest.fixture
def waiting(sessions, trial, monkeypatch):
    """A testbed with patience whose first host is away, what it printed, and what ends the absence."""
    made, refused = sessions
    monkeypatch.setattr(hosts_testbed, "_PAUSE_S", 0)
    monkeypatch.setattr(HostsTestbed, "_measure", lambda bed, asked: bed._facts(asked.topology))
    bed, printed = HostsTestbed(), []
    asked = trial(pm="default", protocol="tcp", cc="reno")
    bed.check(asked)
    with bed.session():
        pass
    made[0].killed = True
    refused.append("unreachable")

    def wait(patience_s, then):
        def say(sentence):
            printed.append(sentence)
            then()

        bed.be_patient(patience_s, say)
        with bed.session():
            return bed._facts(asked.topology)

    return wait, printed


def test_a_host_that_is_away_is_waited_for_where_that_was_asked_for(sessions, waiting):
    made, refused = sessions
    wait, printed = waiting
    assert set(wait(60, refused.clear)) == {"local", "remote"}
    assert printed[0] == "Waiting for Laptop: unreachable" and printed[1].startswith("Laptop is back after ")
    assert len(made) == 3


def test_patience_with_a_host_ends(waiting):
    wait, printed = waiting
    with pytest.raises(TrialError, match="Laptop: unreachable") as caught:
        wait(0.01, lambda: None)
    assert caught.value.kind == "unreachable" and len(printed) == 1


@pytest.fixture
def beginning(sessions, trial, monkeypatch):
    """A patient testbed that has not begun, its output, and how it begins; each sentence calls `then`."""
    monkeypatch.setattr(hosts_testbed, "_PAUSE_S", 0)
    bed, printed = HostsTestbed(), []

    def begin(then):
        def say(sentence):
            printed.append(sentence)
            then()

        bed.be_patient(60, say)
        bed.check(trial(pm="default", protocol="tcp", cc="reno"))
        with bed.session():
            pass

    return begin, printed


def test_a_host_that_is_away_at_the_beginning_is_waited_for_too(sessions, beginning):
    made, refused = sessions
    begin, printed = beginning
    refused.append("unreachable")
    begin(refused.clear)
    assert printed[0] == "Waiting for Laptop: unreachable" and printed[1].startswith("Laptop is back after ")
    assert len(printed) == len(made) == 2


def test_what_only_the_user_can_mend_is_not_waited_for_at_the_beginning(sessions, beginning):
    _, refused = sessions
    begin, printed = beginning
    refused.append("its host key is not known here")
    with pytest.raises(MachineError, match="Laptop: its host key"):
        begin(refused.clear)
    assert not printed


def test_a_host_that_comes_up_with_something_to_mend_is_not_waited_for_any_longer(sessions, beginning):
    _, refused = sessions
    begin, printed = beginning
    refused.append("unreachable")
    with pytest.raises(MachineError, match="Laptop: its host key"):
        begin(lambda: refused.append("its host key is not known here"))
    assert len(printed) == 1


def test_after_ctrl_c_silent_hosts_are_not_waited_for_and_named(sessions, trial):
    made, _ = sessions
    bed = HostsTestbed()
    bed.check(trial(pm="default", protocol="tcp", cc="reno"))

    def broken_off():
        with bed.session():
            made[1].gone = True
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        broken_off()
    assert all(session.hurried and session.closed for session in made)
    assert caught.value.__notes__ == ["Server could not be reached; it restores its settings within 10 s"]


def test_a_trial_that_a_host_left_is_repeated_once_it_is_back(sessions, trial, monkeypatch):
    made, _ = sessions
    bed = HostsTestbed()
    observations: list[Observation] = []

    def measure(bed, asked):
        bed._facts(asked.topology)
        made[0].killed = made[0].gone = True
        observations.append(
            two_hosts.observation("A-X", 0, failed=Failure("died", "lost") if not observations else None)
        )
        return observations[-1]

    monkeypatch.setattr(HostsTestbed, "_measure", measure)
    bed.be_patient(60, lambda sentence: None)
    assert bed.run(trial()).failed is None and len(observations) == 2 and len(made) == 3
    assert observations[-1].metadata["repeated"] == 1


def test_after_an_interrupt_nothing_is_run(sessions, trial):
    bed = HostsTestbed()
    bed.interrupt()
    with pytest.raises(KeyboardInterrupt):
        bed.run(trial())
    assert not sessions[0]


@pytest.mark.parametrize(("kind", "times"), [("overloaded", 2), ("died", 1)])
def test_only_a_trial_that_failed_for_being_overloaded_is_repeated(trial, monkeypatch, kind, times):
    """A busy host that is lost is not waited for again."""
    measured = []

    def measure(bed, asked):
        measured.append(asked)
        observation = two_hosts.observation("A-X", 0, failed=Failure(kind, "whatever"))
        observation.metadata["overloaded"] = "busy"
        return observation

    monkeypatch.setattr(HostsTestbed, "_measure", measure)
    observation = HostsTestbed().run(trial())
    assert len(measured) == times and ("repeated" in observation.metadata) == (times == 2)
