"""Ctrl-C at a moment when Python discards the KeyboardInterrupt."""

import signal
import sys
from collections.abc import Callable, Iterator

import pytest


class _Dropped:
    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


@pytest.fixture
def lose_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """A function that does it, in the main thread, and checks that it was discarded."""
    discarded: list[object] = []
    # Otherwise pytest would report it as a warning.
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: discarded.append(unraisable.exc_type))
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)

    def lose() -> None:
        _Dropped()
        assert discarded.pop() is KeyboardInterrupt

    yield lose
    signal.signal(signal.SIGINT, handler)
