"""`mptune why` between two machines: a line that loses packets is named, and both are left as they were."""

import pytest

from mptune.testbeds.hosts import HostsTestbed
from tests.hosts.asking import mptune
from tests.hosts.world import SERVER, Side, Uplink


@pytest.fixture(scope="module")
def lossy(make_world):
    """Alice's second line loses one packet in fifty."""
    worse = Uplink(up_mbps=10, down_mbps=10, delay_ms=15, loss=0.02)
    return make_world((Side(uplinks=(Uplink(), worse)), SERVER))


@pytest.mark.measures("what losses leave of a rate")
def test_a_line_that_loses_packets_is_named(lossy, at, tmp_path):
    topology = at(lossy)
    _, worse = (path.label for path in topology.paths)
    with lossy.unchanged():
        words = ("why", tmp_path / "world.toml", "--testbed", "hosts", "--one-way", "--quiet")
        answer = mptune(lossy, *words, "--budget", "40s")
    (direction,) = answer["directions"]
    (loss,) = (cause for cause in direction["causes"] if cause["kind"] == "loss")
    assert loss["paths"] == [worse] and loss["mbps"] > 3 and "lost" in loss["because"]


def test_buffers_of_now_are_the_hosts_own(lossy, at):
    topology = at(lossy)
    bed = HostsTestbed()
    try:
        found = bed.largest_buffers(topology)
    finally:
        bed.close()
    sizes = [lossy.bob.sh(f"cat /proc/sys/net/ipv4/tcp_{way}mem").split()[2] for way in "wr"]
    assert found is not None and found[1] == tuple(map(int, sizes))
