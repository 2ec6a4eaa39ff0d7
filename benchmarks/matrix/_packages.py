"""Debian's kernels, fetched by apt and unpacked below one directory; nothing is installed.

Not a benchmark. apt is given directories and sources of its own, so that the machine's lists and packages
stay as they are. Its mirror and its keys are the machine's.
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

#: Suites with kernels: the archive each is in (the end of its address), and its name.
_SUITES = (
    ("debian", "bookworm"),
    ("debian-security", "bookworm-security"),
    ("debian", "trixie"),
    ("debian-security", "trixie-security"),
    ("debian", "trixie-backports"),
)
_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
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
        SystemExit : this machine's apt has no Debian archive, or the archive does not answer.
        """
        self._directory = directory.resolve()
        lists, cache = self._directory / "lists", self._directory / "cache"
        for folder in (lists / "partial", cache / "archives" / "partial"):
            folder.mkdir(parents=True, exist_ok=True)
        sources = self._directory / "sources.list"
        self._options = [
            *("-o", f"Dir::Etc::SourceList={sources}", "-o", "Dir::Etc::SourceParts=/dev/null"),
            *(
                "-o",
                f"Dir::State::Lists={lists}",
                "-o",
                f"Dir::Cache={cache}",
                "-o",
                "APT::Sandbox::User=root",
            ),
        ]
        sources.write_text("".join(_sources()))
        self._apt("apt-get", "--quiet", "update")

    def _apt(self, tool: str, *arguments: str, cwd: Path | None = None) -> str:
        command = [tool, *self._options, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
        if done.returncode != 0:
            raise SystemExit(f"{tool} {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def kernel(self, series: str) -> Kernel:
        """The newest kernel of a series, such as "6.12", unpacked; fetched if it is not there yet.

        Raises
        ------
        SystemExit : the suites have none.
        """
        name = re.compile(rf"linux-image-({re.escape(series)}\.[\d.+deb-]*)-amd64")
        releases = [
            match[1] for line in self._names(f"linux-image-{series}.") if (match := name.fullmatch(line))
        ]
        for release in sorted(releases, key=order, reverse=True):
            whole = f"{release}-amd64"
            # Up to 6.18 the image brings everything; later ones are two packages.
            split = [f"linux-binary-{whole}", f"linux-modules-{whole}"]
            parts = split if split[0] in self._names("linux-binary-") else [f"linux-image-{whole}"]
            versions = [self._candidate(part) for part in parts]
            if all(versions):
                return self._unpacked(versions[0] or "", whole, parts)
        raise SystemExit(f"kernel {series}: expected one that Debian has packages of, found none")

    def _names(self, prefix: str) -> list[str]:
        return self._apt("apt-cache", "pkgnames", prefix).split()

    def _candidate(self, package: str) -> str | None:
        """The version that would be fetched; None for a package that is only mentioned."""
        match = re.search(r"Candidate: (\S+)", self._apt("apt-cache", "policy", package))
        return None if match is None or match[1] == "(none)" else match[1]

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
        folder.mkdir(parents=True)
        try:
            self._apt("apt-get", "--quiet", "download", package, cwd=folder)
            (archive,) = folder.glob("*.deb")
            unpacked = subprocess.run(
                ["dpkg-deb", "--fsys-tarfile", archive], capture_output=True, check=True
            )
            with tarfile.open(fileobj=io.BytesIO(unpacked.stdout)) as tar:
                for member in tar:
                    if member.isfile() and (stream := tar.extractfile(member)) is not None:
                        yield member.name, stream.read()
        finally:
            shutil.rmtree(folder)


def _sources() -> Iterator[str]:
    """Lines of sources.list: the suites, from this machine's own mirrors."""
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.splitlines()
    addresses = [line.removeprefix("Debian ").rstrip("/") for line in listed if line.startswith("Debian ")]
    by_archive = {address.rpartition("/")[2]: address for address in addresses}
    if "debian" not in by_archive or not _KEYS.exists():
        raise SystemExit(f"needs apt with Debian's archive and {_KEYS}")
    for archive, suite in _SUITES:
        if archive in by_archive:
            yield f"deb [signed-by={_KEYS}] {by_archive[archive]} {suite} main\n"


def order(release: str) -> list[int]:
    """By which the newest is found: 6.1.0-56 after 6.1.0-9, 6.12.117+deb13 after 6.12.86+deb13."""
    return [int(number) for number in re.findall(r"\d+", release)]
