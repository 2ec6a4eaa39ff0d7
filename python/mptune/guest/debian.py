"""Packages of Debian's archive, fetched by apt below one directory, without root; nothing is installed.

apt is given directories and sources of its own, so that the machine's lists and packages stay as they are.
Its mirror and its keys are the machine's.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from mptune.errors import MptuneError
from mptune.linux.talker import last_words

__all__ = ["Archive", "order"]

#: Suites with kernels: the archive each is in (the end of its address), and its name.
SUITES = (
    ("debian", "bookworm"),
    ("debian-security", "bookworm-security"),
    ("debian", "trixie"),
    ("debian-security", "trixie-security"),
    ("debian", "trixie-backports"),
)
KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class Archive:
    """Debian's suites, with lists of their own below a directory."""

    def __init__(self, directory: Path) -> None:
        """Read the lists anew.

        Raises
        ------
        MptuneError : this machine's apt has no Debian archive, or the archive does not answer.
        """
        directory = directory.resolve()
        lists, cache = directory / "lists", directory / "cache"
        for folder in (lists / "partial", cache / "archives" / "partial"):
            folder.mkdir(parents=True, exist_ok=True)
        sources = directory / "sources.list"
        options = (
            f"Dir::Etc::SourceList={sources}",
            "Dir::Etc::SourceParts=/dev/null",
            f"Dir::State::Lists={lists}",
            f"Dir::Cache={cache}",
            # As root, apt would fetch as a user who may not write here.
            "APT::Sandbox::User=root",
        )
        self._options = [word for option in options for word in ("-o", option)]
        sources.write_text("".join(_sources()))
        self._apt("apt-get", "--quiet", "update")

    def names(self, prefix: str) -> list[str]:
        """Names of packages that begin so."""
        return self._apt("apt-cache", "pkgnames", prefix).split()

    def candidate(self, package: str) -> str | None:
        """The version that would be fetched; None for a package that is only mentioned."""
        match = re.search(r"Candidate: (\S+)", self._apt("apt-cache", "policy", package))
        return None if match is None or match[1] == "(none)" else match[1]

    def fetch(self, package: str, folder: Path) -> Path:
        """Fetch the newest version of a package into a folder, which is made.

        Raises
        ------
        MptuneError : there is none, or it could not be fetched.
        """
        folder.mkdir(parents=True)
        self._apt("apt-get", "--quiet", "download", package, cwd=folder)
        (archive,) = folder.glob("*.deb")
        return archive

    def _apt(self, tool: str, *arguments: str, cwd: Path | None = None) -> str:
        done = _ran([tool, *self._options, *arguments], cwd)
        if done.returncode != 0:
            raise MptuneError(f"{tool} {' '.join(arguments)}{last_words(done.stderr)}")
        return done.stdout


def _ran(command: list[str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
    except OSError as error:
        raise MptuneError(f"{command[0]}: {error.strerror}") from None


def _sources() -> Iterator[str]:
    """Lines of sources.list: the suites, from this machine's own mirrors."""
    listed = _ran(
        ["apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI)", "Created-By: Packages"]
    ).stdout
    addresses = [
        line.removeprefix("Debian ").rstrip("/") for line in listed.splitlines() if line.startswith("Debian ")
    ]
    by_archive = {address.rpartition("/")[2]: address for address in addresses}
    if "debian" not in by_archive or not KEYS.exists():
        raise MptuneError(f"needs apt with Debian's archive and {KEYS}")
    for archive, suite in SUITES:
        if archive in by_archive:
            yield f"deb [signed-by={KEYS}] {by_archive[archive]} {suite} main\n"


def order(release: str) -> list[int]:
    """By which the newest is found: 6.1.0-56 after 6.1.0-9, 6.12.117+deb13 after 6.12.86+deb13."""
    return [int(number) for number in re.findall(r"\d+", release)]
