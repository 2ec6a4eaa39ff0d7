"""The user's cache directory, and texts in it that take long to make and are the same each time.

Nothing depends on it: what cannot be read there is made again, and what cannot be written there is not kept.
"""

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mptune import files


def directory() -> Path:
    """Directory of all that is kept for this user, which need not exist."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(cache) if Path(cache).is_absolute() else Path.home() / ".cache"
    return base / "mptune"


def text(name: str, make: Callable[[], str]) -> str:
    """A text that is kept under a name, which has to change when the text does.

    One that somebody else wrote, or could have written, is not taken: a text may be a program.
    """
    try:
        folder = directory()
    except RuntimeError:  # a user without a home
        return make()
    file = folder / name
    with suppress(OSError, UnicodeDecodeError):
        if _is_own(file):
            return files.read_text(file)
    made = make()
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        # As another user (`sudo` with the caller's HOME), leave nothing in a directory of somebody else's.
        if _is_own(folder):
            file.unlink(missing_ok=True)  # also a link, which is not followed
            files.write(file, made)
    return made


def _is_own(path: Path) -> bool:
    """True if it is this user's, through no link, and nobody else may write to it."""
    status = path.lstat()
    own = not stat.S_ISLNK(status.st_mode) and status.st_uid == os.geteuid()
    return own and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
