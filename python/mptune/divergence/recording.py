"""Makes a recording: the runs of one trial on a testbed that can record."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from mptune import testbeds
from mptune.capture import About, Recording, Run
from mptune.errors import TrialError
from mptune.runner.progress import Reporter
from mptune.trial import Observation, Trial
from mptune.trial.stacks import LINUX_VERSION, describe


class Recorder(Protocol):
    """A testbed that can record."""

    name: str

    def record(self, trial: Trial) -> tuple[Observation, Run]:
        """Run one trial and keep its packets."""
        ...


def record(testbed: Recorder, trials: Sequence[Trial], reporter: Reporter | None = None) -> Recording:
    """Run all trials, which differ by their seeds alone, one after another.

    Raises
    ------
    InputError : a trial is impossible there.
    TrialError : a run gave no usable number.
    """
    reporter = reporter or Reporter(quiet=True)
    runs = []
    session: AbstractContextManager[object] = getattr(testbed, "session", nullcontext)()
    with session, reporter.phase(testbed.name) as progress:
        for number, trial in enumerate(trials, 1):
            observation, run = testbed.record(trial)
            if observation.failed is not None and observation.failed.kind == "overloaded":
                raise TrialError(f"{testbed.name}: {observation.failed}", "overloaded")
            runs.append(run)
            if progress is not None:
                progress(number, len(trials))
    return Recording(about=_about(testbed.name, trials[0]), runs=runs)


def _about(testbed: str, trial: Trial) -> About:
    topology = trial.topology
    simulated = f"{describe(trial.members)} {LINUX_VERSION}"
    release = platform.release() if testbeds.only_stack(testbed) else simulated
    rtts = [topology.known(path).base_rtt_ns or 0 for path in topology.paths]
    return About(
        testbed=testbed,
        release=release,
        topology=topology.name,
        paths=tuple(path.label for path in topology.paths),
        base_rtt_ns=tuple(rtts),
        trial={
            "pm": trial.pm,
            "cc": trial.cc,
            "buffer_bytes": trial.buffer_bytes,
            "buffer_mode": trial.buffer_mode,
            "duration_ns": trial.duration_ns,
            "transfer_bytes": trial.transfer_bytes,
            "stack": describe(trial.members),
        },
    )
