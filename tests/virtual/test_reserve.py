"""Metered paths in reserve on a guest's kernel: who carries data, beside the same trial in the simulator."""

from functools import partial

import pytest

from mptune.testbeds import create
from mptune.topology import Topology, load
from mptune.trial import Observation
from tests.plugins import trials, two_paths
from tests.plugins.trials import SECOND
from tests.plugins.two_paths import Uplink

pytestmark = pytest.mark.needs("guest")


@pytest.fixture
def topology(tmp_path) -> Topology:
    """A free path, F-X, and a metered one, M-X."""
    text = two_paths.text(Uplink("Free", "10 Mbit/s", "20 ms"), Uplink("Metered", "20 Mbit/s", "40 ms"))
    path = tmp_path / "topology.toml"
    path.write_text(text.replace('abbr = "M"\n', 'abbr = "M"\nmetered = true\n'))
    return load(path)


def carried(observation: Observation) -> dict[str, float]:
    """Share of the data, by path."""
    bytes_ = {subflow.path: subflow.bytes for subflow in observation.subflows}
    return {label: count / sum(bytes_.values()) for label, count in bytes_.items()}


def test_a_metered_path_helps_only_after_the_other_was_full_for_as_long_as_stated(side_by_side, topology):
    trial = partial(trials.trial, topology, pm="reserve", duration_ns=8 * SECOND, buffer_bytes=2**20)
    asked = {
        "soon": trial(pm_options={"after": 2}),
        "later": trial(pm_options={"after": 60}),
        "never so fast": trial(pm_options={"after": 1, "above": 50}),
    }
    simulator = create("simulated")
    for name, observation in side_by_side(asked).items():
        shares = carried(observation)
        assert shares["M-X"] == pytest.approx(carried(simulator.run(asked[name]))["M-X"], abs=0.1), name
        assert (shares["M-X"] > 0.3) == (name == "soon"), shares
        assert observation.metadata["path_manager_problems"] == ""
