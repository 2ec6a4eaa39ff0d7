"""`mptune watch` over ssh: connections of another machine, which is left as it was."""

import json
import os
import subprocess

from mptune.machines.ssh import VARIABLE
from tests.plugins.program import command_line
from tests.plugins.waiting import PATIENCE_S

#: Both ends of a connection in one process, until the end of its input.
CONNECTED = """
import socket, sys
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
listener.bind(("127.0.0.1", 0))
listener.listen()
one = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
one.connect(listener.getsockname())
other, _ = listener.accept()
one.sendall(bytes(1000))
print(len(other.recv(1000, socket.MSG_WAITALL)), flush=True)
sys.stdin.read()
"""


def test_connections_of_another_machine_are_seen_over_ssh(world):
    with (
        world.unchanged(),
        subprocess.Popen(
            world.ssh_command("alice", f"exec python3 -c '{CONNECTED}'"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=world.environment(),
        ) as there,
    ):
        assert there.stdin is not None and there.stdout is not None
        assert there.stdout.readline() == b"1000\n"
        done = subprocess.run(
            command_line("watch", "alice", "--json", "--once"),
            env={**os.environ, VARIABLE: str(world.bin / "ssh")},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        there.stdin.close()
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["host"] == "alice"
    ends = sorted(
        (connection["sent_bytes"], connection["received_bytes"]) for connection in document["connections"]
    )
    assert ends == [(0, 1000), (1000, 0)]
    assert {len(connection["subflows"]) for connection in document["connections"]} == {1}
