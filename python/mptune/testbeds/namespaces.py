"""The namespaces testbed: trials on this machine's own MPTCP, between two network namespaces.

The network between them is the simulator's, carried by the emulator in real time; everything above it is the
kernel. What a trial becomes there is `_kernel_plan`, what came out `_kernel_observation`, and what happens
in between `mptune.linux.course`.
"""

import os
import sys

from mptune.errors import MptuneError
from mptune.testbeds import _kernel_observation, _kernel_plan
from mptune.testbeds._base import Observation, Trial
from mptune.testbeds._kernel_plan import stall_ns

__all__ = ["NamespacesTestbed", "stall_ns"]

#: Trials for each processor that are let in when there is room for them.
_WAITING = 4


class NamespacesTestbed:
    """Runs trials on the kernel, as many at once as the processors have room for.

    Raises
    ------
    MptuneError : this machine cannot do it; the message says what is missing.
    """

    name = "namespaces"

    def __init__(self) -> None:
        if sys.platform != "linux":
            raise MptuneError("--testbed namespaces: needs Linux")
        from mptune.linux import doctor, machine, marker

        marker.end_strays()
        missing = doctor.obstacle()
        if missing is not None:
            raise MptuneError(f"--testbed namespaces: {missing} (mptune doctor tells more)")
        # As many as wait at the gate: trials over slow links need a small part of a processor each.
        self.parallel: int | None = _WAITING * len(os.sched_getaffinity(0))
        self._gate = machine.Gate()

    def check(self, trial: Trial) -> None:
        """Refuse what the kernel cannot do, without running it.

        Raises
        ------
        InputError : naming the option.
        """
        _kernel_plan.check(trial)

    def run(self, trial: Trial) -> Observation:
        """Run one trial; one that was overloaded is repeated once, alone.

        Raises
        ------
        InputError : the kernel cannot do what the trial asks for.
        KeyboardInterrupt : Ctrl-C, or `interrupt` from another thread.
        """
        self.check(trial)
        with self._gate.admitted():
            observation = self._measure(trial)
        if "overloaded" not in observation.metadata:
            return observation
        with self._gate.admitted(alone=True):
            again = self._measure(trial)
        again.metadata["repeated"] = 1
        return again

    def interrupt(self) -> None:
        """Break off what is running; nothing is run any more.

        It stays that way: a thread may be just about to begin a trial, and a trial takes its time.
        """
        self._gate.close()

    def _measure(self, trial: Trial) -> Observation:
        from mptune.linux import bpf, course
        from mptune.linux.machine import Load

        with bpf.loaded([trial.cc]) as kernel_names:
            plan = _kernel_plan.plan(trial, kernel_names[trial.cc])
            before = Load.now()
            outcome = course.run(plan, lambda: self._gate.closed)
            busy = before.share_until(Load.now())
        self._gate.learn(sum(_kernel_observation.processor_shares(outcome).values()))
        return _kernel_observation.observe(trial, plan, outcome, busy)
