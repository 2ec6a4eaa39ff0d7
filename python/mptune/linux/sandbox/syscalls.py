"""The four system calls that the standard library lacks before Python 3.12, with errors as OSError.

Namespaces are per thread: these calls are for small single-threaded processes, never for the program
that runs the campaign.
"""

import ctypes
import os
import signal
from functools import cache
from typing import Any

CLONE_NEWUSER = 0x10000000  # include/uapi/linux/sched.h
CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1  # include/uapi/linux/prctl.h
_PR_SET_DUMPABLE = 4


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Move this thread into new namespaces (unshare(2)).

    Raises
    ------
    OSError : EPERM without the privilege, ENOSPC where `user.max_*_namespaces` is used up.
    """
    _checked("unshare", _libc().unshare(flags))


def setns(descriptor: int, kind: int) -> None:
    """Move this thread into the namespace behind an open descriptor (setns(2)).

    Raises
    ------
    OSError : EPERM without the privilege, EINVAL for another kind of namespace.
    """
    _checked("setns", _libc().setns(descriptor, kind))


def die_with_parent() -> None:
    """Be killed as soon as the thread that started this process ends, however it ends (prctl(2)).

    If the parent ended before the call, the end of standard input shows it.
    """
    _checked("prctl", _libc().prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0))


def stay_readable() -> None:
    """Let processes of the same user open this one's namespaces, which a change of user forbids."""
    _checked("prctl", _libc().prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0))


def _checked(call: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
