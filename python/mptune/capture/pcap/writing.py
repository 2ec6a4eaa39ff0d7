"""Blocks of a pcapng file: its head with the interfaces, and many packets of one shape at once.

draft-ietf-opsawg-pcapng; little-endian, times in nanoseconds. It knows nothing of what is in packets.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from mptune.capture.pcap._blocks import ENHANCED, INTERFACE, ORDER, SECTION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mptune.capture.pcap._blocks import Interface

Array = Any

#: Options.
_COMMENT, _PROGRAM, _NAME, _DESCRIPTION, _RESOLUTION = 1, 4, 2, 3, 9
_NANOSECONDS = b"\x09"
#: Bytes of a packet's block before the packet.
_BEFORE = 28


def head(interfaces: Sequence[Interface], comment: str, program: str) -> bytes:
    """The section with its interfaces.

    Parameters
    ----------
    comment : about the whole file.
    program : that wrote it.
    """
    unknown_length = -1
    section = struct.pack("<IHHq", ORDER, 1, 0, unknown_length)
    blocks = [_block(SECTION, section, [(_COMMENT, comment.encode()), (_PROGRAM, program.encode())])]
    for interface in interfaces:
        named = [(_NAME, interface.name.encode()), (_DESCRIPTION, interface.description.encode())]
        whole = 0
        body = struct.pack("<HHI", interface.link, 0, whole)
        blocks.append(_block(INTERFACE, body, [*named, (_RESOLUTION, _NANOSECONDS)]))
    return b"".join(blocks)


def packets(content: Array, lengths: Array, times_ns: Array, interfaces: Array, comment: str = "") -> Array:
    """Blocks of packets of one length that have one comment: bytes in a row for each.

    Parameters
    ----------
    content : (packets, bytes) what is kept of each.
    lengths : on the wire.
    interfaces : their numbers.
    """
    import numpy as np

    count, caught = content.shape
    trailer = _options([(_COMMENT, comment.encode())]) if comment else b""
    padded = caught + -caught % 4
    size = _BEFORE + padded + len(trailer) + 4
    blocks = np.zeros((count, size), "u1")
    fields = (
        (0, ENHANCED),
        (4, size),
        (8, interfaces),
        (12, times_ns >> 32),
        (16, times_ns & 0xFFFFFFFF),
        (20, caught),
        (24, lengths),
        (size - 4, size),
    )
    for at, values in fields:
        blocks[:, at : at + 4] = np.broadcast_to(values, count).astype("<u4").view("u1").reshape(count, 4)
    blocks[:, _BEFORE : _BEFORE + caught] = content
    blocks[:, _BEFORE + padded : size - 4] = np.frombuffer(trailer, "u1")
    return blocks


def _block(kind: int, body: bytes, options: Sequence[tuple[int, bytes]]) -> bytes:
    inside = body + _options(options)
    size = len(inside) + 12
    return struct.pack("<II", kind, size) + inside + struct.pack("<I", size)


def _options(options: Sequence[tuple[int, bytes]]) -> bytes:
    """Options and their end."""
    longest = 2**15
    parts = [
        struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)
        for code, value in ((code, value[:longest]) for code, value in options)
    ]
    return b"".join([*parts, bytes(4)])
