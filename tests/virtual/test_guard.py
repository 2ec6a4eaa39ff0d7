"""Guard on a guest's kernel: what its samples show of the buffers, and what it makes of them."""

from functools import partial

import pytest

from mptune.testbeds import create
from mptune.topology import Topology, load
from mptune.trial import Observation
from tests.plugins import trials, two_paths
from tests.plugins.path_world import KIB
from tests.plugins.trials import SECOND
from tests.plugins.two_paths import Uplink

pytestmark = pytest.mark.needs("guest")


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


def test_a_path_that_costs_more_than_it_brings_is_made_standby(side_by_side, paths):
    """64 KiB hold 100 ms of the fast path, and only 2 Mbit/s of one with 200 ms."""
    trial = partial(trials.trial, paths("5 Mbit/s", "200 ms"), buffer_bytes=64 * KIB, duration_ns=12 * SECOND)
    observations = side_by_side({pm: trial(pm=pm) for pm in ("guard", "fullmesh")})
    assert "O-X standby" in observations["guard"].metadata["path_manager_changes"]
    assert "F-X standby" not in observations["guard"].metadata["path_manager_changes"]
    assert mbps(observations["guard"]) > 2 * mbps(observations["fullmesh"])
    assert observations["guard"].metadata["path_manager_problems"] == ""


def test_paths_that_both_help_stay_active(side_by_side, paths):
    trial = partial(trials.trial, paths("10 Mbit/s", "40 ms"), buffer_bytes=4096 * KIB)
    observations = side_by_side({pm: trial(pm=pm, duration_ns=8 * SECOND) for pm in ("guard", "fullmesh")})
    assert observations["guard"].metadata["path_manager_changes"] == ""
    assert mbps(observations["guard"]) > 0.9 * mbps(observations["fullmesh"]) > 20


def test_what_guard_lets_through_arrives_whole(side_by_side, paths):
    """The receiver compares every byte; the harmful path goes on standby meanwhile."""
    trial = partial(trials.trial, paths("5 Mbit/s", "200 ms"), buffer_bytes=64 * KIB)
    (observation,) = side_by_side({"guard": trial(pm="guard", transfer_bytes=8_000_001)}).values()
    assert observation.in_order_bytes == 8_000_001
    assert "O-X standby" in observation.metadata["path_manager_changes"]


def test_the_buffers_hold_up_a_connection_as_long_as_they_do_in_the_simulator(side_by_side, paths):
    """Share of the time; guard is to promise itself ten times the throughput, so that it only watches."""
    watching = partial(
        trials.trial, pm="guard", pm_options={"promised_gain": 1000}, duration_ns=6 * SECOND, seed=2
    )
    alike, unlike = paths("20 Mbit/s", "20 ms"), paths("5 Mbit/s", "200 ms")
    asked = {
        "plenty": watching(alike, buffer_bytes=4096 * KIB),
        "small": watching(unlike, buffer_bytes=128 * KIB),
        "smaller": watching(unlike, buffer_bytes=64 * KIB),
    }
    simulator = create("simulated")
    shares = {}
    for name, seen in side_by_side(asked).items():
        share = number(simulator.run(asked[name]), "window_limited_ns") / (6 * SECOND)
        shares[name] = number(seen, "window_limited_ns") / number(seen, "sampled_ns")
        assert shares[name] == pytest.approx(share, abs=0.25), name
        assert number(seen, "sampled_ns") > 5 * SECOND
    # At the beginning the window of a large receive buffer is small as well.
    assert shares["plenty"] < 0.4 and min(shares["small"], shares["smaller"]) > 0.7
