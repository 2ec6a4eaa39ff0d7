"""The one place where mptune opens files that users name: reading never waits, writing is whole or not there.

Reading takes regular files alone, through symbolic links too. A FIFO or a terminal would wait for ever, and a
device may have no end, or do something when it is opened: so all of them are looked at first, opened without
waiting, and looked at again. What is read has a limit, whatever size the file is reported to have.

Writing goes to a temporary file beside the target, is forced to the disk, and takes the target's place at
the end; until then, and after a failure, the target is as it was. A symbolic link is followed: the file at
its end is replaced, and the link stays. Whatever exists and is no regular file is refused, and so is a link
that leads nowhere: a device, a FIFO, a socket or a directory is never replaced. A file that is replaced
keeps its mode and, where that is permitted, its owner. Between the last look and the replacement somebody
else who may write to the directory can still put something else there; the system offers nothing against
that.

Errors are OSErrors whose `strerror` has the reason in words; callers know the option concerned.
"""

import errno
import io
import json
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from mptune.errors import InputError

#: Most bytes of a file that is read whole: documents, tables, topologies.
LIMIT = 64 * 1024**2
#: Most bytes of a table that is read row by row.
TABLE_LIMIT = 1024**3
#: Bytes that are read at once.
_PIECE = 2**20

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


# ---- reading --------------------------------------------------------------------------------------


def read_bytes(path: Path, *, limit: int = LIMIT) -> bytes:
    """Content of a regular file of at most `limit` bytes."""
    content = bytearray()
    with reading(path, limit=limit) as file:
        # In pieces: `read` takes memory for all that it is asked for, however small the file is.
        while piece := file.read(min(_PIECE, limit + 1 - len(content))):
            content += piece
    if len(content) > limit:
        raise _too_large(path, limit)
    return bytes(content)


def read_text(path: Path, *, encoding: str = "utf-8", limit: int = LIMIT) -> str:
    """Text of a regular file, with its line ends as Python reads them.

    Raises
    ------
    OSError, UnicodeDecodeError : as `read_bytes`; other bytes than the encoding has.
    """
    text = read_bytes(path, limit=limit).decode(encoding)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_json(path: Path) -> Any:
    """Read a regular file of JSON.

    Raises
    ------
    OSError, ValueError : as `read_bytes`; it is not JSON.
    """
    try:
        return json.loads(read_bytes(path))
    except RecursionError:
        raise ValueError("too many brackets inside each other") from None


def reason(error: Exception) -> str:
    """Reason of an error without the file's name, which the caller has."""
    return getattr(error, "strerror", None) or str(error)


def is_file(path: Path) -> bool:
    """True if there is a regular file, whatever the path."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def name_of(path: Path) -> str:
    """The name of a directory, also of the one that is written as "." or is at the end of a link."""
    return resolved(path).name


def resolved(path: Path) -> Path:
    """The path without links as far as that is possible, whatever it is."""
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError):  # the working directory is gone, or not a possible file name
        return path


@contextmanager
def reading(path: Path, *, limit: int) -> Iterator[BinaryIO]:
    """A regular file to read from, which has at most `limit` bytes."""
    with os.fdopen(_opened(path), "rb") as file:
        if os.fstat(file.fileno()).st_size > limit:
            raise _too_large(path, limit)
        yield file


@contextmanager
def reading_table(path: Path, *, encoding: str = "utf-8") -> Iterator[TextIO]:
    """A regular file of text whose line ends are left to `csv`."""
    with reading(path, limit=TABLE_LIMIT) as file, io.TextIOWrapper(file, encoding, newline="") as text:
        yield text


def _opened(path: Path) -> int:
    """Descriptor of a regular file."""
    try:
        try:
            _check(path.stat(), path)
        except FileNotFoundError:
            if path.is_symlink():
                raise _leads_nowhere(path) from None
            raise
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except ValueError:  # NUL, or what the file system's encoding does not have
        raise OSError(errno.EINVAL, "not a possible file name", str(path)) from None
    try:
        _check(os.fstat(descriptor), path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check(status: os.stat_result, path: Path) -> None:
    """Refuse what is no regular file."""
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFREG:
        return
    kind_found = _KINDS.get(kind, "something else")
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, f"{kind_found}, not a file", str(path))
    raise OSError(errno.EINVAL, f"{kind_found}, not a file", str(path))


def _leads_nowhere(path: Path) -> OSError:
    # Not FileNotFoundError: what is optional may be missing, but this is there.
    return OSError(errno.ELOOP, "a symbolic link that leads nowhere", str(path))


def _too_large(path: Path, limit: int) -> OSError:
    return OSError(errno.EFBIG, f"larger than {limit // 1024**2} MiB", str(path))


# ---- writing --------------------------------------------------------------------------------------


def write(path: Path, content: bytes | str) -> None:
    """Write a file, all of it or nothing; text as UTF-8."""
    with writing(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of `path` at the end of the block, unless that fails."""
    target = check_target(path)
    partial = target.with_name(f".mptune-{secrets.token_hex(8)}")
    try:
        descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            _like(target, descriptor)
            os.fsync(descriptor)
        check_target(path)
        partial.replace(target)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


@contextmanager
def writing_table(path: Path) -> Iterator[TextIO]:
    """As `writing`, for text in UTF-8 whose line ends are left to `csv`."""
    with writing(path) as file:
        text = io.TextIOWrapper(file, "utf-8", newline="")
        try:
            yield text
            text.flush()
        finally:
            with suppress(ValueError):
                text.detach()


def check_target(path: Path) -> Path:
    """The file that a path means, through symbolic links; it need not exist.

    Raises
    ------
    OSError : it is no regular file, a link that leads nowhere, or in no directory.
    """
    try:
        target = path
        if path.is_symlink():
            try:
                target = path.resolve(strict=True)
            except FileNotFoundError:
                raise _leads_nowhere(path) from None
            except RuntimeError:  # Python < 3.13
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path)) from None
        with suppress(FileNotFoundError):
            _check(target.stat(), path)
            return target
        folder = target.parent.stat()
    except ValueError:
        raise OSError(errno.EINVAL, "not a possible file name", str(path)) from None
    if not stat.S_ISDIR(folder.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    if target.name in ("", ".", ".."):
        raise IsADirectoryError(errno.EISDIR, "a directory, not a file", str(path))
    return target


def check_writable(path: Path, option: str) -> None:
    """Before anything is measured or made, refuse a file that could not be written at the end.

    Raises
    ------
    InputError : naming the option.
    """
    try:
        folder = check_target(path).parent
        # Permissions are not enough to know: /proc, a full or read-only file system, root.
        descriptor, name = tempfile.mkstemp(dir=folder, prefix=".mptune-")
        os.close(descriptor)
        Path(name).unlink()
    except OSError as error:
        expected = f"expected a file that can be written, found {path}: {error.strerror}"
        raise InputError(option, "", expected) from None


def _like(target: Path, descriptor: int) -> None:
    """Mode and owner of the file that is replaced, if there is one."""
    try:
        status = target.stat()
    except FileNotFoundError:
        return
    mine = os.fstat(descriptor)
    if (mine.st_uid, mine.st_gid) != (status.st_uid, status.st_gid):
        with suppress(OSError):
            os.fchown(descriptor, status.st_uid, status.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & 0o777)
