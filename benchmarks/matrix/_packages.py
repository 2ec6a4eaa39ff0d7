"""Debian's kernels, fetched by apt and unpacked below one directory; nothing is installed.

Not a benchmark.
"""

from __future__ import annotations

import io
import lzma
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mptune.guest.debian import Archive, order

__all__ = ["Kernel", "Packages", "order"]

#: A static busybox for the first steps of a guest, and as its modprobe.
_BUSYBOX = "busybox-static"
#: Modules that a guest may load: its root file system, devices, and all of the network.
_MODULES = re.compile(
    r"/kernel/(net|lib|crypto|arch/x86/crypto|drivers/virtio|drivers/net/(tun|veth|dummy|ifb)|"
    r"fs/(9p|netfs|fscache|overlayfs))\b"
)


class Kernel(NamedTuple):
    """An unpacked kernel: its package's version, its release (`uname -r`), image, and modules."""

    version: str
    release: str
    image: Path
    modules: Path


class Packages:
    """Packages of Debian's suites below a directory."""

    def __init__(self, directory: Path) -> None:
        """Read the lists anew.

        Raises
        ------
        MptuneError : this machine's apt has no Debian archive, or the archive does not answer.
        """
        self._directory = directory.resolve()
        self._archive = Archive(self._directory)

    def kernel(self, series: str) -> Kernel:
        """The newest kernel of a series, such as "6.12", unpacked; fetched if it is not there yet.

        Raises
        ------
        SystemExit : the suites have none.
        """
        name = re.compile(rf"linux-image-({re.escape(series)}\.[\d.+deb-]*)-amd64")
        releases = [
            match[1]
            for line in self._archive.names(f"linux-image-{series}.")
            if (match := name.fullmatch(line))
        ]
        for release in sorted(releases, key=order, reverse=True):
            whole = f"{release}-amd64"
            # Up to 6.18 the image brings everything; later ones are two packages.
            split = [f"linux-binary-{whole}", f"linux-modules-{whole}"]
            parts = split if split[0] in self._archive.names("linux-binary-") else [f"linux-image-{whole}"]
            versions = [self._archive.candidate(part) for part in parts]
            if all(versions):
                return self._unpacked(versions[0] or "", whole, parts)
        raise SystemExit(f"kernel {series}: expected one that Debian has packages of, found none")

    def _unpacked(self, version: str, release: str, packages: list[str]) -> Kernel:
        root = self._directory / "kernels" / release
        modules, image = root / "lib" / "modules" / release, root / "vmlinuz"
        if not (modules / "modules.dep").exists():
            shutil.rmtree(root, ignore_errors=True)
            modules.mkdir(parents=True)
            for package in packages:
                for name, content in self._files(package):
                    if "/vmlinuz" in name:
                        image.write_bytes(content)
                    elif "/modules.builtin" in name or name.endswith("/modules.order"):
                        (modules / Path(name).name).write_bytes(content)
                    elif _MODULES.search(name):
                        path = modules / name[name.index("/kernel/") + 1 :].removesuffix(".xz")
                        path.parent.mkdir(parents=True, exist_ok=True)
                        path.write_bytes(lzma.decompress(content) if name.endswith(".xz") else content)
            subprocess.run([self.busybox(), "depmod", "-b", root, release], check=True)
        return Kernel(version, release, image, modules)

    def busybox(self) -> Path:
        """The static busybox; fetched if it is not there yet."""
        path = self._directory / "busybox"
        if not path.exists():
            content = next(content for name, content in self._files(_BUSYBOX) if name.endswith("bin/busybox"))
            path.write_bytes(content)
            path.chmod(0o755)
        return path

    def _files(self, package: str) -> Iterator[tuple[str, bytes]]:
        """Names and contents of a package's files, fetched into a directory that goes away."""
        folder = self._directory / "fetched" / package
        shutil.rmtree(folder, ignore_errors=True)
        try:
            archive = self._archive.fetch(package, folder)
            unpacked = subprocess.run(
                ["dpkg-deb", "--fsys-tarfile", archive], capture_output=True, check=True
            )
            with tarfile.open(fileobj=io.BytesIO(unpacked.stdout)) as tar:
                for member in tar:
                    if member.isfile() and (stream := tar.extractfile(member)) is not None:
                        yield member.name, stream.read()
        finally:
            shutil.rmtree(folder)
