"""Connections of packets made by hand: subflows by token, data sent again, what vanished, who refused."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptune.capture.connections import examine
from mptune.errors import InputError
from tests.plugins.packets import (
    ACK,
    CLIENT,
    FIN,
    RST,
    SERVER,
    SYN,
    capable,
    dss,
    exchange,
    mptcp,
    pcap,
    written,
)

KEYS = (0x1111_2222_3333_4444, 0x5555_6666_7777_8888)
SECOND = ("10.0.0.2", "10.0.1.2")


def hashed(key: int) -> bytes:
    return hashlib.sha256(key.to_bytes(8, "big")).digest()


TOKENS = tuple(hashed(key)[:4] for key in KEYS)
#: Numbers of the first bytes of data.
FIRST = tuple(int.from_bytes(hashed(key)[-8:], "big") + 1 for key in KEYS)


def handshake(at_ms=0.0, *, rtt_ms=20.0, answer=None, third=None, near=0):
    """The first handshake, as seen at the client (near=0) or the server."""
    there, back = (0.0, rtt_ms) if near == 0 else (rtt_ms / 2, rtt_ms / 2 + 0.01)
    last = rtt_ms + 0.01 if near == 0 else rtt_ms * 1.5
    return [
        (at_ms + there, 0, {"flags": SYN, "seq": 99, "options": capable()}),
        (
            at_ms + back,
            1,
            {
                "flags": SYN | ACK,
                "seq": 999,
                "ack": 100,
                "options": capable(KEYS[1]) if answer is None else answer,
            },
        ),
        (at_ms + last, 0, {"seq": 100, "ack": 1000, "options": capable(*KEYS) if third is None else third}),
    ]


def join(at_ms, *, backup=0, token=TOKENS[1], rtt_ms=40.0):
    """A handshake of MP_JOIN at the client."""
    return [
        (at_ms, 0, {"flags": SYN, "seq": 199, "options": mptcp(0x10 | backup, 2, token, bytes(4))}),
        (
            at_ms + rtt_ms,
            1,
            {"flags": SYN | ACK, "seq": 1999, "ack": 200, "options": mptcp(0x10, 0, bytes(12))},
        ),
        (at_ms + rtt_ms + 0.01, 0, {"seq": 200, "ack": 2000, "options": mptcp(0x10, 0, bytes(20))}),
    ]


def data(at_ms, position, length, *, seq=100, place=0, way=0):
    """Data of the client: its position in the data, and on the subflow whose first number is `seq`."""
    mapping = dss((FIRST[way] + position) % 2**64, place + 1, length)
    return at_ms, way, {"seq": seq + place, "ack": 1000, "payload": length, "options": mapping}


def ack(at_ms, place, position, *, first=100, seq=1000):
    """An acknowledgement of the server."""
    return at_ms, 1, {"seq": seq, "ack": first + place, "options": dss(ack=FIRST[0] + position)}


def one(tmp_path, *flows):
    """The only connection of these flows."""
    (connection,) = examine(
        written(tmp_path / "some.pcap", [sent for flow in flows for sent in flow])
    ).analysis.connections
    return connection


def kinds(connection):
    return [finding.kind for finding in connection.findings]


def test_tokens_follow_from_keys_and_joins_from_tokens(tmp_path):
    first = [
        *handshake(),
        data(21, 0, 100),
        ack(41, 100, 100),
        data(42, 300, 50, place=100),
        ack(62, 150, 350),
    ]
    second = [*join(22, backup=1), data(63, 100, 200, seq=200), ack(103, 200, 300, first=200, seq=2000)]
    found = one(tmp_path, exchange(first), exchange(second, SECOND))
    assert (found.client_token, found.server_token) == (TOKENS[0].hex(), TOKENS[1].hex())
    assert found.version == 1 and found.whole and not found.fallback and not found.findings
    initial, joined = found.subflows
    assert (initial.state, initial.backup, initial.opened_by) == ("initial", False, "client")
    assert (joined.state, joined.backup, joined.address_id) == ("joined", True, 2)
    assert (joined.client, joined.server) == ("10.0.0.2:40000", "10.0.1.2:80")
    assert initial.handshake_ms == pytest.approx(20.01) and joined.handshake_ms == pytest.approx(40.01)
    assert initial.taken_near == joined.taken_near == "client"
    assert initial.there.rtt_ms == pytest.approx(20) and joined.there.rtt_ms == pytest.approx(40)
    assert (initial.there.bytes, joined.there.bytes) == (150, 200)
    assert (found.there.sent_bytes, found.there.acked_bytes) == (350, 350)
    assert found.there.in_order_bytes is None, "taken at the sender"
    assert found.there.goodput_mbps == pytest.approx(350 * 8e3 / 41e6)


def test_retransmissions_are_told_from_reinjections(tmp_path):
    first = [*handshake(), data(21, 0, 100), data(22, 100, 100, place=100), data(60, 100, 100, place=100)]
    second = [*join(22), data(70, 100, 100, seq=200), data(71, 200, 100, seq=200, place=100)]
    found = one(tmp_path, exchange(first), exchange(second, SECOND))
    initial, joined = (subflow.there for subflow in found.subflows)
    assert (initial.retransmitted, initial.retransmitted_bytes, initial.reinjected) == (1, 100, 0)
    assert (joined.retransmitted, joined.reinjected, joined.reinjected_bytes) == (0, 1, 100)
    assert found.there.sent_bytes == 300 and found.there.reinjected_bytes == 100


def test_a_mapping_holds_for_the_segments_that_a_card_cuts(tmp_path):
    mapping = dss(FIRST[0], 1, 300)
    whole = [
        (
            21 + part,
            0,
            {"seq": 100 + 100 * part, "payload": 100, "ack": 1000, "options": mapping if part == 0 else b""},
        )
        for part in range(3)
    ]
    found = one(tmp_path, exchange([*handshake(near=1), *whole]))
    assert found.there.in_order_bytes == found.there.sent_bytes == 300
    assert found.subflows[0].there.unmapped == 0


def test_numbers_go_around_within_a_connection(tmp_path):
    shift = -FIRST[0] % 2**32 - 150  # the lower half of the data's numbers goes around after 150 bytes
    packets = [
        (
            21 + part,
            0,
            {
                "seq": 100 + 100 * part,
                "payload": 100,
                "ack": 1000,
                "options": dss(FIRST[0] + 100 * part, 100 * part + 1, 100),
            },
        )
        for part in range(4)
    ]
    found = one(tmp_path, exchange([*handshake(), *packets]))
    assert shift and found.there.sent_bytes == 400


@pytest.mark.parametrize("near", [0, 1])
def test_an_answer_without_mp_capable(tmp_path, near):
    plain = [(50 + part, 0, {"seq": 100 + 10 * part, "ack": 1000, "payload": 10}) for part in range(3)]
    found = one(tmp_path, exchange([*handshake(answer=b"", third=b"", near=near), *plain]))
    assert kinds(found) == ["capable vanished"] and found.fallback
    sentence = found.findings[0].sentence
    assert "a capture at the server would tell" in sentence if near == 0 else "it offers no MPTCP" in sentence
    assert found.there.sent_bytes == 30


def test_syns_that_only_pass_without_mp_capable(tmp_path):
    syns = [
        (at, 0, {"flags": SYN, "seq": 99, "options": options})
        for at, options in ((0, capable()), (1000, capable()), (3000, b""))
    ]
    answer = (3020, 1, {"flags": SYN | ACK, "seq": 999, "ack": 100})
    found = one(tmp_path, exchange([*syns, answer]))
    assert kinds(found) == ["capable dropped"] and "2 SYNs with MP_CAPABLE" in found.findings[0].sentence


def test_dss_that_vanishes_on_the_way(tmp_path):
    plain = [(50 + part, 0, {"seq": 100 + 10 * part, "ack": 1000, "payload": 10}) for part in range(4)]
    back = [
        (51 + part, 1, {"seq": 1000, "ack": 110 + 10 * part, "options": dss(ack=FIRST[0])})
        for part in range(4)
    ]
    at_server = one(tmp_path, exchange([*handshake(near=1), *plain, *back]))
    assert (
        kinds(at_server) == ["DSS vanished"]
        and "a capture at the client would tell" in at_server.findings[0].sentence
    )
    at_client = one(tmp_path, exchange([*handshake(near=0), *plain, *back]))
    assert "went on as plain TCP" in at_client.findings[0].sentence


def test_two_captures_tell_where_it_vanishes(tmp_path):
    back = [ack(30 + part, 10 * part, 0) for part in range(4)]
    there = [data(29 + part, 10 * part, 10, place=10 * part) for part in range(4)]
    stripped = [(at + 10, way, {**fields, "options": b""}) for at, way, fields in there]
    client = written(tmp_path / "client.pcap", exchange([*handshake(near=0), *there, *back]))
    server = written(tmp_path / "server.pcap", exchange([*handshake(near=1), *stripped[:-1], *back]))
    (connection,) = examine(client, server).analysis.connections
    assert kinds(connection) == ["DSS vanished"]
    assert connection.findings[0].sentence == "DSS is removed on the way from the client to the server."
    there_ = connection.subflows[0].there
    assert there_.packets == 4 and there_.lost == 0, "the last one may be under way"
    assert there_.delay_ms is None and there_.jitter_ms == 0
    (swapped,) = examine(server, client).analysis.connections
    assert swapped.subflows[0].there == there_ and kinds(swapped) == kinds(connection)


def test_joins_refused_unanswered_and_without_the_option(tmp_path):
    syn, answer, _ = join(30)
    reset = (70, 1, {"flags": RST | ACK, "ack": 200, "options": mptcp(0x80, 3)})
    bare = (answer[0], 1, {**answer[2], "options": b""})
    flows = [
        exchange(handshake()),
        exchange([syn, reset], ("10.0.0.2", SERVER)),
        exchange([syn, (1030, *syn[1:])], ("10.0.0.3", SERVER)),
        exchange([syn, bare], ("10.0.0.4", SERVER)),
    ]
    found = one(tmp_path, *flows)
    assert [subflow.state for subflow in found.subflows] == ["initial", "refused", "unanswered", "not MPTCP"]
    assert sorted(kinds(found)) == ["join refused", "join unanswered", "join vanished"]
    sentences = " ".join(finding.sentence for finding in found.findings)
    assert "refused: reset by the server, administratively prohibited (reason 3)" in sentences
    assert "2 SYNs, never answered" in sentences


def test_an_announced_address_that_nobody_uses(tmp_path):
    address = mptcp(0x30, 4, bytes([10, 0, 9, 9]), bytes(8))
    echo = mptcp(0x31, 4, bytes([10, 0, 9, 9]))
    used = mptcp(0x30, 5, bytes([10, 0, 1, 2]), bytes(8))
    first = [
        *handshake(),
        (30, 1, {"seq": 1000, "ack": 100, "options": address}),
        (31, 0, {"seq": 100, "ack": 1000, "options": echo}),
        (32, 1, {"seq": 1000, "ack": 100, "options": used}),
    ]
    found = one(tmp_path, exchange(first), exchange(join(40), SECOND))
    assert kinds(found) == ["address unused"]
    expected = "The server announced 10.0.9.9 (ADD_ADDR), to which nobody joined; its echo is there."
    assert found.findings[0].sentence == expected


def test_a_server_that_joins_names_the_clients_token(tmp_path):
    back = exchange(join(40, token=TOKENS[0]), (SERVER, "10.0.0.7"), (5000, 6000))
    found = one(tmp_path, exchange(handshake()), back)
    joined = found.subflows[1]
    assert joined.opened_by == "server" and joined.client == "10.0.0.7:6000"


@pytest.mark.parametrize(
    ("last", "close", "kind"),
    [
        ({"flags": RST, "options": mptcp(0x70, 0, bytes(8))}, "MP_FASTCLOSE by the client", ["fastclose"]),
        (
            {"flags": RST, "options": mptcp(0x80, 6)},
            "RST by the client, middlebox interference (reason 6)",
            ["subflow reset"],
        ),
        ({"flags": FIN | ACK}, "FIN by the client alone", []),
        ({"options": mptcp(0x60, 0, bytes(8))}, "open", ["MP_FAIL"]),
        ({"payload": 10, "options": dss(FIRST[0], 1, 0)}, "open", ["infinite mapping"]),
    ],
)
def test_ends(tmp_path, last, close, kind):
    packets = [(60, 0, {"seq": 100, "ack": 1000, **last})]
    found = one(tmp_path, exchange([*handshake(), ack(50, 0, 0), ack(51, 0, 0), *packets]))
    assert found.subflows[0].close == close
    for expected in kind:
        assert expected in kinds(found)


def test_data_fin_and_priority(tmp_path):
    last = [
        (50, 0, {"seq": 100, "ack": 1000, "options": mptcp(0x51)}),
        (51, 0, {"seq": 100, "ack": 1000, "options": dss(FIRST[0], 0, 1, fin=True)}),
    ]
    found = one(tmp_path, exchange([*handshake(), *last]))
    assert found.subflows[0].backup is True and found.there.closed and not found.back.closed


def test_a_capture_that_begins_later_says_what_it_does_not_know(tmp_path):
    flow = [data(21 + part, 1000 * part, 1000, place=1000 * part) for part in range(3)]
    late = exchange([*flow, ack(60, 3000, 3000)])
    file = written(tmp_path / "some.pcap", [*late, *exchange(join(70, token=b"abcd"), SECOND)])
    analysis = examine(file).analysis
    first, second = analysis.connections
    assert not first.whole and first.server_token is None and first.there.sent_bytes == 3000
    assert first.there.in_order_bytes is None and first.subflows[0].opened_by is None
    assert second.server_token == b"abcd".hex()
    assert any("no MP_CAPABLE with keys" in sentence for sentence in analysis.limits)


def test_ports_that_are_used_again_are_another_connection(tmp_path):
    later = [(at + 5000, way, {**fields, "seq": fields["seq"] + 5000}) for at, way, fields in handshake()]
    later = [
        (at, way, {**fields, "ack": fields["ack"] + 5000} if "ack" in fields else fields)
        for at, way, fields in later
    ]
    sent = exchange([*handshake(), *later])
    analysis = examine(written(tmp_path / "some.pcap", sent)).analysis
    assert len(analysis.connections) == 2


def test_plain_tcp_is_counted(tmp_path):
    plain = exchange([(0, 0, {"flags": SYN}), (1, 1, {"flags": SYN | ACK})], (CLIENT, SERVER), (1, 2))
    file = tmp_path / "some.pcap"
    file.write_bytes(pcap([*plain, *exchange(handshake())]))
    analysis = examine(file).analysis
    assert analysis.plain == 1 and len(analysis.connections) == 1


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=30), st.integers(0, 200))
def test_whatever_bytes_are_wrong_it_is_read_or_refused(tmp_path_factory, changes, cut):
    first = [*handshake(), data(21, 0, 100), data(22, 100, 50, place=100), ack(62, 150, 150)]
    frames = [*exchange(first), *exchange([*join(22), data(63, 150, 200, seq=200)], SECOND)]
    content = bytearray(pcap(sorted(frames)))
    for place, value in changes:
        content[24 + place % (len(content) - 24)] = value
    file = tmp_path_factory.mktemp("wrong") / "some.pcap"
    file.write_bytes(content[: len(content) - cut])
    try:
        found = examine(file)
    except InputError:
        return
    for number, connection in enumerate(found.analysis.connections):
        assert connection.subflows and connection.there.sent_bytes >= 0
        assert all(step.mbps >= 0 for step in found.course(number))
