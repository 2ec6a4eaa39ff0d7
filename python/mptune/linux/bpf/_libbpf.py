"""The few functions of libbpf that are needed to register a congestion control, through ctypes.

Not a BPF library: it knows struct_ops objects, the links that keep them registered, and statistics.
`mptune.linux.bpf` decides when they are loaded and under which names. libbpf is loaded when first needed;
everything else works without it. Structures: include/uapi/linux/bpf.h.
"""

import ctypes
import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mptune.errors import MptuneError

_LIBRARY = "libbpf.so.1"
_MAP_TYPE_STRUCT_OPS = 26
_LINK_TYPE_STRUCT_OPS = 9
_PROG_TYPE_STRUCT_OPS = 27
_ATTACH_STRUCT_OPS = 44
#: The map registers through a link: it stays registered as long as someone holds the link (Linux 6.4).
_F_LINK = 1 << 13
_STATS_RUN_TIME = 0
#: Messages of libbpf up to this level are kept as the reason of a failure (0 warnings, 1 information).
_KEPT_LEVEL = 0
#: Longest message that is kept whole, bytes: enough for the verifier's log of a refused program.
_LONGEST = 1 << 22

_Info = TypeVar("_Info", bound=ctypes.Structure)
_PRINT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
#: libbpf has one print function for the whole process.
_PRINTING = threading.Lock()


class LibbpfError(MptuneError):
    """A call failed; `number` is the errno, and the message contains libbpf's explanation."""

    def __init__(self, call: str, number: int, reason: str = "") -> None:
        self.number = number
        super().__init__(f"{call}: {os.strerror(number)}" + (f" ({reason})" if reason else ""))


class Registered(msgspec.Struct, frozen=True, kw_only=True):
    """A link that keeps a struct_ops map registered.

    Attributes
    ----------
    name : of the map and of the congestion control.
    link, map : their ids in the kernel.
    btf : id of the type information that the map shares with its programs.
    """

    name: str
    link: int
    map: int
    btf: int


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A loaded struct_ops program; calls and time count while statistics are switched on."""

    name: str
    id: int
    btf: int
    calls: int
    ns: int


class _LinkInfo(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_uint32),
        ("id", ctypes.c_uint32),
        ("prog_id", ctypes.c_uint32),
        ("_pad", ctypes.c_uint32),
        ("map_id", ctypes.c_uint32),
    )


class _MapInfo(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_uint32),
        ("id", ctypes.c_uint32),
        ("sizes", ctypes.c_uint32 * 3),
        ("map_flags", ctypes.c_uint32),
        ("name", ctypes.c_char * 16),
        ("ifindex", ctypes.c_uint32),
        ("btf_vmlinux_value_type_id", ctypes.c_uint32),
        ("netns", ctypes.c_uint64 * 2),
        ("btf_id", ctypes.c_uint32),
    )


class _ProgramInfo(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_uint32),
        ("id", ctypes.c_uint32),
        ("_before_name", ctypes.c_uint8 * 56),
        ("name", ctypes.c_char * 16),
        ("_before_btf", ctypes.c_uint8 * 48),
        ("btf_id", ctypes.c_uint32),
        ("_before_times", ctypes.c_uint8 * 60),
        ("run_time_ns", ctypes.c_uint64),
        ("run_cnt", ctypes.c_uint64),
    )


def available() -> bool:
    """True if this machine has the library."""
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError:
        return False
    return True


@cache
def _libbpf() -> Any:
    try:
        library = ctypes.CDLL(_LIBRARY, use_errno=True)
    except OSError:
        raise MptuneError(
            f"{_LIBRARY}, which loads BPF programs, is missing: install libbpf1 (Debian) or libbpf (Fedora)"
        ) from None
    for returns_pointer in ("bpf_object__open_file", "bpf_object__next_map", "bpf_map__attach_struct_ops"):
        getattr(library, returns_pointer).restype = ctypes.c_void_p
    library.libbpf_set_print.restype = ctypes.c_void_p
    return library


def register(path: Path) -> int:
    """Load the object and register the congestion control in it.

    Parameters
    ----------
    path : a compiled object with one struct_ops map.

    Returns
    -------
    int : descriptor of the link, closed on exec; the kernel removes the algorithm when the last descriptor
        of the link is closed and nothing pins it.

    Raises
    ------
    LibbpfError : the kernel refused it; EEXIST if the name is taken, EPERM without the privilege.
    """
    library = _libbpf()
    with _reasons() as log, _opened(library, path) as loading:
        operations = library.bpf_object__next_map(loading, None)
        if not operations:
            raise LibbpfError(path.name, errno.ENOENT, "no struct_ops map in it")
        struct_ops = ctypes.c_void_p(operations)
        library.bpf_map__set_map_flags(struct_ops, _F_LINK)
        _check("loading", library.bpf_object__load(loading), log)
        return _attached(library, struct_ops, log)


def _attached(library: Any, struct_ops: ctypes.c_void_p, log: list[str]) -> int:
    """Descriptor of a new link of the map, the caller's own.

    libbpf before 1.2 does not know links of struct_ops: it fills the map and gives the map as its link.
    """
    attached = library.bpf_map__attach_struct_ops(struct_ops)
    if not attached:
        raise LibbpfError("registering", ctypes.get_errno(), _reason(log))
    link = ctypes.c_void_p(attached)
    descriptor = int(library.bpf_link__fd(link))
    library.bpf_link__disconnect(link)  # the descriptor stays open: from here on it is the caller's
    library.bpf_link__destroy(link)
    if descriptor != library.bpf_map__fd(struct_ops):
        return descriptor
    return _check("registering", library.bpf_link_create(descriptor, 0, _ATTACH_STRUCT_OPS, None), log)


def _reason(log: list[str]) -> str:
    """The most useful message: the verifier's, or the first."""
    return next((line for line in log if line.startswith("the verifier")), log[0] if log else "")


@contextmanager
def _opened(library: Any, path: Path) -> Iterator[ctypes.c_void_p]:
    opened = library.bpf_object__open_file(os.fsencode(path), None)
    if not opened:
        raise LibbpfError(f"opening {path.name}", ctypes.get_errno())
    try:
        yield ctypes.c_void_p(opened)
    finally:
        library.bpf_object__close(ctypes.c_void_p(opened))


@contextmanager
def _reasons() -> Iterator[list[str]]:
    """Collect the messages that libbpf would print to stderr, one line each."""
    library, libc = _libbpf(), ctypes.CDLL(None)
    log: list[str] = []

    def keep(level: int, form: bytes, arguments: int) -> int:
        if level <= _KEPT_LEVEL:
            message = ctypes.create_string_buffer(_LONGEST)
            libc.vsnprintf(message, len(message), form, ctypes.c_void_p(arguments))
            log.append(_line(message.value.decode(errors="replace")))
        return 0

    with _PRINTING:
        callback = _PRINT(keep)
        before = library.libbpf_set_print(callback)
        try:
            yield log
        finally:
            library.libbpf_set_print(ctypes.c_void_p(before))


def _line(message: str) -> str:
    """The error in a message; for the verifier's log, the last line before its statistics."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if "BEGIN PROG LOAD LOG" not in message:
        return lines[0].removeprefix("libbpf: ") if lines else ""
    apart = ("libbpf:", "-- END", "processed ", "verification time ", "stack depth ", "mark_precise:")
    messages = [line for line in lines if not line.startswith(apart)]
    return f"the verifier reports: {messages[-1]}" if messages else "the verifier refuses it"


def registered() -> list[Registered]:
    """Every struct_ops link in the kernel.

    Raises
    ------
    LibbpfError : EPERM without CAP_SYS_ADMIN.
    """
    names = []
    for number, descriptor in _every("link"):
        link = _info(descriptor, _LinkInfo())
        os.close(descriptor)
        if link.type != _LINK_TYPE_STRUCT_OPS or not link.map_id:
            continue
        try:
            descriptor = _check("map", _libbpf().bpf_map_get_fd_by_id(link.map_id), [])
        except LibbpfError:
            continue  # the link has gone, and its map with it
        struct_ops = _info(descriptor, _MapInfo())
        os.close(descriptor)
        name = struct_ops.name.decode()
        names.append(Registered(name=name, link=number, map=link.map_id, btf=struct_ops.btf_id))
    return names


def programs() -> list[Program]:
    """Every loaded struct_ops program.

    Raises
    ------
    LibbpfError : EPERM without CAP_SYS_ADMIN.
    """
    names = []
    for number, descriptor in _every("prog"):
        info = _info(descriptor, _ProgramInfo())
        os.close(descriptor)
        if info.type == _PROG_TYPE_STRUCT_OPS:
            names.append(
                Program(
                    name=info.name.decode(),
                    id=number,
                    btf=info.btf_id,
                    calls=info.run_cnt,
                    ns=info.run_time_ns,
                )
            )
    return names


def hold(link: int) -> int | None:
    """Descriptor of the link with this id, or None if it is gone."""
    descriptor = _libbpf().bpf_link_get_fd_by_id(link)
    return None if descriptor < 0 else int(descriptor)


def pin(descriptor: int, path: Path) -> None:
    """Keep a link as long as `path`, a name in a BPF file system, exists."""
    _check(f"pinning {path}", _libbpf().bpf_obj_pin(descriptor, os.fsencode(path)), [])


def statistics() -> int:
    """Let the kernel count calls and run time of BPF programs until the returned descriptor is closed.

    Raises
    ------
    LibbpfError : EPERM without CAP_SYS_ADMIN.
    """
    return _check("statistics", _libbpf().bpf_enable_stats(_STATS_RUN_TIME), [])


def _every(kind: str) -> Iterator[tuple[int, int]]:
    """Ids and descriptors (the caller closes them) of every object of a kind."""
    library = _libbpf()
    following, opened = (
        getattr(library, f"bpf_{kind}_get_next_id"),
        getattr(library, f"bpf_{kind}_get_fd_by_id"),
    )
    number = ctypes.c_uint32(0)
    while (result := following(number, ctypes.byref(number))) == 0:
        descriptor = opened(number)
        if descriptor >= 0:  # otherwise it is gone
            yield number.value, descriptor
    if -result != errno.ENOENT:
        raise LibbpfError(f"listing BPF objects ({kind})", -result)


def _info(descriptor: int, info: _Info) -> _Info:
    size = ctypes.c_uint32(ctypes.sizeof(info))
    _check(
        "object info",
        _libbpf().bpf_obj_get_info_by_fd(descriptor, ctypes.byref(info), ctypes.byref(size)),
        [],
    )
    return info


def _check(call: str, result: int, log: list[str]) -> int:
    if result < 0:
        raise LibbpfError(call, -result, _reason(log))
    return int(result)
