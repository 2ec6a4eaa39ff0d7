"""One writer per campaign: an advisory lock next to the store, released when its process ends.

SQLite itself would let two processes take turns, and both would run the same missing trials.
"""

import fcntl
import os
from pathlib import Path
from types import TracebackType

from mptune.errors import MptuneError


class Lock:
    """Holds `<store>.lock` while the block runs; `taken=False` takes no lock.

    The file stays: if it were removed, a third process could lock another file of the same name.
    """

    def __init__(self, store: Path, *, taken: bool = True) -> None:
        self._path = store.with_name(store.name + ".lock")
        self._taken = taken
        self._file = -1

    def __enter__(self) -> "Lock":
        """Take the lock.

        Raises
        ------
        MptuneError : another process has it; the message gives its process ID.
        """
        if not self._taken:
            return self
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise MptuneError(f"{self._path}: {error.strerror}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._file, 32).decode(errors="replace").strip() or "unknown"
            os.close(self._file)
            raise MptuneError(f"{self._path}: process {holder} is already running this campaign") from None
        os.ftruncate(self._file, 0)
        os.write(self._file, f"{os.getpid()}\n".encode())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
