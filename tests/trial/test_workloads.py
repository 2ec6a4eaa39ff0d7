"""Workloads as settings of stored trials: their names, their order in a trial's key, and what is left out."""

import json

import pytest

from mptune.trial import Bulk, ScriptedAction, Transfer, Trial
from mptune.trial.records import settings_of

SECOND = 10**9
USUAL = {"accounting": "linux", "opportunistic": True, "scheduler": "kernel", "tso": True}


@pytest.mark.parametrize(
    ("workload", "first", "last"),
    [
        (Bulk(duration_ns=SECOND), {"duration_ns": SECOND}, {}),
        (Bulk(duration_ns=SECOND, ends_early=True), {"duration_ns": SECOND}, {"ends_early": True}),
        (Transfer(bytes=4096), {"transfer_bytes": 4096}, {}),
        (
            Transfer(bytes=4096, deadline_ns=SECOND),
            {"transfer_bytes": 4096, "deadline_ns": SECOND},
            {},
        ),
    ],
)
def test_a_workload_has_the_settings_and_their_order_of_version_0_2(network, workload, first, last):
    """A trial's key is the digest of this text: another order would be another trial."""
    trial = Trial(
        topology=network,
        pm="fullmesh",
        cc="reno",
        buffer_bytes=2**20,
        seed=1,
        workload=workload,
        family="ipv6",
        script=(ScriptedAction(at_ns=5, path="A-X", action="standby"),),
    )
    settings = settings_of(trial, {"topology", *USUAL})
    expected = {
        "pm": "fullmesh",
        "cc": "reno",
        "buffer_bytes": 2**20,
        "seed": 1,
        **first,
        "family": "ipv6",
        "script": [{"at_ns": 5, "path": "A-X", "action": "standby"}],
        **last,
    }
    assert json.dumps(settings) == json.dumps(expected)
