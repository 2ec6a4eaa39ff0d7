"""Refusals of the namespaces testbed before it runs anything, and its trials on a machine that is busy."""

from contextlib import nullcontext

import msgspec
import pytest

from mptune import _core
from mptune.errors import InputError, MptuneError
from mptune.linux import agent, doctor, quiet
from mptune.linux.quiet import Noise, Quiet
from mptune.linux.sandbox import leftovers
from mptune.runner.runner import TrialRunner
from mptune.runner.running import run_trials
from mptune.testbeds import create
from mptune.testbeds.namespaces import NamespacesTestbed
from mptune.topology import TcpBackground, UdpBackground
from mptune.trial import Bulk, Observation, PlannedTrial, Trial

pytestmark = pytest.mark.needs("linux")


@pytest.fixture
def testbed(monkeypatch):
    """On a machine that has everything that is required."""
    monkeypatch.setattr(leftovers, "end_strays", lambda: None)
    monkeypatch.setattr(doctor, "obstacle", lambda: None)
    return create("namespaces")


def test_without_ipv6_it_is_refused_with_the_reason_and_tried_once(testbed, network, monkeypatch):
    tried = []

    def obstacle():
        tried.append(1)
        return "Address family not supported by protocol (Linux 6.18): needs IPv6"

    monkeypatch.setattr(doctor, "obstacle_of_ipv6", obstacle)
    common = {
        "topology": network,
        "pm": "fullmesh",
        "cc": "reno",
        "buffer_bytes": 2**20,
        "workload": Bulk(duration_ns=10**9),
    }
    testbed.check(Trial(**common, seed=1))
    assert not tried
    for seed, family in ((1, "ipv6"), (2, "both")):
        with pytest.raises(InputError) as error:
            testbed.check(Trial(**common, seed=seed, family=family))
        assert str(error.value).startswith(
            f"--family: expected ipv4, found {family}: Address family not supported"
        )
    assert len(tried) == 1


def test_in_a_guest_only_the_agent_is_looked_at(network, monkeypatch):
    """Its kernel was built with everything else, and nothing ran there before."""
    untried = "tried what every guest has"
    for name in ("obstacle", "obstacle_of_ipv6"):
        monkeypatch.setattr(doctor, name, lambda: pytest.fail(untried))
    monkeypatch.setattr(leftovers, "end_strays", lambda: pytest.fail(untried))
    monkeypatch.setattr(agent, "version", _core.version)
    guest = NamespacesTestbed(in_guest=True)
    workload = Bulk(duration_ns=10**9)
    common = {"topology": network, "pm": "fullmesh", "cc": "reno", "buffer_bytes": 2**20}
    guest.check(Trial(**common, workload=workload, seed=1, family="ipv6"))
    monkeypatch.setattr(agent, "version", lambda: "0.0.0")
    with pytest.raises(MptuneError, match=r"version 0\.0\.0 beside mptune"):
        NamespacesTestbed(in_guest=True)


def test_connections_of_others_may_be_as_many_as_there_can_be(testbed, network):
    datagrams = UdpBackground(link="A-X forward", rate_bps=1_000_000, packet_bytes=1500)
    connection = TcpBackground(path="A-X", cc="cubic")
    testbed.check_network(msgspec.structs.replace(network, background=(datagrams, *[connection] * 1000)))
    with pytest.raises(InputError, match="background: expected at most 1000"):
        testbed.check_network(msgspec.structs.replace(network, background=(connection,) * 1001))


def test_fixed_buffers_for_which_this_machine_has_no_memory_are_refused(testbed, network, monkeypatch):
    """Both ends are on it; in the search for an answer they are ruled out."""
    monkeypatch.setattr(doctor, "tcp_memory", lambda: 60 * 2**20)
    common = {"topology": network, "pm": "fullmesh", "cc": "reno", "workload": Bulk(duration_ns=10**9)}
    testbed.check(Trial(**common, buffer_bytes=10 * 2**20, seed=1))
    with pytest.raises(
        InputError, match=r"--buffer: expected at most 10 MiB, .* share 60 MiB .*found 11 MiB"
    ):
        testbed.check(Trial(**common, buffer_bytes=11 * 2**20, seed=1))
    assert testbed.today(network, {}).fixed_bytes == 10 * 2**20
    monkeypatch.setattr(doctor, "tcp_memory", lambda: None)
    testbed.check(Trial(**common, buffer_bytes=11 * 2**20, seed=1))


class Spoiled(Quiet):
    """A machine that is noisy until it was looked at this often, and this many of whose trials are late."""

    def __init__(self, noisy, late):
        self.noisy, self.late, self.now = noisy, late, 0.0
        self.limits: list[float] = []
        super().__init__(self.look, lambda: self.now, self.advance)

    def wait(self, limit_s, interrupted):
        self.limits.append(limit_s)
        return super().wait(limit_s, interrupted)

    def look(self):
        self.noisy -= 1
        return Noise(0.1 if self.noisy >= 0 else 1e-4, 0.0)

    def advance(self, seconds):
        self.now += seconds

    def measure(self, trial, rate_bps, recording):
        self.late -= 1
        observation = Observation(
            testbed="namespaces",
            duration_ns=10**9,
            in_order_bytes=1,
            bins=[1],
            subflows=[],
            metadata={"overloaded": "late"} if self.late >= 0 else {},
        )
        return observation, None, None


@pytest.fixture
def spoiled(network, monkeypatch):
    """The testbed on such a machine, with a trial of it."""
    monkeypatch.setattr(leftovers, "end_strays", lambda: None)
    monkeypatch.setattr(doctor, "obstacle", lambda: None)
    trial = Trial(
        topology=network,
        pm="fullmesh",
        cc="reno",
        buffer_bytes=2**20,
        workload=Bulk(duration_ns=10**9),
        seed=1,
    )

    def make(**world):
        machine = Spoiled(**world)
        testbed = NamespacesTestbed(machine)
        monkeypatch.setattr(testbed, "_measure", machine.measure)
        return machine, testbed, trial

    return make


def test_a_trial_waits_for_a_quiet_machine_and_records_how_long(spoiled):
    machine, testbed, trial = spoiled(noisy=5, late=0)
    observation = testbed.run(trial)
    noise = "100.0 ms late, 0% of the processor time taken by the host"
    assert observation.metadata == {"waited_for_quiet_s": machine.now, "noise": noise} and machine.now == 3.5
    assert testbed.note() == "waited once for a quiet machine, 4 s in all"
    assert machine.limits == [quiet.LIMIT_S]


def test_on_a_quiet_machine_nothing_is_waited_for(spoiled):
    machine, testbed, trial = spoiled(noisy=0, late=0)
    assert testbed.run(trial).metadata == {} and machine.now == 0 and testbed.note() == ""


def test_an_overloaded_trial_is_repeated_once_after_a_longer_wait(spoiled):
    machine, testbed, trial = spoiled(noisy=2, late=1)
    metadata = testbed.run(trial).metadata
    assert (metadata["repeated"], metadata["waited_for_quiet_s"]) == (1, 2.0) and "overloaded" not in metadata
    assert machine.limits == [quiet.LIMIT_S, quiet.LIMIT_AGAIN_S]
    _, testbed, trial = spoiled(noisy=0, late=9)
    assert testbed.run(trial).metadata == {"repeated": 1, "overloaded": "late"}


def test_a_machine_that_did_not_become_quiet_is_in_the_record(spoiled):
    machine, testbed, trial = spoiled(noisy=10**6, late=0)
    metadata = testbed.run(trial).metadata
    assert metadata["waited_for_quiet_s"] == machine.now == quiet.LIMIT_S
    assert metadata["noise"].endswith("taken by the host, for too long")


def test_the_progress_has_the_time_that_was_waited(spoiled, monkeypatch):
    _, testbed, trial = spoiled(noisy=5, late=0)
    monkeypatch.setattr(testbed, "check", lambda trial: None)
    notes = []
    monkeypatch.setattr(testbed, "session", nullcontext)
    run_trials(testbed, [trial], progress=lambda done, total, note="": notes.append(note))
    planned = PlannedTrial(purpose="sweep", run=0, trial=trial)
    TrialRunner(testbed).measure([planned], progress=lambda done, total, note="": notes.append(note))
    sentence = "waited once for a quiet machine, 4 s in all"
    assert notes[0] == sentence
    assert notes[1].startswith("best ") and notes[1].endswith(f", {sentence}")
