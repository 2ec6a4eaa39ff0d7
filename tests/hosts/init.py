"""The first process of a machine: namespaces, a file system of its own, and the burial of orphans.

Run by its path, with Python's standard library alone. It reads one line of JSON and prints one:

    in   {"hostname", "uptime_s", "files": {path: [mode, uid, base64 or null]}, "links": {path: target},
          "copies": [path], "busybox": path of the program, or null}
    out  {"event": "up", "pid": number of the first process as the caller sees it}
    out  {"event": "down"} when that has ended

The machine ends with this process, and this process with the one that started it, however that ends. It
shares with the real machine the programs under /usr, read-only, and the devices that are no hardware.
With `busybox` it has a second root in /small, for those who log in: as on OpenWrt, with no other program.
"""

import base64
import ctypes
import json
import os
import shutil
import signal
import socket
import sys
from pathlib import Path

# include/uapi/linux/sched.h
CLONE_NEWTIME, CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x80, 0x20000, 0x4000000, 0x8000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
# include/uapi/linux/mount.h
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
PLAIN = MS_NOSUID | MS_NODEV | MS_NOEXEC
MNT_DETACH = 2
PR_SET_PDEATHSIG = 1

LIBC = ctypes.CDLL(None, use_errno=True)

#: Where the new root is put together, in a name space of our own: what is there is hidden from us alone.
ROOT = Path("/tmp")
#: Directories of programs, which in a merged file system are links to /usr.
PROGRAMS = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "net/tun")
#: What is written to has a file system of its own, with the options that Debian gives it.
WRITABLE = {
    "run": (PLAIN, "mode=755"),
    "tmp": (MS_NOSUID | MS_NODEV, "mode=1777"),
    "dev/shm": (MS_NOSUID | MS_NODEV, "mode=1777"),
    "home": (MS_NODEV, "mode=755"),
    "root": (MS_NODEV, "mode=700"),
    "var": (MS_NODEV, "mode=755"),
}
SIZE = "size=64m"
#: The second root, and what busybox is called there: of what OpenWrt has by default, what a session could ask
#: for. No ss, sudo, nohup, timeout or stat; its shell has applets without a link too, such as `ip`.
SMALL = ROOT / "small"
APPLETS = (
    *("[", "ash", "awk", "basename", "cat", "chmod", "chown", "cp", "cut", "date", "dd", "df", "dirname"),
    *("du", "echo", "env", "expr", "false", "find", "grep", "head", "id", "ifconfig", "kill", "ln", "logger"),
    *("ls", "mkdir", "mktemp", "mount", "mv", "nc", "pgrep", "ping", "printf", "ps", "pwd", "readlink", "rm"),
    *("rmdir", "route", "sed", "seq", "sh", "sha256sum", "sleep", "sort", "sysctl", "tail", "tar", "tee"),
    *("test", "touch", "tr", "true", "umount", "uname", "uniq", "wc", "which", "xargs"),
)


def main() -> int:
    """Start the machine and wait for its end."""
    die_with_parent()
    line = sys.stdin.readline()
    if not line:
        return 0
    spec = json.loads(line)
    spaces = CLONE_NEWTIME | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET
    checked("unshare", LIBC.unshare(spaces))
    shift = spec["uptime_s"]
    Path("/proc/self/timens_offsets").write_text(f"monotonic {shift} 0\nboottime {shift} 0\n")
    ready, readied = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ready)
        live(spec, readied)
    os.close(readied)
    reason = b"".join(iter(lambda: os.read(ready, 4096), b"")).decode()
    say({"event": "error", "reason": reason} if reason else {"event": "up", "pid": pid})
    os.waitpid(pid, 0)
    say({"event": "down"})
    return 0


def say(message: dict[str, object]) -> None:
    """Print a line."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def checked(call: str, result: int) -> None:
    """Raise what a system call has left."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")


def die_with_parent() -> None:
    """Be killed when the process that started this one ends."""
    checked("prctl", LIBC.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0))


def live(spec: dict, readied: int) -> None:
    """Be process 1 until killed; what goes wrong before is written to the pipe."""
    try:
        die_with_parent()
        os.umask(0o022)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        build(spec)
        socket.sethostname(spec["hostname"])
        nothing = os.open("/dev/null", os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nothing, descriptor)
    except BaseException as error:
        os.write(readied, f"{type(error).__name__}: {error}".encode())
        os._exit(1)
    os.closerange(3, 1024)
    while True:
        signal.sigwait({signal.SIGCHLD})
        bury()


def bury() -> None:
    """Reap every orphan that has ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def mount(source: str, target: Path, kind: str = "", flags: int = 0, options: str = "") -> None:
    """mount(2)."""
    target.mkdir(parents=True, exist_ok=True)
    call = (source, str(target), kind)
    result = LIBC.mount(*(word.encode() for word in call), ctypes.c_ulong(flags), options.encode())
    checked(f"mount {target}", result)


def bind(source: Path, target: Path, flags: int = 0) -> None:
    """Let a file or directory appear elsewhere too."""
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    paths = str(source).encode(), str(target).encode()
    # The flags of a bound mount are set by a second call (mount(2)).
    for step in (MS_BIND | MS_REC, MS_BIND | MS_REMOUNT | flags) if flags else (MS_BIND,):
        checked(f"bind {target}", LIBC.mount(*paths, None, ctypes.c_ulong(step), None))


def build(spec: dict) -> None:
    """Put the file system together and make it the root."""
    checked("mount /", LIBC.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    copies = {path: read_tree(Path(path)) for path in spec["copies"]}
    devices = [Path("/dev", name) for name in DEVICES if Path("/dev", name).exists()]
    mount("machine", ROOT, "tmpfs", 0, f"mode=755,{SIZE}")
    for name in PROGRAMS:
        source = Path("/", name)
        if source.is_symlink():
            (ROOT / name).symlink_to(source.readlink())
        elif source.is_dir():
            bind(source, ROOT / name, MS_RDONLY)
    for name, (flags, options) in WRITABLE.items():
        mount("machine", ROOT / name, "tmpfs", flags, f"{options},{SIZE}")
    kernel(ROOT, devices)
    if spec["busybox"] is not None:
        small(Path(spec["busybox"]), devices)
    mount("devpts", ROOT / "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=666,mode=620")
    for tree in copies.values():
        write_tree(tree)
    for path, target in spec["links"].items():
        (ROOT / path.lstrip("/")).symlink_to(target)
    for path, (mode, uid, text) in spec["files"].items():
        write(ROOT / path.lstrip("/"), mode, uid, text)
    pivot()


def kernel(root: Path, devices: list[Path]) -> None:
    """The kernel's file systems under a root."""
    for device in devices:
        bind(device, root / device.relative_to("/"))
    mount("proc", root / "proc", "proc", PLAIN)
    sys_, net = root / "proc/sys", root / "proc/sys/net"
    bind(sys_, sys_, PLAIN | MS_RDONLY)  # but for the network's, settings are the real machine's
    bind(net, net, PLAIN)
    mount("sysfs", root / "sys", "sysfs", PLAIN | MS_RDONLY)


def small(busybox: Path, devices: list[Path]) -> None:
    """The second root: no libraries, no /run, and /var is in memory."""
    mount("small", SMALL, "tmpfs", 0, f"mode=755,{SIZE}")
    for name in ("bin", "etc", "root"):
        (SMALL / name).mkdir()
    shutil.copy(busybox, SMALL / "bin/busybox")
    for applet in APPLETS:
        (SMALL / "bin" / applet).symlink_to("busybox")
    mount("small", SMALL / "tmp", "tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777,{SIZE}")
    (SMALL / "var").symlink_to("tmp")
    (SMALL / "tmp/run").mkdir()
    kernel(SMALL, devices)


def read_tree(top: Path) -> dict[Path, str | tuple[int, bytes] | None]:
    """A file or directory of the real machine: links, directories (None), modes and contents."""
    contents: dict[Path, str | tuple[int, bytes] | None] = {}
    if top.is_symlink():
        return {top: str(top.readlink())}
    if top.is_dir():
        contents[top] = None
        for path in top.iterdir():
            contents |= read_tree(path)
    elif top.is_file():
        contents[top] = (top.stat().st_mode & 0o7777, top.read_bytes())
    return contents


def write_tree(tree: dict[Path, str | tuple[int, bytes] | None]) -> None:
    """The same under the new root."""
    for path, content in tree.items():
        target = ROOT / path.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            target.mkdir(exist_ok=True)
        elif isinstance(content, str):
            target.symlink_to(content)
        else:
            target.write_bytes(content[1])
            target.chmod(content[0])


def write(target: Path, mode: int, uid: int, text: str | None) -> None:
    """A file with these contents, or a directory."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if text is None:
        target.mkdir(exist_ok=True)
    else:
        target.write_bytes(base64.b64decode(text))
    target.chmod(mode)
    shutil.chown(target, uid, uid)


def pivot() -> None:
    """Make the new root the root, and forget the old one (pivot_root(2))."""
    os.chdir(ROOT)
    number = {"x86_64": 155, "aarch64": 41}[os.uname().machine]  # asm/unistd.h
    checked("pivot_root", LIBC.syscall(number, b".", b"."))
    checked("umount", LIBC.umount2(b".", MNT_DETACH))
    os.chdir("/")


if __name__ == "__main__":
    sys.exit(main())
