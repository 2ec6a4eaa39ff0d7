"""A systemd of its own: process 1 of new namespaces, over this machine's files, of which it changes none.

What it writes goes to an overlay in memory, and its network is empty. All of it ends with the process that
started it.
"""

import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.plugins.needs import Thing, lack, require
from tests.plugins.waiting import PATIENCE_S, until

TESTED = "units under a running systemd"
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

#: $1 is an empty directory, $2 the name of a control group, $3 the next script.
_OUTSIDE = """
set -e
mount -t tmpfs tmpfs "$1"
cd "$1"
mkdir cgroup up work root
mount -t cgroup2 cgroup2 cgroup
mkdir "cgroup/$2"
echo $$ > "cgroup/$2/cgroup.procs"
exec unshare --pid --fork --kill-child --mount --net --uts --ipc --cgroup bash -c "$3" boot "$1"
"""
_BOOT = """
set -e
cd "$1"
mount -t overlay overlay -o lowerdir=/,upperdir="$1/up",workdir="$1/work" root
mount -t proc proc root/proc
mount -t sysfs sysfs root/sys
mount -t cgroup2 cgroup2 root/sys/fs/cgroup
for place in run tmp dev; do mount -t tmpfs tmpfs "root/$place"; done
for device in null zero full random urandom tty; do
    touch "root/dev/$device"
    mount --bind "/dev/$device" "root/dev/$device"
done
mkdir root/dev/shm root/dev/pts root/run/before
touch root/dev/console
mount -t devpts devpts root/dev/pts -o newinstance,ptmxmode=0666
ln -s pts/ptmx root/dev/ptmx
ip link set lo up
cd root
pivot_root . run/before
umount -l /run/before
exec env -i container=mptune "$PATH_OF_UNITS" /lib/systemd/systemd --system --unit=basic.target \\
    --show-status=no --log-target=journal
""".replace('"$PATH_OF_UNITS"', _PATH)
#: $1 is an empty directory, $2 the name of the control group, which has no process any more.
_TIDY = """
mount -t cgroup2 cgroup2 "$1"
find "$1/$2" -depth -type d -exec rmdir {} +
"""


class Systemd:
    """One that has booted.

    Attributes
    ----------
    pid : of its process 1, seen from here.
    root : its files, seen from here.
    """

    def __init__(self, folder: Path) -> None:
        require("systemd", "namespaces", tested=TESTED)
        self._folder, self._group = folder, folder.name
        start = ["unshare", "--mount", "--propagation", "private", "bash", "-c", _OUTSIDE, "outside"]
        self._process = subprocess.Popen(
            [*start, str(folder), self._group, _BOOT],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.pid = 0
        try:
            until(self._is_up, "systemd to boot")
        except BaseException:
            self.close()
            raise
        if self._process.poll() is not None:
            errors = self._process.communicate()[1]
            self.close()
            lack(TESTED, Thing(f"a systemd in namespaces ({errors.strip()})", "elsewhere"))
        self.root = Path(f"/proc/{self.pid}/root")

    def _is_up(self) -> bool:
        if self._process.poll() is not None:
            return True
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        with suppress(OSError, ValueError):
            self.pid = int(children.read_text())
            if Path(f"/proc/{self.pid}/comm").read_text() == "systemd\n":
                done = self.run("systemctl", "is-active", "basic.target", fails=True)
                return done.stdout == "active\n"
        return False

    def inside(self, *command: str) -> list[str]:
        """A command line that runs there."""
        namespaces = ["--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup"]
        return ["nsenter", f"--target={self.pid}", *namespaces, "--", "env", "-i", _PATH, *command]

    def run(
        self, *command: str, fails: bool = False, text: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run something there that must not fail, or may."""
        done = subprocess.run(
            self.inside(*command),
            input=text,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert fails or done.returncode == 0, (command, done.stdout, done.stderr)
        return done

    def near(self, *command: str) -> list[str]:
        """A command line with this machine's files in its network."""
        return ["nsenter", f"--target={self.pid}", "--net", "--", *command]

    def said(self, unit: str) -> str:
        """The journal of a unit, for messages of failures."""
        return self.run("journalctl", "--no-pager", "--unit", unit, fails=True).stdout

    def properties(self, unit: str, *names: str) -> Sequence[str]:
        """Of a unit, in the order of their names here."""
        output = self.run("systemctl", "show", *(f"--property={name}" for name in names), unit).stdout
        values = dict(line.split("=", 1) for line in output.splitlines())
        return [values[name] for name in names]

    def close(self) -> None:
        """End it, and whatever runs there."""
        self._process.kill()  # its child, process 1, gets the same from the kernel
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()
        if self.pid:
            until(lambda: not Path(f"/proc/{self.pid}").exists(), "the end of systemd")
        tidy = ["unshare", "--mount", "--propagation", "private", "bash", "-c", _TIDY, "tidy"]
        command = [*tidy, str(self._folder), self._group]
        until(lambda: subprocess.run(command, capture_output=True, check=False).returncode == 0, "no group")
