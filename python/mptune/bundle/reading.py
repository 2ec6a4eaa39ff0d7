"""Bundles opened: the run directory in one, unpacked for as long as it is needed, and what drew its figures.

A bundle may come from anywhere: names in it are not trusted, and only the run directory is unpacked.
"""

import json
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from mptune.bundle._crate import METADATA
from mptune.bundle.making import RUN_FILES
from mptune.errors import InputError, MptuneError
from mptune.report.files import FIGURES
from mptune.store.directory import CONFIG

#: What a damaged zip file raises, depending on where it is damaged.
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


def is_bundle(path: Path) -> bool:
    """Whether a path is to be read as a bundle: everything that is a file."""
    return path.is_file()


@contextmanager
def opened(places: Sequence[Path]) -> Iterator[list[Path]]:
    """Run directories for run directories and bundles; what is unpacked is removed at the end.

    Raises
    ------
    InputError : a file is not a bundle, or damaged.
    MptuneError : there is no room to unpack it.
    """
    with TemporaryDirectory(prefix="mptune-") as work:
        found = []
        for number, one in enumerate(places):
            if not is_bundle(one):
                found.append(one)
                continue
            # The names above the run tell several bundles of runs with the same name apart.
            target = Path(work) / str(number) / one.stem
            target.mkdir(parents=True)
            found.append(_unpacked(one, target))
        yield found


def figures(bundle: Path) -> dict[str, bytes]:
    """The figures in a bundle by the names of their files; errors as `opened`."""
    with _zip(bundle) as archive:
        folder = f"{FIGURES}/"
        return {
            name.removeprefix(folder): archive.read(name)
            for name in archive.namelist()
            if name.startswith(folder)
        }


def versions(bundle: Path) -> dict[str, str]:
    """Versions that drew the figures of a bundle; empty if it does not say."""
    with _zip(bundle) as archive:
        try:
            drawn = json.loads(archive.read("environment.json"))["drawn"]
            return {str(name): str(text) for name, text in drawn.items()}
        except (KeyError, ValueError, TypeError, AttributeError):
            return {}


def _unpacked(bundle: Path, target: Path) -> Path:
    """The run directory of a bundle below `target`."""
    with _zip(bundle) as archive:
        inside = set(archive.namelist())
        labels = [
            folder
            for folder, _, name in (one.rpartition("/") for one in sorted(inside))
            if name == CONFIG and folder not in ("", ".", "..") and not set(folder) & set("/\\\0")
        ]
        if METADATA not in inside or len(labels) != 1:
            raise InputError(str(bundle), "", "expected a bundle of mptune, found another zip file")
        directory = target / labels[0]
        directory.mkdir()
        try:
            for name in RUN_FILES:
                if f"{labels[0]}/{name}" in inside:
                    with archive.open(f"{labels[0]}/{name}") as source, (directory / name).open("wb") as to:
                        shutil.copyfileobj(source, to, 1 << 20)
        except OSError as error:
            raise MptuneError(f"{target}: {error.strerror}") from None
        return directory


@contextmanager
def _zip(bundle: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(bundle) as archive:
            yield archive
    except _DAMAGED as error:
        raise InputError(str(bundle), "", f"expected a run directory or a bundle: {error}") from None
    except OSError as error:
        raise InputError(str(bundle), "", f"expected a readable file: {error.strerror}") from None
