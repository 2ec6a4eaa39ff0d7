"""A program that runs in the foreground in place of the one that waits for it.

Ctrl-C and the other keys of the terminal reach it directly, since it is in the same process group; signals
that somebody sends to the waiting program are passed on.
"""

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from mptune.errors import InputError

#: Signals that end or inform a program, passed on to it.
_PASSED = {
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
}
#: Signals that Python ignores; a program expects their defaults.
_USUAL = (signal.SIGPIPE, signal.SIGXFSZ)


def become(path: Path, command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Replace this program by another one.

    Raises
    ------
    InputError : the kernel cannot start it.
    """
    for number in _USUAL:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(path, list(command), dict(environment))
    except OSError as error:
        raise _refusal(path, error) from None


def run(path: Path, command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a program to its end; its exit code, or 128 and the number of the signal that ended it.

    Raises
    ------
    InputError : the kernel cannot start it.
    """
    awaited = _PASSED | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    try:
        child = _spawned(path, command, environment, before)
        code = os.waitstatus_to_exitcode(_waited(child, awaited))
    finally:
        while signal.sigtimedwait(awaited, 0) is not None:
            pass  # what came for the program after its end
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return 128 - code if code < 0 else code


def _spawned(path: Path, command: Sequence[str], environment: Mapping[str, str], mask: set[int]) -> int:
    try:
        return os.posix_spawn(path, list(command), environment, setsigmask=mask, setsigdef=_USUAL)
    except OSError as error:
        raise _refusal(path, error) from None


def _waited(child: int, awaited: set[signal.Signals]) -> int:
    while True:
        arrived = signal.sigwaitinfo(awaited)
        if arrived.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return status
        elif arrived.si_code <= 0:  # sent by a process; what the terminal sends, the program has already
            with suppress(ProcessLookupError):
                os.kill(child, arrived.si_signo)


def _refusal(path: Path, error: OSError) -> InputError:
    return InputError("COMMAND", "", f"cannot start {path}: {error.strerror}")
