"""Trials between two machines: what they give, what they leave alone, and that nothing is left of them."""

import signal
import socket
import statistics
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mptune.errors import InputError, TrialError
from mptune.machines import MachineError
from mptune.machines.ssh import VARIABLE
from mptune.testbeds.hosts import HostsTestbed
from mptune.trial import Bulk, Messages, Mix, Part, ScriptedAction, Transfer, Video
from tests.hosts import traffic
from tests.hosts.trials import FOREVER_S, agent, carrying, command, hosts, listening, mute, sent, undisturbed
from tests.hosts.world import PLAIN, SERVER, Side, Uplink, World
from tests.plugins.trials import SECOND, trial
from tests.plugins.waiting import until


@pytest.fixture(scope="module")
def deep(make_world: Callable[..., World]) -> World:
    """The two plain machines with queues that hold all that a buffer of 1 MiB admits: nothing is lost."""
    uplinks = tuple(replace(uplink, queue_bytes=2_000_000) for uplink in PLAIN.uplinks)
    return make_world((replace(PLAIN, uplinks=uplinks), SERVER))


@pytest.fixture(scope="module")
def bed(deep: World) -> Iterator[HostsTestbed]:
    """One session between them, for all trials that change nothing but what they are asked."""
    with hosts(deep) as testbed:
        yield testbed


@pytest.mark.measures("what is missing of the rate is the start's")
@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
@pytest.mark.parametrize("reverse", [False, True], ids=["there", "back"])
def test_a_trial_fills_both_paths(deep, bed, at, family, reverse):
    """20 and 10 Mbit/s, of which headers take 5 %."""
    topology = at(deep)
    if reverse:
        topology = topology.reversed()
    observation = undisturbed(bed, trial(topology, family=family, duration_ns=2 * SECOND))
    wide, narrow = [path.label for path in topology.paths]
    carried = sent(observation)
    assert carried[wide] > carried[narrow] > 0
    assert 0.5 * 28.5e6 < observation.throughput_bps < 28.6e6
    assert sum(observation.bins) == observation.in_order_bytes
    assert observation.metadata["cc_effective"] == "cubic"
    assert observation.metadata["sender host"] == topology.sender.name
    assert observation.metadata["receiver sysctl net.mptcp.path_manager"] == "kernel"


@pytest.mark.measures("what is missing of the rate is the start's")
@pytest.mark.parametrize("reverse", [False, True], ids=["there", "back"])
def test_a_trial_over_both_families_has_subflows_of_both(deep, bed, at, reverse):
    """The paths of a pair share its line: 20 and 10 Mbit/s together, as over one family."""
    topology = at(deep)
    if reverse:
        topology = topology.reversed()
    asked = trial(topology, family="both", duration_ns=3 * SECOND)
    observation = undisturbed(bed, asked)
    assert observation.metadata["path_manager_problems"] == ""
    assert {path for path, count in sent(observation).items() if count} == {
        path.label for path in asked.topology.paths
    }
    four, six = (str(observation.metadata[f"addresses {path.label}"]) for path in asked.topology.paths[::2])
    assert "." in four and ":" in six
    # Four subflows in slow start on two lines: how much is lost of three seconds is chance.
    assert 0.2 * 28.5e6 < observation.throughput_bps < 28.9e6


@pytest.mark.measures("what is missing of the rate is the start's")
def test_plain_tcp_has_one_path_and_changes_nothing(deep, bed, at):
    topology = at(deep)
    observation = undisturbed(bed, trial(topology, protocol="tcp", pm="default", duration_ns=2 * SECOND))
    assert list(sent(observation)) == ["A-X"]
    assert 0.5 * 19.3e6 < observation.throughput_bps < 19.4e6
    assert observation.metadata["fallback"] is False


def test_a_transfer_arrives_whole_and_a_path_can_be_withdrawn(world, topology):
    script = (ScriptedAction(at_ns=SECOND // 2, path="B-X", action="remove"),)
    with hosts(world) as bed:
        observation = bed.run(trial(topology, transfer_bytes=3_000_001, script=script))
    assert observation.failed is None and observation.in_order_bytes == 3_000_001


@pytest.mark.measures("how soon programs run when something is due")
def test_messages_take_as_long_as_the_faster_path(world, topology):
    """10 ms one way, and 20 on the other path."""
    messages = Messages(bytes=200, interval_ns=SECOND // 40, duration_ns=SECOND)
    with hosts(world) as bed:
        observation = undisturbed(bed, trial(topology, workload=messages))
    assert observation.failed is None and len(observation.delays_ns) == 40
    assert 9e6 < statistics.median(observation.delays_ns) < 14e6


@pytest.mark.measures("how soon programs run when something is due")
def test_workloads_of_a_mix_share_the_paths(world, topology):
    """What is judged is the first: its own bytes by path. All messages of the others arrive."""
    beside = Messages(bytes=200, interval_ns=SECOND // 10, duration_ns=2 * SECOND)
    parts = (Part(workload=Bulk(duration_ns=2 * SECOND)), Part(workload=beside, connections=2))
    with hosts(world) as bed:
        observation = undisturbed(bed, trial(topology, workload=Mix(parts=parts)))
    first, others = observation.parts
    assert all(sent(observation).values()) and set(sent(observation)) == {"A-X", "B-X"}
    assert [one.bytes for one in first.connections] == [observation.in_order_bytes] != [0]
    assert [len(one.delays_ns) for one in others.connections] == [20, 20]


def test_each_of_many_connections_has_both_paths_and_arrives_whole(world, topology):
    parts = (Part(workload=Transfer(bytes=500_001), connections=8),)
    with hosts(world) as bed:
        observation = bed.run(trial(topology, workload=Mix(parts=parts)))
    assert set(sent(observation)) == {"A-X", "B-X"} and sum(sent(observation).values()) >= 8 * 500_001
    assert [one.bytes for one in observation.parts[0].connections] == 8 * [500_001]
    assert observation.metadata["path_manager_problems"] == ""


@pytest.mark.parametrize("reverse", [False, True], ids=["there", "back"])
def test_a_video_rises_to_what_the_paths_carry(world, topology, reverse):
    """30 Mbit/s are much more than its highest bitrate: the player begins with the lowest and never waits."""
    ladder = (500_000, 1_000_000, 2_000_000)
    video = Video(ladder_bps=ladder, segment_ns=SECOND // 2, buffer_ns=2 * SECOND, duration_ns=4 * SECOND)
    with hosts(world) as bed:
        observation = bed.run(trial(topology.reversed() if reverse else topology, workload=video))
    assert observation.failed is None and len(observation.delays_ns) == len(observation.pieces) > 4
    sizes = [piece.bytes for piece in observation.pieces]
    assert (sizes[0], sizes[-1]) == (ladder[0] // 16, ladder[-1] // 16)
    assert sum(sizes) == observation.in_order_bytes
    asked_ns = [piece.at_ns for piece in observation.pieces]
    assert asked_ns == sorted(asked_ns)


def test_buffers_that_grow_are_limited_for_the_trial_alone(world, topology):
    with hosts(world) as bed:
        observation = bed.run(trial(topology, buffer_mode="auto", buffer_bytes=2**19))
    assert observation.failed is None
    assert int(observation.metadata["effective_receiver_rcvbuf"]) <= 2**19


@pytest.mark.parametrize("connections", [1, 4])
def test_connections_of_others_are_left_alone(world, topology, connections):
    """One from before the trial lives through it, one in it and one after it are made as ever.

    The kernel's own path manager joins them on alice's second uplink, and must not lose that.
    """
    with traffic.joining(world), hosts(world) as bed, traffic.connected(world) as before:
        traffic.exchange(before)
        until(lambda: traffic.mptcp(before.client).subflows == 2, "the join of the kernel's path manager")

        during = []

        def meanwhile() -> None:
            until(lambda: world.bob.inside(_accepted), "the trial's connection")
            with traffic.connected(world) as ends:
                traffic.exchange(ends)
                during.append(traffic.mptcp(ends.client).alive)

        thread = threading.Thread(target=meanwhile)
        thread.start()
        workload = Mix(parts=(Part(workload=Bulk(duration_ns=5 * SECOND), connections=connections),))
        observation = bed.run(trial(topology, workload=workload))
        thread.join()
        assert observation.failed is None and during == [True]
        traffic.exchange(before)
        assert traffic.mptcp(before.client) == traffic.Mptcp(alive=True, subflows=2)
        with traffic.connected(world) as after:
            traffic.exchange(after)
            until(lambda: traffic.mptcp(after.client).subflows == 2, "the join of the kernel's path manager")


def _accepted() -> bool:
    """More than one MPTCP connection of this namespace carries data."""
    sockets = subprocess.run(["ss", "-HntM"], capture_output=True, text=True, check=True).stdout
    return len(sockets.splitlines()) > 1


@pytest.mark.parametrize("connections", [1, 3])
def test_while_data_flow_new_connections_have_their_path_manager_again(world, file, connections):
    with world.unchanged(), command(file, "--connections", str(connections)) as program:
        carrying(world)
        machines = world.machines.values()
        until(
            lambda: all(machine.sysctl("net.mptcp.path_manager") == "kernel" for machine in machines),
            "the restored settings",
        )
        program.send_signal(signal.SIGINT)
        program.communicate(timeout=20)


def test_strangers_at_the_port_neither_end_nor_delay_a_trial(world, topology):
    strangers = []

    def meanwhile() -> None:
        port = until(lambda: world.bob.inside(listening), "the receiver")
        client = world.alice.inside(lambda: socket.create_connection((world.uplink("bob", 0).ipv4, port), 20))
        with client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            strangers.append(client)

    with hosts(world) as bed:
        thread = threading.Thread(target=meanwhile)
        thread.start()
        observation = bed.run(trial(topology, duration_ns=5 * SECOND))
        thread.join()
    assert strangers and observation.failed is None


def test_what_a_user_may_not_do_is_refused_before_anything_runs(world, at):
    topology = at(world, alice="plain@alice")
    with hosts(world) as bed:
        with pytest.raises(InputError, match=r"--pm: expected default, .* CAP_NET_ADMIN on alice"):
            bed.run(trial(topology))
        small = {"buffer_bytes": 2**16, "cc": "reno", "pm": "default"}
        assert list(sent(bed.run(trial(topology, protocol="tcp", **small)))) == ["A-X"]
        assert sent(bed.run(trial(topology, **small)))["A-X"] > 0


def test_sudo_without_a_password_is_enough(world, at):
    topology = at(world, alice="sudoer@alice")
    with hosts(world) as bed:
        assert set(sent(bed.run(trial(topology, transfer_bytes=100_000)))) == {"A-X", "B-X"}


def test_a_second_session_is_refused_while_the_first_goes_on(world, topology):
    with hosts(world) as bed:
        asked = trial(topology, transfer_bytes=10_000)
        assert bed.run(asked).failed is None
        second = HostsTestbed()
        with pytest.raises(MachineError, match=r"^alice: .*\d+"):
            second.run(asked)
        second.close()
        assert bed.run(asked).failed is None


# ---- what goes wrong ----


def running(world: World, name: str) -> list[str]:
    """Roles that run on a machine."""
    return [words[1] for _, _, words in world.machines[name].processes() if words[0].endswith("/agent")]


def test_nothing_is_left_of_a_controller_that_was_killed(world, file):
    with world.unchanged(), command(file) as program:
        carrying(world)
        program.kill()


def test_ctrl_c_ends_a_trial_at_once(world, file):
    with world.unchanged(), command(file) as program:
        carrying(world)
        program.send_signal(signal.SIGINT)
        _, complaint = program.communicate(timeout=20)
        assert program.returncode == 130 and complaint.endswith(b"mptune: interrupted\n")


@pytest.mark.parametrize("name", ["alice", "bob"])
def test_an_agent_that_is_killed_is_named(world, file, name):
    with world.unchanged(), command(file) as program:
        carrying(world)
        world.machines[name].run("kill", "-KILL", str(agent(world, name, "host")))
        _, complaint = program.communicate(timeout=30)
        assert program.returncode == 1
        assert f"the trial failed: {name}: the connection was lost" in complaint.decode()


def test_a_role_that_is_killed_is_named(world, file):
    with world.unchanged(), command(file) as program:
        carrying(world)
        world.bob.run("kill", "-KILL", str(agent(world, "bob", "receiver")))
        _, complaint = program.communicate(timeout=30)
        assert "the trial failed: receiver on bob was killed by signal 9" in complaint.decode()


def test_an_sshd_that_is_killed_leaves_a_machine_as_it_was(world, file):
    with world.unchanged():
        with command(file) as program:
            carrying(world)
            world.alice.kill_sshd()
            _, complaint = program.communicate(timeout=30)
            assert "the trial failed: alice: the connection was lost" in complaint.decode()
        world.alice.start_sshd()


def test_a_connection_that_is_cut_leaves_a_machine_as_it_was(world, file):
    """Neither end hears of it: ssh here gives up after 6 s, the agent there after 8 s."""
    with world.unchanged(), command(file) as program:
        carrying(world)
        with mute(world, "alice"):
            _, complaint = program.communicate(timeout=30)
            assert "the trial failed: alice: the connection was lost" in complaint.decode()
            until(
                lambda: (
                    not [
                        words
                        for _, _, words in world.alice.processes()
                        if Path(words[0]).name in ("agent", "mptune-agent")
                    ]
                ),
                "its end",
            )


def test_after_a_lost_host_the_next_trial_begins_a_new_session(world, topology):
    with hosts(world) as bed:
        asked = trial(topology, transfer_bytes=10_000)
        assert bed.run(asked).failed is None
        world.bob.run("kill", "-KILL", str(agent(world, "bob", "host")))
        until(lambda: any(machine.killed for machine in bed._machines.values()), "the news")
        assert bed.run(asked).failed is None


def test_a_machine_whose_plug_is_pulled_fails_its_trial_and_those_after_it_by_name(
    make_world, at, monkeypatch, tmp_path
):
    """Not with the world of the others: it has lost a machine. Its ssh gives up sooner than by default."""
    soon = "-o ServerAliveInterval=1 -o ServerAliveCountMax=10"
    with World(tmp_path) as gone:
        topology = at(gone)
        monkeypatch.setenv(VARIABLE, f"{gone.bin / 'ssh'} {soon}")
        bed = HostsTestbed()

        def pull() -> None:
            carrying(gone)
            gone.bob.kill()

        try:
            with gone.alice.unchanged():
                thread = threading.Thread(target=pull)
                thread.start()
                observation = bed.run(trial(topology, duration_ns=FOREVER_S * SECOND))
                thread.join()
                assert observation.failed is not None and observation.failed.kind == "died"
                assert observation.failed.reason.startswith("bob: the connection was lost")
                monkeypatch.setenv(VARIABLE, f"{gone.bin / 'ssh'} -o ConnectTimeout=1")
                with pytest.raises(TrialError, match=r"^bob: unreachable") as caught:
                    bed.run(trial(topology, transfer_bytes=10_000))
                assert caught.value.kind == "unreachable"
                bed.close()
        finally:
            bed.close()


@pytest.mark.parametrize(
    ("alias", "words"),
    [
        ("alice-imposter", "its host key has changed"),
        ("alice-unknown", "accept it once with `ssh alice-unknown`"),
        ("alice-closed", "is an SSH server running there"),
    ],
)
def test_what_keeps_ssh_out_is_reported(world, at, alias, words):
    topology = at(world, alice=alias)
    with pytest.raises(MachineError, match=words):
        HostsTestbed().run(trial(topology))


def test_behind_nat_subflows_keep_their_paths(make_world, at):
    behind = make_world(
        [Side(uplinks=(Uplink(nat=True), Uplink())), Side(uplinks=(Uplink(up_mbps=100, down_mbps=100),))]
    )
    topology = at(behind)
    with hosts(behind) as bed:
        observation = bed.run(trial(topology))
    carried = sent(observation)
    assert all(carried.values()) and set(carried) == {path.label for path in topology.paths}
    seen = behind.uplink("alice", 0).public
    assert observation.metadata["nat A-X"] == f"{behind.uplink('alice', 0).ipv4} is seen as {seen}"
    assert "nat B-X" not in observation.metadata
