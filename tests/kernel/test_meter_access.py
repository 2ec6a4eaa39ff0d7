"""Access to the meter's receiver: where it listens, whom it refuses, and what it leaves open."""

import errno
import resource
import secrets
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from tests.plugins.meter_world import (
    MBIT,
    RECEIVER,
    RECEIVERS,
    SECOND,
    SOURCE,
    JoinedSites,
    job,
    last_line,
)
from tests.plugins.netlink import inside
from tests.plugins.waiting import PATIENCE_S, until


def test_the_receiver_listens_at_its_address_alone_until_it_has_its_connection(joined):
    with joined.meter() as meter:
        meter.listen(job(duration_ns=25 * SECOND), RECEIVER, ())
        (end,) = joined.listening("remote")
        assert end.startswith(f"{RECEIVER}:")
        meter.connect(SOURCE[0], RECEIVER)
        meter.expect("connected", PATIENCE_S)
        until(lambda: not joined.listening("remote"), "the end of the listening")


def test_where_subflows_join_nobody_else_gets_in(joined):
    with joined.meter() as meter:
        meter.listen(job(duration_ns=25 * SECOND), RECEIVER, RECEIVERS)
        ends = joined.listening("remote")
        assert {end.partition(":")[0] for end in ends} == set(RECEIVERS)
        (port,) = {int(end.partition(":")[2]) for end in ends}
        assert refuses(joined, RECEIVERS[1], port)  # before the connection is there, and after
        meter.connect(SOURCE[0], RECEIVER)
        meter.expect("connected", PATIENCE_S)
        assert all(refuses(joined, address, port) for address in RECEIVERS)
        meter.stop()
        assert meter.expect("result", PATIENCE_S)["failed"] is None
        assert joined.listening("remote") == set()


@pytest.fixture
def descriptors() -> Iterator[None]:
    """As many as this process may have."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def strangers(joined: JoinedSites, port: int, payloads: list[bytes]) -> list[socket.socket]:
    """Connections to the receiver, each of which sends something; it may have been reset already."""

    def connect() -> list[socket.socket]:
        made = [socket.socket() for _ in payloads]
        for stranger, payload in zip(made, payloads, strict=True):
            stranger.settimeout(PATIENCE_S)
            stranger.bind((SOURCE[0], 0))
            with suppress(ConnectionResetError, BrokenPipeError):
                stranger.connect((RECEIVER, port))
                stranger.sendall(payload)
        return made

    return inside(joined.sites.local, connect)


OLD_TOKEN = bytes.fromhex(secrets.token_hex(16))
STRANGERS = {
    "a thousand": [b""] * 1000,
    "silent": [b""],
    "slow": [b"slow"],
    "old token": [OLD_TOKEN],
    "old token with payload": [OLD_TOKEN + bytes(100_000)],
}


@pytest.mark.parametrize("payloads", STRANGERS.values(), ids=STRANGERS)
def test_strangers_neither_end_nor_delay_the_trial(joined, descriptors, payloads):
    patience_ns = 5 * SECOND  # with a connection that sends nothing (candidates.rs)
    size = 4_000_003
    joined.shape(40 * MBIT)
    with joined.meter() as meter, ExitStack() as stack:
        meter.listen(job(transfer_bytes=size), RECEIVER, RECEIVERS)
        (port,) = {int(end.rpartition(":")[2]) for end in joined.listening("remote")}
        others = [stack.enter_context(stranger) for stranger in strangers(joined, port, payloads)]
        meter.connect(SOURCE[0], RECEIVER)
        meter.expect("connected", PATIENCE_S)
        others += [stack.enter_context(stranger) for stranger in strangers(joined, port, [b"late"])]
        result = last_line(meter)
        assert result["failed"] is None and result["strangers"] == len(others)
        assert result["in_order_bytes"] == sum(result["bins"]) == size
        assert result["completion_ns"] < patience_ns
        assert all(is_reset(other) for other in others)


def is_reset(stranger: socket.socket) -> bool:
    """Nothing more can come on a connection."""
    try:
        return stranger.recv(1) == b""
    except OSError as error:
        return error.errno in (errno.ECONNRESET, errno.ENOTCONN)


def test_the_token_is_no_payload(joined):
    joined.shape(40 * MBIT)
    sent = []
    result = joined.measure(
        lambda message, _: sent.append(message), transfer_bytes=300_000, thresholds_bytes=[300_000, 300_001]
    )
    assert result["in_order_bytes"] == 300_000 <= result["subflows"][0]["bytes"]
    assert [message["bytes"] for message in sent if message["event"] == "sent"] in ([300_000], [])
    plain = joined.measure(transfer_bytes=300_000, mptcp=False)
    assert plain["subflows"][0]["bytes"] == sum(plain["subflows"][0]["bins"]) == 300_000
    assert joined.measure(transfer_bytes=300_000, token=None)["failed"] is None


def refuses(joined: JoinedSites, address: str, port: int) -> bool:
    """A stranger's connection is reset before anything is sent."""

    def connect() -> bool:
        try:
            source = SOURCE[RECEIVERS.index(address)], 0
            with socket.create_connection((address, port), PATIENCE_S, source) as stranger:
                return stranger.recv(1) == b""
        except (ConnectionResetError, ConnectionRefusedError):
            return True

    return inside(joined.sites.local, connect)


def test_nothing_stays_open(joined):
    """What is queued at the end is thrown away: no orphan goes on sending."""
    joined.shape(5 * MBIT, 5 * MBIT)
    joined.second_subflow()
    for changes in ({"mptcp": True}, {"mptcp": False}):
        result = joined.measure(duration_ns=300_000_000, buffer_bytes=4 << 20, **changes)
        assert result["failed"] is None
        assert joined.sockets("local") == [] == joined.sockets("remote")
