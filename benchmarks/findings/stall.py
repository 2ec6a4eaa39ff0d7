"""A connection that stands still: its receive memory is full of data that wait for one missing segment.

Finding 2 of docs/explanation/kernel-findings.md. A small receive buffer, a slow path and a fast one: what is
missing comes by the slow path, and when it arrives the connection takes nothing any more. Prints how far each
transfer came, and of one that stands still what lies where.
"""

import argparse
import re
import select
import socket
from functools import partial

from _world import Link, Pair, connect, counters, endpoint, kernel, listen, run, shell

PATHS = (Pair("1mbit", 3100, 400_000), Pair("50mbit", 3100, 400_000))
SIZE, STALLED_S = 300_000, 8.0
NAMES = ("TCPRcvQDrop", "TCPZeroWindowDrop", "TCPWantZeroWindowAdv", "RcvPruned", "PruneCalled", "OfoPruned")


def held(limit: int) -> str:
    """Sequence number that the connection waits for, and receive queues of its subflows (ss(8))."""
    connection = re.search(r"ESTAB +(\d+) .* rcv_nxt:(\w+)", shell("ss -MinHO"))
    if connection is None:
        return "the connection is not there any more"
    parts = [
        f"connection: {connection[1]} bytes of memory taken of {limit}, waits for ...{connection[2][-6:]}"
    ]
    for bytes_held, address, first in re.findall(
        r"ESTAB +(\d+) +\d+ +\S+ +([\d.]+):.* seq:(\w+)", shell("ss -tinHO")
    ):
        parts.append(f"subflow from {address}: {bytes_held} bytes in its queue, from ...{first[-6:]}")
    return "; ".join(parts)


def receiver(link: Link, buffer: int) -> None:
    """Read until nothing comes any more."""
    listener = listen(SO_RCVBUF=buffer)
    link.tell("listening")
    connection, _ = listener.accept()
    connection.settimeout(STALLED_S)
    got = 0
    try:
        while piece := connection.recv(1 << 16):
            got += len(piece)
        print(f"  complete: {got} bytes", flush=True)
    except TimeoutError:
        print(f"  STALLED after {got} bytes: nothing more for {STALLED_S:.0f} s", flush=True)
        print(f"    {held(2 * buffer)}", flush=True)
    print(f"    receiver: {counters(*NAMES)}", flush=True)
    link.tell("done")


def sender(link: Link, chunk: int) -> None:
    """Send in pieces of this size, each of them a segment of its own."""
    link.hear()
    endpoint(1)
    with connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)
        sent, payload = 0, bytes(chunk)
        while sent < SIZE:
            _, writable, _ = select.select([], [connection], [], STALLED_S + 3)
            if not writable:
                break
            sent += connection.send(payload)
        if sent >= SIZE:
            connection.shutdown(socket.SHUT_WR)
        link.hear()


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chunk", type=int, default=100, help="bytes of a write")
    parser.add_argument("--buffer", type=int, default=32_768, help="SO_RCVBUF, bytes")
    parser.add_argument("--runs", type=int, default=4)
    arguments = parser.parse_args()
    print(f"{kernel()}, SO_RCVBUF {arguments.buffer}, writes of {arguments.chunk} bytes", flush=True)
    for _ in range(arguments.runs):
        run(PATHS, partial(sender, chunk=arguments.chunk), partial(receiver, buffer=arguments.buffer))


if __name__ == "__main__":
    main()
