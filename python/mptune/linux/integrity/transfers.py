"""`python -m mptune.linux.integrity.transfers [USER_NAMESPACE]`: MPTCP transfers, every byte compared.

Two veth pairs between two network namespaces, each with a token bucket, the kernel's own path manager, plain
sockets, and a process at either end; nothing of mptune's own agent takes part. It uses JSON lines:

    in   {"local": <path>, "remote": <path>, "bits_s": [<rate>, <rate>], "seed": 1}
    out  {"event": "ready"}
    in   {"size": 300000, "provoked": false}
    out  {"event": "transferred", "received": 300000, "wrong": [[at, bytes], ...]}
    out  {"event": "error", "reason": "..."} instead of any of them

A provoked transfer holds the receiver's socket by a page fault that is answered late (userfaultfd) while the
second subflow joins and data arrive on it: see docs/explanation/kernel-findings.md.
"""

import contextlib
import ctypes
import fcntl
import json
import mmap
import os
import platform
import random
import select
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from pyroute2 import MPTCP, IPRoute

from mptune.linux.sandbox import syscalls

_IPPROTO_MPTCP = 262  # include/uapi/linux/in.h
_PORT = 5000
_SUBFLOW = 2  # MPTCP_PM_ADDR_FLAG_SUBFLOW, include/uapi/linux/mptcp_pm.h
_TABLE = 101
_BURST_BYTES, _QUEUE_BYTES = 20_000, 60_000
#: Nothing moves for this long: it hangs, seconds.
_PATIENCE_S = 20.0
_PIECE, _PAGES = 1 << 18, 1 << 20
#: A provoked transfer: bytes before the join; how long the socket is held before data are sent, and after, s.
_BEFORE, _HELD_S = 1000, 0.05
#: System call userfaultfd(2), by machine.
_USERFAULTFD = {"x86_64": 323, "aarch64": 282}
#: Bytes that are equal by chance within wrong ones.
_ALIKE = 16


def main() -> int:
    """Configure, then transfer until the input ends."""
    syscalls.die_with_parent()
    if len(sys.argv) > 1:
        _enter(sys.argv[1], syscalls.CLONE_NEWUSER)
        syscalls.stay_readable()
    first = sys.stdin.readline()
    if not first:
        return 0
    network = json.loads(first)
    payload = random.Random(network["seed"]).randbytes(network["largest"])
    try:
        _configure(network)
        here, there = socket.socketpair()
        if os.fork() == 0:
            _receive_all(network["remote"], payload, there)
        here.recv(1)
        _enter(network["local"], syscalls.CLONE_NEWNET)
        _tell({"event": "ready"})
        for line in sys.stdin:
            _tell({"event": "transferred", **_send(payload, here, **json.loads(line))})
    except Exception as error:  # whatever it is, the other end has to know
        _tell({"event": "error", "reason": str(error) or type(error).__name__})
        return 1
    return 0


def _tell(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _enter(path: str, kind: int) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    syscalls.setns(descriptor, kind)
    os.close(descriptor)


def _configure(network: dict[str, Any]) -> None:
    """The pairs of devices, their addresses, token buckets, routes by source, and limits."""
    _enter(network["remote"], syscalls.CLONE_NEWNET)
    remote = os.open(network["remote"], os.O_RDONLY | os.O_CLOEXEC)
    with IPRoute() as far, MPTCP() as far_limits:
        far_limits.limits("set", subflows=1, rcv_add_addrs=0)
        _enter(network["local"], syscalls.CLONE_NEWNET)
        with IPRoute() as near, MPTCP() as limits:
            limits.limits("set", subflows=1, rcv_add_addrs=0)
            for path, rate in enumerate(network["bits_s"]):
                peer = {"ifname": f"r{path}", "net_ns_fd": remote}
                near.link("add", ifname=f"l{path}", kind="veth", peer=peer)
                for side, name, last in ((near, f"l{path}", 1), (far, f"r{path}", 2)):
                    _device(side, name, f"10.0.{path}.{last}", rate)
            near.route("add", dst="0.0.0.0/0", gateway="10.0.1.2", table=_TABLE)
            near.rule("add", src="10.0.1.1", src_len=32, table=_TABLE)
    os.close(remote)


def _device(side: IPRoute, name: str, address: str, rate_bits_s: int) -> None:
    index = side.link_lookup(ifname=name)[0]
    side.addr("add", index=index, address=address, prefixlen=24)
    side.link("set", index=index, state="up")
    side.tc(
        "add", "tbf", index, handle=0x10000, rate=rate_bits_s // 8, burst=_BURST_BYTES, limit=_QUEUE_BYTES
    )


@contextlib.contextmanager
def _connection() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, _IPPROTO_MPTCP) as made:
        made.settimeout(_PATIENCE_S)
        made.connect(("10.0.0.2", _PORT))
        yield made


def _send(payload: bytes, receiver: socket.socket, size: int, provoked: bool) -> dict[str, Any]:
    """One transfer; what the receiver found."""
    with MPTCP() as manager:
        manager.endpoint("flush")
        if not provoked:
            manager.endpoint("add", addr="10.0.1.1", id=1, flags=_SUBFLOW)
        receiver.sendall(struct.pack("=I?", size, provoked))
        with _connection() as connection:
            done = _BEFORE if provoked else 0
            if provoked:
                connection.sendall(payload[: done // 2])
                _await(receiver, b"r")
                connection.sendall(payload[done // 2 : done])
                _await(receiver, b"h")
                manager.endpoint("add", addr="10.0.1.1", id=1, flags=_SUBFLOW)
                time.sleep(_HELD_S)  # the subflow joins, which nobody announces
            sending = threading.Thread(target=connection.sendall, args=(memoryview(payload)[done:size],))
            sending.start()
            if provoked:
                time.sleep(_HELD_S)  # data arrive on it
                receiver.send(b"g")
            sending.join()
            connection.shutdown(socket.SHUT_WR)
            answer = _line(receiver)
    if "error" in answer:
        raise OSError(answer["error"])
    return answer


def _await(receiver: socket.socket, word: bytes) -> None:
    if not select.select([receiver], [], [], _PATIENCE_S)[0] or receiver.recv(1) != word:
        raise OSError("the receiver of a provoked transfer does not go on")


def _line(receiver: socket.socket) -> dict[str, Any]:
    line = bytearray()
    while not line.endswith(b"\n"):
        if not select.select([receiver], [], [], 2 * _PATIENCE_S)[0]:
            raise TimeoutError(f"a transfer hangs: nothing for {2 * _PATIENCE_S:g} s")
        piece = receiver.recv(1 << 12)
        if not piece:
            raise OSError("the receiver has ended")
        line += piece
    order: dict[str, Any] = json.loads(line)
    return order


def _receive_all(namespace: str, payload: bytes, link: socket.socket) -> None:
    """The second process: receives one transfer after another, for ever."""
    syscalls.die_with_parent()
    try:
        _enter(namespace, syscalls.CLONE_NEWNET)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM, _IPPROTO_MPTCP) as listener:
            listener.bind(("0.0.0.0", _PORT))
            listener.listen()
            link.send(b"l")
            while head := link.recv(5):
                size, provoked = struct.unpack("=I?", head)
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(_PATIENCE_S)
                    got = bytearray(_held(connection, link) if provoked else b"")
                    try:
                        while piece := connection.recv(_PIECE):
                            got += piece
                    except TimeoutError:
                        pass  # what did not come is missing
                link.sendall(json.dumps(_compared(got, payload, size)).encode() + b"\n")
    except OSError as error:
        link.sendall(json.dumps({"error": str(error)}).encode() + b"\n")
    finally:
        os._exit(0)


def _held(connection: socket.socket, link: socket.socket) -> bytes:
    """Read a little; then a little more, into memory that is provided late."""
    got = connection.recv(_BEFORE // 2, socket.MSG_WAITALL)
    memory = mmap.mmap(-1, _PAGES)
    at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    faults = _faults(at)

    def provide() -> None:
        os.read(faults, 32)  # the page fault of recv_into below, which holds the socket
        link.send(b"h")
        link.recv(1)
        # UFFDIO_ZEROPAGE
        fcntl.ioctl(faults, 0xC020AA04, bytearray(struct.pack("QQQq", at, _PAGES, 0, 0)))

    providing = threading.Thread(target=provide)
    providing.start()
    link.send(b"r")
    count = connection.recv_into(memory, _BEFORE // 2)
    providing.join()
    os.close(faults)
    return got + memory[:count]


def _faults(at: int) -> int:
    """Descriptor of page faults in the memory there."""
    number = _USERFAULTFD.get(platform.machine())
    if number is None:
        raise OSError(f"no userfaultfd on {platform.machine()}")
    descriptor: int = ctypes.CDLL(None, use_errno=True).syscall(number, os.O_CLOEXEC)
    if descriptor < 0:
        raise OSError(f"userfaultfd: {os.strerror(ctypes.get_errno())}")
    fcntl.ioctl(descriptor, 0xC018AA3F, bytearray(struct.pack("QQQ", 0xAA, 0, 0)))  # UFFDIO_API
    # UFFDIO_REGISTER, missing pages
    fcntl.ioctl(descriptor, 0xC020AA00, bytearray(struct.pack("QQQQ", at, _PAGES, 1, 0)))
    return descriptor


def _compared(got: bytearray, payload: bytes, size: int) -> dict[str, Any]:
    """Runs of wrong bytes; those that are missing at the end are not among them."""
    wrong: list[list[int]] = []
    if got != payload[:size]:
        for at in range(min(len(got), size)):
            if got[at] != payload[at]:
                if wrong and at - sum(wrong[-1]) < _ALIKE:
                    wrong[-1][1] = at + 1 - wrong[-1][0]
                else:
                    wrong.append([at, 1])
    return {"received": len(got), "wrong": wrong}


if __name__ == "__main__":
    sys.exit(main())
