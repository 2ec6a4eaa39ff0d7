"""The daemon and connections with subflows of both address families, and sockets that do not take them."""

from typing import Any

import pytest

from mptune.monitor.shape import Census, Connection
from tests.plugins.daemon_world import Daemon
from tests.plugins.path_world import KIB
from tests.plugins.waiting import until
from tests.plugins.watching import ends, only, reported, watching, with_established

pytestmark = pytest.mark.usefixtures("may_manage_paths")

ANNOUNCING = '[default]\npolicy = "fullmesh"\nannounce = true\n'
#: What the daemon says of subflows that Linux does not allow.
SAYS = "the program's socket is of"


def pairs(world: Any, *families: int) -> list[tuple[str, str]]:
    """Addresses of all paths in these families, 0 for IPv4 and 1 for IPv6."""
    return sorted(path.pairs[family] for path in world.paths for family in families)


def over_ipv6(connection: Connection) -> int:
    """Bytes that were acknowledged over IPv6."""
    subflows = [flow for flow in connection.subflows if "fd64" in flow.local]
    return sum(flow.acked_bytes or 0 for flow in subflows)


def answer(daemon: Daemon, *active: int) -> str:
    """A policy file with an answer over both families, some of whose eight paths carry data: IPv4 first."""
    standby = [path for path in range(8) if path not in active]
    place = daemon.answer("pcdc", both_families=True, active=list(active), standby_order=standby)
    return f'[[policy]]\nname = "answer"\nto = ["10.65.0.0/16", "fd65::/16"]\nrun = "{place}"\n'


@pytest.mark.parametrize("began", [{"mapped": True}, {"ipv6": True}], ids=["IPv4", "IPv6"])
def test_a_connection_gets_subflows_over_the_other_family_that_the_peer_announces(
    daemon, world, server, began
):
    server.write(ANNOUNCING)
    server.begin()
    daemon.begin()
    with world.transfer(**began) as transfer, watching(world) as child, watching(world, "remote") as other:
        connection = only(reported(child, with_established(8)))
        assert ends(connection) == pairs(world, 0, 1)
        transfer.more(500 * KIB)
        until(lambda: daemon.policy("default")["active"] == 8, "all of them")
        assert len(ends(only(reported(other)))) == 8
        until(lambda: server.policy("default")["active"] == 8, "all of them at the other side")
    assert not any(SAYS in line for line in daemon.said)


def test_an_answer_over_both_families_has_its_paths_and_roles_in_both(daemon, world, accepting):
    """The connection begins over IPv4, and carries its data over IPv6 on another path."""
    daemon.write(answer(daemon, 7))
    daemon.begin()
    with world.transfer(mapped=True) as transfer, watching(world) as child:

        def one_active(census: Census) -> bool:
            roles = [flow.backup for connection in census.connections for flow in connection.subflows]
            return with_established(8)(census) and roles.count(False) == 1

        connection = only(reported(child, one_active))
        assert ends(connection) == pairs(world, 0, 1)
        (active,) = (flow for flow in connection.subflows if not flow.backup)
        assert "fd64:0:1::1" in active.local and "fd65:0:1::1" in active.remote
        before = over_ipv6(connection)
        transfer.more(1000 * KIB)
        until(lambda: over_ipv6(only(reported(child))) > before + 500 * KIB, "data over IPv6")


def test_in_a_socket_of_ipv4_nothing_is_tried_over_ipv6_and_that_is_reported_once(daemon, world, server):
    server.write(ANNOUNCING)
    server.begin()
    daemon.begin()
    for _ in range(2):
        with world.transfer(accepts_both=True) as transfer, watching(world) as child:
            connection = only(reported(child, with_established(4)))
            assert ends(connection) == pairs(world, 0)
            daemon.heard(f"{SAYS} IPv4")
            transfer.more(500 * KIB)
            assert len(only(reported(child)).subflows) == 4
        until(lambda: daemon.policy("default")["connections"] == 0, "its end")
    # Of the first connection.
    assert [SAYS in line for line in daemon.said].count(True) == 1
    assert daemon.policy("default")["errors"] == 0


def test_of_an_answer_over_both_families_a_socket_of_ipv4_has_the_paths_over_ipv4(daemon, world, accepting):
    daemon.write(answer(daemon, 0, 7))
    daemon.begin()
    with world.transfer() as transfer, watching(world) as child:
        connection = only(reported(child, with_established(4)))
        assert ends(connection) == pairs(world, 0)
        daemon.heard(f"paths over IPv6 are not used: {SAYS} IPv4")
        transfer.more(500 * KIB)
    assert [SAYS in line for line in daemon.said].count(True) == 1


def test_a_socket_of_ipv6_alone_keeps_to_ipv6_and_the_reason_is_reported_once(daemon, world, server):
    server.write(ANNOUNCING)
    server.begin()
    daemon.begin()
    with world.transfer(ipv6=True, six_only=True) as transfer, watching(world) as child:
        connection = only(reported(child, with_established(4)))
        assert ends(connection) == pairs(world, 1)
        daemon.heard(f"{SAYS} IPv6 alone")
        transfer.more(500 * KIB)
        assert len(ends(only(reported(child)))) == 4
    assert [SAYS in line for line in daemon.said].count(True) == 1
