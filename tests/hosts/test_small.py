"""A machine with busybox alone, as a router, and one like any other: everything that is done with hosts.

The machine has no C library, no iproute2, no /run and no /var/lib, and gets the agent that is linked
statically; the other one gets this machine's own.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from mptune.apply import apply
from mptune.apply.apply import Target, Wanted
from mptune.apply.records import Setting
from mptune.linux import agent
from mptune.machines.ssh import SshMachine
from mptune.testbeds import host_doctor
from mptune.testbeds.hosts import HostsTestbed
from mptune.topology import load
from tests.hosts.asking import mptune
from tests.hosts.trials import hosts, sent
from tests.hosts.world import PLAIN, SERVER, World
from tests.plugins.trials import trial
from tests.plugins.waiting import until

pytestmark = pytest.mark.needs("busybox")

WMEM = "net.ipv4.tcp_wmem"


@pytest.fixture(scope="module")
def router(make_world: Callable[..., World]) -> World:
    """Alice has busybox alone and two uplinks; bob is like any other."""
    return make_world((replace(PLAIN, small=True), SERVER))


@pytest.fixture
def bed(router: World, at) -> Iterator[HostsTestbed]:
    """Trials between the two, which leave nothing behind."""
    with hosts(router) as testbed:
        yield testbed


def test_it_greets_and_gets_the_agent_that_needs_nothing(router, at):
    at(router)
    with router.unchanged():
        machine = SshMachine("alice", "alice")
        try:
            assert machine.delivered and machine.hello["net_admin"] is True
            pid = next(pid for pid, _, words in router.alice.processes() if "--greet" in words)
            size = router.alice.file(f"/proc/{pid}/exe").stat().st_size
            assert size == agent.static()[os.uname().machine].stat().st_size
            facts = machine.look(["net.mptcp.enabled"])
            assert facts["mptcp"] is None and facts["path_manager"] is None
            assert {"eth1", "eth2"} <= {interface["device"] for interface in facts["interfaces"]}
            # What it cannot do has a reason, and nothing else is lost with it.
            assert facts["bpf"] is not None and "linked statically" in facts["bpf"]
        finally:
            machine.close()


def test_doctor_says_that_trials_can_run(router, at):
    with router.unchanged():
        assert host_doctor.ready(host_doctor.examine(at(router)).hosts)


@pytest.mark.parametrize("reverse", [False, True], ids=["there", "back"])
def test_a_transfer_uses_both_paths_and_leaves_nothing(router, at, bed, reverse):
    topology = at(router).reversed() if reverse else at(router)
    observation = bed.run(trial(topology, transfer_bytes=3_000_001))
    assert observation.failed is None and observation.in_order_bytes == 3_000_001
    assert all(sent(observation).values())


def test_limits_of_buffers_that_grow_are_set_for_a_trial(router, at, bed):
    asked = trial(at(router), buffer_mode="auto", buffer_bytes=2**19, transfer_bytes=300_000)
    observation = bed.run(asked)
    assert observation.failed is None and int(observation.metadata["effective_receiver_rcvbuf"]) <= 2**19


@pytest.mark.needs("bpf")
def test_a_congestion_control_that_it_lacks_is_refused_with_the_reason(router, at, bed):
    with pytest.raises(Exception, match="linked statically"):
        bed.run(trial(at(router), cc="olia"))


def test_settings_are_made_confirmed_and_put_back(router, at):
    at(router)
    settings: list[Setting] = [
        {"kind": "sysctl", "name": WMEM, "value": "4096 16384 741376"},
        {"kind": "limits", "subflows": 3, "add_addr_accepted": 2},
        {
            "kind": "endpoint",
            "address": router.uplink("alice", 1).ipv4,
            "device": "eth2",
            "flags": ["subflow"],
        },
    ]
    target = Target("alice", "alice")
    wanted = [Wanted(target, lambda _place: settings)]
    # The first time makes /var/lib, which a router lacks until somebody needs it.
    apply.apply(wanted, run="a run")
    apply.roll_back([target])
    with router.unchanged():
        apply.apply(wanted, run="a run", confirm_within_s=600)
        assert router.alice.sysctl(WMEM).split() == ["4096", "16384", "741376"]
        assert "eth2" in router.alice.sh("ip mptcp endpoint show")
        apply.confirm([target])
        until(lambda: not reverters(router), "the end of what waits")
        assert [answer.kept for _, answer in apply.roll_back([target])] == [[]]


def test_nobody_confirms_and_the_router_puts_everything_back(router, at):
    at(router)
    target = Target("alice", "alice")
    settings: list[Setting] = [{"kind": "sysctl", "name": WMEM, "value": "4096 16384 741376"}]
    with router.unchanged():
        apply.apply([Wanted(target, lambda _place: settings)], run="a run", confirm_within_s=1)
        until(lambda: not reverters(router), "the return")
        ((_, status),) = apply.status([target])
        assert status.reverted is not None and not status.reverted.kept
        apply.roll_back([target])


def reverters(world: World) -> list[int]:
    return [pid for pid, _, words in world.alice.processes() if "reverter" in words]


def test_its_daemon_takes_a_policy_from_elsewhere_and_gives_it_back(router, at):
    at(router)
    program, listens = router.alice.file("/small/tmp/daemon"), router.alice.file("/small/tmp/run/mptune")
    program.write_bytes(agent.static()[os.uname().machine].read_bytes())
    program.chmod(0o755)
    file: Setting = {
        "kind": "file",
        "path": "/etc/mptune/policy.toml",
        "content": '[[policy]]\nname = "own"\nto = ["192.0.2.0/24"]\npolicy = "default"\n',
        "reload": "/run/mptune/daemon.sock",
    }
    target = Target("alice", "alice")
    own = router.alice.file("/small/etc/mptune/policy.toml")
    own.parent.mkdir()
    own.write_text("# Nothing yet.\n")
    process = router.alice.start("chroot", "/small", "/tmp/daemon", "daemon")
    try:
        until(lambda: process.poll() is None and (listens / "daemon.sock").exists(), "the daemon's socket")
        ((_, applied),) = apply.apply([Wanted(target, lambda _place: [file])], run="a run")
        assert applied.daemon is not None and applied.daemon.state == "reloaded"
        ((_, back),) = apply.roll_back([target])
        assert back.kept == [] and own.read_text() == "# Nothing yet.\n"
    finally:
        router.alice.kill_processes("daemon")
        process.communicate()


@pytest.mark.measures("how late the emulator is")
def test_probe_finds_its_paths(router, at, tmp_path):
    at(router)
    out = tmp_path / "found.toml"
    with router.unchanged():
        limits = ("--max-data", "4MB", "--max-time", "1s", "--family", "ipv4")
        found = mptune(router, "probe", "alice", "bob", "--out", out, *limits)
    assert [path["mptcp"]["kind"] for path in found["paths"]] == ["full", "full"]
    assert len(load(out).paths) == 2
