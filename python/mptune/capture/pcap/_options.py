"""TCP options of many segments at once, and the rarer ones of MPTCP one by one (RFC 8684 section 3).

DSS is on nearly every segment: its numbers go to columns. What stands in handshakes, announces addresses, or
ends something is decoded into a record of its own; version 0 (RFC 6824) too, where it differs.
"""

from __future__ import annotations

import ipaddress
from typing import Any, NamedTuple

import msgspec

from mptune.capture.pcap._frames import Segments, words

Array = Any

_END, _NO_OPERATION, _WINDOW_SCALE, _SACK, _MPTCP = 0, 1, 3, 5, 30
#: Subtypes (RFC 8684 section 8.1), which are bits of the column `options` too.
CAPABLE, JOIN, DSS, ADD_ADDR, REMOVE_ADDR, PRIO, FAIL, FASTCLOSE, RESET = range(9)
#: Bits of `options` beyond the subtypes: the capture has not all of them, and one that is malformed.
CUT, MALFORMED = 1 << 15, 1 << 14
#: Flags of DSS (section 3.3): what is there, in 8 bytes instead of 4, and DATA_FIN.
ACKED, ACKED_8, MAPPED, MAPPED_8, DATA_FIN = 1, 2, 4, 8, 16
#: A mapping's length is followed by a checksum.
CHECKSUM = 1 << 7

#: Reasons of MP_TCPRST (RFC 8684 section 3.6).
REASONS = (
    "unspecified error",
    "MPTCP-specific error",
    "lack of resources",
    "administratively prohibited",
    "too much outstanding data",
    "unacceptable performance",
    "middlebox interference",
)


class Capable(msgspec.Struct, frozen=True, kw_only=True, tag="MP_CAPABLE"):
    """MP_CAPABLE (section 3.1): the sender's key, and in the third packet the receiver's too."""

    version: int
    checksums: bool
    key: int | None = None
    peer_key: int | None = None
    length: int | None = None


class Join(msgspec.Struct, frozen=True, kw_only=True, tag="MP_JOIN"):
    """MP_JOIN (section 3.2): a token in the SYN alone, an HMAC afterwards."""

    backup: bool = False
    address_id: int | None = None
    token: int | None = None
    nonce: int | None = None
    hmac: str | None = None


class Announced(msgspec.Struct, frozen=True, kw_only=True, tag="ADD_ADDR"):
    """ADD_ADDR (section 3.4.1), or its echo."""

    address_id: int
    address: str
    port: int | None = None
    echo: bool = False
    hmac: str | None = None


class Removed(msgspec.Struct, frozen=True, kw_only=True, tag="REMOVE_ADDR"):
    """REMOVE_ADDR (section 3.4.2)."""

    address_ids: tuple[int, ...]


class Priority(msgspec.Struct, frozen=True, kw_only=True, tag="MP_PRIO"):
    """MP_PRIO (section 3.3.8)."""

    backup: bool
    address_id: int | None = None


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="MP_FAIL"):
    """MP_FAIL (section 3.7): the data sequence number from which on nothing is sure."""

    data: int


class Closed(msgspec.Struct, frozen=True, kw_only=True, tag="MP_FASTCLOSE"):
    """MP_FASTCLOSE (section 3.5)."""

    key: int


class Reset(msgspec.Struct, frozen=True, kw_only=True, tag="MP_TCPRST"):
    """MP_TCPRST (section 3.6)."""

    reason: int
    transient: bool = False

    @property
    def words(self) -> str:
        """The reason."""
        known = REASONS[self.reason] if self.reason < len(REASONS) else "unknown"
        return f"{known} (reason {self.reason})"


Option = Capable | Join | Announced | Removed | Priority | Failed | Closed | Reset


def decode(option: bytes) -> Option | None:
    """One option of MPTCP, from its kind on; None for DSS, what is unknown, and what has a wrong length."""
    if len(option) < 3 or option[0] != _MPTCP or option[1] != len(option):
        return None
    body = option[2:]
    match body[0] >> 4:
        case 0:
            return _capable(body)
        case 1:
            return _join(body)
        case 3:
            return _announced(body)
        case 4 if len(body) > 1:
            return Removed(address_ids=tuple(body[1:]))
        case 5 if len(body) in (1, 2):
            return Priority(backup=bool(body[0] & 1), address_id=body[1] if len(body) == 2 else None)
        case 6 if len(body) == 10:
            return Failed(data=_number(body, 2, 8))
        case 7 if len(body) == 10:
            return Closed(key=_number(body, 2, 8))
        case 8 if len(body) == 2:
            return Reset(reason=body[1], transient=bool(body[0] & 1))
    return None


def _number(body: bytes, at: int, width: int) -> int:
    return int.from_bytes(body[at : at + width], "big")


def _capable(body: bytes) -> Capable | None:
    """Figure 4: a SYN of version 1 has no key, the third packet has both, with data their length."""
    if len(body) not in (2, 10, 18, 20, 22):
        return None
    return Capable(
        version=body[0] & 15,
        checksums=bool(body[1] & 0x80),
        key=_number(body, 2, 8) if len(body) >= 10 else None,
        peer_key=_number(body, 10, 8) if len(body) >= 18 else None,
        length=_number(body, 18, 2) if len(body) >= 20 else None,
    )


def _join(body: bytes) -> Join | None:
    """Figures 5 to 7: SYN, SYN/ACK, ACK."""
    backup = bool(body[0] & 1)
    match len(body):
        case 10:
            return Join(
                backup=backup, address_id=body[1], token=_number(body, 2, 4), nonce=_number(body, 6, 4)
            )
        case 14:
            return Join(backup=backup, address_id=body[1], hmac=body[2:10].hex(), nonce=_number(body, 10, 4))
        case 22:
            return Join(hmac=body[2:].hex())
    return None


def _announced(body: bytes) -> Announced | None:
    """Figure 12; an echo has no HMAC, nor has version 0, with the address family where the flags are."""
    rest = len(body) - 2
    sizes = {
        width + port + hmac: (width, port, hmac) for width in (4, 16) for port in (0, 2) for hmac in (0, 8)
    }
    if rest not in sizes:
        return None
    width, port, hmac = sizes[rest]
    address = ipaddress.ip_address(body[2 : 2 + width])
    return Announced(
        address_id=body[1],
        address=str(address),
        port=_number(body, 2 + width, 2) if port else None,
        echo=body[0] & 15 == 1,
        hmac=body[-8:].hex() if hmac else None,
    )


#: Columns of the table (`mptune.capture.pcap.PACKET`).
_COLUMNS = {
    "options": "u2",
    "dss": "u1",
    "data": "u8",
    "data_ack": "u8",
    "subflow": "u4",
    "mapped": "u2",
    "scale": "i1",
    "repeated": "u1",
}


class Read(NamedTuple):
    """Options of segments in columns by their names, and those beside DSS by segment."""

    columns: dict[str, Array]
    others: list[tuple[int, Option]]


def read(segments: Segments, most: int) -> Read:
    """Read the options of all segments.

    Parameters
    ----------
    most : number of others than DSS that are decoded.
    """
    import numpy as np

    found = Read({name: np.zeros(len(segments.at), kind) for name, kind in _COLUMNS.items()}, [])
    found.columns["scale"][:] = -1
    content, cursor = segments.content, segments.at + 20
    stop = segments.at + (content[segments.at + 12] >> 4).astype("i8") * 4
    found.columns["options"][stop > segments.end] |= CUT
    stop = np.minimum(stop, segments.end)
    active = np.flatnonzero(cursor < stop)
    while len(active):
        at, limit = cursor[active], stop[active]
        kind = content[at]
        size = np.where(kind == _NO_OPERATION, 1, content[at + 1].astype("i8"))
        whole = (kind != _END) & (at + 2 <= limit) & (size >= 2) & (at + size <= limit)
        good = whole | (kind == _NO_OPERATION)
        active, at, kind, size = active[good], at[good], kind[good], size[good]
        _take(segments, found, (active, at, kind, size), most)
        cursor[active] += size
        active = active[cursor[active] < stop[active]]
    return found


def _take(segments: Segments, to: Read, here: tuple[Array, Array, Array, Array], most: int) -> None:
    """Take what matters of one option of each segment."""
    import numpy as np

    index, at, kind, size = here
    content, options = segments.content, to.columns["options"]
    scales = (kind == _WINDOW_SCALE) & (size == 3)
    # A shift beyond 14 means 14 (RFC 7323 section 2.3).
    to.columns["scale"][index[scales]] = np.minimum(content[at[scales] + 2], 14)
    blocks = np.flatnonzero((kind == _SACK) & (size >= 10))
    if len(blocks):
        _take_repeated(segments, to, index[blocks], at[blocks], size[blocks])
    mptcp = np.flatnonzero((kind == _MPTCP) & (size >= 3))
    if not len(mptcp):
        return
    index, at, size = index[mptcp], at[mptcp], size[mptcp]
    subtype = content[at + 2] >> 4
    known = subtype <= RESET
    options[index[known]] |= (1 << subtype[known].astype("u2")).astype("u2")
    dss = (subtype == DSS) & (size >= 4)
    _take_dss(content, to.columns, index[dss], at[dss], size[dss])
    for place in np.flatnonzero(known & (subtype != DSS)).tolist():
        if len(to.others) >= most:
            break
        begin = int(at[place])
        option = decode(content[begin : begin + int(size[place])].tobytes())
        if option is None:
            options[index[place]] |= MALFORMED
        else:
            to.others.append((int(index[place]), option))


def _take_repeated(segments: Segments, to: Read, index: Array, at: Array, size: Array) -> None:
    """Mark those whose first block is a duplicate: below the acknowledgement, or in the second (RFC 2883)."""
    import numpy as np

    content = segments.content
    acked = words(content, segments.at[index] + 8, 4)
    first, end = words(content, at + 2, 4), words(content, at + 6, 4)
    below = (end - acked).view("i4") <= 0
    second = np.where(size >= 18, at + 10, at + 2)
    low, high = words(content, second, 4), words(content, second + 4, 4)
    inside = (size >= 18) & ((first - low).view("i4") >= 0) & ((high - end).view("i4") >= 0)
    to.columns["repeated"][index] = below | inside


def _take_dss(content: Array, to: dict[str, Array], index: Array, at: Array, size: Array) -> None:
    """Section 3.3: flags determine the fields; the checksum is there if the length has room for it."""
    import numpy as np

    flags = content[at + 3] & 31
    acked, mapped = flags & ACKED > 0, flags & MAPPED > 0
    ack_width = np.where(acked, np.where(flags & ACKED_8 > 0, 8, 4), 0)
    data_width = np.where(flags & MAPPED_8 > 0, 8, 4)
    expected = 4 + ack_width + np.where(mapped, data_width + 6, 0)
    checksum = mapped & (size == expected + 2)
    good = (size == expected) | checksum
    to["options"][index[~good]] |= MALFORMED
    index, at, flags = index[good], at[good], flags[good]
    acked, mapped, ack_width, data_width = acked[good], mapped[good], ack_width[good], data_width[good]
    to["dss"][index] = flags | np.where(checksum[good], CHECKSUM, 0).astype("u1")
    _wide(content, to["data_ack"], index[acked], at[acked] + 4, ack_width[acked])
    index, at, data_width = index[mapped], at[mapped] + 4 + ack_width[mapped], data_width[mapped]
    _wide(content, to["data"], index, at, data_width)
    to["subflow"][index] = words(content, at + data_width, 4)
    to["mapped"][index] = words(content, at + data_width + 4, 2)


def _wide(content: Array, column: Array, index: Array, at: Array, width: Array) -> None:
    """Numbers of 4 or 8 bytes."""
    for bytes_ in (4, 8):
        mine = width == bytes_
        column[index[mine]] = words(content, at[mine], bytes_)
