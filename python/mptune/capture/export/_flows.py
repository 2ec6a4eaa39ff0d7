"""Values that headers need and a recording lacks: addresses, ports, keys, first numbers.

All of it is derived from the trial's seed, so that the same trial gives the same file. Tokens, initial data
sequence numbers and HMACs follow from the keys as RFC 8684 sections 3.1 and 3.2 have them.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from typing import TYPE_CHECKING, Any, NamedTuple

from mptune.capture._model import SYN

if TYPE_CHECKING:
    from mptune.topology import Path
    from mptune.trial import Trial

#: Ports: the first of who opens subflows, their number, and that of the other end.
_FIRST_PORT, _PORTS, _KNOWN_PORT = 49152, 2**14, 5001
#: Networks of the sender's and the receiver's addresses, for benchmarks (RFC 2544 appendix C.2.2, RFC 5180).
_IPV4 = ("198.18.0.0", "198.19.0.0")
_IPV6 = ("2001:2:0:1::", "2001:2:0:2::")


class Flow(NamedTuple):
    """A subflow; pairs are of the sender and the receiver.

    Attributes
    ----------
    path : its number.
    opener : 0 if the sender opened it, 1 if the receiver did.
    addresses : packed, 4 or 16 bytes.
    first : initial sequence numbers.
    nonces : of its MP_JOIN.
    address_id : of its opener.
    backup : it was opened as standby.
    """

    path: int
    opener: int
    addresses: tuple[bytes, bytes]
    ports: tuple[int, int]
    first: tuple[int, int]
    nonces: tuple[bytes, bytes]
    address_id: int
    backup: bool

    @property
    def is_ipv6(self) -> bool:
        """Its family."""
        return len(self.addresses[0]) == 16


class Connection(NamedTuple):
    """A connection; pairs are of the sender and the receiver."""

    keys: tuple[bytes, bytes]
    flows: list[Flow]

    def token(self, end: int) -> bytes:
        """Of an end: the first 32 bits of its key's hash (RFC 8684 section 3.2)."""
        return hashlib.sha256(self.keys[end]).digest()[:4]

    def first_data(self, end: int) -> int:
        """An end's initial data sequence number: the last 64 bits of its key's hash (section 3.1)."""
        return int.from_bytes(hashlib.sha256(self.keys[end]).digest()[-8:], "big")

    def proof(self, flow: Flow, end: int) -> bytes:
        """HMAC of an end for a join: its own key and nonce come first (section 3.2)."""
        keys = self.keys[end] + self.keys[1 - end]
        nonces = flow.nonces[end] + flow.nonces[1 - end]
        return hmac.digest(keys, nonces, "sha256")


def connection(trial: Trial, packets: Any, standby: frozenset[str]) -> Connection:
    """The connection of a recorded trial, with its subflows by number.

    Parameters
    ----------
    packets : of the recording.
    standby : labels of the paths whose subflows were opened as standby.
    """
    import numpy as np

    drawn = _Drawn(trial.seed)
    flows: list[Flow] = []
    numbers, firsts = np.unique(packets["flow"], return_index=True)
    for number, first in zip(numbers.tolist(), firsts.tolist(), strict=True):
        route, flags = int(packets["route"][first]), int(packets["flags"][first])
        path = trial.topology.paths[route // 2]
        # A recording begins with a connection, but that of a join may have lost its first packet.
        opener = route % 2 if flags & SYN else 0
        ports = (_FIRST_PORT + number % _PORTS, _KNOWN_PORT)
        flows.append(
            Flow(
                path=route // 2,
                opener=opener,
                addresses=_addresses(path, path.family or trial.family),
                ports=ports if opener == 0 else (ports[1], ports[0]),
                first=(drawn.number(f"{number} 0"), drawn.number(f"{number} 1")),
                nonces=(drawn.bytes(f"nonce {number} 0", 4), drawn.bytes(f"nonce {number} 1", 4)),
                address_id=0 if number == 0 else (path.local_index, path.remote_index)[opener] + 1,
                backup=path.label in standby,
            )
        )
    return Connection((drawn.bytes("key 0", 8), drawn.bytes("key 1", 8)), flows)


class _Drawn(NamedTuple):
    """Numbers from a seed."""

    seed: int

    def bytes(self, what: str, count: int) -> bytes:
        """As many bytes."""
        return hashlib.sha256(f"mptune {self.seed} {what}".encode()).digest()[:count]

    def number(self, what: str) -> int:
        """32 bits."""
        return int.from_bytes(self.bytes(what, 4), "big")


def _addresses(path: Path, family: str) -> tuple[bytes, bytes]:
    """An address for each interface, whatever the real ones are."""
    networks, step = (_IPV6, 1) if family == "ipv6" else (_IPV4, 2**8)
    sender, receiver = (
        (ipaddress.ip_address(network) + index * step + 1).packed
        for network, index in zip(networks, (path.local_index, path.remote_index), strict=True)
    )
    return sender, receiver
