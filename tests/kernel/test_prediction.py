"""The prediction for two ends, against what the kernel does: settings of both are drawn, with fixed seeds.

Two namespaces, every pair of whose addresses works. Two connections, one after the other, have to have what
was predicted at the same moment: by then the first one has had time for more, if there were more to come.
"""

import itertools
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import msgspec
import pytest

from mptune.linux.path_manager import End, Endpoint, Limits, Network, Prediction, commands, mend, predict
from tests.kernel.two_namespaces import TwoNamespaces
from tests.plugins import needs
from tests.plugins.waiting import until

pytestmark = pytest.mark.needs("linux", "root", "namespaces", "sysctl")

#: Addresses of the client and of the server, by interface.
OURS = ("10.1.0.2", "10.2.0.2", "10.3.0.2")
THEIRS = ("10.1.0.1", "10.2.0.1", "10.3.0.1")
FIRST = (OURS[0], THEIRS[0])
#: Of this kernel.
RELEASE = (int(os.uname().release.split(".")[0]), int(os.uname().release.split(".")[1]))
#: An address of nobody's.
NOWHERE = "192.0.2.9"
PORT = 5000
SEEDS = range(30)

#: The program at one end: it opens or accepts a connection whenever it reads a line, and says so.
TALK = f"""
import socket, sys, threading
plain = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
kept = []
def hold(one):
    kept.append(one)
    one.sendall(b"x" * 1000)
    threading.Thread(target=lambda: one.recv(4096), daemon=True).start()
if sys.argv[1] == "listen":
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    plain.bind(("0.0.0.0", {PORT}))
    plain.listen()
print("ready", flush=True)
for line in sys.stdin:
    if sys.argv[1] == "listen":
        hold(plain.accept()[0])
    else:
        one = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
        one.bind((sys.argv[2], 0))
        one.connect((sys.argv[3], {PORT}))
        hold(one)
    print("done", one.getsockname()[1] if sys.argv[1] != "listen" else "", flush=True)
"""


#: Adds endpoints with flags that iproute2 may not know yet: generic netlink, packed by hand
#: (include/uapi/linux/mptcp_pm.h).
LAMINAR = """
import socket, struct, sys
def part(kind, value):
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)
def ask(family, command, version, parts):
    body = struct.pack("=BBH", command, version, 0) + parts
    netlink.send(struct.pack("=IHHII", 16 + len(body), family, 5, 1, 0) + body)
    answer = netlink.recv(65536)
    code = struct.unpack_from("=i", answer, 16)[0] if answer[4:6] == bytes((2, 0)) else 0
    assert code == 0, code
    return answer[20:]
netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)
netlink.bind((0, 0))
answer, family = ask(16, 3, 1, part(2, b"mptcp_pm" + bytes(1))), 0
while len(answer) >= 4:
    size, kind = struct.unpack_from("=HH", answer)
    family = struct.unpack_from("=H", answer, 4)[0] if kind == 1 else family
    answer = answer[size + -size % 4 :]
netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)
netlink.bind((0, 0))
bits = {"signal": 1, "subflow": 2, "backup": 4, "laminar": 32}
for words in sys.argv[1:]:
    address, number, *flags = words.split(",")
    ask(family, 1, 1, part(0x8001,
        part(1, struct.pack("=H", socket.AF_INET)) + part(3, socket.inet_aton(address))
        + part(2, bytes((int(number),))) + part(6, struct.pack("=I", sum(bits[flag] for flag in flags)))))
"""


class World(TwoNamespaces):
    """The two namespaces, as long as the block lasts."""

    def __init__(self, stack: ExitStack) -> None:
        super().__init__(stack)
        for index, (near, far) in enumerate(zip(OURS, THEIRS, strict=True)):
            self.ip(self.ours, f"link add if{index} type veth peer name if{index} netns {self.theirs}")
            for pid, address in ((self.ours, near), (self.theirs, far)):
                self.ip(pid, f"address add {address}/24 dev if{index}")
                self.ip(pid, f"link set if{index} up")
            self.ip(self.ours, f"route add default via {far} dev if{index} table {100 + index}")
            self.ip(self.ours, f"rule add from {near} table {100 + index}")
            self.ip(self.theirs, f"route add default via {near} dev if{index} table {100 + index}")
            self.ip(self.theirs, f"rule add from {far} table {100 + index}")
        for pid in (self.ours, self.theirs):
            self.ip(pid, "link set lo up")
            settings = [f"net.ipv4.conf.{name}.rp_filter=0" for name in ("all", "if0", "if1", "if2")]
            self.run(pid, "sysctl", "-qw", *settings, "net.mptcp.enabled=1")

    def set(self, pid: int, end: End) -> None:
        """Give one end its settings, in one call."""
        lines = ["mptcp endpoint flush"]
        limits = end.limits
        lines.append(
            f"mptcp limits set subflows {limits.subflows} add_addr_accepted {limits.add_addr_accepted}"
        )
        for one in end.endpoints:
            port = f" port {one.port}" if one.port else ""
            if "laminar" not in one.flags:
                lines.append(f"mptcp endpoint add {one.address} id {one.id}{port} {' '.join(one.flags)}")
        script = "\n".join([f"ip {line}" for line in lines])
        self.run(pid, "sh", "-ec", script)
        told = [
            f"{one.address},{one.id},{','.join(one.flags)}" for one in end.endpoints if "laminar" in one.flags
        ]
        if told:
            self.run(pid, sys.executable, "-c", LAMINAR, *told)
        self.run(pid, "sysctl", "-qw", f"net.mptcp.allow_join_initial_addr_port={int(end.joins)}")

    @contextmanager
    def talking(self) -> "Iterator[Talk]":
        """Programs at both ends."""
        with ExitStack() as stack:
            kept, self._stack = self._stack, stack
            try:
                both = [
                    self._start(
                        ["nsenter", "--net", "--target", str(pid), sys.executable, "-c", TALK, *words]
                    )
                    for pid, words in ((self.theirs, ["listen"]), (self.ours, ["connect", *FIRST]))
                ]
            finally:
                self._stack = kept
            try:
                yield Talk(self, *both)
            finally:
                for process in both:
                    process.kill()
                    process.wait()


class Talk:
    """Connections between the two."""

    def __init__(
        self, world: World, server: "subprocess.Popen[str]", client: "subprocess.Popen[str]"
    ) -> None:
        self._world, self._both = world, (server, client)

    def connect(self) -> str:
        """Open one; its token is how `ss` names it."""
        for process in self._both:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        said = [process.stdout.readline() for process in self._both if process.stdout is not None]
        return said[1].split()[1]

    def subflows(self, port: str) -> Counter[tuple[str, str, bool]]:
        """Established ones of a connection by its first port: addresses of both, and whether standby."""
        text = self._world.run(self._world.ours, "ss", "-HtinO", "state", "established")
        found: dict[str, list[tuple[str, str, bool]]] = {}
        token = ""
        for line in text.splitlines():
            if (told := re.search(r"tcp-ulp-mptcp flags:(\w*) token:\w*\(id:\d+\)/(\w+)", line)) is None:
                continue
            here, there = (end.rpartition(":") for end in line.split()[2:4])
            row = (here[0].partition("%")[0], there[0].partition("%")[0], "b" in told[1].lower())
            found.setdefault(told[2], []).append(row)
            if here[2] == port:
                token = told[2]
        return Counter(found.get(token, []))


def drawn(seed: int) -> tuple[End, End]:
    """Settings of the client and of the server."""
    draw = random.Random(seed)
    ends = []
    for addresses, usual in ((OURS, ("subflow", "fullmesh")), (THEIRS, ("signal",))):
        endpoints: list[Endpoint] = []
        for address in draw.sample(addresses, draw.randint(0, len(addresses))):
            flags = {draw.choice(usual)} if draw.random() < 0.8 else {draw.choice(("subflow", "signal"))}
            flags |= {"subflow"} if "fullmesh" in flags else set()
            flags |= {"backup"} if draw.random() < 0.2 else set()
            endpoints.append(Endpoint(address=address, flags=tuple(sorted(flags)), id=len(endpoints) + 1))
        if draw.random() < 0.2:
            endpoints.append(Endpoint(address=NOWHERE, flags=("signal",), id=len(endpoints) + 1))
        if addresses is OURS and draw.random() < 0.2:
            listens = Endpoint(address=OURS[1], flags=("signal",), id=9, port=4000 + seed)
            endpoints = [listens, *(one for one in endpoints if one.address != OURS[1])]
        limits = Limits(
            subflows=draw.choice((0, 1, 2, 2, 4, 8)), add_addr_accepted=draw.choice((0, 0, 1, 2, 8))
        )
        ends.append(
            End(
                addresses=addresses,
                endpoints=tuple(endpoints),
                limits=limits,
                joins=draw.random() < 0.8,
                release=RELEASE,
            )
        )
    return ends[0], ends[1]


#: Routing selects the address in the same network; to `NOWHERE` only the rules of own addresses lead.
NETWORK = Network(
    blocked={(own, NOWHERE): "it is nowhere" for own in (*OURS, *THEIRS)},
    selected={
        **dict(zip(THEIRS, OURS, strict=True)),
        **dict(zip(OURS, THEIRS, strict=True)),
        NOWHERE: None,
    },
)


def possible(found: Prediction) -> list[Counter[tuple[str, str, bool]]]:
    return [Counter((one.client, one.server, one.backup) for one in each) for each in found.possible]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with ExitStack() as stack:
        yield World(stack)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_connection_gets_what_was_predicted(world: World, seed: int):
    client, server = drawn(seed)
    world.set(world.ours, client)
    world.set(world.theirs, server)
    outcomes = possible(predict(client, server, FIRST, NETWORK))
    with world.talking() as talk:
        ports = [talk.connect() for _ in range(2)]
        until(
            lambda: all(talk.subflows(port) in outcomes for port in ports),
            f"{outcomes}, last seen {[talk.subflows(port) for port in ports]}",
        )


@pytest.mark.parametrize("flags", [("laminar",), ("backup", "laminar"), ("laminar", "subflow")])
@pytest.mark.parametrize("announced", [THEIRS[1:], THEIRS[:0:-1], THEIRS[2:]])
def test_endpoints_laminar_get_what_was_predicted(
    world: World, flags: tuple[str, ...], announced: tuple[str, ...]
):
    if RELEASE < (6, 18):
        needs.lack("endpoints laminar", needs.Thing("Linux 6.18", "elsewhere"))
    ours = [Endpoint(address=address, flags=flags, id=number) for number, address in enumerate(OURS[1:], 1)]
    theirs = [Endpoint(address=one, flags=("signal",), id=number) for number, one in enumerate(announced, 1)]
    ample = Limits(subflows=8, add_addr_accepted=8)
    client = End(addresses=OURS, endpoints=tuple(ours), limits=ample, release=RELEASE)
    server = End(addresses=THEIRS, endpoints=tuple(theirs), limits=ample, release=RELEASE)
    world.set(world.ours, client)
    world.set(world.theirs, server)
    outcomes = possible(predict(client, server, FIRST, NETWORK))
    with world.talking() as talk:
        port = talk.connect()
        until(lambda: talk.subflows(port) in outcomes, f"{outcomes}, last seen {talk.subflows(port)}")


@pytest.mark.parametrize("seed", range(40, 46))
def test_the_lines_give_every_path(world: World, seed: int):
    """Whatever was set before, as long as the server may be joined and all addresses are somebody's."""
    client, server = (
        msgspec.structs.replace(
            end, joins=True, endpoints=tuple(one for one in end.endpoints if one.address != NOWHERE)
        )
        for end in drawn(seed)
    )
    wanted = set(itertools.product(OURS[:2], THEIRS[:2]))
    mended = mend(client, server, FIRST, wanted, NETWORK)
    for pid, end, settings in ((world.ours, client, mended.client), (world.theirs, server, mended.server)):
        world.set(pid, end)
        world.run(pid, "sh", "-ec", "\n".join(commands(settings, end)))
    with world.talking() as talk:
        port = talk.connect()
        until(lambda: {pair[:2] for pair in talk.subflows(port)} >= wanted, f"{wanted} of {client}, {server}")
