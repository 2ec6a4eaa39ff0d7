"""Options of MPTCP in the formats of RFC 8684 section 3, byte by byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptune.capture.pcap import (
    DATA_FIN,
    DSS,
    MALFORMED,
    Announced,
    Capable,
    Closed,
    Failed,
    Join,
    Priority,
    Removed,
    Reset,
    decode,
    read,
)
from tests.plugins import packets as made
from tests.plugins.packets import Sent

KEY, PEER = "0102030405060708", "1112131415161718"
HMAC = "a1a2a3a4a5a6a7a8"

#: An option in hexadecimal, from its kind on, and what it means.
FORMATS = {
    "capable SYN": ("1e 04 01 01", Capable(version=1, checksums=False)),
    "capable SYN, checksums": ("1e 04 01 81", Capable(version=1, checksums=True)),
    "capable SYN of version 0": (
        f"1e 0c 00 01 {KEY}",
        Capable(version=0, checksums=False, key=int(KEY, 16)),
    ),
    "capable SYN/ACK": (f"1e 0c 01 01 {KEY}", Capable(version=1, checksums=False, key=int(KEY, 16))),
    "capable ACK": (
        f"1e 14 01 01 {KEY} {PEER}",
        Capable(version=1, checksums=False, key=int(KEY, 16), peer_key=int(PEER, 16)),
    ),
    "capable with data": (
        f"1e 16 01 01 {KEY} {PEER} 05 a0",
        Capable(version=1, checksums=False, key=int(KEY, 16), peer_key=int(PEER, 16), length=1440),
    ),
    "capable with data and checksum": (
        f"1e 18 01 81 {KEY} {PEER} 05 a0 be ef",
        Capable(version=1, checksums=True, key=int(KEY, 16), peer_key=int(PEER, 16), length=1440),
    ),
    "join SYN": (
        "1e 0c 11 02 deadbeef 01020304",
        Join(backup=True, address_id=2, token=0xDEADBEEF, nonce=0x01020304),
    ),
    "join SYN/ACK": (f"1e 10 10 03 {HMAC} 01020304", Join(address_id=3, hmac=HMAC, nonce=0x01020304)),
    "join ACK": (f"1e 18 10 00 {HMAC}{HMAC}01020304", Join(hmac=f"{HMAC}{HMAC}01020304")),
    "address": (
        f"1e 10 30 05 c0a80001 {HMAC}",
        Announced(address_id=5, address="192.168.0.1", hmac=HMAC),
    ),
    "address and port": (
        f"1e 12 30 05 c0a80001 1f90 {HMAC}",
        Announced(address_id=5, address="192.168.0.1", port=8080, hmac=HMAC),
    ),
    "echo": ("1e 08 31 05 c0a80001", Announced(address_id=5, address="192.168.0.1", echo=True)),
    "address of IPv6": (
        f"1e 1c 30 06 20010db8000000000000000000000001 {HMAC}",
        Announced(address_id=6, address="2001:db8::1", hmac=HMAC),
    ),
    "echo of IPv6 and port": (
        "1e 16 31 06 20010db8000000000000000000000001 01bb",
        Announced(address_id=6, address="2001:db8::1", port=443, echo=True),
    ),
    "addresses removed": ("1e 06 40 01 02 09", Removed(address_ids=(1, 2, 9))),
    "priority": ("1e 03 51", Priority(backup=True)),
    "priority of an address": ("1e 04 50 07", Priority(backup=False, address_id=7)),
    "failed": (f"1e 0c 60 00 {KEY}", Failed(data=int(KEY, 16))),
    "fast close": (f"1e 0c 70 00 {KEY}", Closed(key=int(KEY, 16))),
    "reset": ("1e 04 81 06", Reset(reason=6, transient=True)),
}


@pytest.mark.parametrize(("text", "meant"), FORMATS.values(), ids=FORMATS)
def test_every_format(tmp_path, text, meant):
    option = bytes.fromhex(text.replace(" ", ""))
    assert decode(option) == meant
    file = tmp_path / "some.pcap"
    file.write_bytes(made.pcap([Sent(1, made.tcp(options=b"\1\1" + option))]))
    assert read(file).options == {0: [meant]}


@pytest.mark.parametrize("text", [text for text, _ in FORMATS.values()], ids=FORMATS)
def test_another_length_is_no_option(text):
    option = bytes.fromhex(text.replace(" ", ""))
    longer = bytes([option[0], len(option) + 1]) + option[2:] + b"\0"
    assert option[2] >> 4 in (4, 5) or decode(longer) is None
    assert decode(option[:-1]) is None


def test_reasons_of_resets():
    assert Reset(reason=6).words == "middlebox interference (reason 6)"
    assert Reset(reason=200).words == "unknown (reason 200)"


#: DSS by its flags: 4 and 8 bytes of either number, with and without checksum (section 3.3, figure 9).
MAPPINGS = {
    "ack of 4": ("1e 08 20 01 89abcdef", (0, 0x89ABCDEF, 0, 0)),
    "ack of 8": ("1e 0c 20 03 0123456789abcdef", (0, 0x0123456789ABCDEF, 0, 0)),
    "map of 4": ("1e 0e 20 04 01020304 00000005 0064", (0x01020304, 0, 5, 100)),
    "map of 8, checksum": (
        "1e 14 20 0c 0102030405060708 00000005 0064 beef",
        (0x0102030405060708, 0, 5, 100),
    ),
    "both of 8": (
        "1e 1a 20 0f 0123456789abcdef 0102030405060708 00000005 0064",
        (0x0102030405060708, 0x0123456789ABCDEF, 5, 100),
    ),
    "both of 4, DATA_FIN": ("1e 12 20 15 89abcdef 01020304 00000000 0001", (0x01020304, 0x89ABCDEF, 0, 1)),
}


@pytest.mark.parametrize(("text", "meant"), MAPPINGS.values(), ids=MAPPINGS)
def test_dss_of_every_width(tmp_path, text, meant):
    option = bytes.fromhex(text.replace(" ", ""))
    file = tmp_path / "some.pcap"
    file.write_bytes(
        made.pcap([Sent(1, made.tcp(options=option)), Sent(2, made.tcp(options=option[:-1] + b"\0\0"))])
    )
    row = read(file).table[0]
    assert tuple(row[["data", "data_ack", "subflow", "mapped"]].tolist()) == meant
    assert row["options"] == 1 << DSS and bool(row["dss"] & DATA_FIN) == ("FIN" in text or option[3] & 16 > 0)


def test_a_dss_that_contradicts_its_flags_is_malformed(tmp_path):
    file = tmp_path / "some.pcap"
    file.write_bytes(made.pcap([Sent(1, made.tcp(options=bytes.fromhex("1e082004 01020304")))]))
    row = read(file).table[0]
    assert row["options"] & MALFORMED and row["dss"] == 0


def test_duplicates_are_read_from_sack(tmp_path):
    def sack(*edges: int) -> bytes:
        return bytes([5, 2 + 4 * len(edges)]) + b"".join(edge.to_bytes(4, "big") for edge in edges)

    blocks = [sack(100, 200), sack(600, 700), sack(600, 700, 550, 900), sack(600, 700, 800, 900)]
    file = tmp_path / "some.pcap"
    file.write_bytes(
        made.pcap([Sent(number, made.tcp(ack=500, options=block)) for number, block in enumerate(blocks)])
    )
    assert read(file).table["repeated"].tolist() == [1, 0, 1, 0]


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=5), st.integers(20, 120))
def test_any_options_are_read_or_left(tmp_path_factory, options, snap):
    file = tmp_path_factory.mktemp("any") / "some.pcap"
    frames = [Sent(number, made.tcp(options=some[:40])) for number, some in enumerate([b"", *options])]
    file.write_bytes(made.pcap(frames[:1]) + made.pcap(frames[1:], snap=snap)[24:])
    assert 1 <= len(read(file).table) <= len(frames)
