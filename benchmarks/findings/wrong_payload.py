"""Wrong payload: the first mapping of a subflow that joins while the receiver's socket is in use.

Finding 1 of docs/explanation/kernel-findings.md. The receiver's recv() is made to take long by a page fault
that is answered late (userfaultfd), so that the socket is owned while a subflow joins and data arrive on it.
Two controls differ in one thing each. Prints which bytes are wrong, and which ones of the stream they are.
"""

import argparse
import ctypes
import fcntl
import mmap
import os
import random
import socket
import struct
import threading
import time
from functools import partial

from _world import Link, Pair, connect, counters, endpoint, kernel, listen, run

SIZE, READ = 200_000, 1000
PAYLOAD = random.Random(1).randbytes(SIZE)
#: Path 0 is slow, so that data that was sent earlier on it arrive later than data on path 1.
PATHS = (Pair("2mbit", 4000, 1_000_000), Pair())
_PAGES = 1 << 20

#: Events while the receiver's recv() holds the socket.
CASES = {
    "joins, and data arrive": ("join", "data"),
    "joins (control)": ("join",),
    "data arrive (control)": ("data",),
}


class Slow:
    """Memory whose first use waits until it is provided: userfaultfd(2), x86_64."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, _PAGES)
        self._at = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.descriptor = ctypes.CDLL(None, use_errno=True).syscall(323, os.O_CLOEXEC)
        if self.descriptor < 0:
            raise OSError(ctypes.get_errno(), "userfaultfd")
        fcntl.ioctl(self.descriptor, 0xC018AA3F, bytearray(struct.pack("QQQ", 0xAA, 0, 0)))  # UFFDIO_API
        # UFFDIO_REGISTER, missing pages
        fcntl.ioctl(self.descriptor, 0xC020AA00, bytearray(struct.pack("QQQQ", self._at, _PAGES, 1, 0)))

    def provide(self) -> None:
        """Fill it with zeros (UFFDIO_ZEROPAGE), which lets whoever waits go on."""
        fcntl.ioctl(self.descriptor, 0xC020AA04, bytearray(struct.pack("QQQq", self._at, _PAGES, 0, 0)))


def receiver(link: Link) -> None:
    """Read a little, then a little slowly, then the rest."""
    listener = listen()  # stays: subflows join through it
    link.tell("listening")
    connection, _ = listener.accept()
    got = bytearray(connection.recv(READ, socket.MSG_WAITALL))
    slow = Slow()
    link.tell("read")

    def wait() -> None:
        os.read(slow.descriptor, 32)  # the page fault of the recv() below
        link.tell("in use")
        link.hear()
        slow.provide()

    answering = threading.Thread(target=wait)
    answering.start()
    count = connection.recv_into(slow.memory, READ)
    answering.join()
    link.tell("free")
    got += slow.memory[:count]
    while piece := connection.recv(1 << 16):
        got += piece
    report(bytes(got))


def report(got: bytes) -> None:
    """Runs of wrong bytes, and where in the stream they are from."""
    wrong = [at for at in range(min(len(got), SIZE)) if got[at] != PAYLOAD[at]]
    runs: list[list[int]] = []
    for at in wrong:
        if runs and at - runs[-1][1] < 16:
            runs[-1][1] = at
        else:
            runs.append([at, at])
    for first, last in runs:
        source = PAYLOAD.find(got[first : first + 24])
        print(f"    WRONG: {last - first + 1} bytes at {first} are those of {source}")
    print(f"    {len(got)} of {SIZE} bytes received, {'intact' if not wrong else f'{len(wrong)} wrong'}")
    print(
        f"    receiver: {counters('MPJoinAckRx', 'DSSNotMatching', 'DataCsumErr', 'DuplicateData')}",
        flush=True,
    )


def sender(link: Link, meanwhile: tuple[str, ...], hold_s: float) -> None:
    """Send, and let the rest happen while the receiver's socket is in use, or before or after."""
    link.hear()
    with connect() as connection:
        connection.sendall(PAYLOAD[:READ])
        link.hear()
        if "join" not in meanwhile:
            endpoint(1)
            time.sleep(hold_s)
        connection.sendall(PAYLOAD[READ : 2 * READ])
        link.hear()
        if "join" in meanwhile:
            endpoint(1)
            time.sleep(hold_s)
        if "data" not in meanwhile:
            link.tell()
            link.hear()
        sending = threading.Thread(target=connection.sendall, args=(PAYLOAD[2 * READ :],))
        sending.start()
        time.sleep(hold_s)
        if "data" in meanwhile:
            link.tell()
            link.hear()
        sending.join()
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(20)
        connection.recv(1)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hold", type=float, default=0.1, help="seconds for which recv() holds the socket")
    parser.add_argument("--checksum", action="store_true", help="with net.mptcp.checksum_enabled=1")
    arguments = parser.parse_args()
    print(kernel(), flush=True)
    sysctls = {"net.mptcp.checksum_enabled": "1"} if arguments.checksum else {}
    for name, meanwhile in CASES.items():
        print(f"  while recv() holds the socket: {name}", flush=True)
        run(PATHS, partial(sender, meanwhile=meanwhile, hold_s=arguments.hold), receiver, sysctls)


if __name__ == "__main__":
    main()
