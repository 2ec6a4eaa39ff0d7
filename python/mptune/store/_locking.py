"""One writer per run directory: an advisory lock in it, released when its process ends, however that is.

SQLite itself would let two processes take turns, and both would run the same missing trials; and what one
process replaces, another would go on to write into. The lock keeps out other processes of mptune, not other
programs.
"""

import fcntl
import os
import stat
import time
from pathlib import Path
from types import TracebackType

from mptune import files
from mptune.errors import InputError, MptuneError

#: Suffix of a store's lock.
SUFFIX = ".lock"
#: Time within which who takes the lock has written its number, seconds.
_NUMBER_S = 10.0

#: The locks that are held, and the most bytes of the number of a process.
_HELD, _NUMBER = Path("/proc/locks"), 32


def holder(store: Path) -> int | None:
    """Number of the process that holds a store's lock; None if nobody does, as far as that can be known.

    It is looked up and not tried: who tries a lock holds it for a moment, in which others are refused.
    """
    lock = store.with_name(store.name + SUFFIX)
    try:
        process = int(files.read_bytes(lock, limit=_NUMBER))
        number = str(lock.stat().st_ino)
        held = files.read_text(_HELD, encoding="ascii")
    except (OSError, ValueError):
        return None
    # "1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF" (proc_locks(5))
    rows = [line.split() for line in held.splitlines()]
    taken = {(row[4], row[5].rpartition(":")[2]) for row in rows if len(row) > 5 and row[1] == "FLOCK"}
    return process if (str(process), number) in taken else None


class Lock:
    """Holds `<store>.lock`, which is the run directory's, while the block runs; `taken=False` takes none.

    The file stays: if it were removed, a third process could lock another file of the same name.
    """

    def __init__(self, store: Path, *, taken: bool = True) -> None:
        self._path = store.with_name(store.name + SUFFIX)
        self._taken = taken
        self._file = -1

    def __enter__(self) -> "Lock":
        """Take the lock.

        Raises
        ------
        InputError : its file is something else.
        MptuneError : another process has it; the message gives its process ID.
        """
        end = time.monotonic() + _NUMBER_S
        while self._taken and self._file < 0:
            file = self._opened()
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.read(file, 32).decode(errors="replace").strip()
                os.close(file)
                if not holder and time.monotonic() < end:
                    time.sleep(_NUMBER_S / 100)
                    continue
                who = f"process {holder if holder.isdecimal() else 'unknown'}"
                raise MptuneError(f"{self._path.parent}: {who} is working in this directory") from None
            if self._is_at_its_place(file):
                self._file = file
                os.ftruncate(file, 0)
                os.write(file, f"{os.getpid()}\n".encode())
            else:  # the directory was replaced meanwhile
                os.close(file)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file >= 0:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = -1

    def _opened(self) -> int:
        """The file; never at the end of a link, and never anything that is no file: it is written into."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            file = os.open(self._path, flags, 0o644)
        except OSError as error:
            raise MptuneError(f"{self._path}: {error.strerror}") from None
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise InputError(str(self._path), "", "expected a file")
        return file

    def _is_at_its_place(self, file: int) -> bool:
        try:
            return os.path.samestat(os.fstat(file), self._path.lstat())
        except OSError:
            return False
