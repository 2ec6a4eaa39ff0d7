"""The testbed of the two machines, and what can be seen of a trial that runs."""

import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from mptune.testbeds.hosts import HostsTestbed
from mptune.trial import Observation, Trial
from tests.hosts.world import World
from tests.plugins.program import running
from tests.plugins.reruns import spoiled
from tests.plugins.waiting import until

#: Longer than any test.
FOREVER_S = 50


@contextmanager
def hosts(world: World) -> Iterator[HostsTestbed]:
    """The testbed; afterwards both machines are as they were before."""
    with world.unchanged():
        made = HostsTestbed()
        try:
            yield made
        finally:
            made.close()


def sent(observation: Observation) -> dict[str, int]:
    """Bytes by path, of a trial that has a result."""
    assert observation.failed is None, observation.failed
    return {subflow.path: subflow.bytes for subflow in observation.subflows}


def command(file, *arguments: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """A trial by `mptune run` that lasts longer than any test, killed at the end of the block."""
    usual = ("--testbed", "hosts", "--cc", "cubic", "--pm", "fullmesh", "--duration", f"{FOREVER_S}s")
    return running("run", file, *usual, *arguments)


def carrying(world: World) -> None:
    """Wait until the trial's connection carries data."""
    device = "/sys/class/net/eth2/statistics/tx_bytes"
    first = int(world.alice.sh(f"cat {device}"))
    until(
        lambda: int(world.alice.sh(f"cat {device}")) > first + 500_000, "half a megabyte on the second path"
    )


def agent(world: World, name: str, role: str) -> int:
    """Number of the process of a role on a machine."""
    machine = world.machines[name]
    return next(pid for pid, _, words in machine.processes() if words[1:2] == [role])


def listening() -> int | None:
    """The port of a socket of this namespace that listens, other than sshd's."""
    sockets = subprocess.run(["ss", "-Hntl"], capture_output=True, text=True, check=True).stdout
    ports = [int(line.split()[3].rpartition(":")[2]) for line in sockets.splitlines()]
    return next((port for port in ports if port > 1023), None)


@contextmanager
def mute(world: World, name: str) -> Iterator[None]:
    """Every packet of a machine's management link is lost."""
    nft = ["nsenter", f"--net={world.controller}", "nft"]
    rules = ["add table inet mute"]
    for hook, match in (("output", "oifname"), ("input", "iifname")):
        rules += [
            f"add chain inet mute {hook} {{ type filter hook {hook} priority 0; }}",
            f"add rule inet mute {hook} {match} {name} drop",
        ]
    subprocess.run([*nft, "-f", "-"], input="\n".join(rules) + "\n", text=True, check=True)
    try:
        yield
    finally:
        subprocess.run([*nft, "delete", "table", "inet", "mute"], check=True)


def undisturbed(bed: HostsTestbed, asked: Trial) -> Observation:
    """Result of a trial that was not overloaded: a machine that is too busy is no evidence about the code."""
    observation = bed.run(asked)
    if "overloaded" in observation.metadata:
        spoiled(str(observation.metadata["overloaded"]))
    return observation
