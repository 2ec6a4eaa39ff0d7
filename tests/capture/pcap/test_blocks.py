"""Containers and link layers: the same packets whatever is around them, and files that are cut, or none."""

import struct

import numpy as np
import pytest

from mptune.capture.pcap import Ends, read
from mptune.errors import InputError
from tests.plugins import packets as made
from tests.plugins.packets import ACK, CLIENT, SERVER, SYN, Sent

TIMES = (1_700_000_000_000_001_000, 1_700_000_000_250_003_000, 1_700_000_001_000_000_000)
SYN_OPTIONS = made.capable() + bytes([3, 3, 7])
PACKETS = [
    made.tcp(seq=5, flags=SYN, options=SYN_OPTIONS),
    made.tcp(seq=9, ack=6, flags=SYN | ACK, options=made.capable(7), way=(SERVER, CLIENT), ports=(80, 40000)),
    made.tcp(seq=6, ack=10, payload=1000, options=made.dss(2**63, 1, 1000, ack=2**40)),
]
FRAMES = [Sent(*pair) for pair in zip(TIMES, PACKETS, strict=True)]


def check(read_back, times=TIMES):
    """The three packets are there."""
    table = read_back.table
    assert table["at"].tolist() == list(times)
    assert table["length"].tolist() == [0, 0, 1000]
    assert table["way"].tolist() == [0, 1, 0] and table["seq"].tolist() == [5, 9, 6]
    assert table["scale"].tolist() == [7, -1, -1]
    assert table["data"].tolist() == [0, 0, 2**63] and table["data_ack"].tolist() == [0, 0, 2**40]
    assert table["subflow"].tolist() == [0, 0, 1] and table["mapped"].tolist() == [0, 0, 1000]
    assert read_back.flows == [Ends((CLIENT, SERVER), (40000, 80))]
    assert [option.key for options in read_back.options.values() for option in options] == [None, 7]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nano", [True, False])
def test_pcap_of_either_order_and_resolution(tmp_path, order, nano):
    file = tmp_path / "some.pcap"
    file.write_bytes(made.pcap(FRAMES, order=order, nano=nano))
    check(read(file))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("resolution", [6, 9])
def test_pcapng_of_either_order_and_resolution(tmp_path, order, resolution):
    file = tmp_path / "some.pcapng"
    file.write_bytes(made.pcapng(FRAMES, order=order, resolution=resolution))
    check(read(file))


def test_sections_of_other_orders_and_unknown_blocks(tmp_path):
    file = tmp_path / "some.pcapng"
    unknown = made.block(">", 0xBAD, bytes(20))
    file.write_bytes(made.pcapng(FRAMES[:1]) + made.pcapng(FRAMES[1:], order=">") + unknown)
    check(read(file))


ETHERNET = bytes(12)
IPV4, IPV6 = b"\x08\0", b"\x86\xdd"
LINKS = {
    "ethernet": (1, ETHERNET + IPV4),
    "vlan": (1, ETHERNET + b"\x81\0\0\5" + IPV4),
    "two tags": (1, ETHERNET + b"\x88\xa8\0\5\x81\0\0\6" + IPV4),
    "cooked": (113, bytes(14) + IPV4),
    "cooked with tag": (113, bytes(14) + b"\x81\0\0\5" + IPV4),
    "cooked v2": (276, IPV4 + bytes(18)),
    "loopback": (0, struct.pack("<I", 2)),
    "raw": (101, b""),
    "ipv4": (228, b""),
}


@pytest.mark.parametrize(("link", "head"), LINKS.values(), ids=LINKS)
def test_every_link_type(tmp_path, link, head):
    file = tmp_path / "some.pcap"
    file.write_bytes(made.pcap([Sent(at, head + packet) for at, packet in FRAMES], link=link))
    check(read(file))


def test_ipv6_with_extension_headers(tmp_path):
    ends = ("2001:db8::1", "2001:db8::2")
    plain = made.tcp(way=ends, seq=1, payload=10, options=made.dss(3, 1, 10))
    # Hop-by-hop options of 8 bytes, then destination options of 16 bytes, before TCP.
    inside = bytes([60, 0, *bytes(6), 6, 1, *bytes(14)]) + plain[40:]
    extended = plain[:4] + struct.pack(">HB", len(inside), 0) + plain[7:40] + inside
    file = tmp_path / "some.pcap"
    file.write_bytes(
        made.pcap([Sent(1, ETHERNET + IPV6 + plain), Sent(2, ETHERNET + IPV6 + extended)], link=1)
    )
    found = read(file)
    assert found.table["length"].tolist() == [10, 10] and found.table["data"].tolist() == [3, 3]
    assert found.flows == [Ends(ends, (40000, 80))]


def test_snapped_packets_keep_their_lengths_and_cut_options_are_told(tmp_path):
    whole, cut = tmp_path / "whole.pcap", tmp_path / "cut.pcap"
    whole.write_bytes(made.pcap(FRAMES, snap=68))
    check(read(whole))
    cut.write_bytes(made.pcap(FRAMES, snap=50))
    found = read(cut)
    assert found.table["length"].tolist() == [0, 0, 1000]
    assert (found.table["options"][2] & (1 << 15)) and not found.table["dss"].any()


def test_what_is_not_tcp_is_counted(tmp_path):
    udp = bytearray(PACKETS[0])
    udp[9] = 17
    fragment = bytearray(PACKETS[0])
    fragment[6:8] = b"\x20\0"
    arp = ETHERNET + b"\x08\x06" + bytes(28)
    frames = [ETHERNET + IPV4 + bytes(packet) for packet in (*PACKETS, udp, fragment)] + [arp]
    file = tmp_path / "some.pcap"
    file.write_bytes(made.pcap([Sent(1, frame) for frame in frames], link=1))
    found = read(file)
    assert len(found.table) == 3 and tuple(found.passed) == (0, 2, 1, 0)


@pytest.mark.parametrize("make", [made.pcap, made.pcapng])
def test_a_file_that_is_cut_is_read_as_far_as_it_is_whole(tmp_path, make):
    content, file = make(FRAMES), tmp_path / "some.pcap"
    for cut in range(1, len(PACKETS[2]) + 8, 97):
        file.write_bytes(content[:-cut])
        found = read(file)
        assert found.table["seq"].tolist() == [5, 9]
        (warning,) = found.warnings
        assert "some.pcap: read as far as it is whole: it is cut after" in warning


@pytest.mark.parametrize("make", [made.pcap, made.pcapng])
def test_a_damaged_length_ends_the_file(tmp_path, make):
    content, file = make(FRAMES[:2]), tmp_path / "some.pcap"
    file.write_bytes(content + struct.pack("<IIII", 6, 0x7FFFFFFE, 0x7FFFFFFE, 1) * 4)
    found = read(file)
    assert found.table["seq"].tolist() == [5, 9] and "bytes of a" in found.warnings[0]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "pcap or pcapng"),
        (b"text, no capture at all, " * 10, "pcap or pcapng"),
        (made.pcap([]), "packets of TCP, found none in 0 frames"),
        (made.pcapng([]), "packets of TCP, found none in 0 frames"),
        (made.pcap([Sent(1, bytes(60))], link=147), "packets of TCP, found none in 1 frames"),
        (made.pcap(FRAMES)[:24] + b"\xff" * 64, "a whole capture"),
        (made.pcapng(FRAMES)[:8] + b"\xff" * 64, "a whole capture"),
    ],
)
def test_what_is_no_capture_is_refused(tmp_path, content, expected):
    file = tmp_path / "some.pcap"
    file.write_bytes(content)
    with pytest.raises(InputError, match=rf"some\.pcap: expected.*{expected}"):
        read(file)


def test_pieces_of_a_large_file_meet_in_the_middle_of_packets(tmp_path, monkeypatch):
    frames = [Sent(number, made.tcp(seq=number, payload=number % 50)) for number in range(400)]
    file = tmp_path / "some.pcapng"
    file.write_bytes(made.pcapng(frames))
    whole = read(file).table
    monkeypatch.setattr("mptune.capture.pcap._blocks._READ", 1009)
    parts = read(file).table
    assert len(whole) == 400 and np.array_equal(whole, parts)
