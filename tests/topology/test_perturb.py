"""Networks that are off: every number within the share, none the same, nothing else changed."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptune.topology import load, perturbed, shipped


def numbers(topology):
    for site in (topology.sender, topology.receiver):
        for interface in site.interfaces:
            yield from (
                interface.up_bps,
                interface.down_bps,
                interface.delay_ns,
                interface.queue_up_bytes,
                interface.queue_down_bytes,
            )
    for path in topology.paths:
        yield from (path.core.forward_ns, path.core.reverse_ns)


@given(st.integers(0, 2**32), st.floats(0.01, 1.0))
def test_every_number_is_within_the_share(seed, share):
    stated = load("UNIS-HiN")
    other = perturbed(stated, share, seed)
    for before, after in zip(numbers(stated), numbers(other), strict=True):
        assert before / (1 + share) - 1 <= after <= before * (1 + share) + 1
    assert other == perturbed(stated, share, seed) != perturbed(stated, share, seed + 1)
    assert [path.label for path in other.paths] == [path.label for path in stated.paths]
    assert all(path.local in other.sender.interfaces for path in other.paths)


@pytest.mark.parametrize("name", shipped())
def test_every_scenario_can_be_off(name):
    stated = load(name)
    other = perturbed(stated, 0.2, 1)
    assert (
        msgspec.structs.replace(other, sender=stated.sender, receiver=stated.receiver, paths=stated.paths)
        == stated
    )
    assert other.network() != stated.network()
