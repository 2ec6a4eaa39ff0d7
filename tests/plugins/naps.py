"""Lateness of this machine's timers: a process that naps, with priority, and keeps what it found.

A processor that the host of a virtual machine takes away is busy with nobody's programs, and seldom counted
as stolen; whoever sleeps notices it. What measures in real time cannot do without waking up in time.
It judges no test (`tests.plugins.reruns` does).
"""

import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress

#: Length of a nap, and how late is late, seconds: a trial counts packets later than that.
NAP_S, LATE_S = 2e-3, 1e-3
#: Naps in a spell: 0.1 s or more. A spell is late if more than one of its naps is.
NAPS = 50


class Naps:
    """Notes of a process that naps as long as this one lives; started when first asked for."""

    def __init__(self) -> None:
        self._notes = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process runs
        command = [sys.executable, "-S", "-E", __file__]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=self._notes)
        self.pid = self._process.pid

    def late_since(self, at_s: float) -> float:
        """Time since, by time.monotonic, in which this machine woke up late, seconds."""
        descriptor = self._notes.fileno()
        notes = os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode()
        spells = ((float(field) for field in line.split()) for line in notes.splitlines())
        return sum(length for begun, length in spells if begun + length > at_s)

    def close(self) -> None:
        """End it; the end of this process does so too."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._notes.close()


def _nap() -> None:
    with suppress(OSError):  # not root
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    os.set_blocking(0, False)
    while True:
        begun, late = time.monotonic(), 0
        for _ in range(NAPS):
            asleep = time.monotonic()
            time.sleep(NAP_S)  # noqa: TID251 - what is measured
            late += time.monotonic() - asleep - NAP_S > LATE_S
        if late > 1:
            os.write(1, f"{begun} {time.monotonic() - begun}\n".encode())
        with suppress(BlockingIOError):
            if os.read(0, 1) == b"":
                return


if __name__ == "__main__":
    _nap()
