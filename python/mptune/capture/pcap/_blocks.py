"""The containers: pcap and pcapng, of either byte order, as pieces of many frames. It looks into no frame.

Formats: draft-ietf-opsawg-pcap (the header's magic number has byte order and resolution) and
draft-ietf-opsawg-pcapng (sections of blocks, each with an interface list of its own). A file that is cut or
damaged is read up to there, and `Reader.damage` is then the place.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import msgspec

from mptune.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Bytes that are read at once. A piece has the frames of one reading.
_READ = 2**23
#: Most bytes of a block or a frame: what tcpdump refuses is far less (MAXIMUM_SNAPLEN, 256 KiB).
_LARGEST = 2**22
#: Most interfaces of a file.
_INTERFACES = 4096
#: Most characters of a name.
_NAME = 200

#: pcap: nanoseconds of a fraction by magic number.
_MAGIC = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}
_PCAP_HEAD, _PCAP_FRAME = 24, 16
#: pcapng: types of blocks, and the section's byte order mark.
SECTION, INTERFACE, _OBSOLETE, _SIMPLE, ENHANCED = 0x0A0D0D0A, 1, 2, 3, 6
ORDER = 0x1A2B3C4D
#: pcapng: options of an interface.
_IF_NAME, _IF_DESCRIPTION, _IF_RESOLUTION, _IF_OFFSET = 2, 3, 9, 14
#: Times are kept in 63 bits.
_LATEST = 2**62


class Interface(msgspec.Struct, frozen=True, kw_only=True):
    """Interface on which frames were captured.

    Attributes
    ----------
    link : type of its frames (https://www.tcpdump.org/linktypes.html).
    name, description : of the file; empty where it has none.
    """

    link: int
    name: str = ""
    description: str = ""


class Frames(NamedTuple):
    """Frames of one piece; the rows are plain tuples, as making a million of them shows.

    Attributes
    ----------
    content : bytes of the file.
    rows : of each frame where it starts in the content, the bytes caught, those it had on the wire, its time
        (ns since 1970, or what the file counts from), and the number of its interface in `Reader.interfaces`.
    """

    content: bytes
    rows: list[tuple[int, int, int, int, int]]


class _Clock(NamedTuple):
    """An interface of a section: its number, the nanoseconds of a tick as a fraction, and what to add."""

    number: int
    numerator: int
    denominator: int
    offset_ns: int

    def time_ns(self, ticks: int) -> int:
        """Time of a number of ticks."""
        time_ns = ticks * self.numerator // self.denominator + self.offset_ns
        return time_ns if time_ns < _LATEST else _LATEST


class Reader:
    """One file, read once from its beginning.

    Attributes
    ----------
    interfaces : those that have been found so far; a pcap has one.
    damage : what is wrong at the end of what could be read; empty if nothing is.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.interfaces: list[Interface] = []
        self.damage = ""
        self._file = file
        self._name = name
        self._read = 0
        self._use("<")

    def frames(self) -> Iterator[Frames]:
        """All frames, piece by piece.

        Raises
        ------
        InputError : this is no capture.
        OSError : it cannot be read.
        """
        head = self._file.read(_PCAP_HEAD)
        kind = int.from_bytes(head[:4], "little")
        for order in ("<", ">"):
            if len(head) == _PCAP_HEAD and struct.unpack(order + "I", head[:4])[0] in _MAGIC:
                yield from self._pieces(b"", self._pcap(head, order))
                return
        if kind != SECTION:
            raise InputError(self._name, "", "expected a capture in the format of pcap or pcapng")
        yield from self._pieces(head, self._pcapng)

    def _pieces(self, carried: bytes, walk: _Walk) -> Iterator[Frames]:
        """Read and walk through one piece after another; what is not whole goes on to the next."""
        while not self.damage:
            more = self._file.read(_READ)
            content = carried + more
            found = Frames(content, [])
            end = walk(found)
            self._read += end
            carried = content[end:]
            if not more and carried and not self.damage:
                self.damage = f"it is cut after {self._read} bytes"
            yield found
            if not more:
                return

    # ---- pcap ---------------------------------------------------------------------------------------

    def _pcap(self, head: bytes, order: str) -> _Walk:
        """Walk through the frames of a pcap with this header."""
        magic, *_, link = struct.unpack(order + "IHHiIII", head)
        # The upper bits tell about frame check sequences.
        self.interfaces.append(Interface(link=link & 0xFFFF))
        self._read = _PCAP_HEAD
        nanoseconds, frame = _MAGIC[magic], struct.Struct(order + "IIII")

        def walk(to: Frames) -> int:
            at, end = 0, len(to.content)
            while at + _PCAP_FRAME <= end:
                seconds, fraction, caught, length = frame.unpack_from(to.content, at)
                if caught > _LARGEST:
                    self.damage = f"{caught} bytes of a frame, at byte {self._read + at}"
                    break
                if at + _PCAP_FRAME + caught > end:
                    break
                time_ns = seconds * 10**9 + fraction * nanoseconds
                to.rows.append((at + _PCAP_FRAME, caught, length, time_ns, 0))
                at += _PCAP_FRAME + caught
            return at

        return walk

    # ---- pcapng -------------------------------------------------------------------------------------

    def _pcapng(self, to: Frames) -> int:
        """Walk through the whole blocks of a piece."""
        at, content, end = 0, to.content, len(to.content)
        while at + 12 <= end:
            kind, size = self._head.unpack_from(content, at)
            if kind == SECTION:
                if not self._section(content, at):
                    break
                kind, size = self._head.unpack_from(content, at)
            if size % 4 or not 12 <= size <= _LARGEST + 512:
                self.damage = f"{size} bytes of a block, at byte {self._read + at}"
                break
            if at + size > end:
                break
            if not self._block(to, kind, at, size):
                self.damage = f"a block that contradicts itself, at byte {self._read + at}"
                break
            at += size
        return at

    def _use(self, order: str) -> None:
        """Go on in another byte order, without interfaces yet."""
        self._order, self._clocks = order, list[_Clock]()
        self._head = struct.Struct(order + "II")
        self._enhanced, self._obsolete = struct.Struct(order + "IIIII"), struct.Struct(order + "HxxIIII")

    def _section(self, content: bytes, at: int) -> bool:
        """A section begins: its byte order, and no interfaces yet."""
        for order in ("<", ">"):
            if struct.unpack_from(order + "I", content, at + 8)[0] == ORDER:
                self._use(order)
                return True
        self.damage = f"a section without byte order, at byte {self._read + at}"
        return False

    def _block(self, to: Frames, kind: int, at: int, size: int) -> bool:
        """Take what a block has; False if that cannot be."""
        content, order, body = to.content, self._order, size - 12
        if kind in (ENHANCED, _OBSOLETE):
            if body < 20:
                return False
            fields = self._enhanced if kind == ENHANCED else self._obsolete
            number, high, low, caught, length = fields.unpack_from(content, at + 8)
            if caught > body - 20 or number >= len(self._clocks):
                return False
            clock = self._clocks[number]
            to.rows.append((at + 28, caught, length, clock.time_ns(high << 32 | low), clock.number))
        elif kind == INTERFACE:
            return body >= 8 and self._interface(content, at + 8, at + size - 4)
        elif kind == _SIMPLE:
            if body < 4 or not self._clocks:
                return False
            (length,) = struct.unpack_from(order + "I", content, at + 8)
            to.rows.append((at + 12, min(length, body - 4), length, 0, self._clocks[0].number))
        return True

    def _interface(self, content: bytes, at: int, end: int) -> bool:
        """An interface of this section, with the options that matter."""
        (link,) = struct.unpack_from(self._order + "H", content, at)
        names = {_IF_NAME: "", _IF_DESCRIPTION: ""}
        numerator, denominator, offset_ns = 1000, 1, 0
        at += 8
        while at + 4 <= end:
            code, size = struct.unpack_from(self._order + "HH", content, at)
            value = content[at + 4 : min(at + 4 + size, end)]
            if code == 0 or len(value) < size:
                break
            if code in names:
                names[code] = value[: 4 * _NAME].decode("utf-8", "replace")[:_NAME]
            elif code == _IF_RESOLUTION and size == 1:
                # The highest bit tells a power of 2 from one of 10.
                numerator, denominator = 10**9, (2 if value[0] & 0x80 else 10) ** (value[0] & 0x7F)
            elif code == _IF_OFFSET and size == 8:
                offset_ns = max(struct.unpack(self._order + "q", value)[0] * 10**9, -_LATEST)
            at += 4 + size + -size % 4
        if len(self.interfaces) >= _INTERFACES:
            return False
        self._clocks.append(_Clock(len(self.interfaces), numerator, denominator, offset_ns))
        found = Interface(link=link, name=names[_IF_NAME], description=names[_IF_DESCRIPTION])
        self.interfaces.append(found)
        return True


if TYPE_CHECKING:
    from collections.abc import Callable

    _Walk = Callable[[Frames], int]
