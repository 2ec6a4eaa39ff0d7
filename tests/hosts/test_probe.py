"""`mptune probe` over ssh: two machines with different clocks, and one behind an address translation."""

import json
import os
import signal
import subprocess
import time

import pytest

from mptune.machines.ssh import VARIABLE
from mptune.testbeds import host_doctor
from mptune.topology import load
from tests.hosts.router import Middlebox
from tests.hosts.trials import hosts, mute, sent
from tests.hosts.world import PLAIN, SERVER, Side, Uplink
from tests.plugins.program import command_line
from tests.plugins.trials import trial
from tests.plugins.waiting import PATIENCE_S, until

#: Enough for rates and sizes; it leaves no time for losses and queues.
BRIEF = ("--max-data", "4MB", "--max-time", "1s")
#: Enough for what is not a number.
QUICK = ("--max-data", "2MB", "--max-time", "1s", "--family", "ipv4")


def probe(world, out, *more, sender="alice"):
    """The command; its result as JSON."""
    done = tried(world, out, *more, sender=sender)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def tried(world, out, *more, sender="alice", receiver="bob"):
    """The command, whatever becomes of it."""
    return subprocess.run(
        command_line("probe", sender, receiver, "--out", out, "--json", *more),
        env={**os.environ, VARIABLE: str(world.bin / "ssh")},
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )


@pytest.mark.measures("how late the emulator is")
def test_two_machines_are_found_as_they_are_and_left_as_they_were(world, at, tmp_path):
    """And the file that is written is one to run trials with."""
    out = tmp_path / "found.toml"
    with world.unchanged():
        found = probe(world, out, *BRIEF, "--family", "ipv4")
    topology = load(out)
    assert (topology.sender.ssh, topology.receiver.ssh) == ("alice", "bob")
    known = at(world)
    assert len(topology.paths) == len(known.paths) == 2
    for path, real, shown in zip(topology.paths, known.paths, found["paths"], strict=True):
        assert path.rate_bps == pytest.approx(real.rate_bps, rel=0.1)
        assert path.base_rtt_ns == pytest.approx(real.base_rtt_ns, rel=0.1, abs=1_000_000)
        assert shown["mptcp"]["kind"] == "full" and "joined" in shown["mptcp"]["because"]
        assert not shown["translated"]
    assert not found["leaving"]
    assert not topology.missing
    # The router of the other machine answers only that machine.
    for shown in found["paths"]:
        for route in (shown["up"]["route"], shown["down"]["route"]):
            near, far, _ = (hop["address"] for hop in route["hops"])
            assert route["reached"] and near is not None and far is None
    shared = [(hop["end"], hop["paths"]) for hop in found["shared_hops"]]
    assert shared == [("receiver", [path["label"] for path in found["paths"]])]
    assert found["bytes"] <= 4_000_000
    examined = host_doctor.examine(topology)
    assert host_doctor.ready(examined.hosts) and examined.subflows is not None
    # Nobody has made endpoints there; the lines would be for all paths.
    assert examined.subflows.numbers == (1,) and any(examined.subflows.lines.values())
    assert examined.subflows.with_lines == len(topology.paths)
    with hosts(world) as bed:
        assert set(sent(bed.run(trial(topology)))) == {path.label for path in topology.paths}


@pytest.fixture(scope="module")
def crossed(make_world):
    """Both machines have two uplinks; one router behind those of alice is on every path."""
    uplinks = (Uplink(families=("ipv4",)), Uplink(families=("ipv4",), delay_ms=10))
    return make_world((Side(uplinks=uplinks, transit="10.9.0.1"), Side(uplinks=uplinks)))


def test_a_router_that_all_paths_cross_becomes_a_segment_that_they_share(crossed, tmp_path):
    """It is behind the routers of two uplinks on either side, so that no interface explains it."""
    out = tmp_path / "found.toml"
    with crossed.unchanged():
        found = probe(crossed, out, *QUICK)
    labels = [path["label"] for path in found["paths"]]
    assert {"address": "10.9.0.1", "end": "sender", "paths": labels} in found["shared_hops"]
    for shown in found["paths"]:
        near, transit, far, _ = (hop["address"] for hop in shown["up"]["route"]["hops"])
        assert near is not None and transit == "10.9.0.1" and far is None
    topology = load(out)
    assert list(topology.shared) == ["shared1"]
    assert all([one.name for one in path.shared] == ["shared1"] for path in topology.paths)
    origin = topology.provenance["core.shared.shared1.rate"]
    assert origin.assumed == "no rate given: it is not known to limit its paths"
    assert "10.9.0.1 to the receiver" in out.read_text()


#: What a router does, and what becomes of MPTCP behind it.
KINDS: tuple[tuple[Middlebox | None, str], ...] = (
    (None, "full"),
    ("refuses-joins", "joins refused"),
    ("strips", "stripped on SYN"),
    ("strips-later", "stripped later"),
    ("mirrors", "mirrored"),
    ("drops-syn", "blocked"),
    ("black-hole", "unreachable"),
)


def test_what_becomes_of_mptcp_is_said_of_every_path(make_world, tmp_path):
    uplinks = tuple(Uplink(middlebox=kind) for kind, _ in KINDS)
    world, out = make_world((Side(uplinks=uplinks), SERVER)), tmp_path / "found.toml"
    with world.unchanged():
        found = probe(world, out, *QUICK)
    assert [path["mptcp"]["kind"] for path in found["paths"]] == [kind for _, kind in KINDS]
    assert len(load(out).paths) == len(KINDS)
    text = out.read_text()
    for number, (_, kind) in enumerate(KINDS, 1):
        assert f"# eth{number}-eth1: MPTCP {kind}: " in text
    shown = subprocess.run(command_line("paths", out), capture_output=True, text=True, check=True).stdout
    assert all(f"eth{number}-eth1" in shown for number in range(1, len(KINDS) + 1))


@pytest.mark.measures("how late the emulator is")
def test_what_is_odd_about_lines_is_found(make_world, tmp_path):
    """A NAT, packets that vanish if they are large, unequal rates, and an IPv6 that only one of them has."""
    uplinks = (
        Uplink(nat=True, families=("ipv4",)),
        Uplink(mtu=1400, middlebox="icmp-blocked", families=("ipv4",)),
        Uplink(up_mbps=4, down_mbps=16),
    )
    world, out = make_world((Side(uplinks=uplinks), SERVER)), tmp_path / "found.toml"
    with world.unchanged():
        found = probe(world, out, *BRIEF)
        six = probe(world, tmp_path / "six.toml", *QUICK[:4], "--family", "ipv6")
    nat, small, unequal = found["paths"]
    assert nat["translated"] and nat["source"] == world.uplink("alice", 0).public
    assert (small["up"]["mtu"], small["up"]["mtu_next"]) == (1400, 1401)
    assert (nat["up"]["mtu"], unequal["up"]["mtu"]) == (1500, 1500)
    assert unequal["up"]["rate"]["value"] == pytest.approx(4e6, rel=0.1)
    assert unequal["down"]["rate"]["value"] == pytest.approx(16e6, rel=0.1)
    assert not found["leaving"]
    assert [path["label"] for path in six["paths"]] == ["eth3-eth1"]
    (path,) = load(tmp_path / "six.toml").paths
    assert path.label == "eth3-eth1"


def test_a_path_may_have_another_family_than_the_others(make_world, at, tmp_path):
    """IPv4 alone on one uplink, IPv6 alone on the other: both are measured, and trials use either."""
    uplinks = Uplink(families=("ipv4",)), Uplink(families=("ipv6",))
    world, out = make_world((Side(uplinks=uplinks), SERVER)), tmp_path / "found.toml"
    with world.alice.unchanged(), world.bob.unchanged():
        found = probe(world, out, "--max-data", "2MB", "--max-time", "10s")
    assert [path["mptcp"]["kind"] for path in found["paths"]] == ["full", "full"]
    assert all("not tried as a joined one" in path["mptcp"]["because"] for path in found["paths"])
    assert any("one path has IPv4 and one IPv6" in note for note in found["notes"])
    assert [path["source"] for path in found["paths"]] == [
        world.uplink("alice", 0).ipv4,
        world.uplink("alice", 1).ipv6,
    ]
    assert not found["leaving"]
    topology = load(out)
    assert not topology.missing
    at(world)
    four, six = (path.label for path in topology.paths)
    with hosts(world) as bed:
        assert set(sent(bed.run(trial(topology, initial_path=four)))) == {four}
        assert set(sent(bed.run(trial(topology, initial_path=six, family="ipv6")))) == {six}


def test_both_families_are_probed_and_trials_use_what_was_written(make_world, at, tmp_path):
    """One uplink of two has IPv4 alone; subflows join from either family to the other."""
    uplinks = Uplink(), Uplink(families=("ipv4",))
    world, out = make_world((Side(uplinks=uplinks), SERVER)), tmp_path / "found.toml"
    with world.unchanged():
        found = probe(world, out, "--max-data", "4MB", "--max-time", "10s", "--family", "both")
    labels = ["eth1-eth1", "eth2-eth1", "eth1-eth1/6"]
    assert [path["label"] for path in found["paths"]] == labels
    assert [path["source"] for path in found["paths"]] == [
        world.uplink("alice", 0).ipv4,
        world.uplink("alice", 1).ipv4,
        world.uplink("alice", 0).ipv6,
    ]
    for path in found["paths"]:
        assert path["mptcp"]["kind"] == "full" and "as a joined one" in path["mptcp"]["because"]
        assert path["udp"] and not path["translated"]
    assert not found["leaving"]
    topology = load(out)
    assert not topology.missing and not topology.ruled_out
    assert [path.label for path in topology.over("both").paths] == labels
    at(world)
    with hosts(world) as bed:
        for initial in labels[0], labels[2]:
            assert set(sent(bed.run(trial(topology, family="both", initial_path=initial)))) == set(labels)


def test_one_uplink_and_both_families_are_two_paths_of_which_one_may_refuse_joins(make_world, tmp_path):
    world, out = make_world((Side(uplinks=(Uplink(),)), SERVER)), tmp_path / "found.toml"
    limits = ("--max-data", "2MB", "--max-time", "5s", "--family", "both")
    # A rule of the router for IPv6 alone: resets joins over it.
    refuse = (
        "meta nfproto ipv6 tcp flags & (syn | ack) == syn tcp option mptcp subtype 1 reject with tcp reset"
    )
    with world.unchanged(), world.uplink("alice", 0).rule(refuse):
        found = probe(world, out, *limits)
    assert [(path["label"], path["mptcp"]["kind"]) for path in found["paths"]] == [
        ("eth1-eth1", "full"),
        ("eth1-eth1/6", "joins refused"),
    ]
    topology = load(out)
    assert [path.core.mptcp for path in topology.over("both").paths] == [None, "first"]


def test_a_family_without_a_route_is_reported_with_what_to_do_and_left_out(make_world, tmp_path):
    world, out = make_world((Side(uplinks=(Uplink(),)), SERVER)), tmp_path / "found.toml"
    address = world.uplink("alice", 0).ipv6
    world.alice.sh("ip -6 rule del priority 101; ip -6 route del default")
    with world.unchanged():
        found = probe(world, out, "--max-data", "2MB", "--max-time", "5s", "--family", "both")
    (wrong,) = found["leaving"]
    assert (wrong["host"], wrong["ip"], wrong["by"]) == ("alice", address, None)
    assert wrong["remedy"][-1] == f"ip -6 rule add from {address} lookup 100"
    assert "# alice: packets from fd01:0:1::2 (eth1) do not leave at all." in out.read_text()
    assert [path["mptcp"]["kind"] for path in found["paths"]] == ["full", "unreachable"]
    assert "nothing gets through over IPv6: trials with --family both do without it" in found["notes"]
    assert [path.label for path in load(out).over("both").for_mptcp().paths] == ["eth1-eth1"]


def test_where_no_path_is_possible_it_is_said_in_one_line_with_what_to_do(make_world, tmp_path):
    out = tmp_path / "found.toml"
    world = make_world((Side(uplinks=(Uplink(families=("ipv4",)),)), Side(uplinks=(Uplink(nat=True),))))
    with world.alice.unchanged(), world.bob.unchanged():
        behind = tried(world, out, "--max-data", "1MB", "--max-time", "5s", "--family", "ipv4", "--quiet")
        around = tried(world, out, *QUICK, sender="bob", receiver="alice")
    assert behind.returncode == 1 and len(behind.stderr.splitlines()) == 1
    assert "nothing gets through to bob" in behind.stderr and "mptune probe bob alice" in behind.stderr
    (path,) = json.loads(around.stdout)["paths"]
    assert path["translated"] and path["mptcp"]["kind"] == "full"
    assert out.exists() and load(out).sender.ssh == "bob"
    apart = make_world(
        (Side(uplinks=(Uplink(families=("ipv4",)),)), Side(uplinks=(Uplink(families=("ipv6",)),)))
    )
    with apart.alice.unchanged(), apart.bob.unchanged():
        done = tried(apart, tmp_path / "none.toml", *QUICK[:4], "--quiet")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert "alice has only IPv4, bob has only IPv6; both need" in done.stderr
    assert not (tmp_path / "none.toml").exists()


def test_packets_that_leave_by_the_wrong_interface_come_with_the_lines_that_correct_it(make_world, tmp_path):
    """Two default routes, as DHCP makes them; what is to be pasted does correct it."""
    world = make_world((Side(uplinks=PLAIN.uplinks, routing="main"), SERVER))
    world.alice.sh("ip route add default via 10.1.2.1 dev eth2 metric 200")
    out = tmp_path / "found.toml"
    with world.unchanged():
        (wrong,) = probe(world, out, *QUICK)["leaving"]
    second = world.uplink("alice", 1)
    assert (wrong["device"], wrong["ip"], wrong["by"]) == ("eth2", second.ipv4, "eth1")
    assert wrong["remedy"] == [
        "ip route add default via 10.1.2.1 dev eth2 table 101",
        f"ip rule add from {second.ipv4} lookup 101",
    ]
    assert all(f"#   {line}\n" in out.read_text() for line in wrong["remedy"])
    for line in wrong["remedy"]:
        world.alice.sh(line)
    again = probe(world, out, *QUICK, "--force")
    assert not again["leaving"]
    assert [path["mptcp"]["kind"] for path in again["paths"]] == ["full", "full"]


def test_without_root_only_joins_are_not_tried(world, tmp_path):
    with world.unchanged():
        found = probe(world, tmp_path / "found.toml", *QUICK, sender="greeted@alice")
    assert [path["mptcp"]["kind"] for path in found["paths"]] == ["full", "full"]
    assert all("not tried" in path["mptcp"]["because"] for path in found["paths"])
    assert any("needs root" in note for note in found["notes"])
    assert load(tmp_path / "found.toml").sender.ssh == "greeted@alice"


def test_ctrl_c_does_not_wait_for_a_machine_that_is_silent(world, tmp_path):
    """As trials between hosts: it is named, and puts back by itself what was changed."""

    def roles() -> list[int]:
        return [pid for pid, _, words in world.alice.processes() if words[1:2] == ["probe"]]

    with world.unchanged():
        program = subprocess.Popen(
            command_line("probe", "alice", "bob", "--out", tmp_path / "found.toml", "--quiet"),
            env={**os.environ, VARIABLE: str(world.bin / "ssh")},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        until(roles, "the probe to begin")
        with mute(world, "alice"):
            muted = time.monotonic()
            program.send_signal(signal.SIGINT)
            _, complaint = program.communicate(timeout=PATIENCE_S)
            # The host itself notices the silence after 8 s.
            assert roles() or time.monotonic() - muted > 7
        assert program.returncode == 130
        assert complaint.splitlines()[-2:] == [
            "mptune: interrupted",
            "mptune: alice could not be reached; it restores its settings within 10 s",
        ]
