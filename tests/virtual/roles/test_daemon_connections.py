"""The daemon's work on connections: both sides, both families, addresses that come and go, both modes."""

import json
import signal
import socket
from contextlib import ExitStack

import pyroute2
import pytest
from msgspec.structs import replace

from tests.plugins.daemon_world import FULLMESH, KERNEL, daemon_of
from tests.plugins.netlink import inside
from tests.plugins.path_world import KIB, REMOVED, Listening, World, bring, remove
from tests.plugins.waiting import PATIENCE_S, until
from tests.plugins.watching import ends, every, only, reported, watching, with_established, with_subflows

pytestmark = pytest.mark.usefixtures("may_manage_paths")


# Connections of both sides


def test_connections_of_any_port_and_family_get_a_subflow_from_every_interface(daemon, world, accepting):
    daemon.begin()
    with ExitStack() as stack, watching(world) as child:
        transfers = [
            stack.enter_context(world.transfer(ipv6=ipv6, mapped=mapped, port=port))
            for ipv6, mapped, port in ((False, False, 5001), (True, False, 5002), (False, True, 5003))
        ]
        census = reported(child, every(3, 2))
        locals_ = {local for connection in census.connections for local, _ in ends(connection)}
        assert {"10.64.0.1", "10.64.1.1", "fd64::1", "fd64:0:1::1"} <= locals_
        for transfer in transfers:
            transfer.more(300 * KIB)


def test_two_destinations_are_under_two_policies(daemon, world, accepting):
    daemon.write(
        '[[policy]]\nname = "one"\nto = ["10.65.0.0/16"]\npolicy = "fullmesh"\n'
        '[[policy]]\nname = "other"\nto = ["fd65::/16"]\npolicy = "default"\n'
    )
    daemon.begin()
    with world.transfer(), world.transfer(ipv6=True), watching(world) as child:
        census = reported(
            child, lambda census: sorted(len(it.subflows) for it in census.connections) == [1, 2]
        )
        assert {connection.family: len(connection.subflows) for connection in census.connections} == {
            "ipv4": 2,
            "ipv6": 1,
        }
        assert daemon.policy("one")["connections"] == daemon.policy("other")["connections"] == 1


def test_the_peers_other_addresses_become_paths_when_it_announces_them(daemon, world, server):
    server.write('[default]\npolicy = "fullmesh"\nannounce = true\n')
    server.begin()
    daemon.begin()
    with world.transfer() as transfer, watching(world) as child, watching(world, "remote") as other:
        connection = only(reported(child, with_subflows(4)))
        assert ends(connection) == sorted(path.pairs[0] for path in world.paths)
        transfer.more(500 * KIB)
        # The other side manages the same connection, and opens nothing.
        assert len(only(reported(other)).subflows) == 4
        assert server.policy("default")["active"] == 4


def test_an_accepted_connection_has_the_roles_of_its_policy(daemon, world, server):
    options = "{ class_bytes = [1000000000, 1000000001] }"
    server.write(f'[default]\npolicy = "pcdc"\noptions = {options}\n')
    server.begin()
    daemon.begin()
    with world.transfer() as transfer, watching(world, "remote") as child:
        one_standby = lambda census: [flow.backup for flow in only(census).subflows].count(True) == 1  # noqa: E731
        reported(child, lambda census: with_subflows(2)(census) and one_standby(census))
        transfer.more(200 * KIB)


# Addresses that come and go


@pytest.mark.parametrize("ipv6", [False, True], ids=["IPv4", "IPv6"])
def test_an_interface_that_comes_back_with_another_address_has_its_subflow_again(tmp_path, ipv6):
    with ExitStack() as stack:
        world = World(2, stack)
        daemon = stack.enter_context(daemon_of(world, tmp_path))
        receiver = stack.enter_context(world.receiver())
        receiver.expect("ready", PATIENCE_S)
        events = stack.enter_context(Listening(world.sites.remote))
        daemon.write(FULLMESH)
        daemon.begin()
        old = world.named["local"][1]
        new = replace(old, ipv4="10.64.1.77", ipv6="fd64:0:1::77")
        addresses_of = (lambda interface: interface.ipv6) if ipv6 else (lambda interface: interface.ipv4)
        with world.transfer(ipv6=ipv6) as transfer, watching(world) as child:
            before = ends(only(reported(child, with_established(2))))
            remove(world, 1)
            reported(child, with_established(1))
            events.next(REMOVED)
            transfer.more(300 * KIB)
            bring(world, new)
            after = ends(only(reported(child, with_established(2))))
            remote = addresses_of(world.named["remote"][0])
            assert set(before) - set(after) == {(addresses_of(old), remote)}
            assert set(after) - set(before) == {(addresses_of(new), remote)}
            transfer.more(300 * KIB)
        daemon.heard(f"{addresses_of(old)} is no longer usable here")


# Taking over


def test_killed_and_started_again_it_takes_over_with_the_roles_that_it_finds(daemon, world, accepting):
    place = daemon.answer("pcdc", active=[0, 3], standby_order=[1, 2])
    daemon.write(f'[[policy]]\nname = "answer"\nto = ["10.65.0.0/16"]\nrun = "{place}"\n')
    daemon.begin()
    with world.transfer() as transfer, watching(world) as child:
        roles = lambda census: sorted((flow.local, flow.backup) for flow in only(census).subflows)  # noqa: E731
        standby = lambda census: [flow.backup for flow in only(census).subflows].count(True) == 2  # noqa: E731
        before = roles(reported(child, lambda census: with_subflows(4)(census) and standby(census)))
        daemon.kill()
        until(lambda: daemon.path_manager() == KERNEL, "the kernel's path manager")
        daemon.begin()
        until(lambda: daemon.policy("answer")["standby"] == 2, "the living connection")
        transfer.more(500 * KIB)
        assert roles(reported(child)) == before
        assert not any(" standby" in line or " active" in line for line in daemon.said)


def test_connections_of_the_kernels_path_manager_are_left_alone(daemon, world, accepting):
    with world.transfer() as transfer:
        daemon.begin()
        transfer.more(100 * KIB)
        with world.transfer() as second, watching(world) as child:
            sizes = lambda census: sorted(len(it.subflows) for it in census.connections)  # noqa: E731
            reported(child, lambda census: sizes(census) == [1, 2])
            second.more(100 * KIB)
            assert daemon.policy("default")["connections"] == 1


# Endpoints


def endpoints(world: World) -> dict[str, tuple[str, ...]]:
    """Those of the sender, with their flags, as the kernel shows them."""

    def read() -> dict[str, tuple[str, ...]]:
        with pyroute2.MPTCP() as kernel:
            flags_of = {}
            for endpoint in kernel.endpoint("show"):
                parts = dict(endpoint.get_attr("MPTCP_PM_ATTR_ADDR")["attrs"])
                address = parts.get("MPTCP_PM_ADDR_ATTR_ADDR4") or parts["MPTCP_PM_ADDR_ATTR_ADDR6"]
                flags = parts["MPTCP_PM_ADDR_ATTR_FLAGS"]
                names = {1: "signal", 2: "subflow", 4: "backup", 8: "fullmesh"}
                flags_of[address] = tuple(name for bit, name in names.items() if flags & bit)
            return flags_of

    return inside(world.sites.local, read)


def limits(world: World) -> tuple[int, int]:
    """Of the sender: subflows and announced addresses."""

    def read() -> tuple[int, int]:
        with pyroute2.MPTCP() as kernel:
            (limits,) = kernel.limits("show")
            return limits.get_attr("MPTCP_PM_ATTR_SUBFLOWS"), limits.get_attr("MPTCP_PM_ATTR_RCV_ADD_ADDRS")

    return inside(world.sites.local, read)


MADE = ("subflow", "fullmesh")


def test_endpoints_are_kept_and_taken_back_and_those_of_others_left_alone(tmp_path):
    with ExitStack() as stack:
        world = World(2, stack)
        daemon = stack.enter_context(daemon_of(world, tmp_path))
        receiver = stack.enter_context(world.receiver())
        receiver.expect("ready", PATIENCE_S)

        def foreign() -> None:
            with pyroute2.MPTCP() as kernel:
                kernel.endpoint("add", addr="10.64.0.1", flags=1)

        inside(world.sites.local, foreign)
        before = endpoints(world), limits(world)
        daemon.write(FULLMESH, mode="endpoints")
        daemon.begin()
        assert daemon.path_manager() == KERNEL
        named = world.named["local"]
        made = {"10.64.0.1": ("signal",), named[1].ipv4: MADE, named[0].ipv6: MADE, named[1].ipv6: MADE}
        assert endpoints(world) == made
        assert limits(world)[0] > before[1][0]
        with world.transfer() as transfer, watching(world) as child:
            reported(child, with_subflows(2))
            transfer.more(200 * KIB)
        remove(world, 1)
        until(lambda: named[1].ipv4 not in endpoints(world), "the end of its endpoint")
        bring(world, replace(named[1], ipv4="10.64.1.77", ipv6="fd64:0:1::77"))
        until(lambda: endpoints(world).get("10.64.1.77") == MADE, "its endpoint")
        # A crash leaves them, and the next one knows them.
        daemon.kill()
        assert "10.64.1.77" in endpoints(world)
        daemon.begin()
        assert daemon.kill(signal.SIGTERM) == 0
        assert (endpoints(world), limits(world)) == before


def test_endpoints_stay_if_that_is_asked_for(daemon, world):
    daemon.write(FULLMESH, mode="endpoints", keep_endpoints=True)
    daemon.begin()
    made = endpoints(world)
    assert daemon.kill(signal.SIGTERM) == 0
    assert endpoints(world) == made != {}
    daemon.write(FULLMESH, mode="endpoints")
    daemon.begin()
    daemon.kill(signal.SIGTERM)
    assert endpoints(world) == {}


def test_a_clean_end_leaves_connections_a_subflow(daemon, world, accepting):
    """Linux ends the first subflow too with the endpoint at its address."""
    daemon.write(FULLMESH, mode="endpoints")
    daemon.begin()
    with world.transfer() as transfer, watching(world) as child:
        reported(child, with_subflows(2))
        transfer.more(200 * KIB)
        assert daemon.kill(signal.SIGTERM) == 0
        transfer.more(500 * KIB)
    assert len(endpoints(world)) == 1
    daemon.begin()
    assert daemon.kill(signal.SIGTERM) == 0
    assert endpoints(world) == {}


def test_the_connection_that_carries_most_gives_endpoints_their_roles(daemon, world, accepting):
    options = "{ class_bytes = [1000000000, 1000000001] }"
    daemon.write(f'[default]\npolicy = "pcdc"\noptions = {options}\n', mode="endpoints")
    daemon.begin()
    with world.transfer() as transfer, watching(world) as child:
        reported(child, with_subflows(2))
        standby = lambda: [address for address, flags in endpoints(world).items() if "backup" in flags]  # noqa: E731
        until(lambda: len(standby()) == 1, "a standby endpoint")
        transfer.more(200 * KIB)
        flows = {flow.local.rpartition(":")[0]: flow.backup for flow in only(reported(child)).subflows}
        assert [address for address, backup in flows.items() if backup] == standby()


def test_a_burst_of_short_connections_leaves_nothing_behind(daemon, world, accepting):
    daemon.begin()

    def connect_often() -> None:
        for _ in range(100):
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP) as connection:
                connection.bind(("10.64.0.1", 0))
                connection.connect(("10.65.0.1", 5990))

    def listening() -> socket.socket:
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
        connection.bind(("10.65.0.1", 5990))
        connection.listen(128)
        return connection

    with inside(world.sites.remote, listening) as listener:
        inside(world.sites.local, connect_often)
        for _ in range(100):
            listener.accept()[0].close()
    until(lambda: daemon.policy("default")["connections"] == 0, "their end")
    assert json.loads(json.dumps(daemon.ask("status")))["event"] == "status"
