"""Workloads as settings of stored trials: their names, their order in a trial's key, and what is left out."""

import json
from typing import get_args

import msgspec
import pytest

from mptune.trial import Bulk, ScriptedAction, Transfer, Trial, Workload
from mptune.trial.records import settings_of
from mptune.trial.workloads import BaseWorkload

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


class Later(BaseWorkload, frozen=True, kw_only=True, tag="later"):
    """A kind that later versions may have."""

    interval_ns: int


def some(field: msgspec.structs.FieldInfo) -> tuple[object, object]:
    """Two values of a field."""
    return (False, True) if field.type is bool else (5, 7)


@pytest.mark.parametrize("kind", [*get_args(Workload), Later])
def test_whatever_makes_another_workload_makes_another_key(network, kind):
    trial = Trial(
        topology=network, pm="fullmesh", cc="reno", buffer_bytes=2**20, seed=1, workload=Bulk(duration_ns=1)
    )
    fields = msgspec.structs.fields(kind)
    usual = {field.name: some(field)[0] for field in fields}
    workloads = [kind(**usual)] + [kind(**{**usual, field.name: some(field)[1]}) for field in fields]
    keys = {
        json.dumps(settings_of(msgspec.structs.replace(trial, workload=workload), ()))
        for workload in workloads
    }
    assert len(keys) == len(workloads)
