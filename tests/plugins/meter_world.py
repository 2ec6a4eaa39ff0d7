"""Two namespaces joined by veth pairs, and both halves of the meter in them, for the tests of the meter.

No emulator: where a rate matters, a queueing discipline sets it.
"""

import os
import secrets
import select
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyroute2
from pyroute2.netlink.generic.mptcp import MPTCP

from mptune.linux import addresses
from mptune.linux.meter import Meter
from mptune.linux.sandbox.namespaces import Sites
from tests.plugins import shaping
from tests.plugins.netlink import inside
from tests.plugins.waiting import PATIENCE_S

SECOND = 1_000_000_000
MBIT = 1_000_000
#: include/uapi/linux/mptcp.h
SUBFLOW, BACKUP = 2, 4
SOURCE = ("10.64.0.1", "10.64.1.1")
RECEIVERS = ("10.65.0.1", "10.65.1.1")
RECEIVER = RECEIVERS[0]
#: include/net/tcp_states.h
TIME_WAIT, LISTEN = "06", "0A"
Message = dict[str, Any]
#: Three responses of 50,000 bytes, 100 ms apart.
ASKING = {
    "kind": "requests",
    "request_bytes": 400,
    "response_bytes": 50_000,
    "think_ns": 100_000_000,
    "duration_ns": 250_000_000,
    "patience_ns": SECOND,
}


class JoinedSites:
    """Two sites with two interfaces each, if0 joined to if0 and if1 to if1."""

    def __init__(self, sites: Sites) -> None:
        self.sites = sites
        named = {side: [addresses.interface(side, i) for i in range(2)] for side in addresses.SIDES}
        self._join()
        sites.configure(named)

    def _join(self) -> None:
        remote = os.open(self.sites.remote, os.O_RDONLY)

        def join(routes: Any) -> None:
            for name in ("if0", "if1"):
                routes.link("add", ifname=name, kind="veth", peer={"ifname": name, "net_ns_fd": remote})

        self.netlink("local", pyroute2.IPRoute, join)
        os.close(remote)

    def netlink(self, side: addresses.Side, kind: Callable[[], Any], call: Callable[[Any], object]) -> None:
        """Call with one of pyroute2's sockets in a site."""

        def run() -> None:
            with kind() as connected:
                call(connected)

        inside(self.sites.of(side), run)

    def shape(self, *rates_bps: int) -> None:
        """Limit what the sender's interfaces send."""

        def limit(routes: Any) -> None:
            for number, rate in enumerate(rates_bps):
                shaping.limit(routes, f"if{number}", rate, burst=16_000, queue=100_000)

        self.netlink("local", pyroute2.IPRoute, limit)

    def cut(self, number: int, command: str = "replace") -> None:
        """Send what leaves by one of the sender's interfaces to nobody; "del" ends that."""

        def misdirect(routes: Any) -> None:
            index = routes.link_lookup(ifname=f"if{number}")[0]
            entry = {"dst": RECEIVER, "lladdr": "02:00:00:00:00:01", "ifindex": index, "state": "permanent"}
            routes.neigh(command, **entry)

        self.netlink("local", pyroute2.IPRoute, misdirect)

    def sysctl(self, side: addresses.Side, name: str, value: str) -> None:
        path = Path("/proc/sys", *name.split("."))
        inside(self.sites.of(side), lambda: path.write_text(value, encoding="ascii"))

    def second_subflow(self, flags: int = SUBFLOW) -> None:
        """Have the kernel's own path manager open one from if1."""
        for side in addresses.SIDES:
            self.sysctl(side, "net.mptcp.path_manager", "kernel")
            self.netlink(side, MPTCP, lambda mptcp: mptcp.limits("set", subflows=1, rcv_add_addrs=0))
        self.netlink("local", MPTCP, lambda mptcp: mptcp.endpoint("add", addr=SOURCE[1], flags=flags))

    @contextmanager
    def meter(self, *, receiver_opens: bool = False) -> Iterator[Meter]:
        """Both halves, which know nothing yet."""
        with (
            self.sites.start_agent("sender", "local") as sender,
            self.sites.start_agent("receiver", "remote") as receiver,
        ):
            yield Meter(sender, receiver, receiver_opens=receiver_opens)

    @contextmanager
    def measuring(
        self,
        source: str = SOURCE[0],
        receivers: tuple[str, ...] = RECEIVERS,
        joins: bool = True,
        **changes: Any,
    ) -> Iterator[Meter]:
        """A meter that has its orders."""
        with self.meter() as meter:
            meter.listen(job(**changes), receivers[0], receivers if joins else ())
            meter.connect(source, receivers[0])
            yield meter

    @contextmanager
    def asking(self, source: str = RECEIVER, **changes: Any) -> Iterator[Meter]:
        """A meter whose client opens the connection, and asks."""
        with self.meter(receiver_opens=True) as meter:
            meter.listen(job(**{"workload": ASKING, **changes}), SOURCE[0], SOURCE)
            meter.connect(source, SOURCE[0])
            yield meter

    def measure(self, during: Callable[[Message, Meter], object] | None = None, **changes: Any) -> Message:
        """The last line of a measurement; `during` is called with every one before."""
        with self.measuring(**changes) as meter:
            return last_line(meter, during)

    def sockets(self, side: addresses.Side) -> list[tuple[str, str]]:
        """TCP sockets of a site but those in TIME_WAIT: state and own end, as /proc/net/tcp has them."""

        def read() -> list[tuple[str, str]]:
            lines = Path("/proc/thread-self/net/tcp").read_text(encoding="ascii").splitlines()[1:]
            return [(line.split()[3], line.split()[1]) for line in lines]

        return [connection for connection in inside(self.sites.of(side), read) if connection[0] != TIME_WAIT]

    def listening(self, side: addresses.Side) -> set[str]:
        """Address at which a site listens: "10.65.0.1:40123"."""
        return {_readable(end) for state, end in self.sockets(side) if state == LISTEN}


def _readable(end: str) -> str:
    """Address and port of "0100410A:9CBB"."""
    address, port = end.split(":")
    return f"{socket.inet_ntoa(bytes.fromhex(address)[::-1])}:{int(port, 16)}"


def job(
    *, duration_ns: int = 0, transfer_bytes: int = 0, deadline_ns: int = 30 * SECOND, **changes: Any
) -> Message:
    """The configuration that both halves receive: for a time, or with a size that is not 0."""
    workload = {"kind": "bulk", "duration_ns": duration_ns}
    if transfer_bytes:
        workload = {"kind": "transfer", "bytes": transfer_bytes, "deadline_ns": deadline_ns}
    usual = {"cc": "cubic", "buffer_bytes": 1 << 20, "seed": 1, "stall_ns": 10 * SECOND}
    return {**usual, "workload": workload, "token": secrets.token_hex(16), **changes}


def last_line(meter: Meter, during: Callable[[Message, Meter], object] | None = None) -> Message:
    """The result, or the first refusal."""
    last: Message = {}
    while not meter.ended:  # as it must by the deadline it was given
        select.select([half for half in meter.halves if not half.ended], [], [], PATIENCE_S)
        for message in meter.take():
            if message["event"] == "error":
                return message
            if during is not None and message["event"] != "result":
                during(message, meter)
            last = message
    return last


HALVES = {"sender": 0, "receiver": 1}
