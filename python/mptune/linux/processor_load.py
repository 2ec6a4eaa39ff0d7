"""Processor load of the machine, and the number of trials it can run at once.

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

#: After a trial that was late so much of that share is left, but never less than the least; after each that
#: was in time it grows again, in four steps to twice as much.
_FEWER, _LEAST, _MORE = 0.5, 1 / 16, 2**0.25

#: A trial of more than this many times the highest rate so far may need more than any of them did.
_KNOWN_TO = 2


class Load(NamedTuple):
    """Processor time of the whole machine since boot, in the kernel's ticks (proc_stat(5))."""

    busy: int
    total: int
    #: Of the busy time: taken by the host of a virtual machine.
    stolen: int = 0

    @classmethod
    def now(cls, without: int | None = None) -> Self:
        """Read it; the time of the process `without`, if any, counts as idle."""
        first = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
        user, nice, system, idle, waiting, *others = (int(field) for field in first.split()[1:9])
        busy = user + nice + system + sum(others)
        return cls(busy=busy - _ticks(without), total=busy + idle + waiting, stolen=others[-1])

    def share_until(self, later: "Load") -> float:
        """Busy share of all processors between two readings, 0 to 1."""
        ticks = later.total - self.total
        return (later.busy - self.busy) / ticks if ticks else 0.0

    def stolen_until(self, later: "Load") -> float:
        """Share of all processors that the host took between two readings, 0 to 1."""
        ticks = later.total - self.total
        return (later.stolen - self.stolen) / ticks if ticks else 0.0


def _ticks(pid: int | None) -> int:
    """Processor time of a process so far: fields 14 and 15 of proc_pid_stat(5); 0 if there is none."""
    if pid is None:
        return 0
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return sum(int(field) for field in stat.rpartition(")")[2].split()[11:13])


class Waiting:
    """Time that a single-threaded process was ready to run but did not, from now on.

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

    What a trial needs depends on its network's rate, so it is predicted from earlier trials of lower or equal
    rate; from those of higher rate if there are no others. After trials that were late, fewer are let in
    side by side.

    Parameters
    ----------
    cores : number of processors.
    """

    def __init__(self, cores: int | None = None) -> None:
        self._share = _SHARE * (cores or len(os.sched_getaffinity(0)))
        self._left = 1.0
        self._seen: dict[int, float] = {}
        self._inside: list[float] = []
        self._alone = False
        self._closed = False
        self._changed = threading.Condition()

    @contextmanager
    def admitted(self, rate_bps: int, *, alone: bool = False) -> Iterator[None]:
        """Wait until a trial can run, and keep its place; `alone` waits until no other is running.

        Parameters
        ----------
        rate_bps : of all its paths together.

        Raises
        ------
        KeyboardInterrupt : the gate is closed, possibly while waiting.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._fits(rate_bps, alone))
            if self._closed:
                raise KeyboardInterrupt
            need = self._need(rate_bps)
            need = self._share if need is None else need
            self._inside.append(need)
            self._alone = alone
        try:
            yield
        finally:
            with self._changed:
                self._inside.remove(need)
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

    def learn(self, rate_bps: int, cores: float) -> None:
        """Note how many processors a trial used on average; of each rate the most demanding trial counts."""
        with self._changed:
            self._seen[rate_bps] = max(self._seen.get(rate_bps, 0.0), cores)
            self._changed.notify_all()

    def was(self, *, late: bool) -> None:
        """Note whether the machine was too busy for a trial."""
        with self._changed:
            self._left = max(self._left * _FEWER, _LEAST) if late else min(self._left * _MORE, 1.0)
            self._changed.notify_all()

    def _need(self, rate_bps: int) -> float | None:
        """Processors that a trial is expected to use; None if nothing is known."""
        if not self._seen or rate_bps > _KNOWN_TO * max(self._seen):
            return None
        slower = [cores for rate, cores in self._seen.items() if rate <= rate_bps]
        return max(slower) if slower else min(self._seen.values())

    def _fits(self, rate_bps: int, alone: bool) -> bool:
        if not self._inside:
            return True
        need = self._need(rate_bps)
        if alone or self._alone or need is None:
            return False
        return sum(self._inside) + need <= self._share * self._left
