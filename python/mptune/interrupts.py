"""Ctrl-C that is not lost.

Python discards exceptions raised in a `__del__` or in the callback of a weak reference, among them the
KeyboardInterrupt of a signal that arrives just then
(https://docs.python.org/3/reference/datamodel.html#object.__del__,
https://docs.python.org/3/library/weakref.html#weakref.ref). The standard library has such callbacks: the
release of an executor runs some for each of its threads. The program would go on as if nothing had happened.
So a command also notes the signal, and what takes long asks for the note.

It knows nothing of what is interrupted.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

#: True after Ctrl-C within `noting`. Not a threading.Event: its lock is not reentrant, and a second signal
#: may interrupt the handler.
_noted = False


@contextmanager
def noting() -> Iterator[None]:
    """Note Ctrl-C within the block; it raises KeyboardInterrupt as usual.

    Nothing changes outside the main thread, or where Ctrl-C is ignored or handled in another way. A note that
    nobody asked for until the end of the block is dropped: everything is done by then.
    """
    global _noted
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    try:
        signal.signal(signal.SIGINT, _note)
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _noted = False


def raise_lost() -> None:
    """Raise KeyboardInterrupt if Ctrl-C was noted, but did not end what calls this.

    It does so in the main thread alone, as Python does.
    """
    if _noted and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt


def _note(number: int, frame: FrameType | None) -> None:
    global _noted
    _noted = True
    signal.default_int_handler(number, frame)
