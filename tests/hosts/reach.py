"""`reach.py NAMESPACE ADDRESS PORT`: a ProxyCommand that connects in a network namespace.

For `ProxyUseFdpass yes` (ssh_config(5)): it hands the socket over, and ssh talks as if it had been started
there.
"""

import ctypes
import os
import socket
import sys

CLONE_NEWNET = 0x40000000  # include/uapi/linux/sched.h
LIMIT_S = 10.0


def main() -> None:
    """Connect and pass the socket on."""
    namespace, address, port = sys.argv[1:]
    descriptor = os.open(namespace, os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        sys.exit(f"{namespace}: {os.strerror(number)}")
    try:
        connection = socket.create_connection((address, int(port)), LIMIT_S)
    except OSError as error:
        sys.exit(f"ssh: connect to host {address} port {port}: {error.strerror or error}")
    connection.setblocking(True)
    with socket.socket(fileno=1) as ssh:
        socket.send_fds(ssh, [b"\0"], [connection.fileno()])


if __name__ == "__main__":
    main()
