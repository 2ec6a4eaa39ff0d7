"""Routes in a file, a line of JSON for each time they were traced, and the next time.

A line is written at once; one that is not whole, as its writer was killed, is passed over.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import msgspec

from mptune import files
from mptune.errors import InputError, MptuneError
from mptune.routes.snapshots import Snapshot

#: The files in a run directory: routes, and the networks that their routers are in.
ROUTES, NETWORKS = "routes.jsonl", "networks.csv"


def append(path: Path, snapshot: Snapshot) -> None:
    """Add a line to the file, which is made if there is none.

    Raises
    ------
    MptuneError : it cannot be written.
    """
    line = msgspec.json.encode(snapshot) + b"\n"
    try:
        with files.check_target(path).open("ab+") as file:
            if file.tell() and not _ends_whole(path):
                line = b"\n" + line
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise MptuneError(f"{path}: {error.strerror}") from None


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"


def read(path: Path) -> list[Snapshot]:
    """Everything that was traced; nothing if there is no file.

    Raises
    ------
    InputError : naming the first line that cannot be read, unless it is the last one, left unfinished.
    """
    if not files.is_file(path):
        return []
    try:
        text = files.read_text(path)
    except (OSError, ValueError) as error:
        raise InputError(str(path), "", f"expected a file of routes: {files.reason(error)}") from None
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        # The beginning of a line is what a writer left that was killed.
        if not line or (line.startswith("{") and not line.endswith("}")):
            continue
        try:
            snapshot = msgspec.json.decode(line, type=Snapshot)
            if datetime.fromisoformat(snapshot.at).tzinfo is None:
                raise ValueError("no time zone")
        except (msgspec.DecodeError, ValueError):
            raise InputError(str(path), f"line {number}", "expected routes as mptune writes them") from None
        found.append(snapshot)
    return found


class Follower:
    """Traces routes at intervals, and keeps them.

    Parameters
    ----------
    every_ns : from the beginning of one tracing to that of the next, nanoseconds.
    trace : gives the routes of now, or why there are none.
    path : the file, which may have earlier ones: the interval holds from the last of these on.
    now : seconds since 1970.
    """

    def __init__(
        self,
        every_ns: int,
        trace: Callable[[], Snapshot],
        path: Path,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._every_s, self._trace, self._path, self._now = every_ns / 1e9, trace, path, now
        earlier = read(path)
        self._last_s = datetime.fromisoformat(earlier[-1].at).timestamp() if earlier else None

    @property
    def due(self) -> datetime:
        """Time of the next tracing, which may be over."""
        at_s = self._now() if self._last_s is None else self._last_s + self._every_s
        return datetime.fromtimestamp(at_s).astimezone()

    def follow(self) -> None:
        """Trace the routes if it is time to.

        Raises
        ------
        MptuneError : the file cannot be written.
        KeyboardInterrupt : Ctrl-C.
        """
        now_s = self._now()
        # A clock that was set back does not stop it for good.
        if self._last_s is None or not self._last_s <= now_s < self._last_s + self._every_s:
            self._last_s = now_s
            append(self._path, self._trace())
