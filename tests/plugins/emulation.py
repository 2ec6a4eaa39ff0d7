"""The emulator between two sites, whose sockets a test opens itself."""

import socket
from contextlib import ExitStack
from pathlib import Path

from mptune.linux.addresses import SIDES, interface
from mptune.linux.sandbox.namespaces import Sites
from tests.plugins.netlink import inside
from tests.plugins.waiting import PATIENCE_S

#: include/uapi/asm-generic/socket.h
SO_RCVBUFFORCE = 33


def links(paths=1, **effects):
    """A network of disjoint paths between interfaces of the same number, with the same links both ways."""
    link = {"name": "link", "delay_ns": 0, **effects}
    pairs = [(2 * n, 2 * n + 1) for n in range(paths)]
    return {
        "links": [{**link, "name": f"link {n}"} for n in range(2 * paths)],
        "paths": [
            {"label": str(n), "local": n, "remote": n, "forward": [there], "reverse": [back]}
            for n, (there, back) in enumerate(pairs)
        ],
    }


class Emulation:
    """Two sites with a network between them; in the block packets are carried."""

    def __init__(self, network, start=True):
        self.network, self._start = network, start

    def __enter__(self):
        with ExitStack() as stack:
            self.sites = stack.enter_context(Sites())
            self.emulator = stack.enter_context(self.sites.start_emulator())
            self._set_up()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error):
        self._stack.close()

    def _set_up(self):
        count = len(self.network["paths"])
        self.interfaces = {side: [interface(side, index) for index in range(count)] for side in SIDES}
        commands = [{"action": "start"}] if self._start else []
        for line in [self.configuration(), *commands]:
            self.emulator.tell(line)
        self.emulator.expect("ready", PATIENCE_S)
        self.sites.configure(self.interfaces)

    def configuration(self):
        return {"network": self.network, "seed": 1, "interfaces": self.sites.devices(self.interfaces)}

    def ends(self, family=socket.AF_INET, path=0):
        """A connected socket at either end of a path."""
        version = "ipv4" if family == socket.AF_INET else "ipv6"
        ends = []
        for side in SIDES:
            end = inside(self.sites.of(side), lambda: socket.socket(family, socket.SOCK_DGRAM))
            self._stack.enter_context(end)
            address = getattr(self.interfaces[side][path], version)
            end.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
            end.bind((address, 0))
            end.settimeout(PATIENCE_S)
            ends.append(end)
        for near, other in (ends, reversed(ends)):
            near.connect(other.getsockname()[:2])
        return ends

    def connection(self, stack, family, protocol):
        """The two ends of a connection on the first path."""
        version = "ipv4" if family == socket.AF_INET else "ipv6"
        ends = []
        for side in SIDES:
            make = lambda: socket.socket(family, socket.SOCK_STREAM, protocol)  # noqa: E731
            end = stack.enter_context(inside(self.sites.of(side), make))
            end.settimeout(PATIENCE_S)
            end.bind((getattr(self.interfaces[side][0], version), 0))
            ends.append(end)
        sender, listener = ends
        listener.listen()
        sender.connect(listener.getsockname()[:2])
        receiver, _ = listener.accept()
        receiver.settimeout(PATIENCE_S)
        return sender, stack.enter_context(receiver)

    def received(self, side):
        """Deliveries to the first device of a side, by the kernel's count."""
        read = lambda: Path("/proc/thread-self/net/dev").read_text()  # noqa: E731
        line = next(line for line in inside(self.sites.of(side), read).splitlines() if "if0:" in line)
        return int(line.partition(":")[2].split()[1])

    def report(self):
        """Stop; the report that follows."""
        self.emulator.tell({"action": "stop"})
        return self.emulator.expect("report", PATIENCE_S)
