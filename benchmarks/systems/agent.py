"""Cost of watching many connections: the processor time of the agent's role `paths`.

Connections of two subflows each over the loopback device of a namespace, first idle, then with some of them
sending, then with some of them ending and others beginning. Printed is the role's share of one core.

    python -m benchmarks.systems.agent [CONNECTIONS ...] [--seconds 20] [--json FILE]
"""

import argparse
import json
import os
import platform
import resource
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mptune.linux import agent, assignment
from mptune.linux.assignment import SATURATED, Assignment, KernelPath
from mptune.linux.sandbox.namespaces import STEP_S, Sites
from mptune.linux.sandbox.processes import Child
from tests.plugins.netlink import inside

#: Sockets that send, and connections that are replaced, every second of the respective phase.
SENDING, REPLACED = 100, 20
#: Seconds that all joins may take.
PATIENCE_S = 60.0

PATHS = tuple(
    KernelPath(label=f"{i}-0", local=i, remote=0, pairs=((f"127.0.0.{i + 1}", "127.0.0.1"),))
    for i in range(2)
)


class Load:
    """Connections from 127.0.0.1 to itself, in a namespace."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._listener = self._socket()
        self._listener.bind(("0.0.0.0", 0))
        self._listener.listen(64)
        self._pairs: list[tuple[socket.socket, socket.socket]] = []

    def _socket(self) -> socket.socket:
        def make() -> socket.socket:
            return socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)

        return inside(self._namespace, make)

    def open(self, count: int) -> None:
        """Open so many, each with a first byte, which completes the handshake."""
        for _ in range(count):
            sender = self._socket()
            sender.bind(("127.0.0.1", 0))
            sender.connect(("127.0.0.1", self._listener.getsockname()[1]))
            receiver, _ = self._listener.accept()
            sender.sendall(b"x")
            receiver.recv(1)
            self._pairs.append((sender, receiver))

    def send(self) -> None:
        """A few bytes on some of them."""
        for sender, receiver in self._pairs[:SENDING]:
            sender.sendall(b"x" * 1000)
            receiver.recv(1 << 16)

    def replace(self) -> None:
        """Let the oldest end and others begin."""
        for pair in self._pairs[:REPLACED]:
            for end in pair:
                end.close()
        del self._pairs[:REPLACED]
        self.open(REPLACED)

    def close(self) -> None:
        """End all of them."""
        for pair in self._pairs:
            for end in pair:
                end.close()
        self._listener.close()


def loopback_up() -> None:
    """Let the namespace have its loopback device."""
    from pyroute2 import IPRoute

    with IPRoute() as routes:
        routes.link("set", index=1, state="up")


def processor_s(child: Child) -> float:
    """Processor time of a process of one thread so far, seconds."""
    return int(Path(f"/proc/{child.pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9


def share(child: Child, seconds: float, act: Callable[[], object]) -> float:
    """Its share of a core while something is done once a second, percent."""
    began, before = time.monotonic(), processor_s(child)
    while time.monotonic() - began < seconds:
        act()
        time.sleep(1.0)
    return 100 * (processor_s(child) - before) / (time.monotonic() - began)


def subflows(child: Child) -> int:
    """Established ones of all connections."""
    child.tell({"action": "report"})
    connections = child.expect("report", STEP_S)["connections"]
    return sum(subflow["state"] == "established" for each in connections for subflow in each["subflows"])


def measure(connections: int, seconds: float) -> dict[str, Any]:
    """One row of the table."""
    with Sites() as sites, sites.start_agent("paths", "local") as child:
        inside(sites.local, loopback_up)
        planned = Assignment(pm="fullmesh", paths=PATHS, transfer_bytes=SATURATED)
        child.tell({"side": "sender", "assignment": assignment.document(planned)})
        child.expect("ready", STEP_S)
        load = Load(sites.local)
        before, began = processor_s(child), time.monotonic()
        load.open(connections)
        while (opened := subflows(child)) < 2 * connections and time.monotonic() < began + PATIENCE_S:
            time.sleep(0.5)
        opening_ms = 1000 * (processor_s(child) - before)
        row = {
            "connections": connections,
            "subflows": opened,
            "opening_ms": opening_ms,
            "idle_percent": share(child, seconds, lambda: None),
            "sending_percent": share(child, seconds, load.send),
            "replacing_percent": share(child, seconds, load.replace),
        }
        load.close()
    return row


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("connections", nargs="*", type=int, default=[100, 1000])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    machine = f"{os.cpu_count()} cores, Linux {platform.release()}, mptune-agent {agent.version()}"
    print(machine)
    print(
        f"each phase {options.seconds:g} s; {SENDING} connections send, {REPLACED} are replaced every second"
    )
    print(
        f"{'connections':>12}{'subflows':>10}{'opening ms':>12}"
        f"{'idle %':>9}{'sending %':>11}{'replacing %':>13}"
    )
    rows = []
    for connections in options.connections:
        rows.append(measure(connections, options.seconds))
        first, second, *others = rows[-1].values()
        print(
            f"{first:>12}{second:>10}"
            + "".join(f"{x:>{w}.2f}" for x, w in zip(others, (12, 9, 11, 13), strict=True))
        )
    if options.json:
        options.json.write_text(json.dumps({"machine": machine, "rows": rows}, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
