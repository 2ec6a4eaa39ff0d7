"""How busy the machine is, and how many trials it can run at once.

Trials on the kernel run in real time: with too little processor time, a trial measures the processors.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Self

#: Share of all processors that parallel trials may be expected to use.
_SHARE = 0.5


class Load(NamedTuple):
    """Processor time of the whole machine since boot, in the kernel's ticks (proc_stat(5))."""

    busy: int
    total: int

    @classmethod
    def now(cls) -> Self:
        """Read it."""
        first = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
        user, nice, system, idle, waiting, *others = (int(field) for field in first.split()[1:9])
        busy = user + nice + system + sum(others)
        return cls(busy=busy, total=busy + idle + waiting)

    def share_until(self, later: "Load") -> float:
        """Busy share of all processors between two readings, 0 to 1."""
        ticks = later.total - self.total
        return (later.busy - self.busy) / ticks if ticks else 0.0


class Waiting:
    """How long a single-threaded process was ready to run but did not, from now on.

    The kernel drops the count when the process ends; regular calls of `look` keep it.
    """

    def __init__(self, pid: int) -> None:
        self._counts = Path(f"/proc/{pid}/schedstat")
        self._before = self._now = 0
        self.look()
        self._before = self._now

    def look(self) -> None:
        """Read the kernel's count (Documentation/scheduler/sched-stats.rst there)."""
        with suppress(OSError, IndexError):  # it has ended, or the kernel does not count
            self._now = int(self._counts.read_text(encoding="ascii").split()[1])

    @property
    def total_ns(self) -> int:
        """Nanoseconds."""
        return self._now - self._before


class Gate:
    """Admits trials: first one, and more once it is known that the processors can take them.

    Parameters
    ----------
    cores : number of processors.
    """

    def __init__(self, cores: int | None = None) -> None:
        self._cores = cores or len(os.sched_getaffinity(0))
        self._need: float | None = None
        self._inside = 0
        self._alone = False
        self._closed = False
        self._changed = threading.Condition()

    @contextmanager
    def admitted(self, *, alone: bool = False) -> Iterator[None]:
        """Wait until a trial can run, and keep its place; `alone` waits until no other is running.

        Raises
        ------
        KeyboardInterrupt : the gate is closed, possibly while waiting.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._fits(alone))
            if self._closed:
                raise KeyboardInterrupt
            self._inside += 1
            self._alone = alone
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._alone = False
                self._changed.notify_all()

    def close(self) -> None:
        """Refuse all waiting and later trials."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        """No more trials are admitted."""
        return self._closed

    def learn(self, cores: float) -> None:
        """Note how many processors a trial used on average; the most demanding trial counts."""
        with self._changed:
            self._need = max(self._need or 0.0, cores)
            self._changed.notify_all()

    def _fits(self, alone: bool) -> bool:
        if self._inside == 0:
            return True
        if alone or self._alone or self._need is None:
            return False
        return (self._inside + 1) * self._need <= _SHARE * self._cores
