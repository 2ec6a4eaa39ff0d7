"""The first process of a guest: a program under `mptune exec --json`, which sends to a server beside it."""

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import threading

from mptune.guest import inside

SIZE = 300_000
_IPPROTO_MPTCP = 262
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1  # linux/sockios.h, linux/if.h
_CLIENT = f"""
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    connection.sendall(bytes({SIZE}))
    connection.shutdown(socket.SHUT_WR)
    connection.recv(1)
"""


def _serve(listener, received):
    connection, _ = listener.accept()
    with connection:
        while data := connection.recv(1 << 16):
            received.append(len(data))


def work(_):
    """The statistics, and how many bytes arrived."""
    received: list[int] = []
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, _IPPROTO_MPTCP) as listener:
        fcntl.ioctl(listener, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        server = threading.Thread(target=_serve, args=(listener, received))
        server.start()
        program = [sys.executable, "-c", _CLIENT, str(listener.getsockname()[1])]
        done = subprocess.run(
            [sys.executable, "-m", "mptune.cli", "exec", "--json", "--", *program],
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            check=True,
        )
        server.join()
    return json.dumps({"statistics": json.loads(done.stderr), "received": sum(received)}).encode()


if __name__ == "__main__":
    inside.serve(work)
