"""The daemon as a service, in a namespace: what connections get, and what is left when it dies."""

import os
import re
import shutil
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pyroute2
import pytest

from mptune.daemon.client import Client
from mptune.linux import agent
from mptune.linux.sandbox.netlink import inside
from mptune.monitor import daemon as hearing
from tests.kernel.daemon_world import FULLMESH, KERNEL, USERSPACE, Daemon, daemon_of
from tests.kernel.path_world import KIB, World
from tests.kernel.test_watch import only, reported, watching, with_subflows
from tests.plugins.kills import everywhere, kill
from tests.plugins.program import command_line
from tests.plugins.waiting import PATIENCE_S, until

pytestmark = pytest.mark.usefixtures("may_manage_paths")

NOBODY = 65534


def pcdc(daemon: Daemon, **more: Any) -> str:
    """A policy file with an answer for the world's paths: 0-0 and 1-1 carry data."""
    place = daemon.answer("pcdc", active=[0, 3], standby_order=[1, 2], **more)
    return f'[[policy]]\nname = "answer"\nto = ["10.65.0.0/16", "fd65::/16"]\nrun = "{place}"\n'


# What connections get.


@pytest.mark.parametrize("ipv6", [False, True])
def test_a_destination_has_the_answer_of_its_run(daemon, world, accepting, ipv6):
    daemon.write(pcdc(daemon))
    daemon.begin()
    with world.transfer(ipv6=ipv6) as transfer, watching(world) as child:
        connection = only(reported(child, with_subflows(4)))
        roles = sorted((str(flow.device), flow.backup) for flow in connection.subflows)
        devices = sorted(one.device for one in world.named["local"])
        assert roles == [(device, backup) for device in devices for backup in (False, True)]
        transfer.more(500 * KIB)
        status = until(lambda: (one := daemon.policy("answer"))["sent_bytes"] and one, "bytes")
        assert (status["connections"], status["active"], status["standby"]) == (1, 2, 2)
        assert (status["opened"], status["pm"], status["outdated"]) == (1, "pcdc", False)
    until(lambda: daemon.policy("answer")["connections"] == 0, "the end of the connection")


def test_all_other_destinations_get_the_default(daemon, world, accepting):
    daemon.write('[[policy]]\nname = "other"\nto = ["10.99.0.0/16"]\npolicy = "default"\n')
    daemon.begin()
    with world.transfer() as transfer, watching(world) as child:
        # Without more of the peer's addresses: one subflow from each of this side's.
        connection = only(reported(child, with_subflows(2)))
        assert {flow.device for flow in connection.subflows} == {one.device for one in world.named["local"]}
        transfer.more(100 * KIB)
        assert (daemon.policy("default")["active"], daemon.policy("other")["connections"]) == (2, 0)


def test_killed_it_leaves_connections_alone_and_new_ones_to_the_kernel(daemon, world, accepting):
    daemon.write(pcdc(daemon))
    daemon.begin()
    assert daemon.path_manager() == USERSPACE
    with world.transfer() as transfer, watching(world) as child:
        reported(child, with_subflows(4))
        assert daemon.kill() == -signal.SIGKILL
        until(lambda: daemon.path_manager() == KERNEL, "the kernel's path manager")
        transfer.more(500 * KIB)
        assert len(only(reported(child)).subflows) == 4
        with world.transfer() as second:
            second.more(10 * KIB)
            found = reported(child, lambda one: len(one.connections) == 2).connections
            assert {one.path_manager for one in found} == {None, "kernel"}
        # Started again it knows its own.
        daemon.begin()
        until(lambda: daemon.policy("answer")["connections"] == 1, "the living connection")


def test_while_somebody_measures_new_connections_are_left_alone(daemon, world, accepting):
    daemon.write(pcdc(daemon))
    daemon.begin()
    with Client(daemon.socket) as client, watching(world) as child:
        assert client.ask("suspend", policy="answer")["event"] == "suspended"
        assert daemon.policy("answer")["suspended"]
        with world.transfer() as transfer:
            transfer.more(100 * KIB)
            reported(child, with_subflows(1))
            assert daemon.policy("answer")["opened"] == 0
    until(lambda: not daemon.policy("answer")["suspended"], "the end of the suspension")
    assert [one["what"] for one in daemon.ask("events")["events"][1:]] == ["suspended", "in force again"]


# Life and death.


def test_a_clean_end_leaves_nothing_behind(daemon):
    daemon.begin()
    assert daemon.path_manager() == USERSPACE
    assert stat.S_IMODE(daemon.socket.stat().st_mode) == 0o660
    assert {one.partition("/")[0] for one in daemon.left()} == {"daemon", "daemon.sock"}
    assert daemon.kill(signal.SIGTERM) == 0
    assert daemon.path_manager() == KERNEL
    assert not daemon.run.exists()


def test_what_is_as_wanted_already_stays_as_it_was(daemon, world):
    world.sysctl("local", USERSPACE)
    daemon.begin()
    assert daemon.kill() == -signal.SIGKILL
    daemon.begin()
    assert daemon.kill(signal.SIGINT) == 0
    assert daemon.path_manager() == USERSPACE


def test_there_is_one_daemon_in_a_network_namespace(daemon, world, tmp_path):
    daemon.begin()
    (tmp_path / "second").mkdir()
    second = Daemon(world, tmp_path / "second", {"MPTUNE_RUN_DIRECTORY": str(daemon.run)})
    second.write(FULLMESH)
    refused = second.done()
    assert refused.returncode == 1
    assert f"another daemon is running in this network namespace: process {daemon.pid}\n" == refused.stderr
    assert not second.socket.exists() and daemon.path_manager() == USERSPACE
    assert daemon.ask("status")["pid"] == daemon.pid


def test_a_guardian_that_is_killed_is_started_again(daemon):
    daemon.begin()
    first = daemon.guardian()
    os.kill(first, signal.SIGKILL)
    daemon.heard("watchdog started again")
    until(lambda: daemon.guardian() != first, "another guardian")
    daemon.kill()
    until(lambda: daemon.path_manager() == KERNEL, "the kernel's path manager")


@contextmanager
def both_killed(daemon: Daemon) -> Iterator[None]:
    """Neither of the two could do anything."""
    daemon.begin()
    guardian = daemon.guardian()
    os.kill(daemon.pid, signal.SIGSTOP)
    os.kill(guardian, signal.SIGKILL)
    daemon.kill()
    assert daemon.path_manager() == USERSPACE
    yield
    assert daemon.path_manager() == KERNEL
    daemon.end()
    assert daemon.path_manager() == KERNEL and not daemon.run.exists()


def test_after_both_were_killed_restore_puts_it_back(daemon):
    with both_killed(daemon):
        done = daemon.done("--restore")
        assert (done.returncode, "net.mptcp.path_manager" in done.stdout) == (0, True)
        daemon.socket.unlink()
        daemon.run.rmdir()
    assert '"names":[]' in daemon.done("--restore").stdout


def test_after_both_were_killed_the_next_daemon_puts_it_back(daemon):
    with both_killed(daemon):
        daemon.begin()
        assert "a daemon that died" in daemon.heard("restored: net.mptcp.path_manager")
        assert daemon.path_manager() == USERSPACE
        assert daemon.kill(signal.SIGTERM) == 0


@pytest.mark.parametrize(
    ("mode", "after"),
    [("userspace", "restore"), ("userspace", "the next daemon"), ("endpoints", "the next daemon")],
)
def test_a_daemon_that_is_killed_anywhere_leaves_nothing_to_the_next(daemon, mode, after):
    daemon.write(FULLMESH, mode=mode)
    before = daemon.everything()

    def kills_at(number: int) -> bool:
        daemon.start(MPTUNE_STOP_AT=f"daemon {number}")
        if not daemon.stops():
            assert daemon.everything() == before
            return False
        guardians = daemon.guardians()
        for guardian in guardians:
            os.kill(guardian, signal.SIGSTOP)
        daemon.kill()
        for guardian in guardians:
            kill(guardian)
        if after == "restore":
            assert daemon.done("--restore").returncode == 0
            assert daemon.path_manager() == KERNEL, number
        daemon.begin()
        assert daemon.kill(signal.SIGTERM) == 0
        assert daemon.everything() == before, number
        return True

    assert everywhere(f"daemon, {mode}, {after}", kills_at) > 8


def test_restore_leaves_a_living_daemon_alone(daemon):
    daemon.begin()
    assert daemon.done("--restore").returncode == 0
    assert daemon.path_manager() == USERSPACE


def test_somebody_else_may_change_the_setting_and_is_not_fought(daemon, world):
    daemon.begin()
    world.sysctl("local", KERNEL)
    assert "new connections are not steered" in daemon.heard("overruled")
    assert not daemon.ask("status")["in_force"]
    daemon.process.send_signal(signal.SIGHUP)
    daemon.heard("in force again")
    assert daemon.path_manager() == USERSPACE


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.needs("namespaces")
def test_in_a_terminal_it_ends_with_the_command(daemon, world, number):
    """However the command ends, the agent ends too, and everything is as before."""
    enter = ["nsenter", f"--net={world.sites.local}", "--"]
    command = [*enter, *command_line("daemon", "--policy", daemon.file)]
    with subprocess.Popen(command, env=daemon.env, stderr=subprocess.PIPE, text=True) as program:
        try:
            assert program.stderr is not None
            assert program.stderr.readline().startswith("ready: mode userspace")
            status = subprocess.run(
                [*enter, *command_line("status", "--policy", daemon.file)],
                env=daemon.env, capture_output=True, text=True, check=True,
            )  # fmt: skip
            assert f"mode userspace, {daemon.file}" in status.stdout and "fullmesh" in status.stdout
        finally:
            program.send_signal(number)
        assert program.wait(PATIENCE_S) == (130 if number == signal.SIGINT else -number)
    until(lambda: daemon.path_manager() == KERNEL and not daemon.run.exists(), "the end of the agent")


@contextmanager
def without_a_route_of_its_own(world: World, address: str) -> Iterator[None]:
    """A device with an address whose packets leave by another device."""

    def add() -> None:
        with pyroute2.IPRoute() as routes:
            routes.link("add", ifname="spare", kind="veth", peer={"ifname": "peer"})
            index = routes.link_lookup(ifname="spare")[0]
            routes.addr("add", index=index, address=address, prefixlen=24)
            for end in (index, *routes.link_lookup(ifname="peer")):
                routes.link("set", index=end, state="up")
            routes.rule("add", src=address, table=100, priority=50)

    def remove() -> None:
        with pyroute2.IPRoute() as routes:
            routes.rule("del", src=address, table=100, priority=50)
            routes.link("del", ifname="spare")

    inside(world.sites.local, add)
    try:
        yield
    finally:
        inside(world.sites.local, remove)


def test_an_address_whose_packets_leave_elsewhere_is_told(daemon, world):
    daemon.write('[[policy]]\nname = "one"\nto = ["10.65.0.0/16"]\npolicy = "fullmesh"\n')
    with without_a_route_of_its_own(world, "10.77.0.1"):
        daemon.begin()
        line = daemon.heard("10.77.0.1 on spare is not used")
        assert line.startswith("warning: ") and "leave by if0 (it needs a rule" in line
        of = {one["address"]: one for one in daemon.ask("status")["interfaces"] if one["address"]}
        assert of["10.77.0.1"] == {
            "device": "spare", "address": "10.77.0.1", "used": False, "why": "packets from it leave by if0",
        }  # fmt: skip
        others = [one for address, one in of.items() if address.startswith("10.64.")]
        assert others and all(one["used"] and not one["why"] for one in others)
    assert not [line for line in daemon.said if "10.64." in line]


@pytest.mark.needs("namespaces")
def test_status_says_which_devices_are_not_used_and_why(daemon, world):
    policy = '[[policy]]\nname = "one"\nto = ["10.65.0.0/16"]\npolicy = "fullmesh"\n'
    daemon.write(policy, interfaces=["if0", "spare", "nowhere"])
    with without_a_route_of_its_own(world, "10.77.0.1"):
        inside(world.sites.local, lambda: subprocess.run(["ip", "link", "set", "spare", "down"], check=True))
        daemon.begin()
        found = daemon.ask("status")["interfaces"]
        assert "if0" in {one["device"] for one in found if one["used"]}
        why = {one["device"]: one["why"] for one in found if not one["used"]}
        assert why["spare"] == "it is down"
        assert why["nowhere"] == "there is no such device"
        assert why["if1"] == why["peer"] == "not among daemon.interfaces" and "lo" not in why
        shown = subprocess.run(
            command_line("status", "--policy", daemon.file),
            env=daemon.env, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert "no: there is no such device" in shown.stdout


# What is refused, before anything is changed.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("colour = 1", "daemon.colour: expected one of mode, socket, keep_endpoints, interfaces, found"),
        ('mode = "fast"', "daemon.mode: expected one of auto, userspace, endpoints, found"),
        ('[default]\npolicy = "fullmash"', "default.policy: expected one of default"),
        (
            '[[policy]]\nname = "a"\nto = ["10.0.0.1/8"]',
            "policy[0].to[0]: expected 10.0.0.0/8 (no bits of a host)",
        ),
        (
            '[[policy]]\nname = "a"\nto = ["10.0.0.0/8"]\nrun = "nowhere"',
            "policy[0].run: expected a directory",
        ),
        ("[", "line 3: expected TOML"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(daemon, text, expected):
    daemon.write(text)
    for options in ([], ["--check"]):
        refused = daemon.done(*options)
        assert refused.returncode == 2 and not refused.stdout
        assert refused.stderr.startswith(f"{daemon.file}: {expected}") and refused.stderr.count("\n") == 1
    assert daemon.path_manager() == KERNEL and not daemon.run.exists()


def test_a_socket_that_is_not_possible_is_refused(daemon, tmp_path):
    daemon.write(FULLMESH, socket=str(tmp_path / "no/where/daemon.sock"))
    refused = daemon.done()
    assert (refused.returncode, "the socket's directory" in refused.stderr) == (1, True)
    assert daemon.path_manager() == KERNEL and not daemon.run.exists()


def confined(script: str) -> list[str]:
    """A command line after a script that changes mounts, which nobody else sees."""
    return ["unshare", "--mount", "sh", "-ec", f'{script}\nexec "$@"', "sh"]


@pytest.mark.parametrize(
    ("options", "words"), [("ro", "Read-only file system"), ("size=4k", "No space left on device")]
)
@pytest.mark.needs("namespaces")
def test_without_a_place_for_the_note_nothing_is_changed(daemon, options, words):
    daemon.write(FULLMESH, socket=str(daemon.folder / "daemon.sock"))
    daemon.run.mkdir()
    fill = f"mount -t tmpfs -o rw,size=4k none {daemon.run}; chmod 755 {daemon.run}\n"
    fill += f"mkdir -m 700 {daemon.run}/daemon; dd if=/dev/zero of={daemon.run}/full 2>/dev/null || true\n"
    fill += f"mount -o remount,{options} {daemon.run}"
    refused = subprocess.run(
        [*confined(fill), *daemon.command()], env=daemon.env, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1 and words in refused.stderr and refused.stderr.count("\n") == 1
    assert daemon.path_manager() == KERNEL and not (daemon.folder / "daemon.sock").exists()


def test_a_kernel_without_a_path_manager_in_userspace_is_refused_with_what_to_do(daemon, tmp_path):
    root = tmp_path / "sys/net/mptcp"
    root.mkdir(parents=True)
    daemon.env["MPTUNE_SYSCTL_ROOT"] = str(tmp_path / "sys")
    refused = daemon.done()
    assert refused.returncode == 1 and "this kernel has no MPTCP" in refused.stderr
    (root / "enabled").write_text("1\n")
    daemon.write(FULLMESH, mode="userspace")
    refused = daemon.done()
    assert refused.returncode == 1
    assert "daemon.mode: expected endpoints or auto on this kernel" in refused.stderr


@pytest.mark.needs("namespaces")
def test_it_works_as_the_unit_lets_it(daemon, world, accepting):
    """A user without rights but CAP_NET_ADMIN, and /proc/sys read-only but for one directory."""
    daemon.write(pcdc(daemon))
    daemon.run.mkdir()
    os.chown(daemon.run, NOBODY, NOBODY)
    for one in (daemon.folder, *daemon.folder.parents):
        if one.stat().st_uid == os.getuid() and not one.stat().st_mode & 0o005:
            one.chmod(one.stat().st_mode | 0o011)
    program = shutil.copy(agent.program(), daemon.folder)
    # As systemd does for ProtectKernelTunables= and ReadWritePaths=.
    script = "mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys\n"
    script += "mount --bind /proc/sys/net/mptcp /proc/sys/net/mptcp\n"
    script += "mount -o remount,rw,bind /proc/sys/net/mptcp"
    before = [
        "nsenter",
        f"--net={world.sites.local}",
        "--",
        *confined(script),
        "setpriv",
        f"--reuid={NOBODY}",
    ]
    before += [
        f"--regid={NOBODY}",
        "--clear-groups",
        "--inh-caps=-all,+net_admin",
        "--ambient-caps=-all,+net_admin",
    ]
    before += ["--bounding-set=-all,+net_admin", "--no-new-privs", "--"]
    daemon.command = lambda *options: [str(program), "daemon", "--policy", str(daemon.file), *options]
    daemon.begin(*before)
    assert daemon.path_manager() == USERSPACE
    with world.transfer(), watching(world) as child:
        reported(child, with_subflows(4))
    daemon.kill()
    until(lambda: daemon.path_manager() == KERNEL, "the kernel's path manager")


def test_systemd_is_told_how_it_is(world, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(PATIENCE_S)
        env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
        with daemon_of(world, tmp_path, **env) as daemon:
            daemon.write(FULLMESH)
            daemon.begin()
            heard = [listener.recv(4096).decode() for _ in range(3)]
            assert heard[0].startswith("READY=1\nSTATUS=mode userspace") and "WATCHDOG=1" in heard[1:]
            daemon.kill(signal.SIGTERM)
            until(lambda: listener.recv(4096) == b"STOPPING=1", "the end")


# Reload.


def test_a_reload_takes_a_good_file_and_refuses_a_bad_one(daemon, world, accepting):
    daemon.begin()
    daemon.write("[default]\npolicy = 7\n")
    daemon.process.send_signal(signal.SIGHUP)
    assert "the policies are as before" in daemon.heard("reload refused")
    assert "default.policy: expected text, found 7" in daemon.ask("status")["reload_refused"]
    daemon.write(pcdc(daemon))
    assert daemon.ask("reload") == {"event": "reloaded"}
    status = daemon.ask("status")
    assert status["reload_refused"] is None
    assert [one["name"] for one in status["policies"]] == ["answer", "default"]
    with world.transfer(), watching(world) as child:
        reported(child, with_subflows(4))


def test_what_a_reload_cannot_change_is_refused(daemon):
    daemon.begin()
    daemon.write(FULLMESH, mode="endpoints")
    with pytest.raises(Exception, match=r"daemon.mode: expected what it was when the daemon began"):
        daemon.ask("reload")


# Readers.


def test_watch_hears_what_it_did(daemon, world, accepting, monkeypatch):
    daemon.write(pcdc(daemon))
    daemon.begin()
    monkeypatch.setenv(hearing.VARIABLE, str(daemon.socket))
    events = hearing.connect()
    assert events is not None
    daemon.process.send_signal(signal.SIGHUP)
    heard = until(events.take, "an event")
    assert [one.what for one in heard] == ["reloaded"] and heard[0].line.startswith(
        "reloaded: 2 policies of "
    )
    daemon.kill(signal.SIGTERM)
    until(lambda: events.take() == [] and events.ended, "the end")
    events.close()


def test_a_reader_that_never_reads_holds_nobody_up(daemon, world, accepting):
    daemon.begin()
    with ExitStack() as stack:
        silent = stack.enter_context(Client(daemon.socket))
        for _ in range(20_000):
            # Answers that it never reads, until its requests are not taken any more either.
            try:
                silent._socket.setblocking(False)
                silent._socket.send(b'{"action": "status"}\n')
            except BlockingIOError:
                break
        with world.transfer() as transfer:
            transfer.more(100 * KIB)
            status = until(lambda: (one := daemon.ask("status"))["policies"][-1]["connections"] and one, "it")
        assert status["readers"] == 2 and status["memory_bytes"] < 64 << 20


def metrics(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """The text format of Prometheus, read strictly: every family has HELP, TYPE, then its samples, once."""
    label = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
    sample = re.compile(rf"([a-z][a-z0-9_]*)(?:\{{({label}(?:,{label})*)\}})? ([0-9.e+-]+|NaN|[+-]Inf)")
    families: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    assert text.endswith("\n")
    name, expects_type = "", False
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, _, words = line.removeprefix("# HELP ").partition(" ")
            assert words and name not in families and not expects_type
            families[name], expects_type = {}, True
            continue
        if expects_type:
            assert re.fullmatch(rf"# TYPE {name} (counter|gauge)", line), line
            expects_type = False
            continue
        found = sample.fullmatch(line)
        assert found and found[1] == name, line
        labels = tuple(re.findall(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"', found[2] or ""))
        assert labels not in families[name]
        families[name][labels] = float(found[3])
    assert all(families.values())
    return families


def test_metrics_are_what_prometheus_reads(daemon, world, accepting):
    daemon.write(pcdc(daemon, expected=30.0))
    daemon.begin()
    with world.transfer() as transfer:
        transfer.more(500 * KIB)
        until(lambda: daemon.policy("answer")["standby"] == 2, "subflows")
        done = subprocess.run(
            command_line("status", "--metrics", "--policy", daemon.file),
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    found = metrics(done.stdout)
    answer = (("policy", "answer"),)
    assert found["mptune_connections"][answer] == 1
    assert found["mptune_subflows"][(*answer, ("role", "standby"))] == 2
    assert found["mptune_expected_bits_per_second"] == {answer: 30e6}
    assert found["mptune_daemon_in_force"] == {(): 1} and found["mptune_daemon_memory_bytes"][()] > 1 << 18
    for name in found:
        kind = re.search(rf"^# TYPE {name} (\w+)$", done.stdout, re.M)
        assert kind and (kind[1] == "counter") == name.endswith("_total")


# The network is not what was measured any more.


@pytest.mark.measures("throughput over two paths")
@pytest.mark.parametrize(("expected", "outdated"), [(200.0, True), (None, False)])
def test_a_network_that_gives_less_than_was_measured_is_told(world, tmp_path, accepting, expected, outdated):
    with daemon_of(world, tmp_path, MPTUNE_NOTICE_WINDOW_MS="6000") as daemon:
        daemon.write(pcdc(daemon, expected=expected))
        daemon.begin()
        with world.transfer() as transfer:
            if outdated:
                line = daemon.heard("outdated")
                assert "predicts 200 Mbit/s (180 to 220), seen" in line and "for 6 s: measure again" in line
            transfer.more(2000 * KIB)
        status = daemon.policy("answer")
        assert status["outdated"] == outdated
        if outdated:
            assert 10 < status["seen_low_mbit_s"] <= status["seen_high_mbit_s"] < 45
            assert len([line for line in daemon.said if "outdated" in line]) == 1


def test_a_program_that_sends_little_says_nothing_about_the_network(world, tmp_path, accepting):
    with daemon_of(world, tmp_path, MPTUNE_NOTICE_WINDOW_MS="1500") as daemon:
        daemon.write(pcdc(daemon, expected=200.0))
        daemon.begin()
        with pair_of(world) as (sender, receiver):
            began = daemon.ask("status")["uptime_s"]

            def enough() -> bool:
                sender.sendall(bytes(1000))
                receiver.recv(1 << 16)
                return bool(daemon.ask("status")["uptime_s"] > began + 3 * 1.5)

            until(enough, "three times as long as is looked back")
        status = daemon.policy("answer")
        assert status["sent_bytes"] > 0
        assert (status["outdated"], status["seen_low_mbit_s"]) == (False, None)


@contextmanager
def pair_of(world: World) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection from an ordinary program to another."""

    def made() -> socket.socket:
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)

    with inside(world.sites.remote, made) as listener, inside(world.sites.local, made) as sender:
        listener.bind(("10.65.0.1", 0))
        listener.listen()
        sender.bind(("10.64.0.1", 0))
        sender.connect(listener.getsockname())
        accepted, _ = listener.accept()
        with accepted:
            yield sender, accepted


def test_thousands_of_short_connections_leave_nothing_in_memory(daemon, world, accepting):
    daemon.begin()

    def memory_after(count: int) -> int:
        before = daemon.policy("default")["opened"]
        for _ in range(count):
            with pair_of(world) as (sender, receiver):
                sender.sendall(b"x")
                receiver.recv(1)
        until(lambda: daemon.policy("default")["opened"] >= before + count, "all connections")
        until(lambda: daemon.policy("default")["connections"] == 0, "their end")
        return int(daemon.ask("status")["memory_bytes"])

    first = memory_after(1500)  # more than are kept for reports
    assert memory_after(1500) < 1.2 * first
