"""The first process of a guest: it does what it is asked for, prints the answer, and ends the guest.

A module that works in guests calls `serve`; `python -m` that module is what the guest's kernel starts. This
one, `python -m mptune.guest.inside`, reports what the kernel is like. The answer is JSON in base64, in lines
that begin with `PIECE`, and then `END`; a line that begins with `FAULT` is why there is none. Everything else
on the console is the kernel's.
"""

import base64
import ctypes
import fcntl
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mptune.guest import boot

__all__ = ["END", "FAULT", "PIECE", "serve", "start_at"]

PIECE, END, FAULT = b"mptune> ", b"mptune: end", b"mptune! "
_WORK = Path(boot.PLACE, boot.WORK)
#: Characters of a line; the console takes them one by one.
_WIDTH = 1000
_POWER_OFF = 0x4321FEDC  # linux/reboot.h
#: Of all its processes: who is woken first runs first, whatever each has used before (sched(7), SCHED_FIFO).
_PRIORITY = 1
_TIMER_ABSTIME = 1  # linux/time.h
_RNDADDTOENTCNT, _RNDRESEEDCRNG = 0x40045201, 0x5207  # linux/random.h
#: Bits of entropy with which every kernel's random numbers begin.
_ENTROPY = 256

#: File systems of a guest beside its root, which is this machine's: kind and place.
_MOUNTS = (
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("tmpfs", "/run"),
    ("tmpfs", "/dev/shm"),
    ("cgroup2", "/sys/fs/cgroup"),
)
_ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/run",
    "TMPDIR": "/run",
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def serve(task: Callable[[dict[str, Any]], bytes]) -> None:
    """Prepare the guest, do its work, print the answer, and end the guest, whatever happens.

    Parameters
    ----------
    task : makes the answer from the work.
    """
    try:
        _prepare()
        _print(task(json.loads(_WORK.read_text())))
    except BaseException as error:
        traceback.print_exc()
        sys.stderr.flush()
        _write(FAULT + f"{type(error).__name__}: {error}".partition("\n")[0].encode())
    finally:
        sys.stdout.flush()
        ctypes.CDLL(None).reboot(_POWER_OFF)


def start_at(monotonic_ns: int) -> None:
    """Sleep until this moment after the guest's start, exactly, and draw random numbers anew.

    What ran before does not matter to what runs then, although it differs between machines: the modules and
    the bytecode that Python finds. Idle time costs nothing.

    Raises
    ------
    RuntimeError : it is later.
    """
    if time.monotonic_ns() >= monotonic_ns:
        raise RuntimeError(f"the guest was not ready within {monotonic_ns / 1e9:.3f} s")
    begin = _Timespec(*divmod(monotonic_ns, 1_000_000_000))
    ctypes.CDLL(None).clock_nanosleep(time.CLOCK_MONOTONIC, _TIMER_ABSTIME, ctypes.byref(begin), None)
    with Path("/dev/urandom").open("rb") as generator:
        fcntl.ioctl(generator, _RNDRESEEDCRNG)


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def _prepare() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    for kind, place in _MOUNTS:
        Path(place).mkdir(exist_ok=True)
        libc.mount(b"guest", place.encode(), kind.encode(), ctypes.c_ulong(0), None)
    # Linux before 6.2 does not trust the seed at first, and random numbers would wait for minutes.
    with Path("/dev/urandom").open("rb") as generator:
        fcntl.ioctl(generator, _RNDADDTOENTCNT, _ENTROPY.to_bytes(4, sys.byteorder))
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    os.environ.clear()
    os.environ.update(_ENVIRONMENT)
    os.chdir("/run")


def _facts(_: dict[str, Any]) -> bytes:
    facts = {
        "version": platform.release(),
        "congestion_controls": _words("net/ipv4/tcp_available_congestion_control"),
        "schedulers": _words("net/mptcp/available_schedulers") or ["default"],
    }
    return json.dumps(facts).encode()


def _words(sysctl: str) -> list[str]:
    """Of a setting with several; none if this release has no such setting."""
    file = Path("/proc/sys", sysctl)
    return file.read_text().split() if file.exists() else []


def _print(answer: bytes) -> None:
    text = base64.b64encode(answer)
    for start in range(0, len(text), _WIDTH):
        _write(PIECE + text[start : start + _WIDTH])
    _write(END)


def _write(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    serve(_facts)
