"""Trials between two machines where something in the middle, or at one end, is not as it should be.

Each case ends with the right result, or fails by the right name; afterwards both machines are as before.
"""

import csv
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace

import pytest

from mptune.campaign.definition import Definition, SweepOptions
from mptune.campaign.execution import start
from mptune.errors import InputError
from mptune.machines import MachineError
from mptune.runner.progress import Reporter
from mptune.testbeds import host_doctor
from mptune.testbeds import hosts as hosts_testbed
from tests.hosts import traffic
from tests.hosts.machine import Machine
from tests.hosts.router import DARK_AFTER_S
from tests.hosts.trials import carrying, hosts, listening, sent
from tests.hosts.world import PLAIN, SERVER, Side, Uplink
from tests.plugins.trials import SECOND, trial
from tests.plugins.waiting import PATIENCE_S, until

#: Where a machine lets programs run.
PLACES = ("/run", "/tmp", "/dev/shm", "/root")
#: Payload of a link of 1 Mbit/s, with the headers of MPTCP and time stamps, bytes per second.
PAYLOAD = 0.95e6 / 8


# In the middle


@pytest.mark.parametrize("kind", ["strips", "strips-later", "drops-syn"])
def test_a_middlebox_on_the_first_path_makes_it_a_fallback(world, at, kind):
    topology = at(world)
    with world.uplink("alice", 0).middlebox(kind), hosts(world) as bed:
        observation = bed.run(trial(topology, duration_ns=5 * SECOND))
    assert observation.failed is not None and observation.failed.kind == "fallback"
    with traffic.connected(world) as ends:  # nobody else has lost MPTCP
        traffic.exchange(ends)
        assert traffic.mptcp(ends.client).alive


@pytest.mark.parametrize("kind", ["strips", "strips-later", "drops-syn", "refuses-joins", "black-hole"])
def test_a_middlebox_on_the_second_path_costs_that_path_alone(world, at, kind):
    topology = at(world)
    with world.uplink("alice", 1).middlebox(kind), hosts(world) as bed:
        observation = bed.run(trial(topology))
    carried = sent(observation)
    assert carried["A-X"] > PAYLOAD * 20 / 2 and not carried.get("B-X")


def test_where_nothing_gets_through_it_is_unreachable(world, at):
    topology = at(world)
    with world.uplink("alice", 0).middlebox("black-hole"), hosts(world) as bed:
        observation = bed.run(trial(topology))
    assert observation.failed is not None and observation.failed.kind == "unreachable"


def test_a_connection_goes_on_where_its_first_path_goes_dark(world, at):
    topology = at(world)
    with world.uplink("alice", 0).middlebox("dark"), hosts(world) as bed:
        observation = bed.run(trial(topology, duration_ns=(DARK_AFTER_S + 4) * SECOND))
    first, second = observation.subflows
    assert observation.failed is None and (first.path, second.path) == ("A-X", "B-X")
    assert sum(first.bins[-20:]) == 0 < sum(first.bins[: 10 * DARK_AFTER_S - 5])
    assert sum(observation.bins[-20:]) > 2 * PAYLOAD * 10 / 2


def test_behind_nat_and_with_asymmetric_rates_each_direction_has_its_own(make_world, at):
    """And nobody is reached from outside."""
    uplinks = Uplink(up_mbps=4, down_mbps=16, nat=True), Uplink(up_mbps=8, down_mbps=2, nat=True)
    world = make_world((Side(uplinks=uplinks), SERVER))
    topology = at(world)
    with hosts(world) as bed:
        carried = sent(bed.run(trial(topology, duration_ns=3 * SECOND)))
        back = bed.run(trial(topology.reversed(), initial_path="X-A"))
    assert 0.3 < carried["A-X"] / (3 * PAYLOAD * 4) < 1.05
    assert 0.3 < carried["B-X"] / (3 * PAYLOAD * 8) < 1.05
    assert back.failed is not None and back.failed.kind == "unreachable"


def test_downloads_have_the_rates_down(make_world, at):
    uplinks = Uplink(up_mbps=4, down_mbps=16), Uplink(up_mbps=8, down_mbps=2)
    world = make_world((Side(uplinks=uplinks), SERVER))
    with hosts(world) as bed:
        carried = sent(bed.run(trial(at(world).reversed(), duration_ns=3 * SECOND)))
    # Eight times as fast; the other way it is half as fast.
    assert carried["X-A"] > 2 * carried["X-B"] > 0


def test_a_path_whose_large_packets_vanish_carries_nothing_alone_or_beside_another(make_world, at):
    vanishing = Uplink(mtu=1400, middlebox="icmp-blocked")
    world = make_world((Side(uplinks=(Uplink(), vanishing)), SERVER))
    topology = at(world)
    with hosts(world) as bed:
        together = bed.run(trial(topology))
        alone = bed.run(trial(topology, protocol="tcp", pm="default", initial_path="B-X"))
    assert sent(together)["A-X"] > PAYLOAD * 20 / 4
    # A rest that is no full segment may pass.
    assert sent(together).get("B-X", 0) < vanishing.mtu
    assert alone.failed is not None and alone.failed.kind == "unreachable"


def test_a_path_without_the_family_is_left_out(make_world, at):
    both = Side(uplinks=(Uplink(families=("ipv4",)), Uplink(families=("ipv4", "ipv6"))))
    world = make_world((both, SERVER))
    topology = at(world)
    with hosts(world) as bed:
        with pytest.raises(InputError, match=r"ipv6: expected an address of eth1 on the local site"):
            bed.run(trial(topology, family="ipv6"))
        six = bed.run(trial(topology, family="ipv6", initial_path="B-X"))
        four = bed.run(trial(topology))
        either = bed.run(trial(topology, family="both"))
    assert list(sent(six)) == ["B-X"]
    assert all(sent(four)[path] for path in ("A-X", "B-X"))
    # As the file, the connection has no path over IPv6 from A.
    assert all(sent(either)[path] for path in ("A-X", "B-X", "B-X/6")) and len(sent(either)) == 3


# Machines that are set up badly


def findings(topology, name):
    """Findings of doctor on a machine, by name."""
    (host,) = (host for host in host_doctor.examine(topology).hosts if host.name == name)
    return {finding.name: finding for finding in host.findings}


def test_a_wrong_default_route_is_reported_by_doctor_and_by_the_trial(make_world, at):
    world = make_world((replace(PLAIN, routing="wrong"), SERVER))
    topology = at(world)
    with hosts(world) as bed:
        finding = findings(topology, "alice")["interface A"]
        observation = bed.run(trial(topology))
    assert finding.state == "missing" and "10.1.1.2 leaves by mgmt0" in finding.found
    assert finding.remedy is not None and "ip rule add from 10.1.1.2 table" in finding.remedy
    assert observation.failed is not None and observation.failed.kind == "unreachable"


def test_a_strict_rp_filter_is_reported_by_doctor_and_costs_the_paths_that_it_discards(make_world, at):
    two = (Uplink(), Uplink())
    world = make_world((Side(uplinks=two), Side(uplinks=two, routing="main", rp_filter=1)))
    topology = at(world)
    with hosts(world) as bed:
        found_there = findings(topology, "bob")
        carried = sent(bed.run(trial(topology)))
    assert found_there["reverse path filter"].state == "limited"
    assert "net.ipv4.conf.eth2.rp_filter=2" in (found_there["reverse path filter"].remedy or "")
    assert (
        found_there["interface Y"].state == "missing" and "leaves by eth1" in found_there["interface Y"].found
    )
    assert carried["A-X"] and carried["B-X"]
    assert not carried.get("A-Y") and not carried.get("B-Y")


@pytest.mark.needs("compiler")
def test_a_clock_that_is_an_hour_off_does_not_matter(make_world, at):
    world = make_world((replace(PLAIN, clock_off_s=3600), SERVER))
    topology = at(world)
    with hosts(world) as bed:
        observation = bed.run(trial(topology))
    assert all(sent(observation)[path] for path in ("A-X", "B-X"))
    assert len(observation.bins) == 10


def test_a_shell_that_greets_does_not_matter(world, at):
    topology = at(world, alice="greeted@alice", bob="greeted@bob")
    with hosts(world) as bed:
        observation = bed.run(trial(topology, protocol="tcp", pm="default", cc="reno", buffer_bytes=2**16))
    assert list(sent(observation)) == ["A-X"]


@pytest.mark.parametrize(("trouble", "why"), [("disk_full", "no space"), ("read_only", "cannot be written")])
def test_a_host_without_room_is_refused_in_one_line(world, at, trouble, why):
    topology = at(world)
    with hosts(world) as bed, getattr(world.bob, trouble)(*PLACES):
        with pytest.raises(MachineError) as caught:
            bed.run(trial(topology))
        bed.close()
    reason = str(caught.value)
    assert reason.startswith("bob: there is no place to run the agent from:") and "\n" not in reason
    assert reason.count(why) == len(PLACES)


def test_where_nothing_can_be_noted_nothing_is_changed(world, at):
    """What is changed is written down before, so that it is put back whatever happens."""
    topology = at(world)
    with hosts(world) as bed:
        asked = trial(topology, transfer_bytes=100_000)
        assert bed.run(asked).failed is None
        with world.alice.disk_full("/run"):
            observation = bed.run(asked)
        assert observation.failed is not None and observation.failed.kind == "refused"
        assert observation.failed.reason.startswith("alice: ") and "\n" not in observation.failed.reason
        assert bed.run(asked).failed is None


# Strangers


@contextmanager
def patient(machine: Machine) -> Iterator[None]:
    """Its connections ask for MPTCP in every SYN; where no setting says so, in the first few."""
    name = "net.mptcp.syn_retrans_before_tcp_fallback"
    with ExitStack() as stack:
        with suppress(FileNotFoundError):
            stack.callback(machine.sysctl, name, machine.sysctl(name))
            machine.sysctl(name, "9")
        yield


def test_strangers_of_every_kind_neither_end_nor_delay_a_trial(world, at, monkeypatch):
    """Without a token, with an old one, slow ones, and a thousand at once, before the trial's connection."""
    topology = at(world)
    tokens = []
    original = secrets.token_hex

    def token_hex(size):
        tokens.append(original(size))
        return tokens[-1]

    monkeypatch.setattr("mptune.testbeds._kernel_plan.secrets.token_hex", token_hex)
    port = 0

    def stranger(words=b""):
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        made.bind((world.uplink("alice", 1).ipv4, 0))
        if words:
            made.settimeout(PATIENCE_S)
            made.connect((world.uplink("bob", 0).ipv4, port))
            made.sendall(words)
        else:
            made.setblocking(False)
            made.connect_ex((world.uplink("bob", 0).ipv4, port))
        return made

    # On a busy machine the crowd takes longer than three SYNs.
    with patient(world.alice), hosts(world) as bed, ExitStack() as crowd:
        assert bed.run(trial(topology, transfer_bytes=10_000)).failed is None
        # Until after the third SYN, 7 s after the first: on a busy machine the crowd takes as long.
        ended, asked = [], trial(topology, duration_ns=9 * SECOND)
        thread = threading.Thread(target=lambda: ended.append(bed.run(asked)))
        world.cut(0, 0)  # the trial's connection begins as soon as its path is back
        thread.start()
        try:
            port = until(lambda: world.bob.inside(listening), "the receiver")
            for words in (b"GET / HTTP/1.0\r\n\r\n", bytes.fromhex(tokens[0]), b"slow", *[b""] * 1000):
                crowd.enter_context(world.alice.inside(lambda words=words: stranger(words)))
        finally:
            world.restore(0, 0)
            thread.join()
    (observation,) = ended
    assert sent(observation)["A-X"] > PAYLOAD * 20 / 2
    assert int(observation.metadata["strangers"]) > 1000


# Hosts that are away


def test_a_campaign_waits_for_a_host_that_is_away(world, at, monkeypatch, tmp_path):
    """Lost in a trial, and again between two rounds; nothing is missing in the end."""
    monkeypatch.setattr(hosts_testbed, "_PAUSE_S", 0.2)
    topology = at(world)
    sentences = []

    class Telling(Reporter):
        def notice(self, sentence):
            sentences.append(sentence)
            if sentence.startswith("Waiting for "):
                world.alice.start_sshd()

    def away():
        carrying(world)
        world.alice.kill_sshd()

    options = SweepOptions(
        pms=("fullmesh",),
        ccs=("cubic",),
        buffers=(2**20,),
        runs=2,
        duration_ns=2 * SECOND,
        every_ns=30 * SECOND,
        for_ns=60 * SECOND,
    )
    asked = Definition(name="away", topology=topology, testbed="hosts", options=options)
    with world.unchanged():
        thread = threading.Thread(target=away)
        thread.start()
        start(asked, tmp_path / "out", reporter=Telling(quiet=True), wait=lambda _: world.alice.kill_sshd())
        thread.join()
    with (tmp_path / "out" / "observations.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["round"] for row in rows] == ["0", "0", "1", "1"]
    assert not [row["failed"] for row in rows if row["failed"]]
    waited = [sentence for sentence in sentences if "alice" in sentence and "sends" not in sentence]
    assert [sentence.split()[:2] for sentence in waited] == [["Waiting", "for"], ["alice", "is"]] * 2
