"""Waiting for a quiet machine before a trial in real time.

On a virtual machine the processors belong to somebody else too. For seconds or minutes they may come late
however little this machine does itself, and every trial of that time is overloaded. It is cheaper to wait
until they come in time again. What is looked at is what a trial needs: how late this machine wakes up from
short sleeps, as an idle emulator would, and how much of its processor time the host took away (steal,
proc_stat(5)).

It decides nothing about a trial: one that ran on a machine that did not become quiet itself records whether
it was overloaded.
"""

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from mptune.linux.awake import lateness_s
from mptune.linux.processor_load import Load

#: A machine that wakes up later than this is not quiet, seconds: later packets make a trial overloaded.
LATE_S = 1e-3
#: Nor is one from which more of its time is taken. A look lasts 0.1 s, in which one of the kernel's ticks is
#: 5 % of two processors.
STOLEN = 0.1
#: After a look that was not quiet, this many in a row have to be: noise comes in spells.
IN_A_ROW = 3
#: Seconds between two looks.
PAUSE_S = 0.5
#: Longest wait before a trial, and before the repetition of one that was overloaded, seconds.
LIMIT_S, LIMIT_AGAIN_S = 60.0, 180.0
#: After a wait in vain the next may last half as long, and below this share of the limit not at all.
_LEAST = 1 / 32


class Noise(NamedTuple):
    """Measured noise: wake-up latency, s, and the share of processor time taken by the host (steal)."""

    late_s: float
    stolen: float

    @property
    def quiet(self) -> bool:
        """True if a trial could run now."""
        return self.late_s <= LATE_S and self.stolen <= STOLEN

    def __str__(self) -> str:
        return f"{1e3 * self.late_s:.1f} ms late, {self.stolen:.0%} of the processor time taken by the host"


def listen() -> Noise:
    """Look at the machine for 0.1 s."""
    before = Load.now()
    late = lateness_s()
    return Noise(late, before.stolen_until(Load.now()))


class Waited(NamedTuple):
    """A wait: for how long, seconds, what was found at first if that was not quiet, and if it stayed so."""

    seconds: float
    noise: Noise | None = None
    in_vain: bool = False


class Quiet:
    """Waits for a quiet machine; a machine that is never quiet is soon not waited for any more.

    Parameters
    ----------
    probe, clock, pause : what looks at the machine, a clock (s), and what waits between two looks.
    """

    def __init__(
        self,
        probe: Callable[[], Noise] = listen,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._probe, self._clock, self._pause = probe, clock, pause
        self._lock = threading.Lock()
        self._share, self._total_s, self._number = 1.0, 0.0, 0

    def wait(self, limit_s: float, interrupted: Callable[[], bool]) -> Waited:
        """Return when the machine is quiet, or after the limit.

        The time of a first look that is quiet does not count as waited.

        Raises
        ------
        KeyboardInterrupt : `interrupted` returned true.
        """
        if (first := self._probe()).quiet:
            self._note(None, in_vain=False)
            return Waited(0.0)
        begin, in_a_row = self._clock(), 0
        with self._lock:
            limit_s *= self._share
        while in_a_row < IN_A_ROW and self._clock() - begin < limit_s:
            if interrupted():
                raise KeyboardInterrupt
            self._pause(PAUSE_S)
            in_a_row = in_a_row + 1 if self._probe().quiet else 0
        waited_s, in_vain = self._clock() - begin, in_a_row < IN_A_ROW
        self._note(waited_s, in_vain=in_vain)
        return Waited(waited_s, first, in_vain)

    def _note(self, waited_s: float | None, *, in_vain: bool) -> None:
        with self._lock:
            share = self._share / 2 if in_vain else 1.0
            self._share = share if share >= _LEAST else 0.0
            if waited_s is not None:
                self._total_s, self._number = self._total_s + waited_s, self._number + 1

    def note(self) -> str:
        """For the progress: how long was waited so far; empty for less than a second."""
        with self._lock:
            if self._total_s < 1:
                return ""
            times = "once" if self._number == 1 else f"{self._number} times"
            return f"waited {times} for a quiet machine, {self._total_s:.0f} s in all"
