"""The two machines and the network between them are as described."""

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path

import pytest

from mptune.linux import agent
from tests.hosts import snapshots
from tests.hosts.machine import BANNER, GREETED, PLAIN, SUDOER
from tests.hosts.router import DARK_AFTER_S
from tests.hosts.traffic import connected, exchange, exchange_until_silence, joining, mptcp, rate_mbps
from tests.hosts.world import SERVER, Side, Uplink, World
from tests.plugins.needs import ROOT
from tests.plugins.netlink import inside
from tests.plugins.waiting import PATIENCE_S, until

#: What a SYN that is swallowed is given, seconds: more than any RTT here.
BRIEFLY_S = 1.0
#: Share of an IPv4 packet of 1500 bytes that is payload, with time stamps.
PAYLOAD = 1448 / 1500
NAMES = ("alice", "bob")
#: Sources of the mounts of machines.
MOUNTED = ("machine ", "small ")
EACH = pytest.mark.parametrize("name", NAMES)

# Logging in


@EACH
def test_root_reaches_a_machine_by_its_name(world, name):
    done = world.ssh(name, "uname -n; id -un; pwd")
    assert done.stdout.split() == [name, "root", "/root"], done.stderr


@EACH
@pytest.mark.parametrize("user", [PLAIN, SUDOER, GREETED])
def test_users_log_in_and_only_one_of_them_becomes_root(world, name, user):
    done = world.ssh(f"{user.name}@{name}", "id -un; pwd; sudo -n id -un || echo refused")
    greeting = [BANNER] if user is GREETED else []
    becomes = "root" if user is SUDOER else "refused"
    assert done.stdout.splitlines() == [*greeting, user.name, user.home, becomes], done.stderr


def test_the_configuration_alone_will_do(world):
    command = [shutil.which("ssh"), "-F", world.config, "-o", "BatchMode=yes", "bob", "uname -n"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "bob\n"


@pytest.mark.parametrize(
    ("alias", "reason"),
    [
        ("imposter", "HOST IDENTIFICATION HAS CHANGED"),
        ("unknown", "No ED25519 host key is known"),
        ("closed", "Connection refused"),
        ("silent", "Connection timed out"),
    ],
)
def test_a_machine_that_cannot_be_reached_is_refused(world, alias, reason):
    # Where somebody answers, be it late, the timeout is no reason.
    patience = f"ConnectTimeout={1 if alias == 'silent' else PATIENCE_S:.0f}"
    command = [world.bin / "ssh", "-o", "BatchMode=yes", "-o", patience, f"alice-{alias}", "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 255 and reason in done.stderr


@pytest.mark.parametrize("user", ["root", "plain"])
def test_the_agent_runs_there(world, user):
    script = "umask 077; cat >/tmp/agent && chmod +x /tmp/agent && /tmp/agent --version; rm /tmp/agent"
    command = world.ssh_command(f"{user}@bob", script)
    done = subprocess.run(command, input=agent.PROGRAM.read_bytes(), capture_output=True, check=True)
    assert done.stdout.split()[-1].decode() == agent.version()


# Apart from each other and from the real machine


def test_machines_share_no_process_no_file_and_no_clock(world):
    own = f"x-{os.getpid()}"  # what nobody else has put there
    paths = [f"{place}/{own}" for place in ("/run", "/tmp", "/etc", "/home", "/root", "/dev/shm", "/var")]
    for machine in (world.alice, world.bob):
        machine.sh(f"echo {machine.name} | tee {' '.join(paths)} >/dev/null")
    for path in paths:
        assert world.bob.sh(f"cat {path}; rm {path}") == "bob\n"
        assert world.alice.sh(f"cat {path}; rm {path}") == "alice\n"
        assert not Path(path).exists()
    for path in ("/usr/x", "/proc/sys/vm/swappiness", "/sys/kernel/mm/ksm/run"):
        assert "Read-only" in world.alice.run("tee", path, check=False).stderr
    sleeper = world.alice.start("sleep", "1000")
    try:
        words = ["sleep", "1000"]
        until(lambda: any(command == words for _, _, command in world.alice.processes()))
        assert not any(command == words for _, _, command in world.bob.processes())
    finally:
        world.alice.kill_processes("sleep")
        sleeper.communicate()
    uptimes = [float(machine.sh("cut -d' ' -f1 /proc/uptime")) for machine in (world.alice, world.bob)]
    assert uptimes[1] - uptimes[0] > 1_000_000


def test_machines_see_each_other_by_their_path_links_alone(world):
    def reaches(address, port, within_s=BRIEFLY_S):
        with socket.socket() as client:
            client.settimeout(within_s)
            with suppress(OSError):
                client.connect((address, port))
                return True
        return False

    bob = world.uplink("bob", 0).ipv4
    assert world.alice.inside(lambda: reaches(bob, 22, PATIENCE_S))
    assert not world.alice.inside(lambda: reaches("172.30.2.2", 22))
    for local in (0, 1):
        world.cut(local, 0)
    try:
        assert not world.alice.inside(lambda: reaches(bob, 22))
    finally:
        for local in (0, 1):
            world.restore(local, 0)
    until(lambda: world.alice.inside(lambda: reaches(bob, 22)), "the path")


# Paths


@pytest.mark.measures("the kernel may run another process when a packet is due")
@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
@pytest.mark.parametrize("local", [0, 1])
def test_a_path_has_its_rate_and_its_round_trip_time(world, local, family):
    here, there = (world.uplink(name, index).uplink for name, index in (("alice", local), ("bob", 0)))
    with connected(world, local, family=family, mptcp=False) as ends:
        trip = exchange(ends, 20)
        rate = rate_mbps(*ends, 2_000_000)
    assert 1 <= trip / (2e-3 * (here.delay_ms + there.delay_ms)) < 1.2
    assert rate == pytest.approx(here.up_mbps * PAYLOAD, rel=0.1)


@pytest.mark.measures("the kernel may run another process when a packet is due")
def test_rates_may_be_asymmetric_and_bob_may_have_several_uplinks(make_world):
    uplinks = (Uplink(up_mbps=4, down_mbps=16), Uplink(up_mbps=10, down_mbps=5, delay_ms=1))
    world = make_world((Side(uplinks=uplinks), Side(uplinks=(Uplink(), Uplink(up_mbps=8, down_mbps=2)))))
    for local, remote, up, down in ((0, 0, 4, 16), (0, 1, 2, 8), (1, 0, 10, 5), (1, 1, 2, 5)):
        with connected(world, local, remote, mptcp=False) as ends:
            client, server = ends
            assert rate_mbps(client, server, up * 50_000) == pytest.approx(up * PAYLOAD, rel=0.1)
            assert rate_mbps(server, client, down * 50_000) == pytest.approx(down * PAYLOAD, rel=0.1)
    with connected(world, 1, 1, reverse=True) as ends:
        assert ends.server.getpeername()[0] == world.uplink("bob", 1).ipv4


def test_packets_that_are_lost_are_as_many_as_asked_for(make_world):
    world = make_world((Side(uplinks=(Uplink(loss=0.5, delay_ms=0.1),)), SERVER))
    address, count = world.uplink("bob", 0).ipv4, 400
    receiver = world.bob.inside(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    sender = world.alice.inside(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    with sender, receiver:
        receiver.bind((address, 0))
        receiver.settimeout(PATIENCE_S)
        # One of 64 arrives for sure, behind all others.
        for content in [b"x"] * count + [b"!"] * 64:
            sender.sendto(content, receiver.getsockname())
        arrived = 0
        while receiver.recv(1) == b"x":
            arrived += 1
    assert abs(arrived - count / 2) < 50  # five standard deviations of Binomial(400, 0.5)


def test_mptcp_joins_by_the_second_uplink(world):
    check_joins(world)


# Middleboxes


def settled(world):
    """State of both ends some time after the handshake."""
    with joining(world), connected(world) as ends:
        exchange(ends, 20)
        return [tuple(mptcp(end)) for end in ends]


def check_joins(world):
    """The second uplink joins."""
    with joining(world), connected(world) as ends:
        exchange(ends)
        until(lambda: [tuple(mptcp(end)) for end in ends] == [(True, 2)] * 2, "two subflows")


def joins(world):
    """Joins that bob's kernel has been asked for, and those that succeeded."""
    text = world.bob.inside(lambda: Path("/proc/thread-self/net/netstat").read_text())
    names, values = (line.split() for line in text.splitlines() if line.startswith("MPTcpExt:"))
    counters = dict(zip(names, values, strict=True))
    return [int(counters[name]) for name in ("MPJoinSynRx", "MPJoinAckRx")]


@pytest.fixture
def no_black_holes(world):
    """A client that met a middlebox tries MPTCP again at once."""
    before = world.alice.sysctl("net.mptcp.blackhole_timeout")
    world.alice.sysctl("net.mptcp.blackhole_timeout", "0")
    yield
    world.alice.sysctl("net.mptcp.blackhole_timeout", before)


@pytest.mark.usefixtures("no_black_holes")
@pytest.mark.parametrize("kind", ["strips", "strips-later", "drops-syn"])
def test_without_its_options_a_connection_is_plain_tcp(world, kind):
    with world.uplink("alice", 0).middlebox(kind):
        assert settled(world) == [(False, 1)] * 2
    check_joins(world)


def test_a_middlebox_on_the_second_path_prevents_the_join_and_nothing_else(world):
    second = world.uplink("alice", 1)
    asked, made = joins(world)
    with second.middlebox("refuses-joins"):
        assert settled(world) == [(True, 1)] * 2
    with second.middlebox("strips"):
        assert settled(world) == [(True, 1)] * 2
    with second.middlebox("drops-syn"):
        assert settled(world)[1] == (True, 1)
    with second.middlebox("black-hole"):
        assert settled(world)[1] == (True, 1)
    assert joins(world) == [asked, made]
    with second.middlebox("strips-later"), joining(world), connected(world) as ends:
        exchange(ends)
        # The join succeeds, and data that comes on it is not MPTCP's. A SYN that is repeated counts twice.
        until(lambda: joins(world)[1] == made + 1, "the join")
        rate_mbps(*ends, 500_000)
        until(lambda: [tuple(mptcp(end)) for end in ends] == [(True, 1)] * 2, "the end of the subflow")


@pytest.mark.measures("when the path goes dark")
def test_a_path_goes_dark_some_seconds_after_its_first_syn(world):
    with world.uplink("alice", 1).middlebox("dark"):
        begin = time.perf_counter()
        with connected(world, 1, mptcp=False, within_s=BRIEFLY_S) as ends:
            answered = exchange_until_silence(ends)
        assert DARK_AFTER_S - 0.5 < answered - begin < DARK_AFTER_S + 1
        with pytest.raises(TimeoutError), connected(world, 1, mptcp=False, within_s=BRIEFLY_S):
            pass
        with connected(world, 0, mptcp=False) as ends:
            exchange(ends)


def test_a_path_with_a_small_mtu_stalls_only_without_icmp(make_world):
    small = Uplink(mtu=1400), Uplink(mtu=1400, middlebox="icmp-blocked")
    world = make_world((Side(uplinks=small), SERVER))
    with connected(world, 0, mptcp=False) as ends:
        assert rate_mbps(*ends, 300_000) > 1
    for reverse in (False, True):
        with connected(world, 1, mptcp=False, reverse=reverse) as ends:
            exchange(ends)
            ends.client.send(bytes(3000))
            ends.server.settimeout(BRIEFLY_S)
            with pytest.raises(TimeoutError):
                ends.server.recv(3000)


def test_behind_nat_others_see_another_address(make_world):
    nat = Side(uplinks=(Uplink(nat=True), Uplink(nat=True)))
    world = make_world((nat, SERVER))
    for index in (0, 1):
        uplink = world.uplink("alice", index)
        with connected(world, index) as ends:
            assert ends.client.getsockname()[0] == uplink.ipv4 != uplink.public
            assert ends.server.getpeername()[0] == uplink.public
        with pytest.raises(ConnectionRefusedError), connected(world, index, reverse=True):
            pass
    check_joins(world)


def test_ipv6_may_be_on_one_path_alone(make_world):
    world = make_world(
        (Side(uplinks=(Uplink(families=("ipv4",)), Uplink(families=("ipv4", "ipv6")))), SERVER)
    )
    with connected(world, 1, family="ipv6") as ends:
        exchange(ends)
    for index in (0, 1):
        with connected(world, index) as ends:
            exchange(ends)
    addresses = world.alice.sh("ip -6 address show dev eth1 scope global; ip -6 route show default")
    assert "eth1" not in addresses and "eth2" not in addresses


# Machines that are set up badly


def test_without_rules_a_second_uplink_cannot_be_used(make_world):
    world = make_world((Side(uplinks=(Uplink(), Uplink()), routing="main"), SERVER))
    with connected(world, 0) as ends:
        exchange(ends)
    with pytest.raises(TimeoutError), connected(world, 1, within_s=BRIEFLY_S):
        pass
    assert settled(world)[1] == (True, 1)


def test_a_wrong_default_route_leads_nowhere(make_world):
    world = make_world((Side(uplinks=(Uplink(), Uplink()), routing="wrong"), SERVER))
    assert world.ssh("alice", "true").returncode == 0
    for index in (0, 1):
        with pytest.raises(TimeoutError), connected(world, index, within_s=BRIEFLY_S):
            pass


def test_a_strict_rp_filter_swallows_what_other_routes_lead_back_to(make_world):
    def filtered(world):
        return int(world.bob.sh("nstat -asz TcpExtIPReversePathFilter").split()[-2])

    two = (Uplink(), Uplink())
    strict = make_world((Side(uplinks=two), Side(uplinks=two, routing="main", rp_filter=1)))
    with pytest.raises(TimeoutError), connected(strict, 0, 1, within_s=BRIEFLY_S):
        pass
    assert filtered(strict) > 0
    well = make_world((Side(uplinks=two), Side(uplinks=two, rp_filter=1)))
    with connected(well, 0, 1) as ends:
        exchange(ends)
    assert filtered(well) == 0


@pytest.mark.needs("compiler")
def test_a_machine_may_be_an_hour_ahead(make_world):
    world = make_world((Side(clock_off_s=3600), SERVER))
    here, there = (int(world.ssh(name, "sudo -n date +%s").stdout) for name in NAMES)
    assert 3600 - 60 < here - there < 3600 + 60


@pytest.mark.parametrize(
    ("trouble", "reason"), [("disk_full", "No space left"), ("read_only", "Read-only file system")]
)
def test_a_disk_may_take_nothing_more(world, trouble, reason):
    places = ("/run", "/tmp", "/dev/shm", "/root")
    with getattr(world.alice, trouble)(*places):
        for place in places:
            assert reason in world.ssh("alice", f"cp /etc/passwd {place}/x").stderr
    for place in places:
        assert world.ssh("alice", f"cp /etc/passwd {place}/x && rm {place}/x").returncode == 0


# What is left behind


def test_a_session_that_leaves_nothing_behind_changes_nothing(world):
    with world.unchanged():
        script = "sysctl -qw net.ipv4.tcp_sack=0; touch /run/x; sysctl -qw net.ipv4.tcp_sack=1; rm /run/x"
        world.ssh("alice", script)
        world.ssh("sudoer@alice", "sudo -n true")
        with joining(world), connected(world) as ends:
            exchange(ends)


#: What is done, the line of the difference that shows it, and how it is undone.
LEFT_BEHIND = (
    ("echo hello > /tmp/x", "+ /tmp/x mode 100644 owner 0 6 bytes", "rm /tmp/x"),
    ("sysctl -qw net.ipv4.tcp_sack=0", "+ net.ipv4.tcp_sack 0", "sysctl -qw net.ipv4.tcp_sack=1"),
    ("ip rule add from 192.0.2.1 lookup 7", "lookup 7", "ip rule delete from 192.0.2.1"),
    ("ip address add 192.0.2.1 dev lo", "+ inet 192.0.2.1/32", "ip address delete 192.0.2.1/32 dev lo"),
    ("ip route add 192.0.2.2 dev eth1", "+ 192.0.2.2 dev eth1", "ip route delete 192.0.2.2"),
    ("ip mptcp endpoint add 10.1.2.2 dev eth2", "+ 10.1.2.2 id 1", "ip mptcp endpoint flush"),
    ("ip mptcp limits set subflows 5", "subflows 5", "ip mptcp limits set subflows 2"),
    ("sleep 1000 >/dev/null 2>&1 &", "+ sleep 1000", "kill -9 $(pgrep -x sleep)"),
    ("nft add table inet x", "+ table inet x", "nft delete table inet x"),
)


def test_what_is_left_behind_is_named(world):
    before = world.alice.snapshot()
    world.ssh("alice", "\n".join(do for do, _, _ in LEFT_BEHIND))
    difference = before.difference(world.alice.snapshot())
    for _, sentence, _ in LEFT_BEHIND:
        assert sentence in difference
    assert len(difference.splitlines()) < 4 * len(LEFT_BEHIND)
    with pytest.raises(AssertionError, match="left behind on alice:"):
        snapshots.settle(world.alice, before, within_s=0)
    world.ssh("alice", "\n".join(undo for *_, undo in LEFT_BEHIND))
    snapshots.settle(world.alice, before)


def test_a_socket_that_listens_is_named(world):
    before = world.alice.snapshot()
    with world.alice.inside(lambda: socket.create_server(("", 4321))):
        assert "4321" in before.difference(world.alice.snapshot())
    assert not before.difference(world.alice.snapshot())


# Ends


def test_a_stranger_on_the_link_reaches_a_port(world):
    address = world.uplink("bob", 0).ipv4
    with world.bob.inside(lambda: socket.create_server((address, 0))) as listener:
        port = listener.getsockname()[1]
        stranger = inside(world.uplink("bob", 0).netns, lambda: socket.create_connection((address, port)))
        server, (source, _) = listener.accept()
    with stranger, server:
        assert source not in [uplink.public for uplink in world.uplinks["alice"]]


def session(world, name, options=()):
    """A session that echoes lines."""
    command = world.ssh_command(name, "cat")
    command[1:1] = options
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b"hello\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"hello\n"
    return process


def test_when_sshd_is_killed_its_sessions_end(world):
    with world.alice.unchanged(), session(world, "alice") as process:
        world.alice.kill_sshd()
        _, reason = process.communicate(timeout=20)
        assert process.returncode == 255 and reason
        assert "refused" in world.ssh("alice", "true").stderr
        world.alice.start_sshd()
    assert world.ssh("alice", "true").returncode == 0


def test_a_program_without_its_file_may_be_killed(world):
    script = "cp $(command -v sleep) /tmp/napping; cd /tmp; (exec -a other ./napping 1000 >/dev/null 2>&1) &"
    with world.alice.unchanged():
        world.ssh("alice", f"bash -c {shlex.quote(script)}")
        until(lambda: any(words[0] == "other" for _, _, words in world.alice.processes()), "the program")
        world.ssh("alice", "rm /tmp/napping")
        assert world.alice.kill_processes("napping") == 1


def test_a_program_may_be_killed_there(world):
    with session(world, "alice") as process:
        assert world.alice.kill_processes("cat") == 1
        process.communicate(timeout=20)
        assert process.returncode not in (0, 255)


@pytest.mark.usefixtures("world")  # where there can be none, it is skipped
def test_when_the_plug_is_pulled_there_is_silence(tmp_path):
    keepalives = ["-o", "ServerAliveInterval=1", "-o", "ServerAliveCountMax=2"]
    with World(tmp_path) as world, connected(world) as ends:
        exchange(ends)
        with session(world, "bob", keepalives) as process:
            world.bob.kill()
            assert not world.bob.alive and world.alice.alive
            _, reason = process.communicate(timeout=20)
        assert process.returncode == 255 and b"not responding" in reason
        command = [str(world.bin / "ssh"), "-o", "ConnectTimeout=1", "bob", "true"]
        again = subprocess.run(command, capture_output=True, text=True, check=False)
        assert again.returncode == 255 and "timed out" in again.stderr
        assert world.ssh("alice", "true").returncode == 0


def spaces(pid):
    """Namespaces of all kinds that a process is in."""
    return {str(link.readlink()) for link in Path(f"/proc/{pid}/ns").iterdir()}


def inhabitants(machines):
    """Processes in the namespaces of these machines: other tests have some too, which come and go."""
    inside = set().union(*map(spaces, machines)) - spaces("self")
    assert len(inside) > 8
    processes = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            if not inside.isdisjoint(spaces(process.name)):
                processes.add(process)
    return processes


def own():
    """Things of this process that a world could leave behind."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    return len(list(Path("/proc/self/fd").iterdir())), [line for line in mounts if line.startswith(MOUNTED)]


@pytest.mark.usefixtures("world")  # where there can be none, it is skipped
def test_a_world_that_closes_leaves_nothing(tmp_path):
    before = own()
    with World(tmp_path) as world:
        assert world.ssh("alice", "true").returncode == 0
        marked = [machine.pid for machine in world.machines.values()]
        inside = inhabitants(marked)
    assert own() == before
    inside |= {Path(f"/proc/{pid}") for pid in marked}
    until(lambda: not any(process.exists() for process in inside), "the end of the processes")


SECOND = """
    import sys
    from pathlib import Path
    from tests.hosts.world import World
    with World(Path(sys.argv[1])) as world:
        world.ssh("alice", "sleep 1000 >/dev/null 2>&1 </dev/null &")
        print(*[machine.pid for machine in world.machines.values()], flush=True)
        sys.stdin.read()
"""


@pytest.mark.usefixtures("world")  # where there can be none, it is skipped
def test_a_world_whose_maker_is_killed_leaves_nothing(tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(SECOND), tmp_path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as second:
        assert second.stdout is not None
        inside = inhabitants(second.stdout.readline().split())
        assert len(inside) > 5
        second.send_signal(signal.SIGKILL)
        second.wait()
        until(lambda: not any(process.exists() for process in inside), "the end of the processes")
