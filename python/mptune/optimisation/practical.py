"""Practical size of the buffer, and the traditional formulas for measured paths.

The buffer-size study (Zhou et al., AINA 2017) puts both side by side in its Table III: the smallest buffer
with which fullmesh and Cubic reach their full throughput, and Eq. 1-3 from plain TCP's throughput and the
median of pings of every path (Table II). This module measures; it chooses no configuration (see
`mptune.optimisation.main_job`).
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import msgspec

from mptune.decision.selection import BufferRange, select
from mptune.errors import MptuneError
from mptune.optimisation.options import DEFAULT_CC, DEFAULT_PM
from mptune.options import Option, Options, count
from mptune.options.buffers import BUFFERS
from mptune.options.stacks import StackOptions
from mptune.options.trials import USUAL_PMS, Duration, Family, InitialPaths, Runs
from mptune.response import Polyline
from mptune.runner.planning import plan_trials
from mptune.runner.progress import Reporter
from mptune.runner.runner import TrialRunner
from mptune.statistics import Summary, summarise
from mptune.theory import RTO_NS, Subflow
from mptune.topology import Topology
from mptune.trial import (
    DEFAULT_FAMILY,
    PLAIN_TCP,
    Bulk,
    Combination,
    Configuration,
    Record,
    SubflowRecord,
    Transfer,
    Workload,
)
from mptune.trial.metrics import THROUGHPUT
from mptune.units import MIB, SIZES

#: Share of the plateau with which a buffer is enough.
ENOUGH = 0.95

#: A ping is a transfer of one segment, bytes: its handshake crosses a path whose queues are empty.
_PING_BYTES = 1


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
    buffer_bytes : the smallest measured one that is enough with larger ones too (`enough`, "robust").
    first_bytes : the smallest measured one with `ENOUGH` of the plateau, whatever larger ones give: the
        study's reading.
    is_largest : `buffer_bytes` is the largest that was measured, so that more might be needed.
    means : mean of the runs by buffer, Mbit/s; buffers of which every run failed are missing.
    """

    initial_path: str
    plateau_mbps: float
    buffer_bytes: int
    first_bytes: int
    is_largest: bool
    means: dict[int, float]


class Alone(msgspec.Struct, frozen=True, kw_only=True):
    """A path under plain TCP.

    Attributes
    ----------
    throughput : of a saturated sender with the largest buffer, Mbit/s.
    rtt_ns : median of the pings, while nothing else is sent.
    loaded_rtt_ns : median over the runs of the saturated sender's last smoothed RTT, its queue included.
    """

    path: str
    throughput: Summary
    rtt_ns: int
    loaded_rtt_ns: int


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
    left = topology.for_mptcp()
    labels = options.initial_paths or tuple(path.label for path in left.paths)
    everything = _measure(
        left,
        runner,
        options,
        [_fullmesh(options, path, buffer_bytes) for path in labels for buffer_bytes in options.buffers],
        (shown, "initial paths"),
    )
    paths = [path.label for path in left.paths]
    single = _measure(
        topology,
        runner,
        options,
        [_tcp(options, path, Bulk(duration_ns=options.duration_ns)) for path in paths],
        (shown, "plain TCP"),
    )
    pings = _measure(
        topology,
        runner,
        options,
        [_tcp(options, path, Transfer(bytes=_PING_BYTES)) for path in paths],
        (shown, "pings"),
    )
    per_path, runs = options.runs * len(options.buffers), options.runs
    return Measured(
        practical=tuple(
            _practical(path, everything[number * per_path : (number + 1) * per_path], options)
            for number, path in enumerate(labels)
        ),
        alone=tuple(
            _alone(path, single[i * runs : (i + 1) * runs], pings[i * runs : (i + 1) * runs])
            for i, path in enumerate(paths)
        ),
        failed=sum(record.failed is not None for record in (*everything, *single, *pings)),
    )


def enough(means: Mapping[int, float], reading: str = "robust") -> int:
    """The smallest buffer with `ENOUGH` of the largest mean, by a reading of MPCOA Eq. 10, bytes.

    Parameters
    ----------
    means : mean throughput (Mbit/s) by buffer (bytes).
    reading : name in `mptune.decision.selection.READINGS`. "robust" wants that throughput with every larger
        buffer too, else up to twice the size, else `ENOUGH` of the most that some buffer keeps up to twice
        its size; "global" wants nothing of larger ones.
    """
    sizes = sorted(means)
    grid = tuple(buffer_bytes / MIB for buffer_bytes in sizes)
    curve = Polyline(grid, [means[buffer_bytes] for buffer_bytes in sizes], "means of the runs")
    chosen = select(
        {Combination(DEFAULT_PM, DEFAULT_CC): curve},
        BufferRange(grid=grid, on_grid=True),
        sacrifice=1 - ENOUGH,
        reading=reading,
    )
    return sizes[grid.index(chosen.buffer_mib)]


def _fullmesh(options: PracticalOptions, path: str, buffer_bytes: int) -> Configuration:
    """Fullmesh and Cubic from an initial path."""
    return Configuration(
        pm=DEFAULT_PM,
        cc=DEFAULT_CC,
        buffer_bytes=buffer_bytes,
        workload=Bulk(duration_ns=options.duration_ns),
        initial_path=path,
        stack=options.stack.chosen(),
        family=options.family,
    )


def _tcp(options: PracticalOptions, path: str, workload: Workload) -> Configuration:
    """Plain TCP and Cubic on a path, with the largest buffer."""
    return Configuration(
        pm=USUAL_PMS[PLAIN_TCP],
        protocol="tcp",
        cc=DEFAULT_CC,
        buffer_bytes=options.buffers[-1],
        workload=workload,
        initial_path=path,
        stack=options.stack.chosen(protocol=PLAIN_TCP),
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
    for buffer_bytes in options.buffers:
        mine = [record for record in records if record.buffer_bytes == buffer_bytes]
        if found := THROUGHPUT.values(mine):
            # A run that stalls has that buffer, and gives nothing; whatever else failed tells nothing of it.
            stalls = sum(record.failed is not None and record.failed.kind == "stalled" for record in mine)
            means[buffer_bytes] = sum(found) / (len(found) + stalls)
        elif any(record.failed is not None and record.failed.kind == "stalled" for record in mine):
            means[buffer_bytes] = 0.0
    if not any(means.values()):
        raise MptuneError(f"every trial from {path} failed (first reason: {records[0].failed})")
    buffer_bytes = enough(means)
    return Practical(
        initial_path=path,
        plateau_mbps=max(means.values()),
        buffer_bytes=buffer_bytes,
        first_bytes=enough(means, "global"),
        is_largest=buffer_bytes == max(means),
        means=means,
    )


def _alone(path: str, saturated: Sequence[Record], pings: Sequence[Record]) -> Alone:
    """Throughput and RTTs of a path under plain TCP."""
    found = THROUGHPUT.values(saturated)
    loaded = [sub.rtt_ms for sub in _subflows(saturated) if sub.rtt_ms]
    idle = [sub.min_rtt_ms for sub in _subflows(pings) if sub.min_rtt_ms]
    if not (found and loaded and idle):
        reasons = [record.failed for record in (*saturated, *pings) if record.failed is not None]
        raise MptuneError(
            f"every trial of plain TCP on {path} failed (first reason: {[*reasons, 'no RTT'][0]})"
        )
    return Alone(
        path=path,
        throughput=summarise(found),
        rtt_ns=round(1e6 * statistics.median(idle)),
        loaded_rtt_ns=round(1e6 * statistics.median(loaded)),
    )


def _subflows(records: Sequence[Record]) -> Iterator[SubflowRecord]:
    """Subflows of the trials that did not fail."""
    return (sub for record in records if record.failed is None for sub in record.subflows)
