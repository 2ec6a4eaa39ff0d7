"""Parameters of paths: by path, by policy, and in the settings of a trial."""

import msgspec
import pytest

from mptune.trial import PathParameters, Trial
from mptune.trial.records import settings_of
from tests.plugins.trials import with_workload

CAPS = PathParameters(caps={"B-X": 2_000_000})


def test_a_policy_is_told_what_it_goes_by_alone():
    assert CAPS.of("cubic+cap") == CAPS
    assert CAPS.of("cubic+hold") == CAPS.of("cubic") == PathParameters()
    assert not list(CAPS.misfits(["cubic", "reno+cap"]))
    ((name, expected),) = CAPS.misfits(["cubic", "reno+hold"])
    assert name == "caps" and expected.endswith("such as cubic+cap, found cubic, reno+hold")


def test_every_path_has_what_is_told_of_it():
    whole = PathParameters(order=("B-X", "A-X"), weights={"A-X": 3}, caps={"C-X": 8})
    assert dict(whole.by_path()) == {
        "B-X": {"rank": 0},
        "A-X": {"rank": 1, "weight": 3},
        "C-X": {"cap_bps": 8},
    }


@pytest.mark.parametrize(
    ("parameters", "found"), [(PathParameters(), None), (CAPS, {"caps": {"B-X": 2000000}})]
)
def test_settings_have_them_only_where_they_are_told(network, parameters, found):
    fields = {"topology": network, "pm": "fullmesh", "cc": "cubic+cap", "buffer_bytes": 2**20, "seed": 1}
    trial = Trial(**with_workload({**fields, "duration_ns": 10**9}), path_parameters=parameters)
    assert settings_of(trial, ()).get("path_parameters") == found
    assert msgspec.convert(found or {}, PathParameters) == parameters
