"""The agent's roles on this machine's kernel: that they work here too; the rest is in tests/virtual/roles."""

import signal
from contextlib import ExitStack

import pytest
from msgspec.structs import replace

from tests.plugins.daemon_world import FULLMESH, KERNEL, USERSPACE, daemon_of, pcdc
from tests.plugins.path_world import KIB, World, bring, remove
from tests.plugins.waiting import PATIENCE_S, until
from tests.plugins.watching import ends, only, reported, watching, with_established, with_subflows

pytestmark = pytest.mark.usefixtures("may_manage_paths")


@pytest.mark.parametrize("ipv6", [False, True], ids=["IPv4", "IPv6"])
def test_a_path_manager_opens_withdraws_and_removes_subflows(world, ipv6):
    with world.managed("fullmesh") as managed, world.transfer(ipv6=ipv6):
        managed.established(4)
        until(lambda: min(managed.acked().values()) > 100 * KIB)
        managed.do("withdraw", "1-1")
        assert managed.standby() == {"1-1"}
        managed.do("remove", "1-1")
        managed.established(3)
        managed.do("add", "1-1")
        managed.do("readmit", "1-1")
        managed.established(4)
        assert managed.report()["problems"] == []


def test_a_standby_path_takes_over_from_one_that_is_cut(world):
    options = {"active": ("0-0",), "standby_order": ("1-1", "0-1", "1-0")}
    with world.managed("pcdc", **options) as managed, world.transfer() as transfer:
        managed.established(4)
        transfer.more(500 * KIB)
        with world.cut("0-0"):
            until(lambda: managed.standby() == {"0-1", "1-0"})
            transfer.more(500 * KIB)
        until(lambda: managed.standby() == {"0-1", "1-0", "1-1"})


def test_a_daemon_gives_a_destination_its_answer_and_leaves_nothing_behind(daemon, world, accepting):
    daemon.write(pcdc(daemon))
    daemon.begin()
    assert daemon.path_manager() == USERSPACE
    with world.transfer() as transfer, watching(world) as child:
        roles = [flow.backup for flow in only(reported(child, with_subflows(4))).subflows]
        assert roles.count(True) == roles.count(False) == 2
        transfer.more(500 * KIB)
        assert daemon.kill() == -signal.SIGKILL
        until(lambda: daemon.path_manager() == KERNEL, "the kernel's path manager")
        transfer.more(500 * KIB)
    daemon.begin()
    assert daemon.kill(signal.SIGTERM) == 0
    assert daemon.path_manager() == KERNEL and not daemon.run.exists()


def test_the_only_interface_may_change_its_address_under_a_living_connection(tmp_path):
    with ExitStack() as stack:
        world = World(1, stack)
        daemon = stack.enter_context(daemon_of(world, tmp_path))
        receiver = stack.enter_context(world.receiver())
        receiver.expect("ready", PATIENCE_S)
        daemon.write(FULLMESH)
        daemon.begin()
        new = replace(world.named["local"][0], ipv4="10.64.0.77", ipv6="fd64::77")
        with world.transfer() as transfer, watching(world) as child:
            reported(child, with_established(1))
            until(lambda: daemon.policy("default")["connections"] == 1, "the connection")
            transfer.more(100 * KIB)  # a connection that has carried nothing takes no subflow
            remove(world, 0)
            bring(world, new)
            transfer.more(500 * KIB)
            moved = lambda census: ends(only(census)) == [("10.64.0.77", "10.65.0.1")]  # noqa: E731
            reported(child, lambda census: with_established(1)(census) and moved(census))
