"""Impact factors by withdrawal, and the optional and standby sets that follow from them.

MPCOA Eq. 5 (PCDC Eq. 1): all subflows carry data during 0..T; at T one of them becomes a standby, and
the total throughput of T..2T is compared with that of 0..T. One trial withdraws one subflow. It
measures and partitions; how a path manager uses the sets is the core's business.

Three things to know about the formula:

- Printed, it sums T samples above and T + 1 below, which gives a subflow that does nothing an impact
  factor of 1/(T + 1) (errata E6). Here both windows have the same number of samples.
- The first window holds the handshakes and slow start, the second does not. A subflow that does
  nothing therefore gets an impact factor slightly *below* zero, more so for short T and long RTT, and
  lands in the standby set. That is the papers' method and the default; `settle_ns` leaves out the
  beginning of both windows, which also keeps what was in flight at T out of the second.
- Whatever else changes between the windows counts as impact too. Subflows that share the throughput
  have impact factors that add up to about 1 (0.7 to 1.3 in MPCOA Table 2); a much larger sum is told.
"""

from collections.abc import Mapping, Sequence

import msgspec

from mptune.campaign.bench import Bench
from mptune.campaign.records import PlannedTrial, Record, record
from mptune.campaign.running import Advance
from mptune.campaign.seeds import seed_for
from mptune.errors import InputError, TrialError
from mptune.statistics import Summary, summarise
from mptune.testbeds import BIN_NS, MSS, Observation, ScriptedAction, Trial
from mptune.topology import Topology

#: A sum of the impact factors above this means that they do not measure shares of the throughput.
MAX_SUM = 1.5

#: Set of a subflow whose mean impact factor is exactly 0.
ZERO_RULES = ("standby", "optional")


class ImpactOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How impact factors are measured.

    Attributes
    ----------
    window_ns : T, nanoseconds; a trial lasts twice as long. The papers leave it open; 30 s is the
        duration of MPCOA's trials.
    buffer_bytes : large enough not to limit; 16 MiB is PCDC's setting.
    settle_ns : left out at the beginning of both windows; 0 is the papers' formula.
    zero : one of `ZERO_RULES`; the papers say both (errata E5, E26).
    """

    runs: int = 10
    window_ns: int = 30_000_000_000
    buffer_bytes: int = 16 * 1024 * 1024
    settle_ns: int = 0
    zero: str = "standby"
    seed: int = 1


class SubflowSets(msgspec.Struct, frozen=True, kw_only=True):
    """Partition of the subflows of one congestion control (MPCOA Eq. 6).

    Attributes
    ----------
    optional : carry data, in the order of the topology.
    standby : established but silent, best impact factor first.
    fallback : no subflow qualified, and the best one was taken: the papers leave this case undefined
        (errata E27), and a connection needs one.
    """

    optional: tuple[str, ...]
    standby: tuple[str, ...]
    fallback: bool = False


class PathImpact(msgspec.Struct, frozen=True, kw_only=True):
    """Impact factor of one subflow over the runs.

    Attributes
    ----------
    omega : its statistics; None when every run failed.
    rtt_ms : mean over the runs of its last smoothed RTT; None when it never measured one.
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
        raise TrialError(f"the series ends after {len(observation.bins)} of {2 * window} bins")
    with_all = sum(observation.bins[settle:window])
    without = sum(observation.bins[window + settle : 2 * window])
    if not with_all:
        raise TrialError("nothing was delivered while all subflows carried data")
    return 1.0 - without / with_all


def partition(means: Mapping[str, float | None], zero: str = "standby") -> SubflowSets:
    """Optional and standby sets from mean impact factors (None: could not be measured).

    The sign of the unrounded mean decides, which is consistent with every set the papers print. A
    subflow that could not be measured stays optional: FullMesh is right until proven wrong.
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
    bench: Bench,
    ccs: Sequence[str],
    options: ImpactOptions,
    *,
    progress: Advance | None = None,
) -> tuple[list[Impact], list[Record]]:
    """Impact factors under each congestion control, and the trials they come from.

    Raises
    ------
    InputError : an option that cannot be, such as a window that is no multiple of the sampling step.
    """
    check_impact(options)

    def reduce(one: PlannedTrial, observation: Observation) -> Record:
        return _record(one, observation, options)

    records = bench.measure(_plan(topology, ccs, options), reduce=reduce, progress=progress)
    by_cc = {cc: [one for one in records if one.cc == cc] for cc in ccs}
    return [_impact(topology, cc, by_cc[cc], options.zero) for cc in ccs], records


def check_impact(options: ImpactOptions) -> None:
    """Windows must be whole bins, and something must be left of them; a segment must fit the buffer."""
    if options.window_ns <= 0 or options.window_ns % BIN_NS:
        raise InputError(
            "impact window T",
            "",
            f"expected a positive multiple of {BIN_NS / 1e9} s, found {options.window_ns / 1e9} s",
        )
    if not 0 <= options.settle_ns < options.window_ns:
        raise InputError("--settle", "", f"expected less than T, found {options.settle_ns / 1e9} s")
    if options.buffer_bytes < MSS:
        raise InputError(
            "--buffer", "", f"expected at least one segment ({MSS} bytes), found {options.buffer_bytes} bytes"
        )
    if options.zero not in ZERO_RULES:
        raise InputError("--zero", "", f"expected one of {', '.join(ZERO_RULES)}, found {options.zero!r}")


def _plan(topology: Topology, ccs: Sequence[str], options: ImpactOptions) -> list[PlannedTrial]:
    """Trials of every congestion control, withdrawn subflow and run.

    All withdrawals of one run share its seed, and so the first window: they are compared with the same
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
                duration_ns=2 * options.window_ns,
                script=(ScriptedAction(at_ns=options.window_ns, path=path.label, action="standby"),),
                seed=seed_for(options.seed, "impact", run),
            ),
        )
        for cc in ccs
        for path in topology.paths
        for run in range(options.runs)
    ]


def _record(planned: PlannedTrial, observation: Observation, options: ImpactOptions) -> Record:
    """Condense a trial; one without an impact factor is a failed one."""
    one = record(planned, observation)
    if one.failed is not None:
        return one
    try:
        omega = impact_factor(observation, options.window_ns, options.settle_ns)
    except TrialError as error:
        return msgspec.structs.replace(one, throughput_mbps=None, failed=str(error))
    return msgspec.structs.replace(one, omega=omega)


def _impact(topology: Topology, cc: str, records: Sequence[Record], zero: str) -> Impact:
    """Statistics, sets and warnings of one congestion control."""
    paths = tuple(
        _path_impact(path.label, [one for one in records if one.withdrawn == path.label])
        for path in topology.paths
    )
    sets = partition({one.path: None if one.omega is None else one.omega.mean for one in paths}, zero)
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
            f"{cc}: no impact factor for {', '.join(unknown)}: every run failed; kept as optional."
        )
    total = sum(one.omega.mean for one in paths if one.omega is not None)
    if total > MAX_SUM:
        warnings.append(
            f"{cc}: the impact factors add up to {total:.1f} instead of about 1: the throughput falls "
            "over time whichever subflow is withdrawn, so they tell little about the subflows."
        )
    if sets.fallback:
        warnings.append(
            f"{cc}: no subflow has a positive impact factor; {sets.optional[0]}, the best, is used."
        )
    return Impact(cc=cc, paths=paths, sets=sets, warnings=tuple(warnings))


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
