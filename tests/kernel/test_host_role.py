"""The agent's role `host` with the kernel's own settings, in a namespace: set, and put back byte for byte."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mptune.errors import TrialError
from mptune.linux import agent
from mptune.linux.sandbox import sysctls
from mptune.linux.sandbox.namespaces import Sites
from tests.plugins.needs import Thing, lack
from tests.plugins.netlink import inside
from tests.plugins.waiting import until

#: Everything that trials and probes set on a host, none of it as in a new namespace.
WANTED = {
    "net.mptcp.path_manager": "kernel",
    "net.mptcp.enabled": "0",
    "net.mptcp.blackhole_timeout": "77",
    "net.ipv4.tcp_ecn": "0",
    "net.ipv4.tcp_rmem": "4096 131072 1048576",
    "net.ipv4.tcp_wmem": "4096 16384 1048576",
}
ORDER = b'{"action": "set", "id": 1, "settings": %s}\n'


@pytest.fixture
def sites() -> Iterator[Sites]:
    """Two namespaces, of which one is used."""
    with ExitStack() as stack:
        try:
            made = stack.enter_context(Sites())
        except TrialError as error:
            lack("settings of a host", Thing(str(error), "elsewhere"))
        if made.user is not None:
            lack("settings of a host", Thing("root", "root"))
        yield made


def values(sites: Sites) -> dict[str, bytes]:
    return inside(sites.local, lambda: {name: sysctls.file(name).read_bytes() for name in WANTED})


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_kernels_settings_are_put_back(sites, tmp_path, number):
    before = values(sites)
    environment = {**os.environ, "MPTUNE_RUN_DIRECTORY": str(tmp_path / "run")}
    command = agent.command("host", sites.local)
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as session:
        assert session.stdin is not None and session.stdout is not None
        session.stdin.write(ORDER % str(WANTED).replace("'", '"').encode())
        session.stdin.flush()
        while b'"event":"set"' not in (line := session.stdout.readline()):
            assert line
        words = {name: " ".join(value.decode().split()) for name, value in values(sites).items()}
        assert words == WANTED and all(before[name] != value for name, value in values(sites).items())
        session.send_signal(number)
        session.wait()
    until(lambda: not Path(tmp_path, "run").exists(), "the end of the session and its guardian")
    assert values(sites) == before
