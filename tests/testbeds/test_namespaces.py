"""What the namespaces testbed refuses before it runs anything."""

import pytest

from mptune.errors import InputError
from mptune.linux import doctor
from mptune.linux.sandbox import leftovers
from mptune.testbeds import Trial, create

pytestmark = pytest.mark.needs("linux")


@pytest.fixture
def testbed(monkeypatch):
    """On a machine that has everything that is required."""
    monkeypatch.setattr(leftovers, "end_strays", lambda: None)
    monkeypatch.setattr(doctor, "obstacle", lambda: None)
    return create("namespaces")


def test_without_ipv6_it_is_refused_with_the_reason_and_tried_once(testbed, network, monkeypatch):
    tried = []

    def obstacle():
        tried.append(1)
        return "Address family not supported by protocol (Linux 6.18): needs IPv6"

    monkeypatch.setattr(doctor, "obstacle_of_ipv6", obstacle)
    common = {
        "topology": network,
        "pm": "fullmesh",
        "cc": "reno",
        "buffer_bytes": 2**20,
        "duration_ns": 10**9,
    }
    testbed.check(Trial(**common, seed=1))
    assert not tried
    for seed in (1, 2):
        with pytest.raises(InputError) as error:
            testbed.check(Trial(**common, seed=seed, family="ipv6"))
        assert str(error.value).startswith(
            "--family: expected ipv4, found ipv6: Address family not supported"
        )
    assert len(tried) == 1
