"""Measures the same configurations in the simulator and on a kernel: this machine's, or those of two hosts.

`mptune.decision.agreement` interprets the numbers, `mptune.cli.compare` shows them.
"""

import itertools
from collections.abc import Iterator
from typing import Annotated, Self

import msgspec

from mptune import testbeds
from mptune.decision.agreement import Comparison, Row, compare, is_stalled, summarise_runs
from mptune.decision.model_error import shipped
from mptune.errors import InputError, one_of
from mptune.options import Options
from mptune.options.paths import PathOptions
from mptune.options.trials import (
    BufferMode,
    Buffers,
    Ccs,
    Family,
    Pms,
    Runs,
    Seed,
    TransferSize,
    check_labels,
    sending_time,
)
from mptune.runner.progress import Reporter
from mptune.runner.running import run_trials
from mptune.runner.seeds import seed_for
from mptune.testbeds.namespaces import stall_ns
from mptune.topology import Topology
from mptune.trial import DEFAULT_FAMILY, FIXED, Trial, time_or_size
from mptune.units import MIB

#: The testbed that others are compared with.
_SIMULATED = "simulated"


class CompareOptions(Options, frozen=True, kw_only=True):
    """Every path manager with every congestion control and every buffer.

    Attributes
    ----------
    buffers : bytes.
    buffer_mode, family : as in `Trial`.
    runs : of each configuration, with a seed of its own each.
    duration_ns, transfer_bytes : as in `Trial`, one of them.
    seed : base of all seeds.
    paths : what path policies are told of paths; each congestion control is told what it goes by.
    """

    pms: Pms = ("fullmesh",)
    ccs: Ccs = ("reno", "cubic")
    buffers: Buffers = (MIB // 4, MIB // 2, MIB, 2 * MIB, 4 * MIB)
    buffer_mode: BufferMode = FIXED
    family: Family = DEFAULT_FAMILY
    runs: Runs = 1
    duration_ns: Annotated[int | None, sending_time("10s")] = None
    transfer_bytes: TransferSize = None
    seed: Seed = 1
    paths: PathOptions = PathOptions()

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """A time or a size, not both; parameters of paths for a congestion control that goes by them."""
        for name, expected in self.paths.misfits(self.ccs):
            yield f"paths.{name}", expected
        if self.duration_ns is not None and self.transfer_bytes is not None:
            yield "transfer_bytes", "expected either --duration or --transfer, found both"

    def completed(self) -> Self:
        """Without either, send for 10 s."""
        if self.duration_ns is None and self.transfer_bytes is None:
            return msgspec.structs.replace(self, duration_ns=10_000_000_000)
        return self


def measure(
    topology: Topology,
    options: CompareOptions,
    *,
    testbed: str = "namespaces",
    workers: int | None = None,
    reporter: Reporter | None = None,
) -> Comparison:
    """Run every trial on both testbeds, the same one on either.

    Parameters
    ----------
    testbed : where the kernel is.

    Raises
    ------
    InputError : an option that cannot be, or that the kernel cannot do.
    MptuneError : there is no kernel testbed on this machine.
    """
    options.check()
    check_labels(options, topology)
    if testbed == _SIMULATED:
        others = [name for name in testbeds.TESTBEDS if name != _SIMULATED]
        raise InputError("--testbed", "", one_of(others, testbed))
    reporter = reporter or Reporter(quiet=True)
    configurations = list(itertools.product(options.pms, options.ccs, options.buffers))
    trials = [
        trial(topology, options, pm, cc, buffer_bytes, run)
        for pm, cc, buffer_bytes in configurations
        for run in range(options.runs)
    ]
    kernel = testbeds.create(testbed)
    with reporter.phase("simulated") as progress:
        simulated = run_trials(testbeds.create(_SIMULATED), trials, workers=workers, progress=progress)
    reporter.notice(testbeds.notice(testbed, topology, buffer_modes=(options.buffer_mode,)))
    with reporter.phase("kernel") as progress:
        measured = run_trials(kernel, trials, workers=workers, progress=progress)
    rows = []
    for number, (pm, cc, buffer_bytes) in enumerate(configurations):
        here = slice(number * options.runs, (number + 1) * options.runs)
        quiet = stall_ns(trials[here][0])
        gave = [
            observation.throughput_bps / 1e6
            for observation in simulated[here]
            if observation.failed is None and not is_stalled(observation, quiet)
        ]
        rows.append(
            Row(
                pm=pm,
                cc=cc,
                buffer_bytes=buffer_bytes,
                simulated=summarise_runs(simulated[here], quiet),
                kernel=summarise_runs(measured[here], quiet),
                expected=shipped().expected(trials[here][0], gave),
            )
        )
    return compare(rows)


def trial(
    topology: Topology, options: CompareOptions, pm: str, cc: str, buffer_bytes: int, run: int
) -> Trial:
    """One trial, with the kernel's stack, which is the default."""
    return Trial(
        topology=topology,
        pm=pm,
        cc=cc,
        buffer_bytes=buffer_bytes,
        buffer_mode=options.buffer_mode,
        family=options.family,
        workload=time_or_size(options.duration_ns, options.transfer_bytes),
        seed=seed_for(options.seed, "sweep", run),
        path_parameters=options.paths.chosen.of(cc),
    )
