"""Several recorded runs of one trial: the options of `mptune diverge`, and the runs on a testbed.

Recordings are compared by `mptune.capture.divergence`.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from mptune import testbeds, units
from mptune.capture import About, Recording
from mptune.errors import TrialError, one_of
from mptune.options import Option, Options, count, share, time
from mptune.options.path_managers import PathManagerOptions
from mptune.options.stacks import StackOptions
from mptune.options.trials import (
    USUAL_PMS,
    Buffer,
    BufferMode,
    Cc,
    Family,
    InitialPath,
    Pm,
    Testbed,
    TransferSize,
)
from mptune.runner.progress import Reporter
from mptune.topology import Topology
from mptune.trial import DEFAULT_FAMILY, FIXED, Bulk, Transfer, Trial, Workload
from mptune.trial.stacks import LINUX_VERSION, describe

#: Longest trial without a --duration, and of a transfer.
_USUAL_NS = 10_000_000_000
_MOST_NS = 120_000_000_000


class DivergeOptions(Options, frozen=True, kw_only=True):
    """One trial, recorded several times on either side; the fields of the trial are those of `Trial`."""

    pm: Pm = None
    cc: Cc = "cubic"
    buffer_bytes: Buffer = units.MIB
    buffer_mode: BufferMode = FIXED
    family: Family = DEFAULT_FAMILY
    duration_ns: Annotated[
        int, Option(time(positive=True), "Send for this long, at most 2 minutes.", flag="--duration")
    ] = _USUAL_NS
    transfer_bytes: TransferSize = None
    initial_path: InitialPath = None
    runs: Annotated[
        int,
        Option(
            count(1, 20),
            "Runs on either side, with a seed each; differences between the kernel's own runs are chance.",
            flag="--runs",
        ),
    ] = 3
    seed: Annotated[int, Option(count(), "Seed of the first run; the others follow.", flag="--seed")] = 1
    tolerance: Annotated[
        float, Option(share(), "Ignore smaller differences, as a share of the value.", flag="--tolerance")
    ] = 0.1
    span_ns: Annotated[
        int,
        Option(time(positive=True), "Ignore shorter differences, and those within an RTT.", flag="--span"),
    ] = 50_000_000
    testbed: Testbed = "namespaces"
    stack: StackOptions = StackOptions()
    pm_options: PathManagerOptions = PathManagerOptions()

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Recordings are kept in memory, and options belong to the path manager that is used."""
        if self.duration_ns > _MOST_NS:
            yield "duration_ns", f"expected at most {units.format_time(_MOST_NS)}: every packet is kept"
        if testbeds.only_stack(self.testbed) is None:
            others = [name for name in testbeds.TESTBEDS if testbeds.only_stack(name) is not None]
            yield "testbed", one_of(others, self.testbed)
        for name, pm in self.pm_options.unused((self.manager,)):
            yield f"pm_options.{name}", f"expected only with --pm {pm}, found with {self.manager}"

    @property
    def manager(self) -> str:
        """The path manager."""
        return self.pm or USUAL_PMS["mptcp"]

    def trials(self, topology: Topology) -> list[Trial]:
        """The trial with each of its seeds."""
        of_trial = ("cc", "buffer_bytes", "buffer_mode", "family", "initial_path")
        workload: Workload = Bulk(duration_ns=self.duration_ns)
        if self.transfer_bytes is not None:
            workload = Transfer(bytes=self.transfer_bytes, deadline_ns=_MOST_NS)
        first = Trial(
            topology=topology,
            pm=self.manager,
            pm_options=self.pm_options.of(self.manager),
            seed=self.seed,
            workload=workload,
            **{name: getattr(self, name) for name in of_trial},
            **msgspec.structs.asdict(self.stack.chosen()),
        )
        return [msgspec.structs.replace(first, seed=self.seed + number) for number in range(self.runs)]


def record(testbed: testbeds.Testbed, trials: Sequence[Trial], reporter: Reporter | None = None) -> Recording:
    """Run all trials, which differ by their seeds alone, one after another.

    Raises
    ------
    InputError : a trial is impossible there.
    TrialError : a run gave no usable number.
    """
    reporter = reporter or Reporter(quiet=True)
    runs = []
    with testbed.session(), reporter.phase(testbed.name) as progress:
        for number, trial in enumerate(trials, 1):
            observation, run = testbed.record(trial)
            if observation.failed is not None and observation.failed.kind in ("overloaded", "died"):
                raise TrialError(f"{testbed.name}: {observation.failed}", observation.failed.kind)
            runs.append(run)
            if progress is not None:
                progress(number, len(trials))
    return Recording(about=_about(testbed.name, trials[0]), runs=runs)


def _about(testbed: str, trial: Trial) -> About:
    topology = trial.topology
    simulated = f"{describe(trial.members)} {LINUX_VERSION}"
    release = testbeds.release(testbed) or simulated
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
            "duration_ns": None,
            "transfer_bytes": None,
            **trial.workload.settings,
            "stack": describe(trial.members),
        },
    )
