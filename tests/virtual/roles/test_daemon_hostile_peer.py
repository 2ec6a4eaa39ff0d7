"""The daemon and a peer that announces addresses without end, or takes them back as soon as they are used."""

import socket
import struct
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from tests.plugins.crowd import crowd_of
from tests.plugins.daemon_world import Daemon
from tests.plugins.netlink import inside
from tests.plugins.path_world import Listening, World, attribute
from tests.plugins.waiting import until
from tests.plugins.watching import every, reported, watching

pytestmark = pytest.mark.usefixtures("may_manage_paths")

#: What the kernel of a site does for its only connection (include/uapi/linux/mptcp_pm.h).
ANNOUNCE, REMOVE, SIGNAL = 8, 9, 1
#: The peer's second address, and its number. It is the one that the peer's kernel chooses itself for a join
#: that arrives while the address is withdrawn: from then on that kernel refuses to announce it by any other.
OTHER, ITS_NUMBER = "10.65.1.1", 1


class Peer(Listening):
    """The peer's side of the only connection: what it announces, as fast as its kernel sends it."""

    def __init__(self, world: World) -> None:
        super().__init__(world.sites.remote)
        with watching(world, "remote") as child:
            (self.token,) = (connection.token for connection in reported(child, every(1, 2)).connections)

    def _order(self, number: int, *parts: bytes) -> None:
        body = bytes([number, 1, 0, 0]) + attribute(4, struct.pack("=I", self.token)) + b"".join(parts)
        self.request("an address", body, self._family, 0)

    def announce(self, number: int, address: str) -> None:
        """ADD_ADDR."""
        parts = attribute(1, struct.pack("=H", socket.AF_INET)) + attribute(2, bytes([number]))
        parts += attribute(3, IPv4Address(address).packed) + attribute(6, struct.pack("=I", SIGNAL))
        self._order(ANNOUNCE, attribute(0x8000 | 1, parts))

    def withdraw(self, number: int) -> None:
        """REMOVE_ADDR."""
        self._order(REMOVE, attribute(5, bytes([number])))


@pytest.fixture
def peer(daemon: Daemon, world: World, accepting: None) -> Iterator[Peer]:
    """Of a connection with its two subflows."""
    daemon.begin()
    with crowd_of(world) as crowd:
        crowd.open(1)
        crowd.speak()
        with Peer(world) as peer:
            yield peer
        crowd.speak()
    until(lambda: daemon.policy("default")["connections"] == 0, "its end")


def attempts(world: World) -> int:
    """Subflows that are established or being opened at the sender's side."""

    def read() -> int:
        lines = Path("/proc/thread-self/net/tcp").read_text(encoding="ascii").splitlines()[1:]
        return [line.split()[3] in ("01", "02") for line in lines].count(True)

    return inside(world.sites.local, read)


def descriptors(daemon: Daemon) -> int:
    return len(list(Path(f"/proc/{daemon.pid}/fd").iterdir()))


def test_a_flood_of_announced_addresses_leads_to_few_subflows_and_one_line(daemon, world, peer):
    before = descriptors(daemon), daemon.ask("status")["memory_bytes"]
    for number in range(1, 201):
        peer.announce(number, f"10.65.77.{number}")
    until(lambda: any("too often" in line for line in daemon.said), "the reason")
    assert attempts(world) <= 2 + 2 * 8
    assert len([line for line in daemon.said if "announces addresses too often" in line]) == 1
    assert descriptors(daemon) == before[0]
    assert daemon.ask("status")["memory_bytes"] < before[1] + (1 << 20)
    assert daemon.policy("default")["active"] == 2


def test_subflows_follow_an_address_that_comes_and_goes(daemon, world, peer):
    before = descriptors(daemon)
    with watching(world) as child:
        for _ in range(3):
            peer.announce(ITS_NUMBER, OTHER)
            reported(child, every(1, 4))
            until(lambda: daemon.policy("default")["active"] == 4, "its subflows")
            peer.withdraw(ITS_NUMBER)
            reported(child, every(1, 2))
            until(lambda: daemon.policy("default")["active"] == 2, "their end")
    assert descriptors(daemon) == before


def test_an_address_that_comes_and_goes_without_a_pause_is_used_when_it_stays(daemon, world, peer):
    for _ in range(30):
        peer.announce(ITS_NUMBER, OTHER)
        peer.withdraw(ITS_NUMBER)
    peer.announce(ITS_NUMBER, OTHER)
    with watching(world) as child:
        reported(child, every(1, 4))
    until(lambda: daemon.policy("default")["active"] == 4, "its subflows")
