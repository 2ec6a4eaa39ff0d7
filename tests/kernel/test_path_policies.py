"""A path policy on the running kernel, over the emulated network: that the programs and their map work there.

What all of them gain, and what they cost, is held on a guest's kernel (tests/virtual/test_path_policies.py).
"""

import msgspec
import pytest

from mptune.trial import PathParameters
from tests.plugins.unlike_paths import WHOLE, by_path, network, trial

pytestmark = pytest.mark.needs("bpf")


@pytest.mark.measures("how fast slow start ends on two paths at a time")
def test_a_capped_path_carries_its_cap_and_another_is_left_alone(side_by_side, tmp_path) -> None:
    plain = trial(network(tmp_path, (20, 20), (20, 30)), "cubic+cap", 500_000)
    capped = msgspec.structs.replace(plain, path_parameters=PathParameters(caps={"B-X": 3_000_000}))
    rates = by_path(side_by_side({"capped": capped})["capped"])
    assert rates["B-X"] == pytest.approx(3, rel=0.05) and rates["A-X"] > 0.9 * WHOLE
