"""The virtual testbed: trials on a real kernel in virtual time, each in a guest of its own.

In the guest the trial is one of the testbed `namespaces`: the network is the simulator's, as a driver of the
guest's kernel, and everything above it is that kernel. The clock is the guest's, so that no trial is ever
late, and the same seed gives the same bytes. What a packet costs in processor time has no effect there. A
kernel that an earlier mptune built has no driver: the emulator is a process there, which takes several times
as long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mptune import _core
from mptune.capture import Run
from mptune.errors import Failure, InputError, MptuneError, one_of
from mptune.testbeds import _kernel_plan
from mptune.testbeds._base import Testbed
from mptune.testbeds._today import Today, of_release
from mptune.testbeds.namespaces import check_network
from mptune.trial import Observation, memory
from mptune.trial.stacks import DEFAULT_STACK, STACKS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mptune.testbeds._virtual_inside import Recorded
    from mptune.topology import Topology
    from mptune.trial import Trial

__all__ = ["VirtualTestbed"]

#: Real seconds that a trial may take: for the guest, and for each second of its own.
_SET_UP_S, _SLOWEST = 60.0, 30.0


#: Endings of keys of an observation that mean nothing without real time.
_OF_REAL_TIME = (
    "_busy_share",
    "_waited_share",
    "_processors",
    "_late_p50_ms",
    "_late_p99_ms",
    "_late_max_ms",
)


class VirtualTestbed(Testbed):
    """Runs trials in guests, one on each processor.

    Parameters
    ----------
    release : of the guests' kernel, such as "7.3"; empty takes the default, or else the newest that is built.
    driver : the network is the kernel's, if it has one; without, it is a process of the guest.

    Raises
    ------
    InputError : kernels are built, but not that one.
    MptuneError : no kernel is built.
    """

    name = "virtual"
    only_stack = "linux"
    set_up_s = 1.0
    pace = 0.5
    anywhere = True
    records = True

    def __init__(self, release: str = "", *, driver: bool = True) -> None:
        from mptune.guest import builtin, kernels
        from mptune.guest.machine import Processors

        self.kernel = kernels.find(release)
        self._other_text = self.kernel.programs not in ("", builtin.digest())
        # Trials of two releases are two things to a store.
        self.name = f"{self.name}:{self.kernel.release}"
        self._closed = False
        self._driver = driver
        self._processors = Processors()

    def check_network(self, topology: Topology) -> None:
        """Refuse what the emulator cannot have; as the testbed namespaces does."""
        check_network(topology)

    def check(self, trial: Trial) -> None:
        """Refuse what the guest's kernel cannot do, without running it.

        Raises
        ------
        InputError : naming the option; or as `check_network`.
        """
        self.check_workload(trial.workload)
        self.check_network(trial.topology)
        if trial.cc not in self.kernel.congestion_controls:
            known = [cc for cc in _core.congestion_controls() if cc in self.kernel.congestion_controls]
            expected = f"{one_of(known, trial.cc)}, which Linux {self.kernel.version} for guests lacks"
            raise InputError("--cc", "", expected)
        self._check_text(trial.cc)
        if next(iter(trial.path_parameters.by_path()), None) is not None:
            from mptune.guest.building import is_current

            if not is_current(self.kernel):
                release = self.kernel.release
                expected = f"expected a kernel of this version of mptune: mptune kernel build {release}"
                raise InputError("path parameters", "", expected)
        _kernel_plan.check(trial, self.name, memory.BOTH_PRESSURE, self.kernel.schedulers)

    def _check_text(self, cc: str) -> None:
        """Refuse a congestion control of mptune whose text is not the one that the kernel was built with."""
        from mptune.guest import builtin

        if self._other_text and cc in builtin.names(pairs=True):
            command = f"mptune kernel build {self.kernel.release}"
            expected = f"expected a kernel that was built since bpf/ changed: {command}"
            raise InputError("--cc", "", f"{expected}, found an earlier {cc} in it")

    def today(self, topology: Topology, members: Mapping[str, object]) -> Today:
        """The defaults of the guests' release."""
        return of_release(self.kernel.release)

    def run(self, trial: Trial) -> Observation:
        """Run one trial in a guest.

        Raises
        ------
        InputError : the kernel cannot run such a trial.
        KeyboardInterrupt : `interrupt` from another thread.
        """
        return self._measured(trial, record=False)[0]

    def record(self, trial: Trial) -> tuple[Observation, Run]:
        """Run one trial and keep its packets, and what its senders thought; as `run` otherwise."""
        import numpy as np

        from mptune.capture import packet_type, sample_type

        observation, recorded = self._measured(trial, record=True)
        packets, samples = (b"", b"") if recorded is None else (recorded.packets, recorded.samples)
        return observation, Run(
            packets=np.frombuffer(packets, packet_type()),
            samples=np.frombuffer(samples, sample_type()),
            seed=trial.seed,
            duration_ns=observation.duration_ns,
            in_order_bytes=observation.in_order_bytes,
            unrecorded=0 if recorded is None else recorded.unrecorded,
        )

    def _measured(self, trial: Trial, *, record: bool) -> tuple[Observation, Recorded | None]:
        from mptune.guest import machine
        from mptune.testbeds import _virtual_inside

        self.check(trial)
        begin_ns = machine.begin_ns(trial.seed)
        try:
            with self._processors.taken() as processor:
                answered = machine.run(
                    self.kernel.program,
                    _virtual_inside.__name__,
                    _virtual_inside.work(_of_kernel(trial), begin_ns, record=record, driver=self._driver),
                    seed=trial.seed,
                    limit_s=_limit_s(trial),
                    cpu=processor,
                    interrupted=lambda: self._closed,
                )
        except machine.Died as error:
            return self._died(str(error)), None
        if not answered:
            raise KeyboardInterrupt
        answer = msgspec.json.decode(answered, type=_virtual_inside.Answer)
        if answer.observation is None:
            assert answer.refused is not None
            if answer.refused.parts is not None:
                raise InputError(*answer.refused.parts)
            raise MptuneError(answer.refused.message)
        observation = msgspec.structs.replace(answer.observation, testbed=self.name)
        metadata = observation.metadata
        for key in [key for key in metadata if key.endswith(_OF_REAL_TIME)]:
            del metadata[key]
        metadata["phase_ms"] = (begin_ns - machine.READY_NS) // 1_000_000
        return observation, answer.recorded

    def interrupt(self) -> None:
        """Kill running guests; no further trial is run."""
        self._closed = True

    def _died(self, reason: str) -> Observation:
        return Observation(
            testbed=self.name,
            duration_ns=0,
            in_order_bytes=0,
            bins=[],
            subflows=[],
            failed=Failure("died", reason),
        )


def _of_kernel(trial: Trial) -> Trial:
    """As every kernel takes it: the stack of a release is a matter of the simulator."""
    return msgspec.structs.replace(trial, accounting=STACKS[DEFAULT_STACK].accounting)


def _limit_s(trial: Trial) -> float:
    return _SET_UP_S + _SLOWEST * trial.workload.limit_ns / 1e9
