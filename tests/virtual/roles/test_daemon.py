"""The daemon as a service, in a namespace: what connections get, and what is left when it dies."""

import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mptune.daemon.client import Client
from tests.plugins.daemon_world import FULLMESH, KERNEL, USERSPACE, Daemon, pcdc
from tests.plugins.kills import everywhere, kill, state
from tests.plugins.path_world import KIB
from tests.plugins.program import command_line
from tests.plugins.waiting import PATIENCE_S, until
from tests.plugins.watching import only, reported, watching, with_subflows

pytestmark = pytest.mark.usefixtures("may_manage_paths")


# Connections.


@pytest.mark.parametrize("ipv6", [False, True])
def test_a_destination_has_the_answer_of_its_run(daemon, world, accepting, ipv6):
    daemon.write(pcdc(daemon))
    daemon.begin()
    with world.transfer(ipv6=ipv6) as transfer, watching(world) as child:
        connection = only(reported(child, with_subflows(4)))
        roles = sorted((str(flow.device), flow.backup) for flow in connection.subflows)
        devices = sorted(interface.device for interface in world.named["local"])
        assert roles == [(device, backup) for device in devices for backup in (False, True)]
        transfer.more(500 * KIB)
        status = until(lambda: (status_now := daemon.policy("answer"))["sent_bytes"] and status_now, "bytes")
        assert (status["connections"], status["active"], status["standby"]) == (1, 2, 2)
        assert (status["opened"], status["pm"], status["outdated"]) == (1, "pcdc", False)
    until(lambda: daemon.policy("answer")["connections"] == 0, "the end of the connection")


def test_all_other_destinations_get_the_default(daemon, world, accepting):
    daemon.write('[[policy]]\nname = "other"\nto = ["10.99.0.0/16"]\npolicy = "default"\n')
    daemon.begin()
    with world.transfer() as transfer, watching(world) as child:
        # Without more of the peer's addresses: one subflow from each of this side's.
        connection = only(reported(child, with_subflows(2)))
        assert {flow.device for flow in connection.subflows} == {
            interface.device for interface in world.named["local"]
        }
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
            connections = reported(child, lambda census: len(census.connections) == 2).connections
            assert {connection.path_manager for connection in connections} == {None, "kernel"}
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
    assert [event["what"] for event in daemon.ask("events")["events"][1:]] == ["suspended", "in force again"]


# Life and death.


def test_a_clean_end_leaves_nothing_behind(daemon):
    daemon.begin()
    assert daemon.path_manager() == USERSPACE
    assert stat.S_IMODE(daemon.socket.stat().st_mode) == 0o660
    assert {name.partition("/")[0] for name in daemon.left()} == {"daemon", "daemon.sock"}
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
    until(lambda: state(daemon.pid) == "T", "a daemon that starts no other guardian")
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
    [(mode, after) for mode in ("userspace", "endpoints") for after in ("restore", "the next daemon")],
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
            assert daemon.everything()[:2] == before[:2], number
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
