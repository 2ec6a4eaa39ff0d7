"""Two network namespaces with some veth pairs between them, and a process in each.

Not a benchmark. Standard library and iproute2 only, so that a finding needs nothing else. Nothing has a name:
the namespaces and their devices are gone with the two processes, also after Ctrl-C.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

IPPROTO_MPTCP = 262
_SOL_MPTCP, _MPTCP_TCPINFO = 284, 2
_CLONE_NEWNET, _PR_SET_PDEATHSIG = 0x40000000, 1
#: SO_RCVBUFFORCE is not bounded by net.core.rmem_max.
_OPTIONS = {
    "SO_RCVBUF": socket.SO_RCVBUF,
    "SO_SNDBUF": socket.SO_SNDBUF,
    "SO_RCVBUFFORCE": 33,
    "SO_SNDBUFFORCE": 32,
}
#: struct tcp_info up to and including tcpi_snd_wnd, and where that is.
_TCP_INFO_BYTES, _SND_WND = 232, 228
PORT = 5000
#: A full segment in its packet.
_PACKET_BYTES = 1514
#: More than are ever on their way.
_LATE_PACKETS = 100_000
#: Nothing takes this long unless it hangs, which ends both processes, seconds.
PATIENCE_S = 60


class Pair(NamedTuple):
    """A veth pair; what the sender sends on it passes a token bucket, unless `rate` is none.

    On a kernel without token buckets netem stands in, for which `burst_bytes` has no meaning. Only with netem
    packets are lost at random, and ACKs are late.
    """

    rate: str | None = None
    burst_bytes: int = 20_000
    limit_bytes: int = 60_000
    loss_percent: float = 0
    delay_ms: float = 0


class Link:
    """One end of the channel between the two processes."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def tell(self, word: str = "") -> None:
        """Send a word, a short line."""
        self._end.sendall(word.encode() + b"\n")

    def hear(self) -> str:
        """Wait for a word."""
        heard = bytearray()
        while not heard.endswith(b"\n"):
            piece = self._end.recv(1)
            if not piece:
                raise SystemExit("the other process has ended")
            heard += piece
        return heard[:-1].decode()


def run(
    paths: Sequence[Pair],
    sender: Callable[[Link], None],
    receiver: Callable[[Link], None],
    sysctls: dict[str, str] | None = None,
) -> None:
    """Run both functions, each in its namespace and process.

    Address `i` of the sender is 10.0.i.1, of the receiver 10.0.i.2.
    """
    if os.geteuid() != 0:
        raise SystemExit("needs root: it makes network namespaces")
    here, there = socket.socketpair()
    _unshare()
    child = os.fork()
    if child == 0:
        _receive(paths, receiver, Link(there), sysctls or {})
    there.close()
    signal.alarm(PATIENCE_S)
    try:
        link = Link(here)
        link.hear()
        for index in range(len(paths)):
            shell(f"ip link add a{index} type veth peer name b{index} netns {child}")
        _configure("a", 1, paths, sysctls or {})
        link.tell()
        link.hear()
        sender(link)
        os.waitpid(child, 0)
        signal.alarm(0)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise


def _receive(
    paths: Sequence[Pair], receiver: Callable[[Link], None], link: Link, sysctls: dict[str, str]
) -> NoReturn:
    """All that the second process does."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _unshare()
        link.tell()
        link.hear()
        _configure("b", 2, paths, sysctls)
        link.tell()
        receiver(link)
        sys.stdout.flush()
    except BaseException as error:
        print(f"receiver: {error!r}", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def _configure(device: str, last: int, paths: Sequence[Pair], sysctls: dict[str, str]) -> None:
    """Addresses, routes by source, token buckets; one more subflow for each path."""
    for name, value in {
        "net.ipv4.conf.all.rp_filter": "0",
        "net.ipv4.conf.default.rp_filter": "0",
        **sysctls,
    }.items():
        Path("/proc/sys", *name.split(".")).write_text(value)
    shell("ip link set lo up")
    for index, path in enumerate(paths):
        name = f"{device}{index}"
        shell(f"ip addr add 10.0.{index}.{last}/24 dev {name}")
        shell(f"ip link set {name} up")
        if device == "a":
            shell(f"ip rule add from 10.0.{index}.1 table {100 + index}")
            shell(f"ip route add default via 10.0.{index}.2 dev {name} table {100 + index}")
        if path.rate is not None and device == "a":
            bucket = f"tbf rate {path.rate} burst {path.burst_bytes} limit {path.limit_bytes}"
            netem = f"netem rate {path.rate} limit {path.limit_bytes // _PACKET_BYTES}"
            if path.loss_percent or path.delay_ms:
                _shape(name, f"{netem} loss {path.loss_percent}%")
            else:
                _queue(name, bucket, netem)
        if path.delay_ms and device == "b":
            shell(f"tc qdisc add dev {name} root netem delay {path.delay_ms}ms limit {_LATE_PACKETS}")
    shell(f"ip mptcp limits set subflows {len(paths) - 1} add_addr_accepted 0")


def late(device: str, delay_s: float, packet_bytes: int) -> None:
    """Let the second packet of this size leave a device this much later than it was sent."""
    # Tokens are there for one packet with its header.
    rate, burst = round(8 * packet_bytes / delay_s), packet_bytes + 40
    _queue(device, f"tbf rate {rate}bit burst {burst} limit {10 * packet_bytes}", f"netem delay {delay_s}s")


def _queue(device: str, bucket: str, netem: str) -> None:
    try:
        shell(f"tc qdisc add dev {device} root {bucket}")
    except SystemExit:
        _shape(device, netem)


def _shape(device: str, netem: str) -> None:
    # It counts packets, and takes a whole train for one.
    shell(f"ip link set {device} gso_max_segs 1")
    shell(f"tc qdisc add dev {device} root {netem}")


def shell(command: str) -> str:
    """Run a command in this process' namespace; its output."""
    done = subprocess.run(command.split(), capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{command}: {done.stderr.strip()}")
    return done.stdout


def endpoint(index: int, flags: str = "subflow") -> None:
    """Have the kernel's path manager open a subflow from this address, also for connections that exist."""
    shell(f"ip mptcp endpoint add 10.0.{index}.1 dev a{index} {flags}")


def connect(**options: int) -> socket.socket:
    """An MPTCP connection on path 0, with these options of SOL_SOCKET."""
    made = _socket(options)
    made.connect(("10.0.0.2", PORT))
    return made


def listen(**options: int) -> socket.socket:
    """A listening socket on all addresses."""
    made = _socket(options)
    made.bind(("0.0.0.0", PORT))
    made.listen()
    return made


def _socket(options: dict[str, int]) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
    for name, value in options.items():
        made.setsockopt(socket.SOL_SOCKET, _OPTIONS[name], value)
    return made


def windows(connection: socket.socket) -> list[int]:
    """Window that the peer offers on each subflow (tcpi_snd_wnd), bytes."""
    header = 16
    request = struct.pack("=IIII", header, 0, 0, _TCP_INFO_BYTES) + bytes(8 * _TCP_INFO_BYTES)
    buffer = ctypes.create_string_buffer(request, len(request))
    size = ctypes.c_uint32(len(request))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.getsockopt(connection.fileno(), _SOL_MPTCP, _MPTCP_TCPINFO, buffer, ctypes.byref(size)):
        raise OSError(ctypes.get_errno(), "getsockopt(MPTCP_TCPINFO)")
    count = struct.unpack_from("=IIII", buffer)[1]
    return [
        struct.unpack_from("=I", buffer, header + _TCP_INFO_BYTES * index + _SND_WND)[0]
        for index in range(count)
    ]


def counters(*names: str) -> dict[str, int]:
    """Counters of this namespace (/proc/net/netstat): all of MPTCP that are not 0, or those named.

    A name that the kernel does not have is left out: it is not a counter that stands at 0.
    """
    lines = Path("/proc/net/netstat").read_text().splitlines()
    counters: dict[str, Any] = {}
    for head, values in zip(lines[::2], lines[1::2], strict=True):
        group, *keys = head.split()
        if names or group == "MPTcpExt:":
            counters |= dict(zip(keys, map(int, values.split()[1:]), strict=False))
    if names:
        return {key: counters[key] for key in names if key in counters}
    return {key: value for key, value in counters.items() if value}


def kernel() -> str:
    """Release of the kernel, for the first line of every output."""
    return f"Linux {os.uname().release}"


def _unshare() -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
