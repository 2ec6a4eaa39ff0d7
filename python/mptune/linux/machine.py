"""How busy the machine is, and how many trials it can take at once.

Trials on the kernel run in real time: one that gets too little of the processors measures the processors.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Self

#: Share of all processors that trials side by side may be expected to use.
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
        """Share of all processors that was busy between two readings, 0 to 1."""
        ticks = later.total - self.total
        return (later.busy - self.busy) / ticks if ticks else 0.0


class Waiting:
    """How long the threads of a process were ready to run and did not, as the scheduler counts it.

    A thread that has ended is no longer counted by the kernel; `look` every now and then remembers it.
    """

    def __init__(self, pid: int) -> None:
        self._tasks = Path(f"/proc/{pid}/task")
        self._waited: dict[str, int] = {}

    def look(self) -> None:
        """Read the threads there are (Documentation/scheduler/sched-stats.rst in the kernel)."""
        with suppress(OSError, IndexError):  # it has ended, or the kernel does not count
            for task in self._tasks.iterdir():
                self._waited[task.name] = int((task / "schedstat").read_text(encoding="ascii").split()[1])

    @property
    def total_ns(self) -> int:
        """Of all threads together, nanoseconds."""
        return sum(self._waited.values())


class Gate:
    """Lets trials in: one, and more only once it is known that they find room.

    Parameters
    ----------
    cores : processors there are.
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
        """Wait until a trial can run, and hold its place; `alone` waits until no other does.

        Raises
        ------
        KeyboardInterrupt : it was closed, perhaps meanwhile.
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
        """Send all away that are waiting, and whoever comes later."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        """Nobody comes in any more."""
        return self._closed

    def learn(self, cores: float) -> None:
        """A trial used so many processors on average; the most demanding one counts."""
        with self._changed:
            self._need = max(self._need or 0.0, cores)
            self._changed.notify_all()

    def _fits(self, alone: bool) -> bool:
        if self._inside == 0:
            return True
        if alone or self._alone or self._need is None:
            return False
        return (self._inside + 1) * self._need <= _SHARE * self._cores
