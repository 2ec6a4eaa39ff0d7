"""Impact factors by withdrawal, and the optional and standby sets that follow from them.

MPCOA Eq. 5 (PCDC Eq. 1): all subflows carry data during 0..T; at T one of them becomes a standby, and
the total throughput of T..2T is compared with that of 0..T. One trial withdraws one subflow. This module
measures and partitions; the core's path managers use the sets.

Three things to know about the formula:

- As printed, it sums T samples in the numerator and T + 1 in the denominator, which gives a subflow that
  does nothing an impact factor of 1/(T + 1) (errata E6). Here both windows have the same number of samples.
- The first window holds the handshakes and slow start, the second does not. A subflow that does
  nothing therefore gets an impact factor slightly *below* zero, more so for short T and long RTT, and
  lands in the standby set. That is the papers' method and the default; `settle_ns` leaves out the
  beginning of both windows, which also keeps what was in flight at T out of the second.
- Any other change between the windows counts as impact too. Subflows that share the throughput have
  impact factors that add up to about 1 (0.7 to 1.3 in MPCOA Table 2); a much larger sum gives a warning.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import msgspec

from mptune import units
from mptune.errors import TrialError
from mptune.measuring.records import PlannedTrial, Record, record
from mptune.measuring.runner import TrialRunner
from mptune.measuring.running import Advance
from mptune.measuring.seeds import seed_for
from mptune.options import Option, Options, choice, count, time
from mptune.options.buffers import BUFFER
from mptune.options.trials import BufferMode, Seed
from mptune.statistics import Summary, summarise
from mptune.testbeds import BIN_NS, FIXED, Observation, ScriptedAction, Trial
from mptune.testbeds.stacks import DEFAULT_STACK, STACKS, Stack
from mptune.topology import Topology

#: If the impact factors add up to more than this, they do not measure shares of the throughput.
MAX_SUM = 1.5

#: Set of a subflow whose mean impact factor is exactly 0.
ZERO_RULES = ("standby", "optional")


class ImpactOptions(Options, frozen=True, kw_only=True):
    """How impact factors are measured.

    Attributes
    ----------
    window_ns : T, nanoseconds; a trial lasts twice as long. The papers leave it open; 30 s is the
        duration of MPCOA's trials.
    buffer_bytes : large enough not to limit; 16 MiB is PCDC's setting.
    buffer_mode : as in `Trial`.
    settle_ns : left out at the beginning of both windows; 0 is the papers' formula.
    zero : one of `ZERO_RULES`; the papers say both (errata E5, E26).
    """

    runs: Annotated[
        int,
        Option(
            count(1),
            "Runs per subflow for its impact factor, each with its own seed.",
            key="impact.runs",
            nested="--impact-runs",
        ),
    ] = 10
    window_ns: Annotated[
        int,
        Option(
            time(step_ns=BIN_NS),
            "T of the impact factors: each trial runs this long with all subflows, then as long without one.",
            key="impact.duration",
            nested="--impact-duration",
        ),
    ] = 30_000_000_000
    buffer_bytes: Annotated[
        int,
        Option(
            BUFFER,
            "Send and receive buffer of the connection; a bare number is MiB.",
            key="impact.buffer",
            alone=True,
        ),
    ] = 16 * 1024 * 1024
    buffer_mode: BufferMode = FIXED
    settle_ns: Annotated[
        int, Option(time(), "Leave out this much at the start of both T.", key="impact.settle")
    ] = 0
    zero: Annotated[
        str,
        Option(
            choice(lambda: ZERO_RULES),
            "Set of a subflow whose impact factor is exactly 0.",
            key="impact.zero",
        ),
    ] = "standby"
    seed: Seed = 1

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """The windows must not be empty."""
        if self.settle_ns >= self.window_ns:
            yield "settle_ns", f"expected less than T, found {units.format_time(self.settle_ns)}"


class SubflowSets(msgspec.Struct, frozen=True, kw_only=True):
    """Partition of the subflows of one congestion control (MPCOA Eq. 6).

    Attributes
    ----------
    optional : subflows that carry data, in the order of the topology.
    standby : subflows that are established but silent, best impact factor first.
    rtt_ns : smallest RTT of every path that has one, by label: PCDC sorts the optional set by it.
    fallback : no subflow qualified, so the best one was taken: the papers leave this case undefined
        (errata E27), and a connection needs one.
    """

    optional: tuple[str, ...]
    standby: tuple[str, ...]
    fallback: bool = False
    rtt_ns: dict[str, int] = {}


class PathImpact(msgspec.Struct, frozen=True, kw_only=True):
    """Impact factor of one subflow over the runs.

    Attributes
    ----------
    omega : its statistics; None if every run failed.
    rtt_ms : mean over the runs of its last smoothed RTT; None if it never measured one.
    """

    path: str
    omega: Summary | None
    rtt_ms: float | None


class Impact(msgspec.Struct, frozen=True, kw_only=True):
    """Impact factors of all subflows under one congestion control."""

    cc: str
    paths: tuple[PathImpact, ...]
    sets: SubflowSets
    warnings: tuple[str, ...]


def impact_factor(observation: Observation, window_ns: int, settle_ns: int = 0) -> float:
    """Impact factor of the subflow withdrawn at `window_ns`: 1 - sum(T..2T) / sum(0..T).

    Raises
    ------
    TrialError : nothing was delivered in 0..T, or the series ends before 2T.
    """
    window, settle = window_ns // BIN_NS, settle_ns // BIN_NS
    if len(observation.bins) < 2 * window:
        raise TrialError(f"the series ends after {len(observation.bins)} of {2 * window} bins", "incomplete")
    with_all = sum(observation.bins[settle:window])
    without = sum(observation.bins[window + settle : 2 * window])
    if not with_all:
        raise TrialError("nothing was delivered while all subflows carried data", "unreachable")
    return 1.0 - without / with_all


def partition(means: Mapping[str, float | None], zero: str = "standby") -> SubflowSets:
    """Optional and standby sets from mean impact factors (None: could not be measured).

    The sign of the unrounded mean decides, which is consistent with every set the papers print. A
    subflow that could not be measured stays optional, as in FullMesh.
    """
    known = {path: mean for path, mean in means.items() if mean is not None}
    best_first = sorted(known, key=lambda path: -known[path])
    standby = [p for p in best_first if known[p] < 0 or (known[p] == 0 and zero == "standby")]
    fallback = len(standby) == len(means)
    if fallback:
        standby = standby[1:]
    optional = tuple(path for path in means if path not in standby)
    return SubflowSets(optional=optional, standby=tuple(standby), fallback=fallback)


def measure_impact(
    topology: Topology,
    runner: TrialRunner,
    ccs: Sequence[str],
    options: ImpactOptions,
    *,
    stack: Stack = STACKS[DEFAULT_STACK],
    progress: Advance | None = None,
) -> tuple[list[Impact], list[Record]]:
    """Impact factors under each congestion control, and the trials they come from.

    Raises
    ------
    InputError : an invalid option, such as a window that is not a multiple of the sampling step.
    """
    options.check()

    def reduce(one: PlannedTrial, observation: Observation) -> Record:
        return _record(one, observation, options)

    records = runner.measure(_plan(topology, ccs, options, stack), reduce=reduce, progress=progress)
    by_cc = {cc: [one for one in records if one.cc == cc] for cc in ccs}
    return [_impact(topology, cc, by_cc[cc], options.zero) for cc in ccs], records


def _plan(topology: Topology, ccs: Sequence[str], options: ImpactOptions, stack: Stack) -> list[PlannedTrial]:
    """Trials of every congestion control, withdrawn subflow and run.

    All withdrawals of one run share its seed and therefore the first window, so they have the same
    denominator.
    """
    return [
        PlannedTrial(
            purpose="impact",
            run=run,
            withdrawn=path.label,
            trial=Trial(
                topology=topology,
                pm="fullmesh",
                cc=cc,
                buffer_bytes=options.buffer_bytes,
                buffer_mode=options.buffer_mode,
                duration_ns=2 * options.window_ns,
                script=(ScriptedAction(at_ns=options.window_ns, path=path.label, action="standby"),),
                seed=seed_for(options.seed, "impact", run),
                **msgspec.structs.asdict(stack),
            ),
        )
        for cc in ccs
        for path in topology.paths
        for run in range(options.runs)
    ]


def _record(planned: PlannedTrial, observation: Observation, options: ImpactOptions) -> Record:
    """Condense a trial; without an impact factor it counts as failed."""
    one = record(planned, observation)
    if one.failed is not None:
        return one
    try:
        omega = impact_factor(observation, options.window_ns, options.settle_ns)
    except TrialError as error:
        return msgspec.structs.replace(one, throughput_mbps=None, failed=error.failure)
    return msgspec.structs.replace(one, omega=omega)


def _impact(topology: Topology, cc: str, records: Sequence[Record], zero: str) -> Impact:
    """Statistics, sets and warnings of one congestion control."""
    paths = tuple(
        _path_impact(path.label, [one for one in records if one.withdrawn == path.label])
        for path in topology.paths
    )
    sets = partition({one.path: None if one.omega is None else one.omega.mean for one in paths}, zero)
    sets = msgspec.structs.replace(sets, rtt_ns=_smallest_rtts(topology, records))
    warnings = []
    failed = [one for one in records if one.failed is not None]
    if failed:
        warnings.append(
            f"{cc}: {len(failed)} of {len(records)} withdrawal trials failed and are left out "
            f"(first reason: {failed[0].failed})."
        )
    unknown = [one.path for one in paths if one.omega is None]
    if unknown:
        warnings.append(
            f"{cc}: no impact factor for {', '.join(unknown)}, as every run failed; kept as optional."
        )
    total = sum(one.omega.mean for one in paths if one.omega is not None)
    if total > MAX_SUM:
        warnings.append(
            f"{cc}: the impact factors add up to {total:.1f} instead of about 1: the throughput falls "
            "over time regardless of the withdrawn subflow, so they say little about the subflows."
        )
    if sets.fallback:
        warnings.append(
            f"{cc}: no subflow has a positive impact factor; the best one, {sets.optional[0]}, is used."
        )
    return Impact(cc=cc, paths=paths, sets=sets, warnings=tuple(warnings))


def _smallest_rtts(topology: Topology, records: Sequence[Record]) -> dict[str, int]:
    """The smallest RTT that any trial saw on each path, nanoseconds."""
    seen = [subflow for one in records if one.failed is None for subflow in one.subflows]
    smallest = {
        path.label: [one.min_rtt_ms for one in seen if one.path == path.label and one.min_rtt_ms is not None]
        for path in topology.paths
    }
    return {label: round(min(rtts) * 1e6) for label, rtts in smallest.items() if rtts}


def _path_impact(label: str, records: Sequence[Record]) -> PathImpact:
    """Statistics of one withdrawn subflow."""
    omegas = [one.omega for one in records if one.omega is not None]
    rtts = [
        subflow.rtt_ms
        for one in records
        if one.omega is not None
        for subflow in one.subflows
        if subflow.path == label and subflow.rtt_ms is not None
    ]
    return PathImpact(
        path=label,
        omega=summarise(omegas) if omegas else None,
        rtt_ms=summarise(rtts).mean if rtts else None,
    )
