"""Guard on this machine's kernel; the rest is held on those of guests (tests/virtual)."""

from functools import partial

import pytest

from mptune.topology import Topology, load
from mptune.trial import Observation
from tests.plugins import trials, two_paths
from tests.plugins.path_world import KIB
from tests.plugins.trials import SECOND
from tests.plugins.two_paths import Uplink


@pytest.fixture
def paths(tmp_path):
    """A topology of a fast path, F-X, and another, O-X."""

    def made(rate: str, rtt: str) -> Topology:
        path = tmp_path / "topology.toml"
        path.write_text(two_paths.text(Uplink("Fast", "20 Mbit/s", "20 ms"), Uplink("Other", rate, rtt)))
        return load(path)

    return made


def mbps(observation: Observation) -> float:
    return observation.in_order_bytes * 8e3 / observation.duration_ns


def number(observation: Observation, name: str) -> float:
    return float(observation.metadata[name])


@pytest.mark.measures("which segments meet a full queue, and so what a connection gives")
def test_a_path_that_costs_more_than_it_brings_is_made_standby(side_by_side, paths):
    """64 KiB hold 100 ms of the fast path, and only 2 Mbit/s of one with 200 ms."""
    trial = partial(trials.trial, paths("5 Mbit/s", "200 ms"), buffer_bytes=64 * KIB, duration_ns=12 * SECOND)
    observations = side_by_side({pm: trial(pm=pm) for pm in ("guard", "fullmesh")})
    assert "O-X standby" in observations["guard"].metadata["path_manager_changes"]
    assert "F-X standby" not in observations["guard"].metadata["path_manager_changes"]
    assert mbps(observations["guard"]) > 2 * mbps(observations["fullmesh"])
    assert observations["guard"].metadata["path_manager_problems"] == ""
