"""Practical size of the buffer, and the traditional formulas for measured paths.

The buffer-size study (Zhou et al., AINA 2017) puts both side by side in its Table III: the smallest buffer
with which fullmesh and Cubic reach their full throughput, and Eq. 1-3 from the throughput and the median RTT
of every path alone (Table II). This module measures; it chooses no configuration (see
`mptune.optimisation.main_job`).
"""

import statistics
from collections.abc import Sequence
from typing import Annotated

import msgspec

from mptune.errors import MptuneError
from mptune.optimisation.options import DEFAULT_CC, DEFAULT_PM
from mptune.options import Option, Options, count
from mptune.options.buffers import BUFFERS
from mptune.options.stacks import StackOptions
from mptune.options.trials import Duration, Family, InitialPaths, Runs
from mptune.runner.planning import plan_trials
from mptune.runner.progress import Reporter
from mptune.runner.runner import TrialRunner
from mptune.statistics import Summary, summarise
from mptune.theory import RTO_NS, Subflow
from mptune.topology import Topology
from mptune.trial import DEFAULT_FAMILY, Bulk, Configuration, Record
from mptune.trial.metrics import THROUGHPUT
from mptune.units import SIZES

#: Share of the plateau with which a buffer is enough.
ENOUGH = 0.95

#: Path manager that uses one path alone.
_ALONE = "default"


class PracticalOptions(Options, frozen=True, kw_only=True):
    """The measurement's plan.

    Attributes
    ----------
    buffers : bytes, ascending.
    initial_paths : empty for all.
    """

    buffers: Annotated[
        tuple[int, ...],
        Option(BUFFERS, "With --measure: buffers, as low:high:step or a,b,c.", flag="--buffers"),
    ] = tuple(64 * SIZES["KiB"] << step for step in range(9))
    initial_paths: InitialPaths = ()
    runs: Runs = 5
    duration_ns: Duration = 30_000_000_000
    seed: Annotated[int, Option(count(), "With --measure: base of all seeds.", flag="--seed")] = 1
    stack: StackOptions = StackOptions()
    family: Family = DEFAULT_FAMILY


class Practical(msgspec.Struct, frozen=True, kw_only=True):
    """Practical size from one initial path.

    Attributes
    ----------
    plateau_mbps : the largest mean of the runs over all buffers.
    buffer_bytes : the smallest measured one whose mean is at least `ENOUGH` of that.
    is_largest : it is the largest that was measured, so that more might be needed.
    means : mean of the runs by buffer, Mbit/s; buffers of which every run failed are missing.
    """

    initial_path: str
    plateau_mbps: float
    buffer_bytes: int
    is_largest: bool
    means: dict[int, float]


class Alone(msgspec.Struct, frozen=True, kw_only=True):
    """A path that carried everything alone; `rtt_ns` is the median over the runs of the last smoothed RTT."""

    path: str
    throughput: Summary
    rtt_ns: int


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Observations: every initial path, and every path alone; `failed` trials were left out."""

    practical: tuple[Practical, ...]
    alone: tuple[Alone, ...]
    failed: int

    def subflows(self, rto_ns: int = RTO_NS) -> list[Subflow]:
        """The paths as the formulas want them."""
        return [
            Subflow(rate_bps=round(path.throughput.mean * 1e6), rtt_ns=path.rtt_ns, rto_ns=rto_ns)
            for path in self.alone
        ]


def measure_practical(
    topology: Topology, runner: TrialRunner, options: PracticalOptions, *, reporter: Reporter | None = None
) -> Measured:
    """Measure fullmesh and Cubic from every initial path over the buffers, and every path alone.

    Raises
    ------
    InputError : an invalid option.
    MptuneError : every trial of an initial path, or of a path alone, failed.
    """
    options.check()
    shown = reporter or Reporter(quiet=True)
    topology = topology.for_mptcp()
    labels = options.initial_paths or tuple(path.label for path in topology.paths)
    everything = _measure(
        topology,
        runner,
        options,
        [_configuration(options, DEFAULT_PM, path, size) for path in labels for size in options.buffers],
        (shown, "initial paths"),
    )
    paths = [path.label for path in topology.paths]
    single = _measure(
        topology,
        runner,
        options,
        [_configuration(options, _ALONE, path, options.buffers[-1]) for path in paths],
        (shown, "paths alone"),
    )
    per_path, runs = options.runs * len(options.buffers), options.runs
    return Measured(
        practical=tuple(
            _practical(path, everything[number * per_path : (number + 1) * per_path], options)
            for number, path in enumerate(labels)
        ),
        alone=tuple(
            _alone(path, single[number * runs : (number + 1) * runs]) for number, path in enumerate(paths)
        ),
        failed=sum(record.failed is not None for record in (*everything, *single)),
    )


def enough(means: dict[int, float]) -> tuple[int, float]:
    """The smallest buffer (bytes) that reaches `ENOUGH` of the largest mean, and that mean (Mbit/s)."""
    plateau = max(means.values())
    return min(size for size, mean in means.items() if mean >= ENOUGH * plateau), plateau


def _configuration(options: PracticalOptions, pm: str, path: str, size: int) -> Configuration:
    return Configuration(
        pm=pm,
        cc=DEFAULT_CC,
        buffer_bytes=size,
        workload=Bulk(duration_ns=options.duration_ns),
        initial_path=path,
        stack=options.stack.chosen(),
        family=options.family,
    )


def _measure(
    topology: Topology,
    runner: TrialRunner,
    options: PracticalOptions,
    configurations: Sequence[Configuration],
    shown: tuple[Reporter, str],
) -> list[Record]:
    """Trials of every configuration, configuration by configuration, run by run."""
    planned = plan_trials(
        topology,
        configurations,
        purpose="sweep",
        runs=options.runs,
        base_seed=options.seed,
    )
    reporter, name = shown
    with reporter.phase(name) as progress:
        return runner.measure(planned, progress=progress)


def _practical(path: str, records: Sequence[Record], options: PracticalOptions) -> Practical:
    """Practical size from one initial path."""
    means = {}
    for size in options.buffers:
        found = THROUGHPUT.values([record for record in records if record.buffer_bytes == size])
        if found:
            means[size] = summarise(found).mean
    if not means:
        raise MptuneError(f"every trial from {path} failed (first reason: {records[0].failed})")
    size, plateau = enough(means)
    return Practical(
        initial_path=path,
        plateau_mbps=plateau,
        buffer_bytes=size,
        is_largest=size == options.buffers[-1],
        means=means,
    )


def _alone(path: str, records: Sequence[Record]) -> Alone:
    """Throughput and RTT of a path alone."""
    found = THROUGHPUT.values(records)
    rtts = [
        sub.rtt_ms for record in records if record.failed is None for sub in record.subflows if sub.rtt_ms
    ]
    if not found or not rtts:
        raise MptuneError(f"every trial of {path} alone failed (first reason: {records[0].failed})")
    return Alone(path=path, throughput=summarise(found), rtt_ns=round(1e6 * statistics.median(rtts)))
