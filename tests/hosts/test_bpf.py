"""Congestion controls that a host's kernel lacks: trials have them, and nothing stays registered.

Both machines have this machine's kernel, whose congestion controls are everybody's: other tests register some
meanwhile, so that each looks for its own.
"""

import re
import subprocess
from pathlib import Path

import pytest

from mptune.errors import InputError
from mptune.testbeds.host_doctor import examine
from tests.hosts.trials import agent, carrying, command, hosts, sent
from tests.plugins.trials import trial
from tests.plugins.waiting import until

pytestmark = pytest.mark.needs("bpf")

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def known() -> set[str]:
    return set(AVAILABLE.read_text().split())


def used(world, cc) -> set[str]:
    """Names of the programs of a congestion control that alice's connections have."""
    ask = ["ss", "-Htin"]
    told = world.alice.inside(lambda: subprocess.run(ask, capture_output=True, text=True, check=True).stdout)
    return set(re.findall(rf"\b{cc}_\w+", told))


def test_trials_of_a_session_share_the_programs_that_they_need(world, topology):
    with hosts(world) as bed:
        names = []
        for cc in ("olia", "scalable", "olia"):
            observation = bed.run(trial(topology, cc=cc))
            assert all(sent(observation).values()) and len(observation.subflows) == 2
            names.append(str(observation.metadata["cc_effective"]))
            assert names[-1].startswith(f"{cc}_")
        assert names[0] == names[2] and set(names) <= known()
        assert len([words for _, _, words in world.alice.processes() if "congestion" in words]) == 2
        assert not [words for _, _, words in world.bob.processes() if "congestion" in words]
    until(lambda: known().isdisjoint(names), "the end of the programs")


@pytest.mark.parametrize("role", ["host", "congestion"])
def test_a_program_goes_with_an_agent_that_is_killed(world, file, role):
    with world.unchanged(), command(file, "--cc", "olia") as program:
        carrying(world)
        (name,) = used(world, "olia")
        assert name in known()
        world.alice.run("kill", "-KILL", str(agent(world, "alice", role)))
        until(lambda: name not in known(), "the end of the program")
        program.kill()


def test_a_program_goes_with_a_controller_that_is_killed(world, file):
    with world.unchanged(), command(file, "--cc", "scalable") as program:
        carrying(world)
        (name,) = used(world, "scalable")
        assert name in known()
        program.kill()
        until(lambda: name not in known(), "the end of the program")


def test_a_user_without_root_is_refused_before_anything_runs(world, at):
    topology = at(world, alice="plain@alice")
    with hosts(world) as bed, pytest.raises(InputError, match=r"--cc: .* found olia: .* needs root"):
        bed.run(trial(topology, cc="olia", protocol="tcp", pm="default", buffer_bytes=2**16))


def test_the_doctor_lists_where_each_comes_from(topology):
    for host in examine(topology).hosts:
        findings = {finding.name: finding.found for finding in host.findings}
        assert findings["congestion control cubic"] == "in the kernel"
        assert findings["congestion control olia"] == "as a BPF program"
