"""Connections over both address families on this machine's own MPTCP, between two namespaces."""

from functools import partial

import pytest

from mptune.testbeds.simulated import SimulatedTestbed
from mptune.topology import load
from mptune.trial import ScriptedAction
from tests.plugins import trials, two_paths
from tests.plugins.trials import SECOND, SILENT
from tests.plugins.two_paths import Uplink

pytestmark = pytest.mark.usefixtures("testbed", "ipv6")

EVERY = {"W-X", "N-X", "W-X/6", "N-X/6"}
MS = 1_000_000


@pytest.fixture
def trial(tmp_path):
    """A trial over both families, with changes.

    The queues hold all that a buffer of 1 MiB admits: nothing is lost.
    """
    file = tmp_path / "deep.toml"
    uplinks = Uplink("Wide", "40 Mbit/s", "20 ms", "2 MB"), Uplink("Narrow", "20 Mbit/s", "40 ms", "2 MB")
    file.write_text(two_paths.text(*uplinks))
    return partial(trials.trial, load(file), family="both")


def by_path(observation):
    return {subflow.path: subflow for subflow in observation.subflows}


def of_line(observation):
    """Bytes of the narrow line, of both families."""
    return sum(subflow.bytes for subflow in observation.subflows if subflow.path.startswith("N-X"))


@pytest.mark.measures("what is missing of the rate is the start's")
@pytest.mark.parametrize("initial", ["W-X", "W-X/6"])
def test_subflows_of_both_families_carry_data_whichever_came_first(measured, initial):
    observation = measured(initial_path=initial, duration_ns=3 * SECOND)
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


def test_a_cut_concerns_one_family_and_the_other_takes_over(measured):
    script = (ScriptedAction(at_ns=500 * MS, path="W-X", action="down"),)
    observation = measured(
        transfer_bytes=6_000_000,
        script=script,
        pm="pcdc",
        pm_options={"active": ("W-X",), "standby_order": ("W-X/6",)},
    )
    assert observation.failed is None and observation.in_order_bytes == 6_000_000
    subflows = by_path(observation)
    assert subflows["W-X/6"].bytes > 1_000_000


@pytest.mark.measures("while another subflow waits for a retransmission the kernel may send on a standby one")
@pytest.mark.parametrize(("active", "standby"), [("W-X", "W-X/6"), ("W-X/6", "W-X")])
def test_standby_subflows_of_the_other_family_are_silent(measured, active, standby):
    options = {"active": (active,), "standby_order": (standby,)}
    subflows = by_path(measured(pm="pcdc", pm_options=options))
    assert set(subflows) == EVERY
    assert subflows[standby].bytes < SILENT * subflows[active].bytes


def test_a_first_subflow_of_ipv4_in_a_socket_of_ipv6_becomes_standby(measured):
    options = {"active": ("W-X/6",), "standby_order": ("W-X",)}
    observation = measured(pm="pcdc", initial_path="W-X", pm_options=options, transfer_bytes=6_000_000)
    assert observation.failed is None and observation.metadata["path_manager_problems"] == ""
    assert "W-X standby" in observation.metadata["path_manager_changes"]
    subflows = by_path(observation)
    assert subflows["W-X/6"].bytes > 3_000_000 > subflows["W-X"].bytes


def test_a_path_removed_and_announced_again_is_joined_in_its_family(measured):
    script = (
        ScriptedAction(at_ns=300 * MS, path="N-X/6", action="remove"),
        ScriptedAction(at_ns=600 * MS, path="N-X/6", action="add"),
    )
    # 3.2 s at least.
    observation = measured(transfer_bytes=24_000_000, script=script)
    assert observation.failed is None and observation.in_order_bytes == 24_000_000
    assert observation.metadata["path_manager_problems"] == ""
    again = [subflow.bytes for subflow in observation.subflows if subflow.path == "N-X/6"]
    assert len(again) == 2 and again[0] and again[1] > 100_000


@pytest.mark.measures("the path manager may be late")
@pytest.mark.parametrize("path", ["N-X/6", "N-X"])
def test_a_path_that_is_back_carries_what_it_does_in_the_simulator(trial, observed, path):
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
    kernel, simulated = observed(of_both), SimulatedTestbed().run(of_both)
    assert kernel.failed is None and simulated.failed is None
    there, back = (subflow.bytes for subflow in kernel.subflows if subflow.path == path)
    assert back > 10 * there
    # What the narrow line carries; how much of it goes by standby subflows while this one is away is chance.
    assert of_line(kernel) == pytest.approx(of_line(simulated), rel=0.15)
    assert there + back > 0.8 * of_line(kernel)


def test_plain_tcp_takes_the_family_of_its_path(measured):
    observation = measured(protocol="tcp", pm="default", initial_path="N-X/6", transfer_bytes=500_000)
    assert observation.failed is None
    assert [subflow.path for subflow in observation.subflows] == ["N-X/6"]


def test_more_than_eight_subflows_are_opened(observed):
    """The limit of 8 is that of the kernel's own path manager."""
    observation = observed(trials.trial(load("UNIS-HiN"), family="both", transfer_bytes=4_000_000))
    assert observation.failed is None
    assert len({subflow.path for subflow in observation.subflows}) == 12
