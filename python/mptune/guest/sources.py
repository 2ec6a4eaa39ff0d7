"""The source of a kernel: Debian's package of a release, or an archive of the user's.

What no guest needs is not unpacked: documentation, other architectures, tests.
"""

import gzip
import lzma
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any, NamedTuple

from mptune import files
from mptune.errors import InputError, MptuneError
from mptune.guest.debian import Archive, order

__all__ = ["Source", "fetched", "unpack", "version_of"]

#: Paths below the top of the tree that are left out; every Kconfig stays, as they read each other.
_LEFT_OUT = re.compile(
    r"(?!.*/Kconfig)(Documentation/|arch/(?!um/|x86/)|tools/(testing|perf)/|drivers/gpu/drm/amd/include/|"
    r"(drivers/(gpu|staging|media|infiniband|scsi)|sound|fs/(xfs|btrfs|bcachefs))/.*\.[ch]$)"
)
#: Most bytes of an archive.
_LARGEST = 4 * 2**30
#: Series that Debian has a package of, for an error's list.
_PACKAGE = re.compile(r"linux-source-(\d+\.\d+)")
#: Lines of the top Makefile with the version.
_VERSION = re.compile(r"^(VERSION|PATCHLEVEL|SUBLEVEL) = (\d+)$", re.MULTILINE)


_OPENED: dict[str, Callable[[IO[bytes]], AbstractContextManager[Any]]] = {".xz": lzma.open, ".gz": gzip.open}


class Source(NamedTuple):
    """An archive of a kernel's source, and what it is called."""

    archive: Path
    name: str


@contextmanager
def fetched(release: str, folder: Path) -> Iterator[Source]:
    """The source package of a release, in a folder that goes away with its content.

    Raises
    ------
    InputError : Debian has no package of it.
    MptuneError : this machine has no apt with Debian's archive, or fetching failed.
    """
    try:
        archive = Archive(folder / "apt")
        package = f"linux-source-{release}"
        version = archive.candidate(package)
        if version is None:
            matches = (_PACKAGE.fullmatch(name) for name in archive.names("linux-source-"))
            known = sorted({match[1] for match in matches if match}, key=order)
            expected = f"expected one of {', '.join(known)}, which Debian has, or --source, found {release}"
            raise InputError("RELEASE", "", expected)
        deb = archive.fetch(package, folder / "fetched")
    except MptuneError as error:
        if isinstance(error, InputError):
            raise
        raise MptuneError(f"{error}; or name an archive: --source linux-{release}.tar.xz") from None
    unpacked = folder / "package"
    done = subprocess.run(
        ["dpkg-deb", "--extract", deb, unpacked], capture_output=True, text=True, check=False
    )
    found = list(unpacked.glob("usr/src/linux-source-*.tar.*"))
    if done.returncode or not found:
        raise MptuneError(f"{package}: expected an archive of sources in it")
    shutil.rmtree(deb.parent)
    try:
        yield Source(found[0], f"{package} {version}")
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)


def unpack(source: Source, folder: Path, advance: Callable[[float], None]) -> Path:
    """Unpack what a guest's kernel is made of; the top of the tree.

    Parameters
    ----------
    advance : called with the share that was read.

    Raises
    ------
    InputError : it is no archive of a kernel.
    """
    try:
        size = source.archive.stat().st_size
        # tarfile's own decompression takes an archive that ends early for a whole one.
        opened = _OPENED.get(source.archive.suffix, nullcontext)
        with (
            files.reading(source.archive, limit=_LARGEST) as file,
            opened(file) as stream,
            tarfile.open(fileobj=stream, mode="r|") as tar,
        ):
            for number, member in enumerate(tar):
                top, _, below = member.name.removeprefix("./").partition("/")
                if not top or _LEFT_OUT.match(below):
                    continue
                _extract(tar, member, folder)
                if number % 100 == 0:
                    advance(file.tell() / size)
    except OSError as error:
        expected = (
            f"expected an archive of Linux's sources, found {source.archive}: {error.strerror or error}"
        )
        raise InputError("--source", "", expected) from None
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise InputError("--source", "", f"expected an archive of Linux's sources: {error}") from None
    trees = [path for path in folder.iterdir() if (path / "arch/um/Kconfig").is_file()]
    if len(trees) != 1:
        raise InputError(
            "--source", "", "expected an archive of Linux's sources, found none of arch/um in it"
        )
    return trees[0]


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Extract a member below `folder`.

    Raises
    ------
    tarfile.TarError : it leads elsewhere.
    """
    if hasattr(tarfile, "data_filter"):
        tar.extract(member, folder, filter="data")
        return
    # Python 3.11.2, Debian 12's: links are left out, so that no path leads through one.
    if ".." in Path(member.name).parts:
        raise tarfile.ExtractError(f"{member.name!r} would be outside the folder")
    if member.isreg():
        member.mode &= 0o755
        tar.extract(member, folder)


def version_of(tree: Path) -> tuple[str, str]:
    """Release ("7.3") and version ("7.3.4") by the top Makefile.

    Raises
    ------
    InputError : it has none.
    """
    parts = dict(_VERSION.findall((tree / "Makefile").read_text()))
    if len(parts) != 3:
        raise InputError("--source", "", "expected a version in its Makefile")
    release = f"{parts['VERSION']}.{parts['PATCHLEVEL']}"
    return release, f"{release}.{parts['SUBLEVEL']}"
