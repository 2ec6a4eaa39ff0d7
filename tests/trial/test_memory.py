"""Memory of hosts for TCP: what they have, and the fixed buffers that fit."""

import pytest

from mptune.trial import memory
from mptune.units import MIB


def test_a_host_has_what_its_kernel_takes_of_its_memory():
    """Documentation/networking/ip-sysctl.rst: calculated at boot; `tcp_init_mem` says how, 6.25 % of all."""
    assert [pages * 4096 // MIB for pages in memory.pages_of(8 << 30)] == [384, 512, 768]
    assert [pages * 4096 // MIB for pages in memory.pages_of(2 << 30)] == [96, 128, 192]


@pytest.mark.parametrize(
    ("sysctls", "bytes_"),
    [({"net.ipv4.tcp_mem": "24576 32768 49152"}, 128 * MIB), ({}, None), ({"net.ipv4.tcp_mem": ""}, None)],
)
def test_the_limit_is_the_second_of_the_three(sysctls, bytes_):
    assert memory.pressure_of(sysctls) == bytes_


def test_a_sender_is_charged_four_times_and_a_receiver_twice():
    assert memory.largest_fixed(128 * MIB) == 32 * MIB
    assert memory.largest_fixed() == 128 * MIB
    largest = memory.largest_fixed(120 * MIB, both_ends=True)
    assert largest == 20 * MIB
    assert memory.fits(largest, largest, 120 * MIB) and not memory.fits(largest + 1, largest, 120 * MIB)
    assert memory.fits(10 * MIB, 40 * MIB, 120 * MIB)
