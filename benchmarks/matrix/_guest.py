"""A guest that runs another kernel on this machine's own files, without KVM and without a disk image.

Not a benchmark. Its root is the machine's, read-only by 9p, with an overlay in the guest's memory: it has the
repository, the Python and the libraries that are here, and changes nothing. Its first steps are an initramfs
made here: busybox, the modules that 9p and overlays need, and a script. What it prints on its second serial
line are lines of JSON for whoever booted it; the first one is its console.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from _packages import Kernel
from mptune.linux.sandbox import syscalls

QEMU = "qemu-system-x86_64"
#: Modules of the first steps, with all that they need; a kernel may have some of them built in.
_FIRST = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
#: Idle class and least share: a guest keeps two processors busy.
_GENTLY = ("nice", "-n", "19", "chrt", "-i", "0")
#: Without `tsc=reliable` the kernel mistrusts the emulated counter and reads a slower clock; without the
#: mitigations, which concern real processors, it is faster.
_APPEND = (
    "console=ttyS0 panic=-1 quiet loglevel=4 tsc=reliable clocksource=tsc mitigations=off "
    "nokaslr random.trust_cpu=on"
)
#: At most this long to end after SIGTERM, seconds.
_ENDING_S = 5.0

_INIT = """#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mkdir -p /proc /dev /lower /top /root
mount -t proc proc /proc
mount -t devtmpfs dev /dev
for module in $(cat /modules/order); do insmod /modules/$module; done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=524288 root /lower || exec poweroff -f
mount -t tmpfs -o size=50% top /top
mkdir /top/upper /top/work
mount -t overlay -o lowerdir=/lower,upperdir=/top/upper,workdir=/top/work overlay /root || exec poweroff -f
mkdir -p /root/usr/lib/modules /root/usr/sbin
ln -s @MODULES@ /root/usr/lib/modules/$(uname -r)
rm -f /root/usr/sbin/modprobe
cp /bin/busybox /root/usr/sbin/modprobe
mount -t proc proc /root/proc
mount -t sysfs sys /root/sys
mount -t devtmpfs dev /root/dev
mkdir -p /root/dev/pts /root/dev/shm
mount -t devpts pts /root/dev/pts
mount -t tmpfs shm /root/dev/shm
mount -t tmpfs run /root/run
mount -t tmpfs tmp /root/tmp
mount -t cgroup2 cgroup /root/sys/fs/cgroup
mount -t bpf bpf /root/sys/fs/bpf
cp /start /root/run/start
umount /proc /dev
exec switch_root /root /bin/sh /run/start
"""
_START = """stty -F /dev/ttyS1 raw -echo
ip link set lo up
cd @DIRECTORY@
@COMMAND@ >/dev/ttyS1 </dev/null
sleep 1
echo o >/proc/sysrq-trigger
sleep 60
"""


class Ended(NamedTuple):
    """The end of a guest's output: it was done, or died, or had to be ended."""

    well: bool
    reason: str


def initramfs(kernel: Kernel, busybox: Path, command: Sequence[str], directory: Path) -> bytes:
    """An archive (newc cpio) with the first steps of a guest that then runs a command in a directory."""
    order = _needed(kernel.modules, _FIRST)
    files = {
        "bin/busybox": busybox.read_bytes(),
        "init": _INIT.replace("@MODULES@", str(kernel.modules)).encode(),
        "start": _START.replace("@DIRECTORY@", shlex.quote(str(directory)))
        .replace("@COMMAND@", shlex.join(command))
        .encode(),
        "modules/order": "\n".join(path.name for path in order).encode(),
        **{f"modules/{path.name}": path.read_bytes() for path in order},
    }
    return archive(files)


def archive(files: dict[str, bytes]) -> bytes:
    """A newc cpio archive (Linux Documentation/driver-api/early-userspace/buffer-format.rst)."""
    folders = sorted({str(parent) for name in files for parent in Path(name).parents} - {"."})
    members = [(name, 0o040755, b"") for name in folders]
    members += [(name, 0o100755, content) for name, content in files.items()]
    members.append(("TRAILER!!!", 0, b""))
    out = bytearray()
    for number, (name, mode, content) in enumerate(members, 1):
        encoded = name.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
        out += b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
        out += bytes(-len(out) % 4)
        out += content
        out += bytes(-len(out) % 4)
    return bytes(out)


def _needed(modules: Path, names: Sequence[str]) -> list[Path]:
    """Modules with those that they depend on, in the order in which they load (modules.dep of depmod)."""
    depends = {}
    for line in (modules / "modules.dep").read_text().splitlines():
        path, _, needs = line.partition(":")
        depends[Path(path).stem.replace("-", "_")] = [path, *needs.split()]
    order: list[str] = []
    for name in names:
        # A module's line lists what it needs, the deepest last; a module without a line is built in.
        order += [path for path in reversed(depends.get(name, [])) if path not in order]
    return [modules / path for path in order]


@contextlib.contextmanager
def booted(
    kernel: Kernel, archive: bytes, work: Path, processors: int = 2, memory_mib: int = 3072
) -> Iterator[Guest]:
    """A guest of this kernel. It ends with the block, and with this process, however that ends."""
    (work / "initramfs").write_bytes(archive)
    command = [
        *(*_GENTLY, QEMU, "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", str(processors)),
        *("-m", str(memory_mib), "-nodefaults", "-display", "none", "-no-reboot", "-no-user-config"),
        *("-kernel", str(kernel.image), "-initrd", str(work / "initramfs"), "-append", _APPEND),
        *("-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap"),
        *("-device", "virtio-9p-pci,fsdev=root,mount_tag=root", "-device", "virtio-rng-pci"),
        *("-serial", f"file:{work / 'console'}", "-serial", "stdio"),
    ]
    with (work / "qemu").open("wb") as complaints:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            process_group=0,  # Ctrl-C is ours to handle
            preexec_fn=syscalls.die_with_parent,
        )
    guest = Guest(process, work / "console")
    try:
        yield guest
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        guest.close()


class Guest:
    """A guest that runs."""

    def __init__(self, process: subprocess.Popen[bytes], console: Path) -> None:
        self._process, self._console = process, console
        self.ended = Ended(well=False, reason="")

    def close(self) -> None:
        """Hear no more of it."""
        if self._process.stdout is not None:
            self._process.stdout.close()

    def lines(self, silence_s: float, limit_s: float) -> Iterator[dict[str, Any]]:
        """Its lines, until it is done, silent for too long, or takes too long (`ended`)."""
        out = self._process.stdout
        if out is None:
            raise ValueError("expected a guest with a pipe")
        descriptor, pending, end = out.fileno(), b"", time.monotonic() + limit_s
        while True:
            wait_s = min(silence_s, end - time.monotonic())
            if wait_s <= 0 or not select.select([descriptor], [], [], wait_s)[0]:
                late = f"silent for {silence_s:.0f} s" if wait_s > 0 else f"not done within {limit_s:.0f} s"
                self.ended = Ended(well=False, reason=f"{late}; {self._last_words()}")
                return
            piece = os.read(descriptor, 1 << 16)
            if not piece:
                self.ended = Ended(well=self.ended.well, reason=self.ended.reason or self._last_words())
                return
            *whole, pending = (pending + piece).split(b"\n")
            for line in whole:
                try:
                    message = json.loads(line)
                except ValueError:
                    print(f"  not understood: {line[:200]!r}", file=sys.stderr)
                    continue
                if message.get("event") == "end":
                    self.ended = Ended(well=True, reason="done")
                yield message

    def _last_words(self) -> str:
        text = self._console.read_text(errors="replace") if self._console.exists() else ""
        return f"the console ends with {text.strip()[-300:]!r}"
