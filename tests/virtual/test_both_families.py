"""Connections over both address families on a guest's kernel."""

from functools import partial

import pytest

from mptune.testbeds.simulated import SimulatedTestbed
from mptune.topology import load
from mptune.trial import ScriptedAction
from tests.plugins import trials, two_paths
from tests.plugins.trials import SECOND, SILENT

pytestmark = pytest.mark.needs("guest")

EVERY = {"W-X", "N-X", "W-X/6", "N-X/6"}
MS = 1_000_000


@pytest.fixture
def trial(tmp_path):
    """A trial over both families, with changes."""
    file = tmp_path / "deep.toml"
    file.write_text(two_paths.DEEP)
    return partial(trials.trial, load(file), family="both")


def by_path(observation):
    return {subflow.path: subflow for subflow in observation.subflows}


def of_line(observation):
    """Bytes of the narrow line, of both families."""
    return sum(subflow.bytes for subflow in observation.subflows if subflow.path.startswith("N-X"))


@pytest.mark.parametrize("initial", ["W-X", "W-X/6"])
def test_subflows_of_both_families_carry_data_whichever_came_first(testbed, trial, initial):
    observation = testbed.run(trial(initial_path=initial, duration_ns=3 * SECOND))
    assert observation.failed is None and observation.metadata["fallback"] is False
    assert observation.metadata["path_manager_problems"] == ""
    assert {path for path, one in by_path(observation).items() if one.bytes} == EVERY
    assert observation.subflows[0].path == initial
    ends = {path: observation.metadata[f"addresses {path}"] for path in EVERY}
    assert ends == {
        "W-X": "10.64.0.1 to 10.65.0.1",
        "N-X": "10.64.1.1 to 10.65.0.1",
        "W-X/6": "fd64::1 to fd65::1",
        "N-X/6": "fd64:0:1::1 to fd65::1",
    }
    assert observation.metadata["emulator_unroutable"] == 0
    # The two paths of a pair share its 40 or 20 Mbit/s: there is no more than over one family.
    assert 40e6 < observation.throughput_bps < 60e6 * 1428 / 1480


@pytest.mark.parametrize(("active", "standby"), [("W-X", "W-X/6"), ("W-X/6", "W-X")])
def test_standby_subflows_of_the_other_family_are_silent(testbed, trial, active, standby):
    options = {"active": (active,), "standby_order": (standby,)}
    subflows = by_path(testbed.run(trial(pm="pcdc", pm_options=options)))
    assert set(subflows) == EVERY
    assert subflows[standby].bytes < SILENT * subflows[active].bytes


@pytest.mark.parametrize("path", ["N-X/6", "N-X"])
def test_a_path_that_is_back_carries_what_it_does_in_the_simulator(testbed, trial, path):
    """Each family in turn is the one of the narrow line, and the other's subflows are standby."""
    wide = "W-X" if path == "N-X/6" else "W-X/6"
    script = (
        ScriptedAction(at_ns=300 * MS, path=path, action="remove"),
        ScriptedAction(at_ns=600 * MS, path=path, action="add"),
    )
    standby = tuple(sorted(EVERY - {wide, path}))
    options = {"active": (wide, path), "standby_order": standby}
    of_both = trial(
        transfer_bytes=24_000_000, script=script, pm="pcdc", pm_options=options, initial_path="W-X"
    )
    kernel, simulated = testbed.run(of_both), SimulatedTestbed().run(of_both)
    assert kernel.failed is None and simulated.failed is None
    there, back = (subflow.bytes for subflow in kernel.subflows if subflow.path == path)
    assert back > 10 * there
    # What the narrow line carries; how much of it goes by standby subflows while this one is away is chance.
    assert of_line(kernel) == pytest.approx(of_line(simulated), rel=0.15)
    assert there + back > 0.8 * of_line(kernel)
