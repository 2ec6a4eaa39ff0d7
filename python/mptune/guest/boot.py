"""`python -m mptune.guest.boot`: confines a process, and starts a guest in it.

Its standard input is one line of JSON (`Order`); standard output is the guest's console. It makes namespaces
of its own for mounts, processes and the network, so that:

- everything of this machine is read-only, whatever the guest's kernel asks for; only a small file system in
  memory, which the guest's own memory lies in, can be written;
- nothing of the guest survives it, or whoever started it;
- it is nobody, if root started it, and sees what nobody may read: directories of root's on the way to Python,
  mptune and the kernel are replaced by empty ones that contain only these.

Whatever is impossible is one line on standard error and exit status 2.
"""

import ctypes
import json
import os
import signal
import sys
from pathlib import Path

from mptune.linux.sandbox import syscalls

#: Place of the small file system, instead of what this machine has there (part of FHS 3.0).
PLACE = "/mnt"
#: Below it: what a guest is to do, and its first program.
WORK, FIRST = "work.json", "first"
NOBODY = 65534

_MS_BIND, _MS_REC, _MS_PRIVATE, _MS_NOSUID, _MS_NODEV = 0x1000, 0x4000, 0x40000, 2, 4  # linux/mount.h
_CLONE_NEWNS, _CLONE_NEWPID, _CLONE_NEWIPC = 0x20000, 0x20000000, 0x08000000  # linux/sched.h
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY = (
    442,
    -100,
    0x8000,
    1,
)  # the same number everywhere
_PR_SET_NO_NEW_PRIVS, _PR_SET_DUMPABLE = 38, 4


def main() -> int:
    """Confine this process, start the guest, and wait for its end."""
    syscalls.die_with_parent()
    order = json.loads(sys.stdin.readline())
    try:
        _confine(order)
    except OSError as error:
        sys.stderr.write(f"{error.strerror or error}\n")
        return 2
    guest = os.fork()
    if guest == 0:
        os._exit(_first(order))
    _, status = os.waitpid(guest, 0)
    return os.waitstatus_to_exitcode(status) & 0xFF


def _first(order: dict[str, object]) -> int:
    """Be the first process of the namespace: with it all others end."""
    _as_nobody()
    syscalls.die_with_parent()
    guest = os.fork()
    if guest == 0:
        command = [str(word) for word in order["command"]]  # type: ignore[attr-defined]
        environment = {"PATH": "/usr/bin:/bin", "HOME": PLACE, "TMPDIR": PLACE, **order["environment"]}  # type: ignore[dict-item]
        cpu = order["cpu"]
        if cpu is not None:
            os.sched_setaffinity(0, {int(str(cpu))})
        os.chdir("/")
        os.execve(command[0], command, environment)
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == guest:
            return os.waitstatus_to_exitcode(status) & 0xFF


def _confine(order: dict[str, object]) -> None:
    """Enter namespaces and make everything but `PLACE` read-only."""
    flags = _CLONE_NEWNS | _CLONE_NEWPID | _CLONE_NEWIPC | syscalls.CLONE_NEWNET
    user, group = os.getuid(), os.getgid()
    if user:
        try:
            syscalls.unshare(flags | syscalls.CLONE_NEWUSER)
        except OSError as error:
            raise OSError(error.errno, f"a guest needs user namespaces: {error.strerror}") from None
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    else:
        syscalls.unshare(flags)
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    if not user:
        _reveal([str(path) for path in order["needs"]])  # type: ignore[attr-defined]
    _read_only("/")
    _mount("guest", PLACE, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=1777")
    for name, content, mode in ((WORK, json.dumps(order["work"]), 0o444), (FIRST, order["first"], 0o555)):
        Path(PLACE, name).write_text(str(content))
        Path(PLACE, name).chmod(mode)


def _reveal(needs: list[str]) -> None:
    """Let nobody reach some directories: others on the way that only root may enter become empty ones."""
    opened = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in needs}
    closed: set[Path] = set()
    for path in needs:
        for folder in reversed(Path(path).parents):
            if not folder.stat().st_mode & 0o001:
                closed.add(folder)
                break
    for folder in closed:
        _mount("guest", str(folder), "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755")
    for path, descriptor in opened.items():
        if any(folder in Path(path).parents for folder in closed):
            Path(path).mkdir(mode=0o755, parents=True, exist_ok=True)
            _mount(f"/proc/self/fd/{descriptor}", path, None, _MS_BIND | _MS_REC)
        os.close(descriptor)


def _as_nobody() -> None:
    if os.getuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    # A change of user forbids it; the guest's processes are this one's, and traced by it.
    _call("prctl", _PR_SET_DUMPABLE, 1, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    arguments = [None if text is None else text.encode() for text in (source, target, kind)]
    _call("mount", *arguments, ctypes.c_ulong(flags), data.encode(), where=target)


def _read_only(target: str) -> None:
    """Make a mount and all below it read-only (mount_setattr(2), Linux 5.12)."""
    attributes = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_RDONLY, 0, 0, 0)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    flags = ctypes.c_uint(_AT_RECURSIVE)
    _call(
        "syscall",
        _MOUNT_SETATTR,
        _AT_FDCWD,
        target.encode(),
        flags,
        ctypes.byref(attributes),
        size,
        where=target,
    )


def _call(name: str, *arguments: object, where: str = "") -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name} {where}: {os.strerror(number)}")


if __name__ == "__main__":
    sys.exit(main())
