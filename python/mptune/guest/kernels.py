"""The kernels that this user has built, in the user's cache directory, or in another one (`VARIABLE`).

Each has a directory called by its release (`7.3`): the program `linux`, and `kernel.json` about it. It
appears there whole, and only once it has booted.
"""

import os
import shutil
from pathlib import Path

import msgspec

from mptune import _cache, files
from mptune.errors import InputError, MptuneError, one_of

__all__ = ["DEFAULT", "Kernel", "built", "directory", "find", "remove"]

#: The release that is built and used if none is named.
DEFAULT = "7.3"
PROGRAM, ABOUT = "linux", "kernel.json"
#: Environment variable with another directory for them.
VARIABLE = "MPTUNE_KERNELS"


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel for guests.

    Attributes
    ----------
    release : its name here: the first two numbers of `version`.
    version : as `uname -r` prints it in a guest.
    source : the package or the archive that it was built from.
    recipe : digest of configuration, patch, network, and added congestion controls.
    programs : digest of the latter's text alone; empty where an earlier mptune built it.
    compiler : its first line of `--version`.
    congestion_controls : of the kernel itself, by the kernel's names.
    schedulers : of MPTCP, likewise.
    """

    release: str
    version: str
    source: str
    recipe: str
    compiler: str
    programs: str = ""
    congestion_controls: tuple[str, ...]
    schedulers: tuple[str, ...] = ("default",)

    @property
    def program(self) -> Path:
        """The kernel as a program of this machine."""
        return directory() / self.release / PROGRAM

    @property
    def size_bytes(self) -> int:
        """Size of the program."""
        return self.program.stat().st_size


def directory() -> Path:
    """Directory of all kernels, which need not exist."""
    if named := os.environ.get(VARIABLE, ""):
        return Path(named).absolute()
    return _cache.directory() / "kernels"


def built() -> list[Kernel]:
    """Every kernel that is there, the newest release first; what is unreadable is none."""
    kernels = []
    if directory().is_dir():
        for folder in directory().iterdir():
            try:
                kernel = msgspec.json.decode(files.read_bytes(folder / ABOUT), type=Kernel)
            except (OSError, msgspec.MsgspecError):
                continue
            if kernel.release == folder.name and kernel.program.is_file():
                kernels.append(kernel)
    return sorted(kernels, key=lambda kernel: numbers(kernel.version), reverse=True)


def find(release: str = "") -> Kernel:
    """A kernel by its release; without one the default, or else the newest.

    Raises
    ------
    InputError : kernels are built, but not this one.
    MptuneError : no kernel is built.
    """
    kernels = {kernel.release: kernel for kernel in built()}
    if not kernels:
        command = f"mptune kernel build {release or DEFAULT}"
        raise MptuneError(f"--testbed virtual: no kernel is built: {command} (about 5 minutes)")
    if not release:
        return kernels.get(DEFAULT) or next(iter(kernels.values()))
    if release not in kernels:
        expected = f"{one_of(kernels, release)}; mptune kernel build {release} adds it"
        raise InputError("--testbed", "", expected)
    return kernels[release]


def remove(release: str) -> int:
    """Remove a kernel; the bytes it had.

    Raises
    ------
    InputError : there is none of that release.
    """
    folder = directory() / release
    known = {kernel.release for kernel in built()}
    if release not in known:
        raise InputError("RELEASE", "", one_of(sorted(known), release) if known else "no kernel is built")
    size = sum(file.stat().st_size for file in folder.iterdir())
    shutil.rmtree(folder)
    return size


def numbers(version: str) -> tuple[int, ...]:
    """Numbers of a version, by which releases are ordered: 7.3 after 6.12 after 6.1."""
    parts = version.partition("-")[0].partition("+")[0].split(".")
    return tuple(int(part) for part in parts if part.isdecimal())
