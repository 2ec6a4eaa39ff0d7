"""Bundles opened: the run directory in one, unpacked for as long as it is needed, and what drew its figures.

A bundle may come from anywhere. Only the run directory is unpacked, and of that only files with the names
that one has. Names that lead elsewhere, links, and anything that is there twice are refused; and so is a
bundle with too many files, or that grows beyond its limits while it is unpacked: sizes in it are not
believed.
"""

import io
import json
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO

from mptune.bundle._crate import METADATA
from mptune.bundle.making import RUN_FILES
from mptune.errors import InputError, MptuneError
from mptune.files import reading, writing
from mptune.report.files import FIGURES
from mptune.store.directory import CONFIG

#: Exceptions that a damaged zip file raises.
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)

#: Most bytes of a bundle, of what is unpacked from it, and of a file that is held in memory.
_PACKED, _UNPACKED, _HELD = 2**33, 2**33, 2**25
#: Most files: a report has some 200.
_FILES = 2000
#: Most bytes of the directory of an archive, which is read at once: no file in it has a long name.
_DIRECTORY = 2**22
#: Largest ratio of the content's size to the bundle's, where it is more than a few MiB: stores and
#: tables shrink to a tenth, bombs to a thousandth.
_RATIO, _ALWAYS = 100, 2**24
_CHUNK = 2**20


class NoBundleError(InputError):
    """A zip file that is whole, and none of a run."""


def is_bundle(path: Path) -> bool:
    """True if a path is to be read as a bundle: everything that is a file."""
    return path.is_file()


@contextmanager
def opened(places: Sequence[Path], only: Collection[str] = RUN_FILES) -> Iterator[list[Path]]:
    """Run directories for run directories and bundles; what is unpacked is removed at the end.

    Parameters
    ----------
    only : files of a run that are unpacked.

    Raises
    ------
    NoBundleError : a zip file is something else.
    InputError : a file is not a bundle, or damaged.
    MptuneError : there is no room to unpack it.
    """
    with TemporaryDirectory(prefix="mptune-") as work:
        directories = []
        for number, place in enumerate(places):
            if not is_bundle(place):
                directories.append(place)
                continue
            # The names above the run distinguish bundles of runs with the same name.
            target = Path(work) / str(number) / place.stem
            target.mkdir(parents=True)
            directories.append(_unpacked(place, target, only))
        try:
            yield directories
        except InputError as error:  # what was unpacked is gone then: its place would mean nothing
            for place, directory in zip(places, directories, strict=True):
                error.reword(_renamed(str(directory), str(place)))
            raise


def _renamed(before: str, after: str) -> Callable[[str], str]:
    return lambda text: text.replace(before, after)


def figures(bundle: Path) -> dict[str, bytes]:
    """The figures in a bundle by the names of their files; errors as `opened`."""
    folder = f"{FIGURES}/"
    with _opened(bundle) as archive:
        return {
            name.removeprefix(folder): archive.held(name) for name in archive.names if name.startswith(folder)
        }


def versions(bundle: Path) -> dict[str, str]:
    """Versions that drew the figures of a bundle; empty if they are not recorded."""
    with _opened(bundle) as archive:
        try:
            drawn = json.loads(archive.held("environment.json"))["drawn"]
            return {str(name): str(text) for name, text in drawn.items()}
        except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
            return {}


def _unpacked(bundle: Path, target: Path, only: Collection[str]) -> Path:
    """The run directory of a bundle below `target`."""
    with _opened(bundle) as archive:
        labels = [
            folder
            for folder, _, name in (text.rpartition("/") for text in archive.names)
            if name == CONFIG and folder and "/" not in folder
        ]
        if METADATA not in archive.names or len(labels) != 1:
            raise NoBundleError(str(bundle), "", "expected a bundle of mptune, found another zip file")
        directory = target / labels[0]
        try:
            directory.mkdir()
            for name in RUN_FILES:
                if name in only and f"{labels[0]}/{name}" in archive.names:
                    with writing(directory / name) as to:
                        archive.copy(f"{labels[0]}/{name}", to, _UNPACKED)
        except OSError as error:
            raise MptuneError(f"{target}: {error.strerror}") from None
        return directory


class _Archive:
    """The files of a bundle, within its limits; `names` are in their order."""

    def __init__(self, bundle: Path, archive: zipfile.ZipFile, size: int) -> None:
        self._bundle, self._archive = str(bundle), archive
        self._left = min(_UNPACKED, max(_ALWAYS, _RATIO * size))
        entries = archive.infolist()
        if len(entries) > _FILES:
            raise InputError(self._bundle, "", f"expected at most {_FILES} files, found {len(entries)}")
        self.names: list[str] = []
        known: set[str] = set()
        for entry in entries:
            self._check(entry)
            if entry.filename in known:
                raise InputError(self._bundle, entry.filename, "expected once, found twice")
            known.add(entry.filename)
            if not entry.is_dir():
                self.names.append(entry.filename)

    def _check(self, member: zipfile.ZipInfo) -> None:
        path = PurePosixPath(member.filename)
        name = member.orig_filename
        if path.is_absolute() or ".." in path.parts or not path.parts or set(name) & set("\\\0"):
            raise InputError(self._bundle, name, "expected the name of a file inside the bundle")
        if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise InputError(self._bundle, name, "expected a file, found a link or a device")
        # Only of these is no more unpacked at once than was asked for.
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise InputError(self._bundle, name, "expected it stored or deflated")

    def held(self, name: str) -> bytes:
        """A file in memory; KeyError if there is none."""
        content = io.BytesIO()
        self.copy(name, content, _HELD)
        return content.getvalue()

    def copy(self, name: str, to: IO[bytes], most: int) -> None:
        """Unpack a file of at most so many bytes.

        Raises
        ------
        InputError : it is larger, or the bundle has grown beyond what a bundle of its size contains.
        """
        with self._archive.open(name) as source:
            while content := source.read(_CHUNK):
                most -= len(content)
                self._left -= len(content)
                if most < 0 or self._left < 0:
                    what = (
                        f"expected at most {_RATIO} times its size"
                        if most >= 0
                        else "expected a smaller file"
                    )
                    raise InputError(self._bundle, name, f"{what} when it is unpacked, found more")
                to.write(content)


class _Bounded(io.BufferedReader):
    """A file that is not read in large pieces, which only the directory of an archive could ask for."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _DIRECTORY:
            raise zipfile.BadZipFile("a directory of too many files")
        return super().read(_DIRECTORY if size is None or size < 0 else size)


@contextmanager
def _opened(bundle: Path) -> Iterator[_Archive]:
    """A bundle; what is wrong with it is an InputError."""
    try:
        with (
            reading(bundle, limit=_PACKED) as file,
            zipfile.ZipFile(_Bounded(io.FileIO(file.fileno(), closefd=False))) as archive,
        ):
            yield _Archive(bundle, archive, os.fstat(file.fileno()).st_size)
    except _DAMAGED as error:
        raise InputError(str(bundle), "", f"expected a run directory or a bundle: {error}") from None
    except OSError as error:
        raise InputError(str(bundle), "", f"expected a readable file: {error.strerror}") from None
