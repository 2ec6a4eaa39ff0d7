"""Keeps the processors from sleeping while trials run in real time.

A sleeping processor has to be woken up for every packet. That takes some microseconds, but on a virtual
machine whose host is in use by others it can take milliseconds, and a trial is then overloaded, however
little it needs. Two remedies, both of which end with this program, even if it is killed:

- the kernel's own: a request for a wake-up latency of 0, as long as a file is open
  (Documentation/power/pm_qos_interface.rst there). It needs root and an idle driver that can poll.
- where wake-ups are late all the same, one busy thread per processor that runs only when nothing else
  wants to (the agent's role `awake`).

It concerns the machine that measures, for the time of the measurement: neither is for a host that only uses
a result.
"""

import os
import struct
import threading
import time
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Self

from mptune.errors import TrialError
from mptune.linux import agent
from mptune.linux.sandbox import leftovers
from mptune.linux.sandbox.processes import Child

#: The kernel's file for requests, which hold while it is open.
_REQUESTS = "/dev/cpu_dma_latency"

#: Later than this is late, seconds: a trial counts packets later than 1 ms.
LATE_S = 0.3e-3

#: Naps to find out, and their length, seconds: 0.1 s in all.
_NAPS = 50
_NAP_S = 2e-3

#: Longest time for the agent to begin, seconds.
_BEGIN_S = 20.0


def lateness_s() -> float:
    """Wake-up latency of this machine after a short sleep: its 98 % quantile, seconds.

    It is measured with priority over other programs, as the emulator has. Without root, a machine that is
    busy is late too.
    """
    delays: list[float] = []
    # The priority is that of a thread.
    thread = threading.Thread(target=_nap, args=[delays])
    thread.start()
    thread.join()
    return sorted(delays)[-2]


def _nap(delays: list[float]) -> None:
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    for _ in range(_NAPS):
        start = time.monotonic()
        time.sleep(_NAP_S)
        delays.append(time.monotonic() - start - _NAP_S)


class Awake:
    """A context manager: inside, the processors do not sleep. It can be entered again later, but not twice.

    Attributes
    ----------
    late : wake-ups are late in spite of the request, so that the processors are kept busy; None as long as
        that is unknown.
    """

    def __init__(self) -> None:
        self.late: bool | None = None
        self._stack = ExitStack()
        self._busy: Child | None = None

    def __enter__(self) -> Self:
        """Ask the kernel; the first time, find out whether that is enough."""
        with ExitStack() as stack:
            self._request(stack)
            if self.late is None:
                self.late = lateness_s() > LATE_S
            if self.late:
                self._busy = self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._busy = None
        self._stack.close()

    @property
    def pid(self) -> int | None:
        """The process that keeps the processors busy, if there is one."""
        return None if self._busy is None else self._busy.pid

    def _request(self, stack: ExitStack) -> None:
        try:
            descriptor = os.open(_REQUESTS, os.O_WRONLY | os.O_CLOEXEC)
        except OSError:  # not root, or a kernel without it
            return
        stack.callback(os.close, descriptor)
        os.write(descriptor, struct.pack("=i", 0))

    def _start(self, stack: ExitStack) -> Child | None:
        """The busy process; None if it cannot start: trials run without it, and report late wake-ups."""
        child = Child("awake", agent.command("awake"), leftovers.new_run())
        stack.callback(child.end, 0.0)  # it has nothing to finish
        try:
            child.expect("ready", _BEGIN_S)
        except TrialError:
            return None
        return child
