"""The namespaces testbed: trials on this machine's own MPTCP, between two network namespaces.

The network between them is the simulator's, run by the emulator in real time; everything above it is the
kernel. `_kernel_plan` prepares a trial, `mptune.linux.kernel_trial` runs it, and `_kernel_observation`
evaluates it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mptune.errors import InputError, MptuneError
from mptune.testbeds import _kernel_observation, _kernel_plan, _overload
from mptune.testbeds._base import Testbed
from mptune.testbeds._kernel_plan import stall_ns
from mptune.testbeds._recorded import MOST_PACKETS, SPACING_NS, run_of
from mptune.testbeds._today import Today, read_from
from mptune.topology import TcpBackground, Topology
from mptune.trial import (
    DEFAULT_FAMILY,
    MOST_CONNECTIONS,
    Mix,
    Observation,
    Programs,
    Trial,
    Workload,
    memory,
)
from mptune.trial.stacks import flag, in_a_kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mptune.capture import Run
    from mptune.linux.kernel_trial import Outcome, Plan
    from mptune.linux.quiet import Quiet

__all__ = ["NamespacesTestbed", "check_network", "stall_ns"]

#: A trial that is to be recorded is run this often if the machine is too busy.
_ATTEMPTS = 3

#: Largest number of trials per processor that wait to be admitted or run.
_WAITING = 4


class NamespacesTestbed(Testbed):
    """Runs trials on the kernel, as many at once as the processors can take, when the machine is quiet.

    Parameters
    ----------
    quiet : what waits for that.
    ready : called in each trial when all is set up, before its network's clock starts.
    in_guest : the kernel is a guest's: it was built to have everything, and nothing ran there before.

    Raises
    ------
    MptuneError : this machine cannot run them; the message names what is missing.
    """

    name = "namespaces"
    only_stack = "linux"
    #: Namespaces, handshake, last data.
    set_up_s = 1.0
    records = True

    def __init__(
        self,
        quiet: Quiet | None = None,
        ready: Callable[[], None] = lambda: None,
        *,
        in_guest: bool = False,
    ) -> None:
        if sys.platform != "linux":
            raise MptuneError("--testbed namespaces: needs Linux")
        from mptune.linux import awake, doctor, processor_load
        from mptune.linux import quiet as quietness
        from mptune.linux.sandbox import leftovers

        self._in_guest = in_guest
        if in_guest:
            missing = doctor.obstacle_of_agent()
        else:
            leftovers.end_strays()
            missing = doctor.obstacle()
        if missing is not None:
            raise MptuneError(f"--testbed namespaces: {missing} (see mptune doctor)")
        # The gate limits them further: trials over slow links need only a small part of a processor each.
        self.parallel = _WAITING * len(os.sched_getaffinity(0))
        self._gate = processor_load.Gate()
        self._awake = awake.Awake()
        self._quiet = quiet or quietness.Quiet()
        self._ready = ready

    def session(self) -> AbstractContextManager[object]:
        """Several trials: inside, this machine's processors do not sleep (`mptune.linux.awake`)."""
        return self._awake

    def check_network(self, topology: Topology) -> None:
        """Refuse what the emulator cannot have (`check_network`)."""
        check_network(topology)

    def check_workload(self, workload: Workload) -> None:
        """Refuse programs that cannot be started and measured here."""
        from mptune.linux import programs

        if isinstance(workload, Programs):
            programs.check((workload.client, workload.server))

    def check(self, trial: Trial) -> None:
        """Refuse what the kernel cannot do, without running it.

        Raises
        ------
        InputError : naming the option; or as `check_network`.
        """
        from mptune.linux import congestion, doctor
        from mptune.linux.sandbox import sysctls

        self.check_workload(trial.workload)
        self.check_network(trial.topology)
        for cc in dict.fromkeys((trial.cc, *(flow.cc for flow in _kernel_plan.others(trial)))):
            congestion.check(cc)
        _kernel_plan.check(trial, self.name, doctor.tcp_memory(), congestion.schedulers())
        for name, (sysctl, _) in in_a_kernel(trial.members).items():
            if not sysctls.file(sysctl).exists():
                raise InputError(flag(name), "", f"expected none: this kernel has no {sysctl}")
        if trial.family != DEFAULT_FAMILY and self._obstacle_of_ipv6 is not None:
            raise InputError("--family", "", f"expected ipv4, found {trial.family}: {self._obstacle_of_ipv6}")

    def today(self, topology: Topology, members: Mapping[str, object]) -> Today:
        """Settings of this machine outside of trials."""
        from mptune.linux import doctor
        from mptune.linux.sandbox import sysctls

        own = {name: value for name in sysctls.TELLING if (value := sysctls.read(name)) is not None}
        today = read_from(own, own, "this machine's settings")
        fixed = memory.largest_fixed(doctor.tcp_memory(), both_ends=True)
        return msgspec.structs.replace(today, fixed_bytes=fixed)

    @cached_property
    def _obstacle_of_ipv6(self) -> str | None:
        """Tried at the first trial over IPv6: most have none."""
        from mptune.linux import doctor

        return None if self._in_guest else doctor.obstacle_of_ipv6()

    def run(self, trial: Trial) -> Observation:
        """Run one trial when the machine is quiet; an overloaded one is repeated once, alone.

        Raises
        ------
        InputError : the kernel cannot run such a trial.
        KeyboardInterrupt : Ctrl-C, or `interrupt` from another thread.
        """
        self.check(trial)
        first, *_ = self._attempt(trial, alone=False)
        return _overload.in_time(first, lambda: self._attempt(trial, alone=True)[0])

    def note(self) -> str:
        """Time waited so far, for the progress."""
        return self._quiet.note()

    def record(self, trial: Trial) -> tuple[Observation, Run]:
        """Run one trial alone and keep its packets, and what its senders thought; as `run` otherwise."""
        self.check(trial)
        if isinstance(trial.workload, Mix) or _kernel_plan.others(trial):
            expected = "expected a single connection to record, and no TCP connections of others"
            raise InputError(trial.topology.name, "background", expected)
        for attempt in range(_ATTEMPTS):
            with tempfile.TemporaryDirectory() as directory:
                observation, run = self._recorded(trial, Path(directory) / "packets")
            if attempt:
                observation.metadata["repeated"] = attempt
            if not _overload.overloaded(observation):
                break
        return observation, run

    def _recorded(self, trial: Trial, file: Path) -> tuple[Observation, Run]:
        from mptune.linux import assignment

        recording = {"file": str(file), "packets": MOST_PACKETS}
        observation, plan, outcome = self._attempt(trial, alone=True, recording=recording)
        packets = file.read_bytes() if file.exists() else b""
        labels = assignment.labels(plan.assignment.paths)
        numbers = {path.label: number for number, path in enumerate(trial.topology.paths)}
        samples = [
            {**sample, "path": labels.get((_host(sample["local"]), _host(sample["remote"])))}
            for sample in (outcome.result or {}).get("samples", [])
        ]
        unrecorded = (outcome.report or {}).get("unrecorded", 0)
        return observation, run_of(trial, observation, packets, samples, numbers, unrecorded)

    def interrupt(self) -> None:
        """Abort running trials; no further trial is run.

        This is permanent: a thread may be just about to start a trial, and trials take long.
        """
        self._gate.close()

    def _attempt(
        self, trial: Trial, *, alone: bool, recording: Mapping[str, Any] | None = None
    ) -> tuple[Observation, Plan, Outcome]:
        """Wait for the trial's turn and for a quiet machine, and run it."""
        from mptune.linux import quiet

        rate_bps = sum(path.rate_bps for path in trial.topology.paths)
        limit_s = quiet.LIMIT_AGAIN_S if alone else quiet.LIMIT_S
        with self._gate.admitted(rate_bps, alone=alone):
            waited = self._quiet.wait(limit_s, lambda: self._gate.closed)
            observation, plan, outcome = self._measure(trial, rate_bps, recording)
            self._gate.was(late=_overload.overloaded(observation))
        _overload.waited(observation, waited.seconds)
        if waited.noise is not None:
            observation.metadata["noise"] = f"{waited.noise}{', for too long' if waited.in_vain else ''}"
        return observation, plan, outcome

    def _measure(
        self, trial: Trial, rate_bps: int, recording: Mapping[str, Any] | None = None
    ) -> tuple[Observation, Plan, Outcome]:
        from mptune.linux import addresses, bpf, kernel_trial
        from mptune.linux.namespace_venue import NamespaceVenue
        from mptune.linux.processor_load import Load

        named = addresses.interfaces(trial.topology)
        of_others = {flow.cc for flow in _kernel_plan.others(trial)}
        with bpf.told(trial.cc, _kernel_plan.told(trial, named)) as kernel_cc, bpf.loaded(of_others) as ccs:
            plan = _kernel_plan.plan(trial, kernel_cc, named, ccs, clients_open=True)
            if recording is not None:
                plan = msgspec.structs.replace(plan, meter={**plan.meter, "samples_ns": SPACING_NS})
            links = _kernel_plan.links(trial, named, recording, plan.initial)
            venue = NamespaceVenue(links, self._ready)
            before = Load.now(self._awake.pid)
            outcome = kernel_trial.run(plan, venue, lambda: self._gate.closed)
            busy = before.share_until(Load.now(self._awake.pid))
        self._gate.learn(rate_bps, sum(_kernel_observation.processor_shares(outcome).values()))
        return _kernel_observation.observe(trial, plan, outcome, busy), plan, outcome


def check_network(topology: Topology) -> None:
    """Refuse a network that is not known well enough, or has more connections of others than there can be.

    Raises
    ------
    InputError : naming the first value that is missing, or the connections of others.
    """
    topology.check_known("the emulator")
    number = sum(isinstance(flow, TcpBackground) for flow in topology.background)
    if number > MOST_CONNECTIONS:
        most = f'expected at most {MOST_CONNECTIONS} with kind = "tcp" on a kernel'
        raise InputError(topology.file, "background", f"{most}, found {number}")


def _host(end: str) -> str:
    """Address of "10.64.0.1:5000" or "[fd64::1]:5000"."""
    return end.rpartition(":")[0].strip("[]")
