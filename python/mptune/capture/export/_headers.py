"""Headers of many packets of one shape: IPv4 or IPv6, TCP, and the options of RFC 7323, 2018 and 8684.

A shape is what decides which options there are; packets of one shape are rows of one length. Checksums are
those of packets whose payload is zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mptune.capture._model import ACK, NONE, SYN

if TYPE_CHECKING:
    from mptune.capture.export._flows import Connection, Flow

Array = Any

_MSS, _SCALE, _SACK_PERMITTED, _SACK, _MPTCP, _PAD = 2, 3, 4, 5, 30, 1
#: Subtypes, as the byte in which they stand, and the flag DATA_FIN of DSS.
_JOIN, _DSS, _DATA_FIN = 1 << 4, 2 << 4, 1 << 4
#: Bits of a record's `options`: `crates/mptune-core/src/recording.rs`.
CAPABLE, JOIN, DATA_FIN, MARKED = 1, 1 << 1, 1 << 4, 1 << 6
#: Bytes of options that a header has room for.
_ROOM = 40
_TCP, _HOPS, _DO_NOT_FRAGMENT, _CONGESTED = 6, 64, 0x4000, 3
#: MP_CAPABLE: version 1, HMAC-SHA256.
_VERSION, _HMAC_SHA256 = 1, 1
_FULL_WINDOW = 2**16 - 1


class Shape(NamedTuple):
    """Common properties of packets of one shape.

    Attributes
    ----------
    flow, way : of the subflow; 0 is from the sender.
    flags : of TCP.
    handshake : bits of MP_CAPABLE and MP_JOIN.
    mapped, acked, ends : DSS has a mapping, a DATA_ACK, and DATA_FIN.
    blocks : SACK blocks.
    loaded : there is payload.
    congested : the network marked them.
    """

    flow: int
    way: int
    flags: int
    handshake: int
    mapped: bool
    acked: bool
    ends: bool
    blocks: int
    loaded: bool
    congested: bool


class Written(NamedTuple):
    """Common data of all packets.

    Attributes
    ----------
    connection : keys and subflows.
    multipath : there are options of MPTCP.
    scale : shift of windows.
    segment : largest payload.
    """

    connection: Connection
    multipath: bool
    scale: int
    segment: int

    def headers(self, shape: Shape, records: Array, numbers: Array, last_data: Array) -> Array:
        """Headers of records of one shape: a row of bytes for each.

        Parameters
        ----------
        numbers : of the packets, for identification.
        last_data : end of the data that was sent on this way before, for DATA_FIN without payload.
        """
        import numpy as np

        flow = self.connection.flows[shape.flow]
        options = self._options(shape, flow, records, last_data)
        start = 40 if flow.is_ipv6 else 20
        rows = np.zeros((len(records), start + 20 + options.shape[1]), "u1")
        rows[:, start + 20 :] = options
        size = rows.shape[1] - start + records["length"].astype("u4")
        self._tcp(shape, flow, records, rows[:, start:])
        source, target = flow.addresses[shape.way], flow.addresses[1 - shape.way]
        addresses = np.frombuffer(source + target, "u1")
        _put(rows, start + 16, 2, _folded(rows[:, start:], addresses, size + _TCP))
        if flow.is_ipv6:
            _put(rows, 0, 4, 6 << 28 | (_CONGESTED << 20 if shape.congested else 0))
            _put(rows, 4, 2, size)
            rows[:, 6:8] = _TCP, _HOPS
            rows[:, 8:40] = addresses
        else:
            rows[:, 0:2] = 0x45, _CONGESTED if shape.congested else 0
            _put(rows, 2, 2, size + 20)
            _put(rows, 4, 2, numbers & 0xFFFF)
            _put(rows, 6, 2, _DO_NOT_FRAGMENT)
            rows[:, 8:10] = _HOPS, _TCP
            rows[:, 12:20] = addresses
            _put(rows, 10, 2, _folded(rows[:, :20], np.zeros(0, "u1"), 0))
        return rows

    def _tcp(self, shape: Shape, flow: Flow, records: Array, rows: Array) -> None:
        """RFC 9293 section 3.1. Without a DATA_ACK a record has no window either: then it is a large one."""
        import numpy as np

        _put(rows, 0, 2, flow.ports[shape.way])
        _put(rows, 2, 2, flow.ports[1 - shape.way])
        follows = 0 if shape.flags & SYN else 1
        _put(rows, 4, 4, flow.first[shape.way] + follows + records["seq"].astype("i8"))
        if shape.flags & ACK:
            _put(rows, 8, 4, flow.first[1 - shape.way] + 1 + records["ack"].astype("i8"))
        rows[:, 12], rows[:, 13] = rows.shape[1] // 4 << 4, shape.flags
        scale = 0 if shape.flags & SYN else self.scale
        unknown = (records["data_ack"] == NONE) & (records["window"] == 0)
        _put(
            rows, 14, 2, np.where(unknown, _FULL_WINDOW, np.minimum(records["window"] >> scale, _FULL_WINDOW))
        )

    def _options(self, shape: Shape, flow: Flow, records: Array, last_data: Array) -> Array:
        """Options of these records, padded to words."""
        import numpy as np

        parts: list[Array] = []
        if shape.flags & SYN:
            fixed = bytes([_MSS, 4]) + self.segment.to_bytes(2, "big")
            fixed += bytes([_SACK_PERMITTED, 2, _SCALE, 3, self.scale, _PAD])
            parts.append(_all(fixed, len(records)))
        if self.multipath and shape.handshake:
            parts.append(self._handshake(shape, flow, records))
        elif self.multipath and (shape.mapped or shape.acked or shape.ends):
            parts.append(self._dss(shape, flow, records, last_data))
        room = _ROOM - sum(part.shape[1] for part in parts)
        blocks = min(shape.blocks, (room - 2) // 8)
        if blocks > 0:
            parts.append(self._sack(flow, shape, records, blocks))
        size = sum(part.shape[1] for part in parts)
        return np.hstack([*parts, np.full((len(records), -size % 4), _PAD, "u1")])

    def _handshake(self, shape: Shape, flow: Flow, records: Array) -> Array:
        """MP_CAPABLE and MP_JOIN of the three packets (RFC 8684 figures 4 to 7)."""
        connection, opener = self.connection, flow.opener
        mine, first, answered = connection.keys, shape.flags & SYN > 0, shape.flags & ACK > 0
        if shape.handshake & CAPABLE:
            head = bytes([_VERSION, _HMAC_SHA256])
            keys = (
                b""
                if first and not answered
                else mine[1 - opener]
                if first
                else mine[opener] + mine[1 - opener]
            )
            row = _all(_option(head + keys), len(records))
            if not first and shape.loaded:
                row = _all(_option(head + keys, 2), len(records))
                _put(row, row.shape[1] - 2, 2, records["length"])
            return row
        backup = int(flow.backup) if first else 0
        head = bytes([_JOIN | backup])
        if first and not answered:
            body = head + bytes([flow.address_id]) + connection.token(1 - opener) + flow.nonces[opener]
        elif first:
            proof = connection.proof(flow, 1 - opener)[:8]
            body = head + bytes([0]) + proof + flow.nonces[1 - opener]
        else:
            body = head + bytes([0]) + connection.proof(flow, opener)[:20]
        return _all(_option(body), len(records))

    def _dss(self, shape: Shape, flow: Flow, records: Array, last_data: Array) -> Array:
        """DSS with numbers of 8 bytes, without checksum (RFC 8684 section 3.3)."""
        import numpy as np

        mapped = shape.mapped or shape.ends
        flags = (3 if shape.acked else 0) | (12 if mapped else 0) | (_DATA_FIN if shape.ends else 0)
        size = 4 + 8 * shape.acked + 14 * mapped
        row = _all(bytes([_MPTCP, size, _DSS, flags]).ljust(size, b"\0"), len(records))
        at = 4
        if shape.acked:
            _put_wide(row, at, self.connection.first_data(1 - shape.way) + 1, records["data_ack"])
            at += 8
        if mapped:
            # DATA_FIN alone is a mapping of one byte, at 0 of the subflow (section 3.3.3).
            data = records["data"] if shape.mapped else last_data
            _put_wide(row, at, self.connection.first_data(shape.way) + 1, data)
            subflow = records["seq"].astype("i8") + 1 if shape.mapped else np.zeros(len(records), "i8")
            _put(row, at + 8, 4, subflow)
            _put(row, at + 12, 2, records["length"] * shape.mapped + int(shape.ends))
        return row

    def _sack(self, flow: Flow, shape: Shape, records: Array, blocks: int) -> Array:
        """RFC 2018."""
        row = _all(bytes([_SACK, 2 + 8 * blocks]).ljust(2 + 8 * blocks, b"\0"), len(records))
        base = flow.first[1 - shape.way] + 1 + records["ack"].astype("i8")
        for block in range(blocks):
            for edge in range(2):
                place = 2 + 8 * block + 4 * edge
                _put(row, place, 4, base + records["sack"][:, block, edge])
        return row


def _option(body: bytes, room: int = 0) -> bytes:
    """An option of MPTCP with some room at its end."""
    return bytes([_MPTCP, len(body) + 2 + room]) + body + bytes(room)


def _all(row: bytes, count: int) -> Array:
    """The same bytes for every packet."""
    import numpy as np

    return np.tile(np.frombuffer(row, "u1"), (count, 1))


def _put(rows: Array, at: int, width: int, values: Any) -> None:
    """Write numbers, of which only the last bytes count."""
    import numpy as np

    numbers = np.broadcast_to(np.asarray(values).astype("i8"), len(rows)) & (1 << 8 * width) - 1
    rows[:, at : at + width] = numbers.astype(f">u{width}").view("u1").reshape(len(rows), width)


def _put_wide(rows: Array, at: int, base: int, positions: Any) -> None:
    """Write data sequence numbers, which go around at 2^64."""
    import numpy as np

    numbers = np.uint64(base % 2**64) + positions.astype("u8")
    rows[:, at : at + 8] = numbers.astype(">u8").view("u1").reshape(len(rows), 8)


def _folded(rows: Array, beside: Array, number: Any) -> Array:
    """Checksum of rows of even length (RFC 1071), with further bytes and a number for all.

    Parameters
    ----------
    beside, number : of the pseudo-header.
    """
    total = rows.reshape(len(rows), -1).astype("u1").copy().view(">u2").sum(axis=1, dtype="u8")
    total = total + beside.astype("u1").copy().view(">u2").sum(dtype="u8") + number
    for _ in range(3):
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total
