"""Grouping of subflows into connections: by the tokens of MP_JOIN and the keys of MP_CAPABLE."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec

from mptune.capture.connections._flows import ACK, SYN, Flow
from mptune.capture.pcap import Capable, Join

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Hash of keys by version (RFC 8684 section 3.2, RFC 6824 section 3.2).
_HASHES = {0: "sha1", 1: "sha256"}


class Member(msgspec.Struct, kw_only=True):
    """A flow of a connection.

    Attributes
    ----------
    opener : 0 if the client opened it, 1 if the server did.
    initial : it began the connection.
    """

    flow: Flow
    opener: int
    initial: bool

    def way(self, way: int) -> int:
        """The flow's way that is this way of the connection: 0 is from the client."""
        return way ^ self.opener


class Group(msgspec.Struct, kw_only=True):
    """The flows of a connection.

    Attributes
    ----------
    version : of MPTCP; None without a handshake.
    keys : the client's and the server's, None where the capture has none.
    checksums : both ends require them.
    members : in order of their first packets.
    token : of a connection of which only joins are known, and the end whose token it is.
    """

    version: int | None = None
    keys: tuple[int | None, int | None] = (None, None)
    checksums: bool = False
    members: list[Member] = []
    token: int | None = None

    def token_of(self, end: int) -> int | None:
        """Token of an end: the first 32 bits of its key's hash."""
        key = self.keys[end]
        if key is None:
            return self.token if end == 1 else None
        return int.from_bytes(self._hashed(key)[:4], "big")

    def first_data(self, end: int) -> int | None:
        """Initial data sequence number of an end: the last 64 bits of its key's hash (section 3.1)."""
        key = self.keys[end]
        return None if key is None else int.from_bytes(self._hashed(key)[-8:], "big")

    def _hashed(self, key: int) -> bytes:
        return hashlib.new(
            _HASHES.get(1 if self.version is None else self.version, "sha256"), key.to_bytes(8, "big")
        ).digest()


def groups(flows: Sequence[Flow]) -> list[Group]:
    """Connections, in order of their first packets; a flow without a handshake is one of its own."""
    found: list[Group] = []
    by_token: dict[int, tuple[Group, int]] = {}
    waiting: list[tuple[Flow, int]] = []
    for flow in flows:
        token = _token(flow)
        if token is not None:
            waiting.append((flow, token))
            continue
        group = _begun(flow)
        found.append(group)
        for end in range(2):
            own = group.token_of(end)
            if own is not None:
                by_token[own] = (group, end)
    for flow, token in waiting:
        if token not in by_token:
            by_token[token] = (Group(token=token, members=[]), 1)
            found.append(by_token[token][0])
        # Who joins names the token of the other end.
        group, end = by_token[token]
        group.members.append(Member(flow=flow, opener=1 - end, initial=False))
    for group in found:
        group.members.sort(key=lambda member: member.flow.near.first_ns)
    return sorted(found, key=lambda group: group.members[0].flow.near.first_ns)


def _token(flow: Flow) -> int | None:
    """The token that a flow's SYN has in MP_JOIN."""
    for sent in (*flow.options(Join), *flow.far.options, *flow.near.options):
        if isinstance(sent.option, Join) and sent.option.token is not None and sent.way == 0:
            return sent.option.token
    return None


def _begun(flow: Flow) -> Group:
    """A connection of one flow so far, with what its handshake tells."""
    keys: list[int | None] = [None, None]
    versions: dict[bool, int] = {}
    checksums = [False, False]
    for sent in (*flow.near.options, *flow.far.options):
        if not isinstance(sent.option, Capable):
            continue
        answer = sent.flags & (SYN | ACK) == SYN | ACK
        versions[answer] = sent.option.version
        checksums[sent.way] |= sent.option.checksums
        if sent.option.key is not None:
            keys[sent.way] = sent.option.key
        if sent.option.peer_key is not None:
            keys[1 - sent.way] = sent.option.peer_key
    version = versions.get(True, versions.get(False))
    initial = Member(flow=flow, opener=0, initial=True)
    return Group(version=version, keys=(keys[0], keys[1]), checksums=any(checksums), members=[initial])
