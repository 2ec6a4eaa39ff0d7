"""Waiting for what is bound to happen, the only way in which tests wait."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Nothing takes this long unless it is broken, however busy the machine, seconds.
PATIENCE_S = 120.0
#: How often a condition is looked at that nobody announces, seconds; a guest's tests have more time between.
LOOK_S = 0.005


def until(condition: Callable[[], T | None], what: str = "what was to happen") -> T:
    """Wait until something is true, and return it.

    Raises
    ------
    AssertionError : it does not happen.
    """
    end = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(LOOK_S)  # noqa: TID251 - the one place: an event that cannot be waited for
    return value
