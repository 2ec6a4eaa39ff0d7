"""One of the two machines: its namespaces, users and sshd, and what can go wrong with it.

Not its links: `tests.hosts.world` makes them.
"""

import base64
import os
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from mptune.linux.sandbox.processes import Child
from tests.hosts import snapshots
from tests.plugins.netlink import inside
from tests.plugins.waiting import PATIENCE_S, until

T = TypeVar("T")

INIT = Path(__file__).with_name("init.py")
#: Longest time for a step that takes a fraction of a second where nobody else is at work, seconds.
STEP_S = PATIENCE_S
#: Of a machine after its start.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Taken over from the real machine where they exist: what programs need to start, and sudo to decide.
COPIES = (
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/login.defs"),
    *("/etc/pam.d", "/etc/pam.conf", "/etc/security", "/etc/protocols", "/etc/services", "/etc/iproute2"),
    *("/etc/gai.conf", "/etc/sudo.conf", "/etc/localtime", "/etc/crypto-policies"),
)
#: A login shell that greets before it does what it was asked for.
BANNER_SHELL = "/etc/banner-shell"
BANNER = "Welcome! 3 updates can be applied."


class User(NamedTuple):
    """An account."""

    name: str
    uid: int
    home: str
    shell: str = "/bin/sh"


#: Who can log in: root, a user without sudo, one with `sudo -n`, and one whose shell prints a banner.
ROOT = User("root", 0, "/root")
PLAIN = User("plain", 1001, "/home/plain")
SUDOER = User("sudoer", 1002, "/home/sudoer")
GREETED = User("greeted", 1003, "/home/greeted", BANNER_SHELL)
USERS = (ROOT, PLAIN, SUDOER, GREETED)
SERVICES = (User("sshd", 101, "/run/sshd", "/usr/sbin/nologin"), User("nobody", 65534, "/nonexistent"))

SSHD_CONFIG = """
HostKey /etc/ssh/host_key
AuthorizedKeysFile /etc/ssh/authorized_keys
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
PermitRootLogin prohibit-password
StrictModes no
PrintMotd no
PrintLastLog no
UseDNS no
PidFile /run/sshd.pid
MaxStartups 100
"""
#: Who logs in is where busybox is all there is (tests/hosts/init.py).
SMALL = "ChrootDirectory /small\n"
SUDOERS = """
Defaults !lecture, timestamp_timeout=0, secure_path="{path}"
root ALL=(ALL:ALL) ALL
sudoer ALL=(ALL:ALL) NOPASSWD: ALL
"""


class Keys(NamedTuple):
    """The text of a private key and of its public key."""

    private: str
    public: str


class Machine:
    """A machine with its own network, file system, processes, host name, uptime and sshd.

    Made by a `World`, which ends it too.

    Attributes
    ----------
    name : its host name, by which the world's ssh configuration knows it.
    netns : path of its network namespace, for `inside`.
    pid : number of its first process, seen from here.
    """

    netns: str
    pid: int

    def __init__(
        self,
        name: str,
        run: str,
        host_key: Keys,
        authorized: str,
        *,
        uptime_s: int,
        preload: bytes | None = None,
        busybox: str | None = None,
    ) -> None:
        self.name = name
        #: Ends of its links: network namespace and device.
        self.cables: list[tuple[str, str]] = []
        self._child = Child(f"machine {name}", [sys.executable, "-I", "-S", str(INIT)], run)
        self._child.tell(
            {
                "hostname": name,
                "uptime_s": uptime_s,
                "files": _files(name, host_key, authorized, preload, small=busybox is not None),
                "busybox": busybox,
                "links": {"/dev/ptmx": "pts/ptmx", "/dev/fd": "/proc/self/fd", "/var/run": "/run"},
                "copies": COPIES,
            }
        )

    def __enter__(self) -> Self:
        self.pid = self._child.expect("up", STEP_S)["pid"]
        self._pidfd = os.pidfd_open(self.pid)
        self.netns = f"/proc/{self.pid}/ns/net"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        os.close(self._pidfd)

    def end(self) -> None:
        """End what started it, also where it never came up."""
        self._child.end(grace_s=0)

    @property
    def alive(self) -> bool:
        """Its first process has not ended."""
        return not select.select([self._pidfd], [], [], 0)[0]

    def kill(self) -> None:
        """Pull the plug: the network is gone, then every process ends at once; no connection is closed."""
        if not self.alive:
            return
        for netns, device in self.cables:
            unplug = ["nsenter", f"--net={netns}", "ip", "link", "delete", device]
            subprocess.run(unplug, capture_output=True, check=False)
        self.cables.clear()
        try:
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        except ProcessLookupError:
            return
        select.select([self._pidfd], [], [], STEP_S)

    def command(self, argv: Sequence[str], user: User = ROOT) -> list[str]:
        """The command line that runs a program there, from here."""
        enter = ["nsenter", f"--target={self.pid}", "--all", "--root", "--wd"]
        become = [f"--setuid={user.uid}", f"--setgid={user.uid}"] if user.uid else []
        variables = {
            "PATH": PATH,
            "HOME": user.home,
            "USER": user.name,
            "SHELL": user.shell,
            "LANG": "C.UTF-8",
        }
        clean = ["/usr/bin/env", "-i", *(f"{name}={value}" for name, value in variables.items())]
        return [*enter, *become, "--", *clean, *argv]

    def run(
        self, *argv: str, user: User = ROOT, text: str = "", check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a program there to its end; `text` is its input.

        Raises
        ------
        AssertionError : it fails, and `check` is set.
        """
        done = subprocess.run(
            self.command(argv, user), input=text, capture_output=True, text=True, timeout=STEP_S, check=False
        )
        assert done.returncode == 0 or not check, f"{self.name}: {shlex.join(argv)}: {done.stderr}"
        return done

    def sh(self, script: str, user: User = ROOT) -> str:
        """Run a shell script there, and return what it prints."""
        return self.run("sh", "-euc", script, user=user).stdout

    def start(self, *argv: str, user: User = ROOT) -> subprocess.Popen[bytes]:
        """Start a program there, with pipes; who calls this ends it."""
        pipe = subprocess.PIPE
        return subprocess.Popen(self.command(argv, user), stdin=pipe, stdout=pipe, stderr=pipe)

    def inside(self, call: Callable[[], T]) -> T:
        """Call a function in its network namespace; sockets that it opens stay there."""
        return inside(self.netns, call)

    def file(self, path: str) -> Path:
        """A file of its, from here; a link in it that begins with a slash leads astray."""
        return Path(f"/proc/{self.pid}/root", path.lstrip("/"))

    def sysctl(self, name: str, value: str | None = None) -> str:
        """A setting by its name in slashes or dots, changed first if a value is given."""
        path = Path("/proc/sys", *name.split("/") if "/" in name else name.split("."))

        def access() -> str:
            if value is not None:
                path.write_text(value, encoding="ascii")
            return path.read_text(encoding="ascii").strip()

        return self.inside(access)

    # sshd

    def start_sshd(self) -> None:
        """Let it listen on every address, and wait until it does."""
        self.run("/usr/sbin/sshd", "-f", "/etc/ssh/sshd_config", "-E", "/var/log/sshd.log")
        until(self.sshd_pid, f"sshd of {self.name}")

    def sshd_pid(self) -> int | None:
        """Number of the listening sshd as the machine itself sees it."""
        try:
            return int(self.file("/run/sshd.pid").read_text())
        except (OSError, ValueError):
            return None

    def kill_sshd(self) -> None:
        """Kill sshd with its sessions; what runs in these loses its pipes."""
        assert self.kill_processes("sshd")
        self.file("/run/sshd.pid").unlink(missing_ok=True)

    def kill_processes(self, name: str) -> int:
        """Kill every process whose name, or whose program's, begins like this; returns how many.

        The program counts even if its file is gone or if it was started by another name.
        """
        pids = [
            str(number)
            for number, called, words in self.processes()
            if any(
                called_name.startswith(name)
                for called_name in (called, Path(words[0]).name, self._program(number))
            )
        ]
        if pids:
            self.run("kill", "-KILL", *pids, check=False)
        return len(pids)

    def _program(self, number: int) -> str:
        try:
            return self.file(f"/proc/{number}/exe").readlink().name
        except OSError:
            return ""

    def processes(self) -> list[tuple[int, str, list[str]]]:
        """Number there, name and words of the command line of every process; a zombie has one word."""
        return snapshots.processes(self.file("/proc"))

    # what goes wrong

    @contextmanager
    def disk_full(self, *directories: str) -> Iterator[None]:
        """Inside the block no byte fits behind /run, /tmp, /dev/shm, /home, /root or /var."""
        for directory in directories:
            self.run("dd", "if=/dev/zero", f"of={directory}/.full", "bs=1M", check=False)
        try:
            yield
        finally:
            for directory in directories:
                self.sh(f"rm {directory}/.full")

    @contextmanager
    def read_only(self, *directories: str) -> Iterator[None]:
        """Inside the block nobody can write to /run, /tmp, /dev/shm, /home or /root."""
        for directory in directories:
            self.run("mount", "-n", "-o", "remount,ro", directory)
        try:
            yield
        finally:
            for directory in directories:
                self.run("mount", "-n", "-o", "remount,rw", directory)

    # what is left behind

    def snapshot(self) -> snapshots.Snapshot:
        """Everything that a session could have left behind."""
        return snapshots.take(self)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """The block leaves nothing behind.

        Raises
        ------
        AssertionError : it does; the message is a readable difference.
        """
        before = self.snapshot()
        yield
        snapshots.settle(self, before)


def _files(
    name: str, host_key: Keys, authorized: str, preload: bytes | None, *, small: bool
) -> dict[str, object]:
    """Files of its own, by path: mode, owner, contents; a directory has none."""
    accounts = [*USERS, *SERVICES]
    passwd = "".join(f"{u.name}:x:{u.uid}:{u.uid}::{u.home}:{u.shell}\n" for u in accounts)
    text: dict[str, tuple[int, str]] = {
        "/etc/passwd": (0o644, passwd),
        "/etc/group": (0o644, "".join(f"{u.name}:x:{u.uid}:\n" for u in accounts) + "tty:x:5:\n"),
        "/etc/shadow": (0o600, "".join(f"{u.name}:*:19000:0:99999:7:::\n" for u in accounts)),
        "/etc/hostname": (0o644, f"{name}\n"),
        "/etc/hosts": (0o644, f"127.0.0.1 localhost\n127.0.1.1 {name}\n::1 localhost\n"),
        "/etc/nsswitch.conf": (0o644, "passwd: files\ngroup: files\nshadow: files\nhosts: files\n"),
        "/etc/profile": (0o644, f"PATH={PATH}\n"),
        "/etc/shells": (0o644, f"/bin/sh\n{BANNER_SHELL}\n"),
        BANNER_SHELL: (0o755, f'#!/bin/sh\necho "{BANNER}"\nexec /bin/sh "$@"\n'),
        "/etc/sudoers": (0o440, SUDOERS.format(path=PATH)),
        "/etc/ssh/sshd_config": (0o644, SSHD_CONFIG + (SMALL if small else "")),
        "/etc/ssh/host_key": (0o600, host_key.private),
        "/etc/ssh/authorized_keys": (0o644, authorized),
    }
    files: dict[str, object] = {
        path: [mode, 0, base64.b64encode(content.encode()).decode()] for path, (mode, content) in text.items()
    }
    for directory in ("/run/sshd", "/run/lock", "/run/user", "/var/log", "/var/lib", "/var/tmp", "/opt"):
        files[directory] = [0o755, 0, None]
    for user in USERS:
        files[user.home] = [0o700, user.uid, None]
    if preload is not None:
        files["/etc/clock.so"] = [0o755, 0, base64.b64encode(preload).decode()]
        files["/etc/ld.so.preload"] = [0o644, 0, base64.b64encode(b"/etc/clock.so\n").decode()]
    return files
