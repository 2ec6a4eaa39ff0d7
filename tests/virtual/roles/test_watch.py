"""Reports of the role `watch` on real connections, held against their receivers and against the kernel."""

import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mptune.errors import TrialError
from mptune.linux import agent
from mptune.linux.sandbox.namespaces import STEP_S
from mptune.linux.sandbox.processes import Child
from mptune.monitor.figures import ConnectionSeen, Machine
from mptune.monitor.liveness import is_lost
from mptune.monitor.shape import Census, Connection
from tests.plugins.needs import require
from tests.plugins.netlink import inside
from tests.plugins.path_world import KIB, World
from tests.plugins.waiting import until
from tests.plugins.watching import INTERVAL_NS, only, reported, watching, with_subflows

pytestmark = pytest.mark.usefixtures("may_manage_paths")

NOBODY = 65534


def test_a_transfer_over_two_paths_is_seen_with_its_rates(world):
    options = {"active": ("0-0", "1-1"), "standby_order": ("1-0", "0-1")}
    with world.managed("pcdc", **options), world.transfer() as transfer, watching(world) as child:
        first = reported(child, with_subflows(4))
        began, before = time.monotonic(), transfer.received
        transfer.more(5000 * KIB)
        last = reported(child)
        counted_bps = 8 * (transfer.received - before) / (time.monotonic() - began)
        seen: ConnectionSeen = Machine().update(first).update(last).connections[0]
        assert seen.figures.sent_bps == pytest.approx(counted_bps, rel=0.2)
        rates = {
            subflow.now.device: subflow.figures.sent_bps or 0.0
            for subflow in seen.subflows
            if not subflow.now.backup
        }
        assert set(rates) == {interface.device for interface in world.named["local"]}
        assert sum(rates.values()) == pytest.approx(counted_bps, rel=0.2)
        assert min(rates.values()) > 0.1 * counted_bps
        assert (seen.now.pid, seen.now.fallback, seen.active, seen.standby) == (os.getpid(), False, 2, 2)
        assert all(subflow.now.cc == "cubic" and subflow.now.rtt_ns for subflow in seen.subflows)
        assert first.limits == () and first.may_change


def test_a_subflow_over_a_dead_path_is_lost_and_not_active(world):
    with world.managed("fullmesh") as managed, world.transfer() as transfer, watching(world) as child:
        reported(child, with_subflows(4))
        managed.sender.end()  # it would do something about it
        lost = lambda census: {(it.local, it.remote) for it in only(census).subflows if is_lost(it)}  # noqa: E731
        with world.cut("1-0"):
            (ends,) = lost(reported(child, lambda census: len(lost(census)) == 1))
            assert [end.rpartition(":")[0] for end in ends] == ["10.64.1.1", "10.65.0.1"]
            seen = Machine().update(reported(child)).connections[0]
            assert (seen.active, seen.lost) == (3, 1)
            transfer.more(100 * KIB)
        reported(child, lambda census: not lost(census))


def changed(child: Child, order: dict[str, Any]) -> dict[str, Any]:
    """The answer to an order, given again until the kernel has a new subflow in its list and obeys."""
    answers: list[dict[str, Any]] = []

    def answered() -> bool:
        answers.extend(message for message in child.take() if message["event"] in ("changed", "refused"))
        return bool(answers)

    def obeyed() -> bool:
        answers.clear()
        child.tell(order)
        until(answered, "an answer")
        return bool(answers[-1]["event"] == "changed")

    until(obeyed, "a change")
    return answers[-1]


@pytest.mark.parametrize("kind", ["IPv4", "IPv6", "mapped"])
def test_a_role_that_is_changed_is_seen_at_both_ends(world, kind):
    how = {"ipv6": kind == "IPv6", "mapped": kind == "mapped"}
    with (
        world.managed("fullmesh") as managed,
        world.transfer(**how),
        watching(world) as here,
        watching(world, "remote") as there,
    ):
        connection = only(reported(here, with_subflows(4)))
        managed.sender.end()  # it would put the role back
        assert connection.family == ("ipv6" if kind == "IPv6" else "ipv4")
        assert connection.path_manager is None  # nobody knows the limits of another one
        assert {flow.backup for flow in connection.subflows} == {False}
        chosen = connection.subflows[-1]
        ends = {"local": chosen.local, "remote": chosen.remote}
        order = {"action": "set-backup", "token": connection.token, **ends}
        assert changed(here, {**order, "backup": True})["local"] == chosen.local

        def standby(census: Census) -> set[tuple[str, str]]:
            return {flow.ends for flow in only(census).subflows if flow.backup}

        assert standby(reported(here, standby)) == {chosen.ends}
        # The peer gets an MP_PRIO, and sees the same subflow from its side.
        assert standby(reported(there, standby)) == {chosen.ends[::-1]}
        assert changed(here, {**order, "backup": False})["local"] == chosen.local
        reported(here, lambda census: not standby(census))


@pytest.fixture
def kernels_own(world: World) -> Iterator[World]:
    """The same sites, whose connections the kernel's own path manager has."""
    world.sysctl("local", "kernel")
    yield world
    world.sysctl("local", "userspace")


def test_what_cannot_be_changed_is_refused_with_the_reason(kernels_own):
    with kernels_own.transfer() as transfer, watching(kernels_own) as child:
        transfer.more(10 * KIB)
        connection = only(reported(child, with_subflows(1)))
        assert connection.path_manager == "kernel"
        subflow = connection.subflows[0]
        order = {"action": "set-backup", "token": connection.token, "backup": True, "local": subflow.local}
        child.tell(order | {"remote": subflow.remote})
        assert (
            "the kernel's own path manager has this connection" in child.expect("refused", STEP_S)["reason"]
        )
        child.tell(order | {"remote": "10.65.0.1:1"})
        assert "no such subflow" in child.expect("refused", STEP_S)["reason"]
        child.tell({"action": "juggle"})
        with pytest.raises(TrialError, match="expected an order"):
            child.expect("changed", STEP_S)


def test_a_connection_that_fell_back_is_seen(world):
    def listen() -> socket.socket:
        plain = socket.create_server(("10.65.0.1", 0))
        plain.listen()
        return plain

    with inside(world.sites.remote, listen) as listener, watching(world) as child:

        def connect() -> socket.socket:
            server = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
            server.bind(("10.64.0.1", 0))
            server.connect(listener.getsockname())
            return server

        with inside(world.sites.local, connect) as server:
            accepted, _ = listener.accept()
            with accepted:
                server.sendall(bytes(10 * KIB))
                remote = "{}:{}".format(*listener.getsockname())  # others of earlier tests may still close

                def there(census: Census) -> list[Connection]:
                    return [c for c in census.connections if c.remote == remote and c.subflows]

                (seen,) = there(reported(child, there))
                assert seen.fallback and len(seen.subflows) == 1
        until(lambda: not reported(child).connections)


@contextmanager
def watching_as_nobody(world: World) -> Iterator[Child]:
    """The role in the sender's namespace, without any capability."""
    require("namespaces", tested="the role watch without root")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # for nobody
        program = shutil.copy(agent.program(), folder)
        command = ["nsenter", f"--net={world.sites.local}", "--", "setpriv", f"--reuid={NOBODY}"]
        command += [f"--regid={NOBODY}", "--clear-groups", "--", program, "watch"]
        with Child("watch", command, world.sites.run) as child:
            child.tell({"interval_ns": INTERVAL_NS})
            yield child


def test_without_capabilities_it_shows_what_the_kernel_lets_it_and_names_what_is_missing(world):
    with world.managed("fullmesh"), world.transfer() as transfer, watching_as_nobody(world) as child:
        census = reported(child, with_subflows(4))
        transfer.more(100 * KIB)
        connection = only(census)
        assert (connection.fallback, connection.pid, census.may_change) == (False, None, False)
        assert any("processes" in limit for limit in census.limits)
        assert any("CAP_NET_ADMIN" in limit for limit in census.limits)
        flow = connection.subflows[0]
        child.tell(
            {
                "action": "set-backup",
                "token": connection.token,
                "local": flow.local,
                "remote": flow.remote,
                "backup": True,
            }
        )
        assert "CAP_NET_ADMIN" in child.expect("refused", STEP_S)["reason"]


@pytest.mark.parametrize("line", [{"interval_ns": 1}, {"interval": 1}])
def test_a_wrong_first_line_is_refused(world, line):
    with world.sites.start_agent("watch", "local") as child:
        child.tell(line)
        with pytest.raises(TrialError, match="interval"):
            child.expect("connections", STEP_S)
