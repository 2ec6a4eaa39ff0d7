"""Transfers over two paths between two network namespaces, for the tests of BPF congestion controls.

A program of its own: it moves into new namespaces and holds both ends in one thread, so that whatever it made
is gone when it ends. Two veth pairs, each with a rate and a queue that overflows; the second subflow of a
connection is opened from the sender. It reads jobs from stdin, JSON by line, and answers each with a line.
"""

import ctypes
import hashlib
import json
import os
import random
import selectors
import socket
import struct
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pyroute2 import MPTCP, IPRoute

sys.path.insert(0, str(Path(__file__).parents[2]))  # it is run as a file
from tests.plugins.waiting import until

_CLONE_NEWNET = 0x40000000
_SOL_MPTCP, _MPTCP_TCPINFO = 284, 2
_RATES_BPS = (400_000_000, 200_000_000)
_QUEUE_BYTES = 60_000
_SUBFLOW, _BACKUP = 2, 4  # MPTCP_PM_ADDR_FLAG_*
_SSTHRESH = 76  # of tcpi_snd_ssthresh in struct tcp_info
_TABLE = 101
_PIECE = 1 << 18
_PATIENCE_S = 120.0


def main() -> None:
    local, remote = _namespaces()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_transfer(local, remote, **json.loads(line))) + "\n")
        sys.stdout.flush()


def _namespaces() -> tuple[int, int]:
    """Both namespaces, connected and configured; the thread is in the second."""
    local = _unshare()
    with IPRoute() as route:
        route.link("set", index=1, state="up")
        remote = _unshare()
        with IPRoute() as far:
            far.link("set", index=1, state="up")
            for path in range(len(_RATES_BPS)):
                route.link(
                    "add",
                    ifname=f"local{path}",
                    kind="veth",
                    peer={"ifname": f"r{path}", "net_ns_fd": remote},
                )
                _configure(route, f"local{path}", f"10.0.{path}.1", _RATES_BPS[path])
                _configure(far, f"r{path}", f"10.0.{path}.2", _RATES_BPS[path])
        # What leaves from 10.0.1.1 leaves by its own device.
        route.route("add", dst="0.0.0.0/0", gateway="10.0.1.2", table=_TABLE)
        route.rule("add", src="10.0.1.1", src_len=32, table=_TABLE)
    for namespace in (local, remote):
        _enter(namespace)
        for name in ("all", "default"):
            Path(f"/proc/sys/net/ipv4/conf/{name}/rp_filter").write_text("0")
        with MPTCP() as mptcp:
            mptcp.limits("set", subflows=1, rcv_add_addrs=0)
    return local, remote


def _configure(route: IPRoute, device: str, address: str, rate_bps: int) -> None:
    index = route.link_lookup(ifname=device)[0]
    route.addr("add", index=index, address=address, prefixlen=24)
    route.link("set", index=index, state="up")
    route.tc("add", "tbf", index, handle=0x10000, rate=rate_bps // 8, burst=20_000, limit=_QUEUE_BYTES)


def _transfer(
    local: int,
    remote: int,
    cc: str,
    size: int,
    mptcp: bool = True,
    standby: bool = False,
    beside: bool = False,
) -> dict[str, Any]:
    """Send pseudo-random bytes from the local site to the remote one.

    `beside` another connection that has done so and is still open. `thresholds` are the slow-start thresholds
    the subflows end with, `carried` the bytes sent on each path.
    """
    _enter(local)
    with MPTCP() as manager:
        manager.endpoint("flush")
        manager.endpoint("add", addr="10.0.1.1", id=1, flags=_SUBFLOW | (_BACKUP if standby else 0))
    payload = random.Random(size).randbytes(size)
    with ExitStack() as stack:
        if beside:
            first = _connection(stack, local, remote, cc, mptcp)
            if mptcp:
                _join(*first)
            _pump(*first, payload)
        sender, receiver = _connection(stack, local, remote, cc, mptcp)
        if mptcp:
            _join(sender, receiver)
        before = _carried()
        digest = _pump(sender, receiver, payload)
        carried = [after - earlier for after, earlier in zip(_carried(), before, strict=True)]
        name = sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        thresholds = _thresholds(sender) if mptcp else []
    return {
        "intact": digest == hashlib.sha256(payload).hexdigest(),
        "cc": name.split(b"\0")[0].decode(),
        "thresholds": thresholds,
        "carried": carried,
    }


def _connection(
    stack: ExitStack, local: int, remote: int, cc: str, mptcp: bool
) -> tuple[socket.socket, socket.socket]:
    """Both ends of a new connection, which the stack closes; the thread is left in the local namespace."""
    protocol = 262 if mptcp else socket.IPPROTO_TCP  # IPPROTO_MPTCP
    _enter(remote)
    listener = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol))
    listener.bind(("0.0.0.0", 0))
    listener.listen()
    _enter(local)
    sender = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol))
    sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())
    sender.connect(("10.0.0.2", listener.getsockname()[1]))
    receiver, _ = listener.accept()
    stack.enter_context(receiver)
    return sender, receiver


def _join(sender: socket.socket, receiver: socket.socket) -> None:
    """Let the second subflow join before anything else is sent.

    Linux 6.18 delivers wrong payload if data arrive on a subflow that joins while the receiver's socket is in
    use (docs/explanation/kernel-findings.md), so nobody reads meanwhile.
    """
    sender.sendall(b".")  # the first byte that is acknowledged makes the kernel open the subflow
    until(lambda: len(_thresholds(receiver)) == len(_thresholds(sender)) == 2, "the second subflow")
    assert receiver.recv(1) == b"."


def _thresholds(end: socket.socket) -> list[int]:
    """One for each subflow: struct mptcp_subflow_data, then as many struct tcp_info."""
    header, header_bytes = 16, 104
    request = struct.pack("=IIII", header, 0, 0, header_bytes) + bytes(8 * header_bytes)
    answer = _getsockopt(end, _SOL_MPTCP, _MPTCP_TCPINFO, request)
    _, count, _, _ = struct.unpack_from("=IIII", answer)
    return [struct.unpack_from("=I", answer, header + header_bytes * i + _SSTHRESH)[0] for i in range(count)]


def _pump(sender: socket.socket, receiver: socket.socket, payload: bytes) -> str:
    """Checksum of what arrived."""
    sent, received, digest = 0, 0, hashlib.sha256()
    for end in (sender, receiver):
        end.setblocking(False)
    with selectors.DefaultSelector() as selector:
        selector.register(sender, selectors.EVENT_WRITE)
        selector.register(receiver, selectors.EVENT_READ)
        while received < len(payload):
            events = selector.select(_PATIENCE_S)
            if not events:
                raise TimeoutError(f"nothing moved for {_PATIENCE_S} s after {received} bytes")
            for key, _ in events:
                if key.fileobj is receiver:
                    piece = receiver.recv(_PIECE)
                    received += len(piece)
                    digest.update(piece)
                else:
                    sent += sender.send(payload[sent : sent + _PIECE])
                    if sent == len(payload):
                        selector.unregister(sender)
    return digest.hexdigest()


def _carried() -> list[int]:
    """Bytes that left on each path so far."""
    statistics = Path("/proc/self/net/dev").read_text().splitlines()
    counts = {name.strip(): rest.split() for name, _, rest in (line.partition(":") for line in statistics)}
    return [int(counts[f"local{path}"][8]) for path in range(len(_RATES_BPS))]


def _getsockopt(end: socket.socket, level: int, option: int, request: bytes) -> bytes:
    """As the method of this name, for an option that reads what it is given."""
    buffer = ctypes.create_string_buffer(request, len(request))
    size = ctypes.c_uint32(len(request))
    if (
        ctypes.CDLL(None, use_errno=True).getsockopt(end.fileno(), level, option, buffer, ctypes.byref(size))
        != 0
    ):
        raise OSError(ctypes.get_errno(), "getsockopt")
    return buffer.raw[: size.value]


def _unshare() -> int:
    _call("unshare", _CLONE_NEWNET)
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY)


def _enter(namespace: int) -> None:
    _call("setns", namespace, _CLONE_NEWNET)


def _call(name: str, *arguments: int) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), name)


if __name__ == "__main__":
    main()
