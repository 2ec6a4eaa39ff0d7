"""Fate of MPTCP on a path, from what both ends saw of connections on it.

A connection is MPTCP only if data went both ways and neither end then reports that it became plain TCP; a
handshake alone proves nothing. A plain connection between the same addresses shows whether only MPTCP is
blocked, or everything.
"""

from __future__ import annotations

from typing import Literal

import msgspec

#: Fate of MPTCP on a path:
#:
#: - full: as the first path of a connection and, where that was tried, as a joined one, with data
#: - joins refused: connections may begin here, but no subflow joins them
#: - stripped on SYN: the options are removed from the handshake; plain TCP remains
#: - stripped later: the handshake is MPTCP, the data is not; plain TCP remains
#: - mirrored: a middlebox sends the sender's own options back; plain TCP remains
#: - blocked: MPTCP does not get through, plain TCP does
#: - unreachable: nothing gets through
#: - unsupported: an end has no MPTCP
Kind = Literal[
    "full",
    "joins refused",
    "stripped on SYN",
    "stripped later",
    "mirrored",
    "blocked",
    "unreachable",
    "unsupported",
]


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """A connection of a path, as far as it got.

    Attributes
    ----------
    connected : the handshake was completed.
    data : data went both ways.
    at_handshake, near, far : it was MPTCP for the sender after the handshake, and for the sender and for the
        receiver after data.
    syn_ack : what the SYN-ACK had: "mptcp", "mirrored", "plain"; None if nobody could look.
    failed : why it got no further.
    """

    connected: bool
    data: bool = False
    at_handshake: bool = False
    near: bool = False
    far: bool = False
    syn_ack: str | None = None
    failed: str | None = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The kind, and the evidence for it in a sentence."""

    kind: Kind
    because: str


def verdict(mptcp: Tried, plain: Tried, joined: bool | None, unsupported: str | None) -> Verdict:
    """Fate of MPTCP on a path.

    Parameters
    ----------
    mptcp : the connection that asked for MPTCP, on this path first.
    plain : the one that did not.
    joined : a subflow that joined another path's connection here carried data both ways; None if not tried.
    unsupported : why an end cannot do MPTCP; None if both can.
    """
    if not mptcp.data and not plain.data:
        ends = [f"{name}: {_end(tried)}" for name, tried in (("plain TCP", plain), ("MPTCP", mptcp))]
        return Verdict(kind="unreachable", because="; ".join(ends))
    if unsupported is not None:
        return Verdict(kind="unsupported", because=unsupported)
    if not mptcp.data:
        return Verdict(kind="blocked", because=f"plain TCP passes; MPTCP: {_end(mptcp)}")
    if mptcp.near and mptcp.far:
        return _with_joins(joined)
    if mptcp.syn_ack == "mirrored" or (mptcp.at_handshake and mptcp.near and not mptcp.far):
        return Verdict(kind="mirrored", because="the sender got its own option back; the receiver saw none")
    if mptcp.at_handshake or mptcp.syn_ack == "mptcp":
        return Verdict(kind="stripped later", because="an MPTCP handshake, but plain TCP once data flowed")
    return Verdict(kind="stripped on SYN", because="plain TCP from the handshake on, although both ends can")


def _end(tried: Tried) -> str:
    """End of a connection; one whose packets are too large for the path ends with its first data."""
    return f"{tried.failed} with the first data" if tried.connected else str(tried.failed)


def _with_joins(joined: bool | None) -> Verdict:
    if joined is None:
        return Verdict(kind="full", because="data both ways as a first path; not tried as a joined one")
    if joined:
        return Verdict(kind="full", because="data both ways as a first path and as a joined one")
    return Verdict(kind="joins refused", because="data both ways as a first path; as a joined one, none")
