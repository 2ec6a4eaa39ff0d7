"""Netlink attributes against the layout of include/uapi/linux/netlink.h, packed by hand."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptune.errors import TrialError
from tests.plugins.netlink import attributes, inside

NESTED, NET_BYTEORDER = 0x8000, 0x4000


def attribute(kind, payload):
    padded = payload + bytes(-len(payload) % 4)
    return struct.pack("=HH", 4 + len(payload), kind) + padded


@given(
    st.dictionaries(st.integers(0, 0x3FFF), st.binary(max_size=40)),
    st.sampled_from([0, NESTED, NET_BYTEORDER]),
)
def test_attributes_are_read_by_their_types_whatever_flags_they_carry(values, flag):
    packed = b"".join(attribute(kind | flag, value) for kind, value in values.items())
    assert attributes(bytes(16) + packed, 16) == values
    # A message that was cut short ends with what is whole or empty, never with an error.
    assert set(attributes(packed[:-5])) <= set(values)


def test_a_namespace_that_is_gone_is_named():
    with pytest.raises(TrialError, match="/proc/1/ns/nothing: cannot be entered"):
        inside("/proc/1/ns/nothing", lambda: None)
