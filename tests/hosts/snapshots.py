"""Pictures of a machine: two are equal if nothing was left behind in between."""

import difflib
import hashlib
import os
import re
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.plugins.waiting import until

if TYPE_CHECKING:
    from tests.hosts.machine import Machine

#: Sessions that end take a moment to be gone, on a busy machine a long one, seconds.
_SETTLES_S = 60.0
#: Where files may be left; programs are elsewhere, read-only.
_PLACES = (
    *("/run", "/tmp", "/dev/shm", "/home", "/root", "/var", "/etc", "/opt"),
    *("/small/tmp", "/small/root", "/small/etc", "/small/dev/shm"),
)
#: What sshd writes for every session.
_LOGS = ("/var/log", "/run/sshd.pid")
#: How many sessions begin is in the command line of the listening sshd.
_STARTUPS = re.compile(r" \d+ of \d+-\d+ startups$")
_SESSION_ENDED = re.compile(r"- sshd(-session)?:? ((?!.*listener).*|<defunct>)$")
#: What is asked of a network namespace: a title, and a command whose answer is compared.
_QUESTIONS = (
    ("links", "ip -details link show"),
    ("addresses", "ip address show"),
    ("routes", "ip -4 route show table all"),
    ("routes of IPv6", "ip -6 route show table all"),
    ("rules", "ip -4 rule show"),
    ("rules of IPv6", "ip -6 rule show"),
    ("queues", "tc qdisc show"),
    ("MPTCP endpoints", "ip mptcp endpoint show"),
    ("MPTCP limits", "ip mptcp limits show"),
    ("listening sockets", "ss --no-header --numeric --listening --tcp --udp --mptcp"),
    ("nftables", "nft list ruleset"),
)


class Snapshot(NamedTuple):
    """By kind of thing and name or line of it: what it is."""

    found: Mapping[str, Mapping[str, str]]

    def difference(self, later: "Snapshot") -> str:
        """Later differences, line by line with - and +; empty if there are none.

        Sessions of sshd that have ended since are no difference.
        """
        lines = []
        for kind, before in self.found.items():
            if differing := _differing(_lines(before), _lines(later.found[kind])):
                lines += [f"{kind}:", *differing]
        return "\n".join(lines)


def _lines(values: Mapping[str, str]) -> list[str]:
    return [f"{name} {value}".rstrip() for name, value in sorted(values.items())]


def _differing(before: list[str], after: list[str]) -> list[str]:
    if before == after:
        return []
    changed = [line for line in difflib.ndiff(before, after) if line[0] in "-+"]
    return [line for line in changed if not _SESSION_ENDED.match(line)]


def take(machine: "Machine") -> Snapshot:
    """The picture of a machine now."""
    snapshot: dict[str, Mapping[str, str]] = {"settings": machine.inside(_settings)}
    script = "\n".join(f"echo '# {title}'; {command} 2>&1 || true" for title, command in _QUESTIONS)
    for part in machine.sh(script).split("# ")[1:]:
        title, *answers = part.splitlines()
        snapshot[title] = _counted(line.replace("\t", " ").strip() for line in answers)
    snapshot["processes"] = _counted(
        _STARTUPS.sub("", " ".join(words)) for _, _, words in machine.processes()
    )
    snapshot["files"] = {
        path: what for place in _PLACES for path, what in _files(machine.file("/"), machine.file(place))
    }
    return Snapshot(snapshot)


def settle(machine: "Machine", before: Snapshot, within_s: float = _SETTLES_S) -> None:
    """Wait until a machine looks as before.

    Raises
    ------
    AssertionError : it does not, in a while; with the difference.
    """
    end = time.monotonic() + within_s

    def difference_now() -> list[str]:
        difference = before.difference(machine.snapshot())
        return [difference] if not difference or time.monotonic() > end else []

    (difference,) = until(difference_now)
    assert not difference, f"left behind on {machine.name}:\n{difference}"


def _counted(lines) -> dict[str, str]:
    """Lines without their order, each with how often it occurs beyond the first."""
    counts: dict[str, int] = {}
    for line in lines:
        counts[line] = counts.get(line, 0) + 1
    return {line: "" if count == 1 else f"({count} times)" for line, count in counts.items()}


def _settings() -> dict[str, str]:
    """Values under net.* that can be set in the namespace of this thread.

    The others belong to the kernel, which this machine shares with all: its congestion controls, for example.
    """
    values, top = {}, Path("/proc/sys/net")
    for directory, _, names in os.walk(top):
        for name in names:
            path = Path(directory, name)
            with suppress(OSError):  # some can only be written, or have never been
                if path.stat().st_mode & stat.S_IWUSR:
                    values[str(path.relative_to(top.parent)).replace("/", ".")] = path.read_text().strip()
    return values


def _files(root: Path, top: Path) -> list[tuple[str, str]]:
    paths = []
    for directory, directories, names in os.walk(top):
        for name in (*directories, *names):
            path = Path(directory, name)
            relative = f"/{path.relative_to(root)}"
            if not relative.startswith(_LOGS):
                with suppress(FileNotFoundError):
                    paths.append((relative, _file(path)))
    return paths


def _file(path: Path) -> str:
    status = path.lstat()
    what = f"mode {status.st_mode:o} owner {status.st_uid}"
    if path.is_symlink():
        return f"{what} -> {path.readlink()}"
    if path.is_file():
        digest = hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()
        return f"{what} {status.st_size} bytes {digest}"
    return what


def processes(proc: Path) -> list[tuple[int, str, list[str]]]:
    """Number, name and words of the command line of every process under a /proc; a zombie has one word."""
    lines = []
    for directory in proc.iterdir():
        if directory.name.isdecimal():
            with suppress(FileNotFoundError, ProcessLookupError):
                name = (directory / "comm").read_text().strip()
                words = (directory / "cmdline").read_bytes().decode(errors="replace").split("\0")
                lines.append((int(directory.name), name, words[:-1] or [f"{name} <defunct>"]))
    return sorted(lines)
