"""`mptune probe` over ssh: two machines with different clocks, and one behind an address translation."""

import json
import os
import subprocess
import sys

import pytest

from mptune.machines.ssh import VARIABLE
from mptune.topology import load


def probe(world, out, *more):
    """The command; its result as JSON."""
    command = [
        sys.executable,
        "-m",
        "mptune.cli",
        "probe",
        "alice",
        "bob",
        "--out",
        str(out),
        "--json",
        *more,
    ]
    done = subprocess.run(
        command,
        env={**os.environ, VARIABLE: str(world.bin / "ssh")},
        capture_output=True,
        text=True,
        timeout=55,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.measures("how late the emulator is")
def test_two_machines_are_found_as_they_are_and_left_as_they_were(world, tmp_path):
    out = tmp_path / "found.toml"
    with world.alice.unchanged(), world.bob.unchanged():
        found = probe(world, out, "--max-data", "4MB", "--max-time", "20s", "--family", "ipv4")
    topology = load(out)
    assert (topology.sender.ssh, topology.receiver.ssh) == ("alice", "bob")
    known = load_text(world.topology(), tmp_path)
    assert len(topology.paths) == len(known.paths) == 2
    for path, real, shown in zip(topology.paths, known.paths, found["paths"], strict=True):
        assert path.rate_bps == pytest.approx(real.rate_bps, rel=0.1)
        assert path.base_rtt_ns == pytest.approx(real.base_rtt_ns, rel=0.1, abs=1_000_000)
        assert shown["mptcp"]["kind"] == "full" and "joined" in shown["mptcp"]["because"]
        assert not shown["translated"]
    assert not found["leaving"]
    assert not topology.missing
    assert found["bytes"] <= 4_000_000


def load_text(text, folder):
    """A topology from text."""
    file = folder / "known.toml"
    file.write_text(text)
    return load(file)
