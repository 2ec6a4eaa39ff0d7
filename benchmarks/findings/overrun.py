"""Data acknowledged by a subflow, dropped by the connection: the sender's window is the wider one.

Finding 3 of docs/explanation/kernel-findings.md. Unlike paths with short queues, so that losses leave holes,
and a large receive buffer. Prints each second what arrived in order and what was dropped beyond the window
(NoDSSInWindow), and in the end what the connection sent again (MPTCPRetrans).
"""

import argparse
import time
from contextlib import suppress
from functools import partial

from _world import Link, Pair, connect, counters, endpoint, kernel, listen, run

PATHS = (Pair("100mbit", 20_000, 60_000), Pair("30mbit", 6000, 200_000), Pair("8mbit", 6000, 400_000))
LOSSY = (Pair("40mbit", 0, 150_000, 0.5, 20),) * 2
BUFFER, PIECE = 6_900_000, 1 << 20


def receiver(link: Link, seconds: int) -> None:
    """Read everything at once, and count what arrived and what was dropped."""
    listener = listen(SO_RCVBUFFORCE=BUFFER)
    link.tell("listening")
    connection, _ = listener.accept()
    connection.settimeout(0.1)
    start = time.monotonic()
    for second in range(seconds):
        got = 0
        while time.monotonic() < start + second + 1:
            with suppress(TimeoutError):
                got += len(connection.recv(PIECE))
        dropped = counters("NoDSSInWindow")["NoDSSInWindow"]
        print(f"  second {second + 1}: {got * 8 / 1e6:.0f} Mbit/s, {dropped} dropped so far", flush=True)


def sender(link: Link, seconds: int, paths: int) -> None:
    """Send as much as goes."""
    link.hear()
    for index in range(1, paths):
        endpoint(index)
    with connect(SO_SNDBUFFORCE=BUFFER) as connection:
        connection.settimeout(0.1)
        payload = bytes(PIECE)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with suppress(TimeoutError):
                connection.send(payload)
        print(f"  sender: {counters('MPTCPRetrans', 'SndWndShared')}", flush=True)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=12)
    parser.add_argument("--lossy", action="store_true", help="random losses in place of short queues; netem")
    arguments = parser.parse_args()
    print(kernel(), flush=True)
    paths = LOSSY if arguments.lossy else PATHS
    sends = partial(sender, seconds=arguments.seconds, paths=len(paths))
    run(paths, sends, partial(receiver, seconds=arguments.seconds))


if __name__ == "__main__":
    main()
