"""Messages against the layout of include/uapi/linux/mptcp_pm.h, packed by hand."""

import ipaddress
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptune.linux import mptcp_messages as messages
from mptune.linux.mptcp_messages import Endpoint, Pair
from mptune.linux.netlink import attributes, encoded

NESTED = 0x8000
# enum mptcp_event_attr
TOKEN, FAMILY, LOC_ID, REM_ID, SADDR4, SADDR6, DADDR4, DADDR6, SPORT, DPORT = range(1, 11)
BACKUP, ERROR, RESET_REASON, SERVER_SIDE = 11, 12, 16, 18

tokens = st.integers(0, 2**32 - 1)
ports = st.integers(1, 2**16 - 1)
ipv4 = st.ip_addresses(v=4)
#: Without those that stand for IPv4 addresses.
ipv6 = st.ip_addresses(v=6, network="fd00::/8")


def attribute(kind, payload):
    padded = payload + bytes(-len(payload) % 4)
    return struct.pack("=HH", 4 + len(payload), kind) + padded


def u8(value):
    return struct.pack("=B", value)


def u16(value):
    return struct.pack("=H", value)


def be16(value):
    return struct.pack("!H", value)


def u32(value):
    return struct.pack("=I", value)


def message(command, body):
    """Netlink header (type 28, flags, sequence number and port 0) and generic header around a body."""
    return struct.pack("=IHHIIBBH", 20 + len(body), 28, 0, 0, 0, command, 1, 0) + body


def address(endpoint_address, *, port=None, further=b""):
    parsed = ipaddress.ip_address(endpoint_address)
    family, kind = (socket.AF_INET, 3) if parsed.version == 4 else (socket.AF_INET6, 4)
    text = attribute(1, u16(family)) + attribute(kind, parsed.packed)
    return text + (b"" if port is None else attribute(5, u16(port))) + further


@given(tokens, st.one_of(st.tuples(ipv4, ipv4), st.tuples(ipv6, ipv6)), ports, st.integers(0, 255))
def test_a_subflow_is_asked_for_as_the_kernel_reads_it(token, ends, port, address_id):
    local, remote = map(str, ends)
    command = messages.command(
        messages.SUBFLOW_CREATE,
        token=token,
        local=Endpoint(local),
        remote=Endpoint(remote, port),
        address_id=address_id,
        flags=messages.BACKUP,
    )
    further = attribute(2, u8(address_id)) + attribute(6, u32(4))
    assert encoded(command) == (
        struct.pack("=BBH", 10, 1, 0)
        + attribute(4, u32(token))
        + attribute(NESTED | 1, address(local, further=further))
        # The port of a command is in host order (mptcp_pm_parse_pm_addr_attr), that of an event is not.
        + attribute(NESTED | 6, address(remote, port=port))
    )


@given(st.dictionaries(st.integers(0, 0x3FFF), st.binary(max_size=40)), st.sampled_from([0, NESTED, 0x4000]))
def test_attributes_are_found_by_their_types_whatever_flags_they_carry(values, flag):
    packed = b"".join(attribute(kind | flag, value) for kind, value in values.items())
    assert attributes(bytes(16) + packed, 16) == values
    # A message that was cut short ends with what is whole or empty, never with an error.
    assert set(attributes(packed[:-5])) <= set(values)


def test_an_address_is_removed_by_its_number():
    command = messages.command(messages.REMOVE, token=7, removed_id=3)
    assert encoded(command) == struct.pack("=BBH", 9, 1, 0) + attribute(4, u32(7)) + attribute(5, u8(3))


@given(tokens, st.one_of(st.tuples(ipv4, ipv4), st.tuples(ipv6, ipv6)), ports, ports, st.booleans())
def test_a_subflow_event_comes_out_as_it_went_in(token, ends, sport, dport, backup):
    local, remote = ends
    kinds = (SADDR4, DADDR4) if local.version == 4 else (SADDR6, DADDR6)
    body = (
        attribute(TOKEN, u32(token))
        + attribute(FAMILY, u16(socket.AF_INET if local.version == 4 else socket.AF_INET6))
        + attribute(kinds[0], local.packed)
        + attribute(kinds[1], remote.packed)
        + attribute(SPORT, be16(sport))
        + attribute(DPORT, be16(dport))
        + attribute(LOC_ID, u8(2))
        + attribute(REM_ID, u8(0))
        + attribute(BACKUP, u8(backup))
    )
    assert messages.parse(message(10, body)) == messages.SubflowEvent(
        kind="sub_established",
        token=token,
        pair=Pair(Endpoint(str(local), sport), Endpoint(str(remote), dport)),
        local_id=2,
        remote_id=0,
        backup=backup,
    )
    closed = messages.parse(message(11, body + attribute(ERROR, u8(104)) + attribute(RESET_REASON, u32(3))))
    assert isinstance(closed, messages.SubflowEvent)
    assert (closed.kind, closed.error, closed.reset_reason) == ("sub_closed", 104, 3)


@pytest.mark.parametrize(
    ("number", "body", "expected"),
    [
        (3, attribute(TOKEN, u32(9)), messages.ConnectionClosed(token=9)),
        (
            7,
            attribute(TOKEN, u32(9)) + attribute(REM_ID, u8(4)),
            messages.AddressRemoved(token=9, address_id=4),
        ),
        (
            6,
            attribute(TOKEN, u32(9))
            + attribute(REM_ID, u8(4))
            + attribute(FAMILY, u16(socket.AF_INET))
            + attribute(DADDR4, bytes([10, 65, 1, 1])),
            messages.AddressAnnounced(token=9, address_id=4, address=Endpoint("10.65.1.1")),
        ),
        (
            15,
            attribute(FAMILY, u16(socket.AF_INET6))
            + attribute(SPORT, be16(5001))
            + attribute(SADDR6, bytes(16)),
            messages.ListenerEvent(kind="listener_created", address=Endpoint("::", 5001)),
        ),
        (99, attribute(TOKEN, u32(9)), None),
    ],
    ids=["closed", "removed", "announced", "listener", "not known"],
)
def test_every_kind_of_event_has_its_record(number, body, expected):
    assert messages.parse(message(number, body)) == expected


def test_the_side_that_opened_a_connection_is_told():
    ends = attribute(SADDR4, bytes([10, 0, 0, 1])) + attribute(DADDR4, bytes([10, 0, 0, 2]))
    body = attribute(TOKEN, u32(1)) + ends + attribute(SPORT, be16(1)) + attribute(DPORT, be16(2))
    for flag, expected in ((b"", False), (attribute(SERVER_SIDE, u8(1)), True)):
        event = messages.parse(message(1, body + flag))
        assert isinstance(event, messages.ConnectionEvent)
        assert (event.kind, event.server_side) == ("created", expected)


def test_an_ipv4_address_inside_an_ipv6_socket_is_itself():
    ends = attribute(SADDR6, ipaddress.ip_address("::ffff:10.0.0.1").packed)
    ends += attribute(DADDR6, ipaddress.ip_address("::ffff:10.0.0.2").packed)
    body = attribute(TOKEN, u32(1)) + ends + attribute(SPORT, be16(1)) + attribute(DPORT, be16(2))
    event = messages.parse(message(2, body))
    assert isinstance(event, messages.ConnectionEvent)
    assert event.pair == Pair(Endpoint("10.0.0.1", 1), Endpoint("10.0.0.2", 2))
