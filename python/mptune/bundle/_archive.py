"""Zip files that are the same for the same content, and whole or not there."""

import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path

from mptune.files import reading, writing

#: The earliest time that a zip file can have; rw-r--r-- of a file, in the upper half of its attributes.
_TIME = (1980, 1, 1, 0, 0, 0)
_MODE = 0o100644 << 16

#: No file of a bundle is larger, bytes: far above any store.
_LARGEST = 2**40

#: Made on Unix, whatever this machine is.
_UNIX = 3

#: These are compressed already.
_STORED = {".png", ".pdf", ".parquet"}


def write_zip(path: Path, files: Mapping[str, Path]) -> None:
    """Write files under their names, in the order given; a failure or Ctrl-C leaves what was at `path`.

    Raises
    ------
    OSError : it cannot be written.
    """
    with writing(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, source in files.items():
            with (
                reading(source, limit=_LARGEST) as content,
                archive.open(_entry(name), "w", force_zip64=True) as to,
            ):
                shutil.copyfileobj(content, to, 1 << 20)


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _TIME)
    entry.create_system = _UNIX
    entry.external_attr = _MODE
    entry.compress_type = zipfile.ZIP_STORED if Path(name).suffix in _STORED else zipfile.ZIP_DEFLATED
    return entry
