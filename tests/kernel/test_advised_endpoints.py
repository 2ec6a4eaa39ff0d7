"""The endpoints of a plan on a kernel: it opens the subflows that were computed, and no others.

Two namespaces, every pair of whose addresses works; each connection is opened anew.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from mptune.linux.path_manager.nearest import Endpoints, Families, Pair, Use, nearest, used
from tests.kernel.two_namespaces import TwoNamespaces
from tests.plugins.waiting import until

pytestmark = pytest.mark.needs("linux", "root", "namespaces", "sysctl")

#: Those of IPv6 come last, as in `Endpoints`.
OURS = ("10.1.0.2", "10.2.0.2", "fd01::2", "fd02::2")
THEIRS = ("10.9.0.1", "10.9.1.1", "fd09::1", "fd09:1::1")
BOTH = Families((2, 2), frozenset((i, j) for i in range(4) for j in range(4) if (i < 2) == (j < 2)))
PORT = 5000

#: One program for both ends: it prints when it is ready, and ends with its input.
TALK = f"""
import socket, sys, threading
words = " ".join(sys.argv)
plain = socket.socket(socket.AF_INET6 if ":" in words else socket.AF_INET, socket.SOCK_STREAM, 262)
if sys.argv[1] == "listen":
    plain.bind((sys.argv[2], {PORT}))
    plain.listen()
    print("ready", flush=True)
    one, _ = plain.accept()
else:
    one = plain
    one.bind((sys.argv[2], 0))
    one.connect((sys.argv[3], {PORT}))
    print("ready", flush=True)
one.sendall(b"x" * 1000)
threading.Thread(target=lambda: one.recv(4096), daemon=True).start()
sys.stdin.read()
"""


class World(TwoNamespaces):
    """Two namespaces, as long as the block lasts."""

    def __init__(self, stack: ExitStack) -> None:
        super().__init__(stack)
        for index, (near, far) in enumerate((("10.1.0.2", "10.1.0.1"), ("10.2.0.2", "10.2.0.1"))):
            self.ip(self.ours, f"link add if{index} type veth peer name if{index} netns {self.theirs}")
            for pid, address in ((self.ours, near), (self.theirs, far)):
                self.ip(pid, f"address add {address}/24 dev if{index}")
                self.run(pid, "sysctl", "-qw", f"net.ipv6.conf.if{index}.accept_dad=0")
                self.ip(pid, f"link set if{index} up")
            near6, far6 = (f"fd0{index + 1}::{host}" for host in (2, 1))
            self.ip(self.ours, f"address add {near6}/64 dev if{index} nodad")
            self.ip(self.theirs, f"address add {far6}/64 dev if{index} nodad")
            self.ip(self.ours, f"-6 route add default via {far6} dev if{index} table {100 + index}")
            self.ip(self.ours, f"-6 rule add from {near6} table {100 + index}")
            self.ip(self.ours, f"route add default via {far} dev if{index} table {100 + index}")
            self.ip(self.ours, f"rule add from {near} table {100 + index}")
        self.ip(self.ours, "route add default via 10.1.0.1 dev if0")
        self.ip(self.ours, "-6 route add default via fd01::1 dev if0")
        for pid in (self.ours, self.theirs):
            self.ip(pid, "link set lo up")
            for name in ("all", "default", "if0", "if1"):
                self.run(pid, "sysctl", "-qw", f"net.ipv4.conf.{name}.rp_filter=0")
            self.run(pid, "sysctl", "-qw", "net.mptcp.enabled=1")
        for address in THEIRS:
            self.ip(self.theirs, f"address add {address}/{128 if ':' in address else 32} dev lo")

    def talk(self, pid: int, *words: str) -> "subprocess.Popen[str]":
        return self._start(["nsenter", "--net", "--target", str(pid), sys.executable, "-c", TALK, *words])

    def set(self, endpoints: Endpoints) -> None:
        """Make the endpoints of a plan."""
        flags = {"subflow": "subflow", "backup": "subflow backup", "fullmesh": "subflow fullmesh"}
        for pid in (self.ours, self.theirs):
            self.ip(pid, "mptcp endpoint flush")
            self.ip(pid, "mptcp limits set subflows 8 add_addr_accepted 8")
        for index, use in enumerate(endpoints.uses):
            if use != "none":
                self.ip(self.ours, f"mptcp endpoint add {OURS[index]} dev if{index % 2} {flags[use]}")
        for index in endpoints.announced:
            self.ip(self.theirs, f"mptcp endpoint add {THEIRS[index]} signal")

    def subflows(self) -> dict[Pair, bool]:
        """Those that are established, and whether they are standby (`ss`: B or b is the backup flag)."""
        text = self.run(self.ours, "ss", "-HtinO", "state", "established", f"dport = :{PORT}")
        roles = {}
        for line in text.splitlines():
            ends = [_address(end) for end in line.split()[2:4]]
            if ends[0] in OURS:
                flags = re.search(r"tcp-ulp-mptcp flags:(\w*)", line)
                pair = OURS.index(ends[0]), THEIRS.index(ends[1])
                roles[pair] = flags is not None and "b" in flags[1].lower()
        return roles


def _address(end: str) -> str:
    """The address of an end as `ss` has it: "10.2.0.2%if1:5000", "[::ffff:10.1.0.2]:5000"."""
    return end.rpartition(":")[0].partition("%")[0].strip("[]").removeprefix("::ffff:")


@pytest.fixture
def world() -> Iterator[World]:
    with ExitStack() as stack:
        yield World(stack)


PLANS: dict[str, tuple[Use, Use, tuple[int, ...]]] = {
    "nothing": ("none", "none", ()),
    "a subflow endpoint": ("none", "subflow", ()),
    "a standby interface": ("none", "backup", ()),
    "the first one standby": ("backup", "subflow", ()),
    "an announced address": ("none", "none", (1,)),
    "both": ("none", "subflow", (1,)),
    "a mesh": ("fullmesh", "fullmesh", (1,)),
    "a mesh of the second": ("none", "fullmesh", (1,)),
    "a mesh of the second, the first one standby": ("backup", "fullmesh", (1,)),
    "a mesh of the first": ("fullmesh", "subflow", (1,)),
}


@pytest.mark.parametrize("name", PLANS)
def test_the_kernel_opens_what_was_computed(world: World, name: str):
    first, second, announced = PLANS[name]
    endpoints = Endpoints((0, 0), (first, second), announced)
    expected = used(endpoints)
    expected_roles = {**dict.fromkeys(expected.active, False), **dict.fromkeys(expected.standby, True)}
    world.set(endpoints)
    world.talk(world.theirs, "listen", "0.0.0.0")
    world.talk(world.ours, "connect", OURS[0], THEIRS[0])
    until(lambda: world.subflows() == expected_roles, f"{expected_roles}, last seen {world.subflows()}")


#: Endpoints over both families, of a connection that begins over IPv4 or over IPv6 in a socket of IPv6.
BOTH_PLANS: dict[str, tuple[tuple[Use, ...], tuple[int, ...]]] = {
    "subflow endpoints of both": (("none", "subflow", "none", "subflow"), ()),
    "an announced address of the other": (("none", "none", "none", "none"), (2,)),
    "an announced address of the one": (("none", "none", "none", "none"), (0,)),
    "a mesh of IPv6": (("none", "subflow", "fullmesh", "fullmesh"), (2,)),
    "a mesh of IPv4 alone": (("fullmesh", "fullmesh", "none", "none"), (2,)),
    "a mesh of both": (("fullmesh",) * 4, (1, 2)),
}


@pytest.mark.parametrize("initial", [(0, 0), (2, 2)], ids=["IPv4 first", "IPv6 first"])
@pytest.mark.parametrize("name", BOTH_PLANS)
def test_the_kernel_opens_what_was_computed_over_both_families(world: World, name: str, initial: Pair):
    uses, announced = BOTH_PLANS[name]
    announced = tuple(number for number in announced if number != initial[1])
    endpoints = Endpoints(initial, uses, announced, BOTH)
    expected = used(endpoints)
    roles = {**dict.fromkeys(expected.active, False), **dict.fromkeys(expected.standby, True)}
    world.set(endpoints)
    world.talk(world.theirs, "listen", "::")
    ends = (OURS[initial[0]], THEIRS[initial[1]])
    world.talk(world.ours, "connect", *(end if ":" in end else f"::ffff:{end}" for end in ends))
    until(lambda: world.subflows() == roles, f"{roles}, last seen {world.subflows()}")


def test_every_set_that_can_be_had_exactly_is_one_of_these():
    """What is tried above are all the kinds of endpoints that plans of two by two interfaces have."""
    pairs = [(0, 0), (0, 1), (1, 0), (1, 1)]
    tried = set(PLANS.values())
    for bits in range(1, 16):
        asked = {pair for index, pair in enumerate(pairs) if bits >> index & 1}
        endpoints = nearest((2, 2), (0, 0), asked)
        if set(used(endpoints).active) == asked:
            assert (*endpoints.uses, endpoints.announced) in tried
