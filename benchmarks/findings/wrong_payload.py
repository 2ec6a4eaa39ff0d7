"""Wrong payload: the first mapping of a subflow that joins while the receiver's socket is in use.

Finding 1 of docs/explanation/kernel-findings.md. The receiver's recv() is made to take long by a page fault
that waits, so that the socket is owned while a subflow joins and data arrive on it. Two controls differ in
one thing each. Prints which bytes are wrong, and which ones of the stream they are.
"""

import argparse
import ctypes
import mmap
import random
import socket
import struct
import threading
import time
from functools import partial

from _world import Link, Pair, connect, counters, endpoint, kernel, late, listen, run, shell

SIZE, READ = 200_000, 1000
PAYLOAD = random.Random(1).randbytes(SIZE)
#: Path 0 is slow, so that data that was sent earlier on it arrive later than data on path 1.
PATHS = (Pair("2mbit", 4000, 1_000_000), Pair())
_SOL_PACKET, _PACKET_TX_RING, _SEND_REQUEST = 263, 13, 1  # linux/if_packet.h
_PACKET, _FRAMES, _FRAME, _PAGE = 1000, 2, 2048, 4096
#: Steps that overlap begin this far apart, as a share of the time for which recv() holds the socket.
_STEP = 0.2

#: Events while the receiver's recv() holds the socket.
CASES = {
    "joins, and data arrive": ("join", "data"),
    "joins (control)": ("join",),
    "data arrive (control)": ("data",),
}


class Slow:
    """Memory whose first use waits: something else changes the process' mappings, and waits meanwhile.

    A page fault needs the process' mmap_lock. mmap() of a packet socket holds that while it waits for the
    socket's ring, and send() holds the ring until its packets have left a device, which takes long.
    """

    def __init__(self, hold_s: float) -> None:
        shell("ip link add h0 type veth peer name h1")
        for device in ("h0", "h1"):
            shell(f"ip link set {device} up")
        late("h0", hold_s, _PACKET)
        self._ring = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._ring.bind(("h0", 0))
        ring = struct.pack("IIII", _PAGE, 1, _FRAME, _FRAMES)
        self._ring.setsockopt(_SOL_PACKET, _PACKET_TX_RING, ring)
        with mmap.mmap(self._ring.fileno(), _PAGE) as frames:
            for frame in range(_FRAMES):
                struct.pack_into("=QI", frames, frame * _FRAME, _SEND_REQUEST, _PACKET)
        # Private: on some kernels a page fault in a shared mapping does without the lock.
        self.memory = mmap.mmap(-1, _PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._libc = ctypes.CDLL(None)

    def begin(self, after_s: float) -> None:
        """Have the memory wait from then on."""
        threading.Timer(after_s, self._ring.send, [b""]).start()
        threading.Timer(1.5 * after_s, self._map).start()

    def _map(self) -> None:
        # Python's own mmap() would keep all threads waiting.
        arguments = (None, ctypes.c_size_t(_PAGE), mmap.PROT_READ, mmap.MAP_SHARED, self._ring.fileno())
        self._libc.mmap(*arguments, ctypes.c_long(0))


def receiver(link: Link, hold_s: float) -> None:
    """Read a little, then a little slowly, then the rest."""
    listener = listen()  # stays: subflows join through it
    link.tell("listening")
    connection, _ = listener.accept()
    got = bytearray(connection.recv(READ, socket.MSG_WAITALL))
    slow = Slow(hold_s)
    link.tell("read")
    slow.begin(_STEP * hold_s / 2)
    begin = time.monotonic()
    count = connection.recv_into(slow.memory, READ)
    print(f"    recv() took {time.monotonic() - begin:.2f} s")
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
    step_s = _STEP * hold_s
    with connect() as connection:
        connection.sendall(PAYLOAD[:READ])
        link.hear()
        if "join" not in meanwhile:
            endpoint(1)
        time.sleep(step_s)
        connection.sendall(PAYLOAD[READ : 2 * READ])  # which recv() copies, from then on
        time.sleep(step_s)
        if "join" in meanwhile:
            endpoint(1)
            time.sleep(step_s)
        if "data" not in meanwhile:
            link.hear()
        sending = threading.Thread(target=connection.sendall, args=(PAYLOAD[2 * READ :],))
        sending.start()
        if "data" in meanwhile:
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
    parser.add_argument("--hold", type=float, default=0.5, help="seconds for which recv() holds the socket")
    parser.add_argument("--checksum", action="store_true", help="with net.mptcp.checksum_enabled=1")
    arguments = parser.parse_args()
    print(kernel(), flush=True)
    sysctls = {"net.mptcp.checksum_enabled": "1"} if arguments.checksum else {}
    for name, meanwhile in CASES.items():
        print(f"  while recv() holds the socket: {name}", flush=True)
        held = partial(receiver, hold_s=arguments.hold)
        run(PATHS, partial(sender, meanwhile=meanwhile, hold_s=arguments.hold), held, sysctls)


if __name__ == "__main__":
    main()
