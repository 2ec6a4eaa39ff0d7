"""Path managers when something goes wrong: refusals, failures, ends."""

import os
import signal
import socket
import struct
from pathlib import Path

import pytest

from mptune.errors import TrialError
from mptune.linux import assignment
from mptune.linux.assignment import SATURATED, Assignment, KernelPath
from mptune.linux.sandbox.namespaces import STEP_S
from mptune.linux.sandbox.processes import Child
from tests.plugins.crowd import dropped
from tests.plugins.netlink import NETLINK_GENERIC, inside
from tests.plugins.path_world import KIB, Managed, ask, connections, ended
from tests.plugins.waiting import until

pytestmark = pytest.mark.usefixtures("may_manage_paths")

#: include/net/tcp_states.h
TIME_WAIT = "06"


def test_a_join_that_nobody_listens_for_is_reported(world):
    with world.managed("fullmesh") as managed, world.transfer(listen_everywhere=False):
        until(lambda: len(managed.report()["problems"]) == 2)
        managed.established(2)
        problems = managed.report()["problems"]
        assert {problem.partition(":")[0] for problem in problems} == {"0-1", "1-1"}
        assert all("must listen on all its addresses" in problem for problem in problems)


def test_a_receiver_that_accepts_no_more_is_reported(world):
    world.sysctl("remote", "kernel")  # 2 further subflows unless configured otherwise
    try:
        with world.sender("fullmesh") as sender:
            sender.expect("ready", STEP_S)
            managed = Managed(sender, sender)
            with world.transfer() as transfer:
                until(lambda: managed.report()["problems"])
                transfer.more(500 * KIB)
                report = managed.report()
        assert [subflow["state"] for subflow in report["subflows"]].count("closed") == 1
        assert "accepts no more" in report["problems"][0]
    finally:
        world.sysctl("remote", "userspace")


@pytest.mark.parametrize("side", ["sender", "receiver"])
def test_the_kernels_own_path_manager_must_be_off(world, side):
    site = "local" if side == "sender" else "remote"
    world.sysctl(site, "kernel")
    try:
        with (
            world.sender("fullmesh") if side == "sender" else world.receiver() as child,
            pytest.raises(TrialError, match=f"path_manager on the {side}'s side: expected userspace"),
        ):
            child.expect("ready", STEP_S)
    finally:
        world.sysctl(site, "userspace")


def test_a_refused_join_has_its_reason(world):
    elsewhere = KernelPath(label="2-0", local=2, remote=0, pairs=(("10.9.9.9", "10.65.0.1"),))
    assigned = Assignment(pm="fullmesh", paths=(*world.paths, elsewhere), transfer_bytes=SATURATED)
    with world.sites.start_agent("paths", "local") as sender, world.receiver() as receiver:
        sender.tell({"side": "sender", "assignment": assignment.document(assigned)})
        for child in (sender, receiver):
            child.expect("ready", STEP_S)
        managed = Managed(sender, receiver)
        with world.transfer():
            managed.established(4)
            (problem,) = until(lambda: managed.report()["problems"])
    assert problem.startswith("2-0: subflow 10.9.9.9 to 10.65.0.1: ")
    assert "on no interface of the namespace" in problem


def test_a_path_that_is_not_there_ends_it_with_a_reason(world):
    with world.sender("fullmesh") as sender:
        sender.expect("ready", STEP_S)
        sender.tell({"action": "withdraw", "path": "9-9"})
        with pytest.raises(TrialError, match="path: expected one of 0-0, 0-1, 1-0, 1-1, found"):
            sender.expect("report", STEP_S)


def test_an_ipv4_connection_of_an_ipv6_socket_is_managed_as_one_of_ipv4(world):
    with world.managed("fullmesh") as managed, world.transfer(mapped=True) as transfer:
        pairs = managed.established(4)
        assert {pair["remote"]["address"] for pair in pairs} == {"10.65.0.1", "10.65.1.1"}
        managed.do("withdraw", "0-0")
        until(lambda: managed.standby() == {"0-0"})
        transfer.more(500 * KIB)
        managed.do("remove", "0-0")
        transfer.more(500 * KIB)
        assert managed.report()["problems"] == []


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_connections_outlive_their_manager_and_another_one_leaves_them_alone(world, how):
    with world.transfer() as transfer:
        with world.managed("fullmesh") as managed:
            for child in (managed.sender, managed.receiver):
                os.kill(child.pid, how)
                until(lambda: ended(child))  # noqa: B023 - called at once
        transfer.more(500 * KIB)
        with world.managed("fullmesh") as again:
            transfer.more(500 * KIB)
            assert again.reports() == []


def test_what_was_closed_among_lost_events_is_over_while_its_last_bytes_are_on_their_way(world):
    with world.managed("fullmesh") as managed:
        os.kill(managed.sender.pid, signal.SIGSTOP)
        while dropped(world.sites.local) == 0:
            with connections(world, 100):
                pass
        os.kill(managed.sender.pid, signal.SIGCONT)
        assert [report for report in managed.reports() if report["closed_ns"] is None] == []


def test_what_is_ordered_for_a_connection_that_is_gone_is_refused_by_its_token(world):
    def sockets() -> set[str]:
        lines = Path("/proc/thread-self/net/tcp").read_text(encoding="ascii").splitlines()[1:]
        return {line.split()[3] for line in lines} - {TIME_WAIT}

    with world.managed("fullmesh") as managed:
        os.kill(managed.sender.pid, signal.SIGSTOP)
        with connections(world, 1):
            pass
        until(lambda: not inside(world.sites.local, sockets), "the end of the connection")
        os.kill(managed.sender.pid, signal.SIGCONT)
        problems = managed.report()["problems"]
    assert [problem.partition(":")[0] for problem in problems] == ["0-1", "1-0", "1-1"]
    assert all("invalid token" in problem for problem in problems)


def footprint(child: Child) -> tuple[int, int]:
    """Descriptors and threads of a process."""
    process = Path("/proc", str(child.pid))
    return len(list((process / "fd").iterdir())), len(list((process / "task").iterdir()))


def test_connections_leave_nothing_behind_in_their_managers(world):
    with world.managed("fullmesh") as managed:
        children = managed.sender, managed.receiver
        managed.reports()
        before = [footprint(child) for child in children]
        for _ in range(5):
            with connections(world, 10):
                until(lambda: [len(report["subflows"]) for report in managed.reports()][-10:] == [4] * 10)
                assert [footprint(child) for child in children] == before
        until(lambda: all(report["closed_ns"] is not None for report in managed.reports()))
        assert len(managed.reports()) == ask(managed.receiver)["accepted"] == 50
        assert [footprint(child) for child in children] == before


def send_nonsense(namespace: str) -> None:
    """Send the only one who listens to the events of a namespace one that has no addresses."""

    def send() -> None:
        lines = Path("/proc/thread-self/net/netlink").read_text(encoding="ascii").splitlines()[1:]
        fields = [line.split() for line in lines]
        (port,) = (
            int(port)
            for _, protocol, port, groups, *_ in fields
            if int(protocol) == NETLINK_GENERIC and int(port) and int(groups, 16)
        )
        created = struct.pack("=IHHIIBBH", 20, 28, 0, 0, 0, 1, 1, 0)
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC) as netlink:
            netlink.sendto(created, (port, 0))

    inside(namespace, send)


@pytest.mark.parametrize("side", ["sender", "receiver"])
def test_a_failure_is_reported_at_once_and_ends_it(world, side):
    site = "local" if side == "sender" else "remote"
    with world.sender("fullmesh") if side == "sender" else world.receiver() as child:
        child.expect("ready", STEP_S)
        send_nonsense(world.sites.of(site))
        with pytest.raises(TrialError, match="netlink: unreadable message"):
            child.expect("report", STEP_S)
        until(lambda: ended(child))
        assert child.death() == "paths ended with status 1"


def test_its_last_report_is_of_everything_it_did(world):
    with world.managed("fullmesh") as managed:
        with world.transfer():
            managed.established(4)
            managed.do("withdraw", "1-0")
            managed.do("readmit", "1-0")
        managed.sender.tell({"action": "stop"})
        (connection,) = managed.sender.expect("report", STEP_S)["connections"]
        until(lambda: ended(managed.sender))
        assert managed.sender.death() == "paths ended with status 0"
    assert [subflow["path"] for subflow in connection["subflows"]] == ["0-0", "0-1", "1-0", "1-1"]
    assert [change["backup"] for change in connection["changes"]] == [True, False]


def test_it_ends_with_its_input(world):
    sender = world.sender("fullmesh")
    with sender:
        sender.expect("ready", STEP_S)
    assert not Path(f"/proc/{sender.pid}").exists()
