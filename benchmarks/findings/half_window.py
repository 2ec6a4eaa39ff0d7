"""The window that is offered shrinks while a subflow has received nothing.

Finding 4 of docs/explanation/kernel-findings.md. One connection with a fixed receive buffer; a second
subflow joins on standby, so that it carries nothing, and is made active later. Prints what the receiver
offers in between.
"""

import time

from _world import Link, Pair, connect, endpoint, kernel, listen, run, shell, windows

BUFFER, PIECE, PIECES = 1 << 20, bytes(1 << 16), 64


def receiver(link: Link) -> None:
    """Read everything at once."""
    listener = listen(SO_RCVBUFFORCE=BUFFER)
    link.tell("listening")
    connection, _ = listener.accept()
    while connection.recv(1 << 16):
        pass


def sender(link: Link) -> None:
    """Send in three situations, and print the offered window after each."""
    link.hear()
    with connect() as connection:

        def show(what: str) -> None:
            for _ in range(PIECES):
                connection.sendall(PIECE)
            time.sleep(0.2)  # everything is read
            print(f"  {what}: {' and '.join(map(str, windows(connection)))} bytes offered", flush=True)

        show("one subflow")
        endpoint(1, "subflow backup")
        time.sleep(0.2)  # it has joined
        show("a second one on standby")
        shell("ip mptcp endpoint change id 1 nobackup")
        time.sleep(0.2)
        show("the second one carries data too")
        show("and later")


def main() -> None:
    """Run it."""
    print(f"{kernel()}, SO_RCVBUF {BUFFER}", flush=True)
    run((Pair("100mbit"), Pair("100mbit")), sender, receiver)


if __name__ == "__main__":
    main()
