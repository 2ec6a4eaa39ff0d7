"""TCP packets of a capture as one table, with their connections' ends: reading, within limits."""

from __future__ import annotations

import ipaddress
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from mptune import files
from mptune.capture.pcap import _frames, _options
from mptune.capture.pcap._blocks import Interface, Reader
from mptune.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from mptune.capture.pcap._blocks import Frames

#: Most packets of TCP in all, and most options beside DSS: some 250 MB of memory.
MOST_PACKETS = 4_000_000
MOST_OPTIONS = 200_000
#: Most points; further ones are taken for the last of them.
_MOST_POINTS = 2**16
#: Most bytes of a file.
_LARGEST = 64 * 2**30

#: One packet. `way` 1 is against the end that `Ends` has first; `point` is where it was captured. Numbers of
#: MPTCP are as they stand in DSS, and there if its flags are set; `options` has a bit for each subtype.
PACKET = [
    ("at", "<i8"),
    ("flow", "<u4"),
    ("way", "u1"),
    ("flags", "u1"),
    ("point", "<u2"),
    ("seq", "<u4"),
    ("ack", "<u4"),
    ("window", "<u2"),
    ("length", "<u4"),
    ("options", "<u2"),
    ("dss", "u1"),
    ("data", "<u8"),
    ("data_ack", "<u8"),
    ("subflow", "<u4"),
    ("mapped", "<u2"),
    ("scale", "i1"),
    ("repeated", "u1"),
]


@cache
def packet_type() -> np.dtype[Any]:
    """The packets' type."""
    import numpy as np

    return np.dtype(PACKET)


class Ends(NamedTuple):
    """Addresses and ports of a flow; the first is the end of which the capture has the first packet."""

    addresses: tuple[str, str]
    ports: tuple[int, int]


class Point(NamedTuple):
    """A place where packets were captured: an interface of a file, or one of Linux's devices in it."""

    file: int
    interface: Interface
    device: int


class Packets(msgspec.Struct, kw_only=True):
    """TCP packets of one or several captures, in order of time within each file.

    Attributes
    ----------
    table : structured array of type `PACKET`.
    options : those beside DSS, by number of the packet.
    flows : ends by number of the flow.
    points : by number.
    passed : frames that gave no packet.
    warnings : sentences about what is missing.
    """

    table: Any
    options: dict[int, list[_options.Option]]
    flows: list[Ends]
    points: list[Point]
    passed: _frames.Passed
    warnings: list[str]


def read(*paths: Path) -> Packets:
    """Read captures.

    Raises
    ------
    InputError : one is not readable, no capture, damaged from the beginning, or without TCP.
    """
    import numpy as np

    reading = _Reading()
    for number, path in enumerate(paths):
        reading.file(path, number)
    table = np.concatenate(reading.tables)
    return Packets(
        table=table,
        options=reading.options,
        flows=list(reading.ends),
        points=list(reading.points),
        passed=reading.passed,
        warnings=reading.warnings,
    )


class _Reading:
    """Packets read so far."""

    def __init__(self) -> None:
        self.tables: list[Any] = []
        self.options: dict[int, list[_options.Option]] = {}
        self.ends: list[Ends] = []
        self.points: dict[Point, int] = {}
        self.passed = _frames.Passed()
        self.warnings: list[str] = []
        self._flows: dict[bytes, int] = {}
        self._packets = self._options = 0

    def file(self, path: Path, number: int) -> None:
        """Read a file; `number` is its own."""
        before, frames = self._packets, 0
        try:
            with files.reading(path, limit=_LARGEST) as file:
                reader = Reader(file, str(path))
                for piece in reader.frames():
                    frames += len(piece.rows)
                    self._piece(piece, reader, number)
                    if self._packets >= MOST_PACKETS:
                        self.warnings.append(f"{path}: only the first {MOST_PACKETS:,} packets are looked at")
                        break
        except OSError as error:
            raise InputError(str(path), "", f"expected a readable file: {error.strerror}") from None
        if reader.damage and not frames:
            raise InputError(str(path), "", f"expected a whole capture: {reader.damage}")
        if self._packets == before:
            raise InputError(str(path), "", f"expected packets of TCP, found none in {frames} frames")
        if reader.damage:
            self.warnings.append(f"{path}: read as far as it is whole: {reader.damage}")

    def _piece(self, piece: Frames, reader: Reader, number: int) -> None:
        import numpy as np

        segments, passed = _frames.segments(piece, reader.interfaces)
        self.passed = self.passed.plus(passed)
        segments = segments.up_to(MOST_PACKETS - self._packets)
        found = _options.read(segments, MOST_OPTIONS - self._options)
        content, at = segments.content, segments.at
        table = np.zeros(len(at), packet_type())
        table["at"] = segments.time_ns
        table["seq"], table["ack"] = (_frames.words(content, at + place, 4) for place in (4, 8))
        table["flags"], table["window"] = content[at + 13], _frames.words(content, at + 14, 2)
        table["length"] = segments.length
        for name, column in found.columns.items():
            table[name] = column
        table["point"] = self._points(segments, reader, number)
        self._name(table, segments.ends)
        for place, option in found.others:
            self.options.setdefault(self._packets + place, []).append(option)
        self._options += len(found.others)
        self._packets += len(table)
        self.tables.append(table)

    def _points(self, segments: _frames.Segments, reader: Reader, number: int) -> Any:
        """Number of the point of each segment."""
        import numpy as np

        interfaces = segments.interface.astype("u8")
        kinds, inverse = np.unique(interfaces << np.uint64(32) | segments.device, return_inverse=True)
        numbers = []
        for kind in kinds.tolist():
            point = Point(number, reader.interfaces[kind >> 32], kind & 0xFFFFFFFF)
            numbers.append(self.points.setdefault(point, min(len(self.points), _MOST_POINTS - 1)))
        return np.array(numbers, "u2")[inverse] if numbers else 0

    def _name(self, table: Any, ends: Any) -> None:
        """Give each segment the number of its flow, and its way in it."""
        import numpy as np

        if not len(ends):
            return
        keys = np.ascontiguousarray(ends).view(f"V{ends.dtype.itemsize * ends.shape[1]}")[:, 0]
        kinds, inverse = np.unique(keys, return_inverse=True)
        # In the order of the packets, so that a flow's first end is that of its first packet.
        first = np.full(len(kinds), len(keys))
        np.minimum.at(first, inverse, np.arange(len(keys)))
        flows, ways = np.zeros(len(kinds), "u4"), np.zeros(len(kinds), "u1")
        for kind in np.argsort(first, kind="stable").tolist():
            flows[kind], ways[kind] = self._flow(ends[first[kind]])
        table["flow"], table["way"] = flows[inverse], ways[inverse]

    def _flow(self, ends: Any) -> tuple[int, int]:
        """Number and way of a flow's segment by its addresses and ports."""
        there = ends.tobytes()
        number = self._flows.get(there)
        if number is not None:
            return number >> 1, number & 1
        source, target, ports = ends[:2].tobytes(), ends[2:4].tobytes(), int(ends[4])
        back = ends.copy()
        back[:2], back[2:4] = ends[2:4], ends[:2]
        back[4] = (ports & 0xFFFF) << 16 | ports >> 16
        number = len(self.ends)
        self._flows[there], self._flows[back.tobytes()] = number << 1, number << 1 | 1
        self.ends.append(Ends((_address(source), _address(target)), (ports >> 16, ports & 0xFFFF)))
        return number, 0


def _address(words: bytes) -> str:
    """An address from two words of the machine's byte order."""
    import numpy as np

    address = ipaddress.IPv6Address(np.frombuffer(words, "u8").astype(">u8").tobytes())
    return str(address.ipv4_mapped or address)
