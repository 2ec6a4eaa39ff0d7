"""Kernels' trees that are kept with what was compiled of them, so that a build compiles only what changed.

A tree is kept for each release, with a file about it that is written once the tree is patched and
configured: one without that file is of no use, and is replaced. Whatever mptune adds to a tree is written by
`put`, which leaves a file alone that is as it should be: make goes by the time of a file.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from mptune import files
from mptune.guest import kernels

__all__ = [
    "DEBIAN",
    "Kept",
    "append",
    "begin",
    "find",
    "finish",
    "origin",
    "put",
    "remove",
    "replace",
    "tidy",
]

#: Of a tree whose sources are the distribution's.
DEBIAN = "Debian"
_PREFIX = "tree-"
_ABOUT = "tree.json"


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A tree that is kept.

    Attributes
    ----------
    release : its two first numbers.
    source : package or archive, for people.
    origin : which one exactly: `DEBIAN`, or an archive's place, size and time.
    base : digest of patch and configuration.
    place : the top of the sources; what is compiled of them is beside it.
    """

    release: str
    source: str
    origin: str
    base: str
    place: str

    @property
    def tree(self) -> Path:
        """The top of the sources."""
        return Path(self.place)


def origin(archive: Path | None) -> str:
    """Origin of a build's sources: the distribution's, or an archive as it is now."""
    if archive is None:
        return DEBIAN
    try:
        facts = archive.stat()
    except OSError:
        return str(archive)
    return f"{archive.resolve()} {facts.st_size} {facts.st_mtime_ns}"


def find(release: str | None, wanted: str, base: str) -> Kept | None:
    """The tree that such a build can go on with; `release` is None where the archive decides."""
    for folder in sorted(kernels.directory().glob(f"{_PREFIX}*")):
        try:
            kept = msgspec.json.decode(files.read_bytes(folder / _ABOUT), type=Kept)
        except (OSError, msgspec.MsgspecError):
            continue
        fits = kept.origin == wanted and kept.base == base and release in (None, kept.release)
        # Make knows files by their whole paths: a directory that was moved is none.
        if fits and kept.tree.parent == folder and kept.tree.is_dir():
            return kept
    return None


def begin(release: str, tree: Path) -> Path:
    """Put an unpacked tree where it is kept; its top there."""
    remove(release)
    folder = _folder(release)
    folder.mkdir()
    return tree.rename(folder / tree.name)


def finish(kept: Kept) -> None:
    """From now on builds may go on with the tree."""
    (kept.tree.parent / _ABOUT).write_bytes(msgspec.json.format(msgspec.json.encode(kept)))


def remove(release: str) -> int:
    """Remove the tree of a release, if there is one; the bytes it had."""
    folder = _folder(release)
    if not folder.is_dir():
        return 0
    (folder / _ABOUT).unlink(missing_ok=True)
    size = sum(file.lstat().st_size for file in folder.rglob("*"))
    shutil.rmtree(folder)
    return size


def tidy() -> None:
    """Remove what a build that was killed has left of a tree."""
    for folder in kernels.directory().glob(f"{_PREFIX}*"):
        if not (folder / _ABOUT).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _folder(release: str) -> Path:
    return kernels.directory() / f"{_PREFIX}{release}"


def put(path: Path, content: bytes) -> None:
    """Write a file, unless it has this content."""
    if not path.is_file() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def replace(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Let a folder have these files, by their relative names, and no others."""
    for name, content in contents.items():
        put(folder / name, content)
    for file in folder.rglob("*"):
        if file.is_file() and str(file.relative_to(folder)) not in contents:
            file.unlink()


def append(path: Path, line: str) -> None:
    """Let a text file end with a line."""
    text = path.read_text()
    if not text.endswith(line):
        path.write_text(text + line)
