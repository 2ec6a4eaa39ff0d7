"""The file of a store: opened, migrated, and SQLite's errors as lines with a remedy. It knows no trial."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from mptune.errors import InputError, MptuneError
from mptune.files import is_file
from mptune.store import _schema as schema


@contextmanager
def connected(path: Path, *, write: bool) -> Iterator[sqlite3.Connection]:
    """The file with the tables of this version."""
    with opened(path, write=write) as connection:
        schema.prepare(connection, str(path))
        if write:
            # A commit is on the disk before it is reported; readers never wait for the writer.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
        yield connection


@contextmanager
def opened(path: Path, *, write: bool) -> Iterator[sqlite3.Connection]:
    """The file as it is; SQLite's errors become lines with a remedy."""
    for suffix in ("-wal", "-shm", "-journal"):
        beside = path.with_name(path.name + suffix)
        if os.path.lexists(beside) and not is_file(beside):
            raise InputError(str(beside), "", "expected a file")
    try:
        uri = address(path, write=write)
        with closing(
            sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=10.0)
        ) as connection:
            yield connection
    except sqlite3.Error as error:
        raise explained(path, error) from None


@contextmanager
def readable(path: Path) -> Iterator[Path]:
    """The store to read: the file itself, or a migrated copy if an earlier version wrote it.

    Reading changes nothing: the file may be on read-only media, or in use by that version.
    """
    with ExitStack() as stack:
        present = path
        with opened(path, write=False) as connection:
            if schema.version(connection, str(path)) < schema.VERSION:
                present = Path(stack.enter_context(TemporaryDirectory(prefix="mptune-"))) / path.name
                with closing(sqlite3.connect(present)) as copy:
                    connection.backup(copy)
                    schema.prepare(copy, str(path))
        yield present


def address(path: Path, *, write: bool) -> str:
    """The URI for SQLite: writable if possible, otherwise for read-only media.

    Even a reader shares an index of the journal with the others, in a file that it creates if it is missing.
    If it cannot create it, a store without a journal is opened as a file that nobody changes.
    """
    mode = "rwc" if write else "rw"
    if not write and not (os.access(path.parent, os.W_OK) and os.access(path, os.W_OK)):
        journal = path.with_name(path.name + "-wal")
        mode = "ro" if journal.exists() else "ro&immutable=1"
    return f"{path.absolute().as_uri()}?mode={mode}"


#: Errors of SQLite that mean wrong content of a file, not the disk or the time.
_OF_ITS_CONTENT = ("malformed", "no such table", "no such column", "not an error", "unsupported file format")


def explained(path: Path, error: sqlite3.Error) -> MptuneError:
    """SQLite's error as a line with a remedy."""
    free = os.statvfs(path.parent).f_bavail * os.statvfs(path.parent).f_frsize
    if "full" in str(error):
        return MptuneError(
            f"{path}: the disk is full ({free // 2**20} MiB free); all trials finished before are kept: free "
            "some space and resume"
        )
    if "not a database" in str(error):
        return InputError(str(path), "", "is not a campaign store")
    if any(words in str(error) for words in _OF_ITS_CONTENT):
        return InputError(str(path), "", f"expected a campaign store, found a damaged one: {error}")
    return MptuneError(f"{path}: {error}")
