"""A program file, examined for whether a library can be preloaded into it.

It reads files and starts nothing. Layouts: the ELF specification (gabi, chapters 4 and 5), and Go's
`debug/buildinfo` for the section that Go's linker writes.
"""

import mmap
import os
import re
import shutil
import stat
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from mptune._text import quoted
from mptune.errors import InputError
from mptune.files import reading

#: No program is larger, bytes; it is mapped, not read.
_LARGEST = 2**40

#: Why no library can be preloaded.
Obstacle = Literal["static", "go", "musl", "architecture", "privileges"]

#: First Go that has GODEBUG=multipathtcp=1.
_GO_WITH_MPTCP = (1, 21)
#: Scripts whose interpreters are scripts, followed as far as the kernel does (BINPRM_MAX_RECURSION).
_SCRIPTS = 4

_PT_LOAD, _PT_INTERP = 1, 3
_PF_W = 2
_GO_SECTION = b".go.buildinfo"
_GO_MAGIC = b"\xff Go buildinf:"
_GO_HEADER = 32
#: Flag of Go's build information: the version stands in the section itself (Go 1.18).
_GO_INLINE = 2


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A program that is to be started.

    Attributes
    ----------
    path : the file, as found on the PATH.
    loaded : the file that the kernel loads: of a script its interpreter.
    obstacle : why no library can be preloaded; None if one can.
    detail : what makes it so, as a part of a sentence.
    go_version : of a program written in Go, if it is recorded.
    """

    path: Path
    loaded: Path
    obstacle: Obstacle | None = None
    detail: str = ""
    go_version: str | None = None

    @property
    def go_has_mptcp(self) -> bool:
        """True if a Go program knows MPTCP by itself."""
        match = re.match(r"go(\d+)\.(\d+)", self.go_version or "")
        return match is not None and (int(match[1]), int(match[2])) >= _GO_WITH_MPTCP


class _Segment(NamedTuple):
    kind: int
    flags: int
    offset: int
    size: int


class _Elf(NamedTuple):
    """An ELF file: class, byte order and machine; segments; sections by name; its content."""

    platform: tuple[int, int, int]
    segments: list[_Segment]
    sections: dict[bytes, tuple[int, int]]
    content: mmap.mmap

    @property
    def interpreter(self) -> str | None:
        """The dynamic loader."""
        for segment in self.segments:
            if segment.kind == _PT_INTERP:
                return os.fsdecode(self.content[segment.offset : segment.offset + segment.size].rstrip(b"\0"))
        return None


def find(command: str) -> Program:
    """Find a program as a shell does, and look into it.

    Raises
    ------
    InputError : there is no such program, or the file is none.
    """
    located = shutil.which(command)
    if located is None:
        where = "there" if "/" in command else "on the PATH"
        raise InputError("COMMAND", "", f"expected a program, found no executable {quoted(command)} {where}")
    path = Path(located)
    loaded = path
    for _ in range(_SCRIPTS):
        interpreter = _script_interpreter(loaded)
        if interpreter is None:
            break
        loaded = Path(interpreter)
    return _judged(path, loaded)


def _judged(path: Path, loaded: Path) -> Program:
    try:
        elf = _read(loaded)
    except PermissionError:  # may be executed, not read: nothing is known against it
        return Program(path=path, loaded=loaded)
    except OSError as error:
        raise InputError("COMMAND", "", f"{path}: cannot read {loaded}: {error.strerror}") from None
    except (struct.error, ValueError, IndexError):
        raise InputError(
            "COMMAND", "", f"expected a program, found {loaded}, which is no executable"
        ) from None
    go = _go_version(elf)
    for obstacle, detail in _obstacles(loaded, elf, go):
        return Program(path=path, loaded=loaded, obstacle=obstacle, detail=detail, go_version=go)
    return Program(path=path, loaded=loaded, go_version=go)


def _obstacles(loaded: Path, elf: _Elf, go: str | None) -> Iterator[tuple[Obstacle, str]]:
    """Every obstacle, the one that decides what to do first."""
    if elf.platform != _own().platform:
        yield "architecture", f"{loaded} is built for another architecture than mptune"
    if go is not None:
        yield "go", f"{loaded} is written in Go, which does without the C library"
    if elf.interpreter is None:
        yield "static", f"{loaded} is linked statically"
    elif "ld-musl" in elf.interpreter:
        yield "musl", f"{loaded} uses musl ({elf.interpreter}), and the library needs glibc"
    if gained := _gained(loaded):
        yield "privileges", f"{loaded} {gained}, so its loader ignores preloaded libraries"


def _gained(path: Path) -> str | None:
    """The privilege that makes the loader distrust its environment (AT_SECURE) for this user, if any."""
    status = path.stat()
    if os.statvfs(path).f_flag & os.ST_NOSUID:
        return None
    if status.st_mode & stat.S_ISUID and status.st_uid != os.getuid():
        return "is setuid"
    if status.st_mode & stat.S_ISGID and status.st_mode & stat.S_IXGRP and status.st_gid != os.getgid():
        return "is setgid"
    with suppress(OSError):
        if os.getuid() != 0 and os.getxattr(path, "security.capability"):
            return "has capabilities of its own"
    return None


def _script_interpreter(path: Path) -> str | None:
    """Interpreter of a script; None if the file is no script."""
    with suppress(OSError), reading(path, limit=_LARGEST) as file:
        first = file.read(256)
        if first.startswith(b"#!"):
            words = first[2:].split(b"\n")[0].split()
            return os.fsdecode(words[0]) if words else None
    return None


def _own() -> _Elf:
    """The interpreter that runs mptune: the library is built for the same."""
    return _read(Path("/proc/self/exe"))


def _read(path: Path) -> _Elf:
    """Read an ELF file.

    Raises
    ------
    ValueError, IndexError, struct.error : it is none.
    """
    with reading(path, limit=_LARGEST) as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if content[:4] != b"\x7fELF":
        raise ValueError("no ELF file")
    wide, order = content[4] == 2, "<" if content[5] == 1 else ">"
    (machine,) = struct.unpack_from(f"{order}H", content, 18)
    segments, sections = struct.unpack_from(f"{order}{'QQ' if wide else 'II'}", content, 32 if wide else 28)
    # Sizes and numbers of the entries of both tables.
    size, count, entry, others, names = struct.unpack_from(f"{order}5H", content, 54 if wide else 42)
    layout = _WIDE if wide else _NARROW
    return _Elf(
        (content[4], content[5], machine),
        [_segment(content, segments + size * index, order, layout) for index in range(count)],
        _sections(content, [sections + entry * index for index in range(others)], names, order, layout),
        content,
    )


class _Layout(NamedTuple):
    """Layout of a table's entries: formats, and the indices of the fields in the unpacked tuples."""

    segment: str
    segment_fields: tuple[int, int, int, int]
    section: str


_WIDE = _Layout("IIQQQQ", (0, 1, 2, 5), "IIQQQQ")
_NARROW = _Layout("7I", (0, 6, 1, 4), "6I")


def _segment(content: mmap.mmap, at: int, order: str, layout: _Layout) -> _Segment:
    fields = struct.unpack_from(order + layout.segment, content, at)
    return _Segment(*(fields[place] for place in layout.segment_fields))


def _sections(
    content: mmap.mmap, places: list[int], names: int, order: str, layout: _Layout
) -> dict[bytes, tuple[int, int]]:
    """Place and size of each section by its name; none if the program was stripped of the table."""
    sections = [struct.unpack_from(order + layout.section, content, at) for at in places]
    if names >= len(sections):
        return {}
    start = sections[names][4]
    ends = [(content.find(b"\0", start + header[0]), header) for header in sections]
    return {content[start + header[0] : end]: (header[4], header[5]) for end, header in ends}


def _go_version(elf: _Elf) -> str | None:
    """Version of Go that built a program; "" if it is older than 1.18, None if it is not Go's.

    A program without a table of sections has the information where data can be written, at one of the
    16-byte steps.
    """
    if (section := elf.sections.get(_GO_SECTION)) is not None:
        return _go_inline(elf.content[section[0] : sum(section)])
    for segment in elf.segments:
        if elf.sections or segment.kind != _PT_LOAD or not segment.flags & _PF_W:
            continue
        at = elf.content.find(_GO_MAGIC, segment.offset, segment.offset + segment.size)
        while at >= 0:
            if (at - segment.offset) % 16 == 0:
                return _go_inline(elf.content[at : at + _GO_HEADER + 64])
            at = elf.content.find(_GO_MAGIC, at + 1, segment.offset + segment.size)
    return None


def _go_inline(information: bytes) -> str:
    if len(information) <= _GO_HEADER or not information[len(_GO_MAGIC) + 1] & _GO_INLINE:
        return ""
    length = information[_GO_HEADER]  # a varint; no version has 128 letters
    return information[_GO_HEADER + 1 : _GO_HEADER + 1 + length].decode("ascii", "replace")
