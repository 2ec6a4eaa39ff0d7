"""Connections over both address families on this machine's own MPTCP, between two namespaces.

What they carry is compared on a guest's kernel (tests/virtual/test_both_families.py).
"""

from functools import partial

import pytest

from mptune.topology import load
from mptune.trial import ScriptedAction
from tests.plugins import trials, two_paths

pytestmark = pytest.mark.usefixtures("testbed", "ipv6")

MS = 1_000_000


@pytest.fixture
def trial(tmp_path):
    """A trial over both families, with changes."""
    file = tmp_path / "deep.toml"
    file.write_text(two_paths.DEEP)
    return partial(trials.trial, load(file), family="both")


def by_path(observation):
    return {subflow.path: subflow for subflow in observation.subflows}


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


def test_a_first_subflow_of_ipv4_in_a_socket_of_ipv6_becomes_standby(measured):
    options = {"active": ("W-X/6",), "standby_order": ("W-X",)}
    observation = measured(pm="pcdc", initial_path="W-X", pm_options=options, transfer_bytes=6_000_000)
    assert observation.failed is None and observation.metadata["path_manager_problems"] == ""
    assert "W-X standby" in observation.metadata["path_manager_changes"]
    subflows = by_path(observation)
    assert subflows["W-X/6"].bytes > 3_000_000 > subflows["W-X"].bytes


def test_a_path_removed_and_announced_again_is_joined_in_its_family(measured):
    script = (
        ScriptedAction(at_ns=1000 * MS, path="N-X/6", action="remove"),
        ScriptedAction(at_ns=1300 * MS, path="N-X/6", action="add"),
    )
    # 3.2 s at least; where others have the processors, a subflow may carry nothing for 300 ms.
    observation = measured(transfer_bytes=24_000_000, script=script)
    assert observation.failed is None and observation.in_order_bytes == 24_000_000
    assert observation.metadata["path_manager_problems"] == ""
    again = [subflow.bytes for subflow in observation.subflows if subflow.path == "N-X/6"]
    assert len(again) == 2 and again[0] and again[1] > 100_000


def test_plain_tcp_takes_the_family_of_its_path(measured):
    observation = measured(protocol="tcp", pm="default", initial_path="N-X/6", transfer_bytes=500_000)
    assert observation.failed is None
    assert [subflow.path for subflow in observation.subflows] == ["N-X/6"]


def test_more_than_eight_subflows_are_opened(observed):
    """The limit of 8 is that of the kernel's own path manager."""
    observation = observed(trials.trial(load("UNIS-HiN"), family="both", transfer_bytes=4_000_000))
    assert observation.failed is None
    assert len({subflow.path for subflow in observation.subflows}) == 12
