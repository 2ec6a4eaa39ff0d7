"""The meter on this machine's kernel: a transfer, its end, a translation, and iperf3 beside it.

What it reports otherwise is held on a guest's kernel (tests/virtual/roles/test_meter.py).
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mptune.linux import addresses, agent
from tests.plugins.meter_world import HALVES, MBIT, RECEIVER, SECOND, SOURCE, JoinedSites
from tests.plugins.needs import Thing, lack, program
from tests.plugins.netlink import inside
from tests.plugins.waiting import until


def test_a_transfer_over_two_subflows_arrives_whole(joined):
    joined.shape(40 * MBIT, 20 * MBIT)
    joined.second_subflow()
    result = joined.measure(transfer_bytes=3_000_003)
    assert result["failed"] is None and result["corrupt_at"] is None and not result["fallback"]
    assert result["in_order_bytes"] == 3_000_003
    assert {flow["local"] for flow in result["subflows"]} == set(SOURCE)
    assert 0 < result["cpu_ns"] < 3 * result["duration_ns"]
    assert all(0 < share <= 1 for share in result["busy_share"].values())


PARENT = """
import subprocess, sys
agent = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
print(agent.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("role", HALVES)
def test_it_dies_with_whoever_started_it(joined, role):
    arguments = [sys.executable, "-c", PARENT, *agent.command(role, joined.sites.local)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        process = Path("/proc", parent.stdout.readline().decode().strip())
        assert process.exists()
        parent.kill()
    until(lambda: not process.exists(), f"the end of the {role}")


#: Every connection leaves with another port than it has.
TRANSLATION = """
add table ip nat
add chain ip nat leaving { type nat hook postrouting priority 100 ; }
add rule ip nat leaving meta l4proto tcp counter masquerade to :20000-20999
"""


@pytest.mark.needs("nft")
def test_behind_a_translation_both_ends_of_a_subflow_are_joined(joined):
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [program("nft"), *words]
        return inside(joined.sites.local, lambda: subprocess.run(command, capture_output=True, text=True))

    if (refused := run(TRANSLATION)).returncode:
        lack("subflows behind a translation", Thing("NAT in the kernel", "elsewhere"), detail=refused.stderr)
    joined.shape(40 * MBIT, 20 * MBIT)
    joined.second_subflow()
    result = joined.measure(duration_ns=SECOND)
    assert "counter packets 2 " in run("list", "ruleset").stdout  # the first of each subflow
    assert {flow["local"] for flow in result["subflows"]} == set(SOURCE)
    assert all(flow["bytes"] > 0 and flow["srtt_ns"] > 0 for flow in result["subflows"])
    assert len(result["subflows"]) == 2


#: Left out at the start, seconds: how fast both subflows get going differs much from run to run.
WARM_UP = 2


def iperf3(joined: JoinedSites, seconds: int, buffer: int) -> float:
    """Payload that iperf3 receives over such a connection after the warm-up, bit/s."""

    def start(side: addresses.Side, *arguments: str) -> subprocess.Popen[bytes]:
        command = ["mptcpize", "run", "iperf3", *arguments]
        return inside(joined.sites.of(side), lambda: subprocess.Popen(command, stdout=subprocess.PIPE))

    with start("remote", "--server", "--one-off", "--forceflush") as server:
        try:
            assert server.stdout is not None
            while b"listening" not in server.stdout.readline():
                assert server.poll() is None
            client = start(
                "local", "--client", RECEIVER, "--bind", SOURCE[0],
                "--time", str(seconds), "--omit", str(WARM_UP), "--window", str(buffer),
                "--congestion", "cubic", "--json",
            )  # fmt: skip
            output, _ = client.communicate(timeout=seconds + 20)
        finally:
            server.kill()
    return float(json.loads(output)["end"]["sum_received"]["bits_per_second"])


@pytest.mark.measures("two transfers one after the other, with the processors that are left to each")
@pytest.mark.needs("iperf3")
def test_agrees_with_iperf3(joined):
    """Within 5 % over 10 s, in which they do not lose the same packets."""
    joined.shape(60 * MBIT, 30 * MBIT)
    joined.second_subflow()
    ours = joined.measure(duration_ns=(WARM_UP + 10) * SECOND, buffer_bytes=1 << 20)
    assert ours["failed"] is None
    theirs = iperf3(joined, 10, 1 << 20)
    assert sum(ours["bins"][10 * WARM_UP :]) * 8 / 10 == pytest.approx(theirs, rel=0.05)
