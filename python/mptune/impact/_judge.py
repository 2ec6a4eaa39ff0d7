"""From trials to `Impact`: statistics, decisions, sets, and the reasons to doubt them.

The bounds of what is plausible are here. It runs no trial, and knows the designs only by their factors.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from mptune.impact import _sequential
from mptune.impact._options import ImpactOptions
from mptune.impact._result import Impact, PathImpact, SubflowSets, partition
from mptune.impact._sequential import Verdict
from mptune.statistics import same_mean, summarise
from mptune.topology import Topology
from mptune.trial import Record

#: If the impact factors add up to more than this, they do not measure shares of the throughput: the sums are
#: 0.7 to 1.3 in MPCOA Table 2 where no factor is far below 0. There is no lower bound: subflows that take
#: over each other's share all have small factors.
MAX_SUM = 1.5

#: Failed trials, as a share of all, above which the others may be a selection.
_MAX_FAILED = 0.1

#: Level of the test whether the factors are equal.
_EQUAL = 0.05


def judge(
    topology: Topology,
    cc: str,
    records: Sequence[Record],
    factors: Mapping[str, Sequence[float]],
    options: ImpactOptions,
) -> Impact:
    """Statistics, decisions, sets, warnings and doubts of one congestion control.

    Parameters
    ----------
    records : its trials.
    factors : impact factors of every subflow, one per trial.
    """
    if options.design == "paired":
        verdicts = _sequential.verdicts(factors, _sequential.looks(options.most_runs))
    else:  # the papers' number of runs, whatever it is, and one look
        verdicts = _sequential.verdicts(factors, (options.most_runs,), least=2)
    paths = tuple(
        _path_impact(path.label, records, factors[path.label], verdicts[path.label])
        for path in topology.paths
    )
    sets = _sets(paths, options)
    sets = msgspec.structs.replace(sets, rtt_ns=_smallest_rtts(topology, records))
    doubts = tuple(_doubts(paths, records))
    return Impact(
        cc=cc,
        paths=paths,
        sets=sets,
        warnings=tuple(f"{cc}: {text}" for text in _warnings(records, sets, doubts)),
        doubts=doubts,
        homogeneous=not doubts
        and all(path_impact.decision == "helps" for path_impact in paths)
        and same_mean([factors[each_path.path] for each_path in paths], _EQUAL),
        design=options.design,
        trials=len(records),
        measured_ns=sum(record.settings["duration_ns"] for record in records),
        error_rate=_sequential.ERROR_RATE,
    )


def _sets(paths: Sequence[PathImpact], options: ImpactOptions) -> SubflowSets:
    """The sets: by the sign of the mean (MPCOA Eq. 6), but with "paired" what does not matter stays optional.

    Two subflows that share a link take over from each other, so neither matters as long as the other is
    there, and without both the link is lost.
    """
    if options.design == "eq5":
        return partition({path.path: _mean(path) for path in paths}, options.zero)
    inert = [path for path in paths if path.decision == "does not matter"]
    sets = partition({path.path: None if path in inert else _mean(path) for path in paths})
    return msgspec.structs.replace(sets, fallback=sets.fallback and not inert)


def _mean(path: PathImpact) -> float | None:
    return None if path.omega is None else path.omega.mean


def _warnings(records: Sequence[Record], sets: SubflowSets, doubts: Sequence[str]) -> Iterator[str]:
    """Warnings, as sentences: doubts, and decisions made in spite of them."""
    yield from doubts
    failed = [record for record in records if record.failed is not None]
    if failed:
        yield (
            f"{len(failed)} of {len(records)} withdrawal trials failed and are left out "
            f"(first reason: {failed[0].failed})."
        )
    if sets.fallback:
        yield f"no subflow has a positive impact factor; the best one, {sets.optional[0]}, is used."


def _doubts(paths: Sequence[PathImpact], records: Sequence[Record]) -> Iterator[str]:
    """Reasons not to believe the factors, in sentences."""
    unknown = [path.path for path in paths if path.omega is None]
    if unknown:
        yield f"no impact factor for {', '.join(unknown)}, as every run failed; kept as optional."
    failed = sum(record.failed is not None for record in records)
    if failed > _MAX_FAILED * len(records):
        yield f"{100 * failed / len(records):.0f} % of the trials failed, so the others may be a selection."
    total = sum(path.omega.mean for path in paths if path.omega is not None)
    if total > MAX_SUM:
        yield (
            f"the impact factors add up to {total:.1f} instead of about 1: the throughput varies "
            "whichever subflow is withdrawn, so that they are inconclusive."
        )
    unresolved = [path.path for path in paths if path.omega is not None and path.decision == "unresolved"]
    if unresolved:
        yield (
            f"the trials do not show whether {', '.join(unresolved)} {_helps(unresolved)}; "
            "the sign of the mean decides."
        )
    if len(unknown) < len(paths) and all(
        path.decision == "hurts" for path in paths if path.omega is not None
    ):
        yield "every subflow hurts, although the connection must send on one."


def _helps(paths: Sequence[str]) -> str:
    return "helps or hurts" if len(paths) == 1 else "help or hurt"


def _path_impact(
    label: str, records: Sequence[Record], omegas: Sequence[float], verdict: Verdict
) -> PathImpact:
    """Statistics of one subflow: in MPCOA's design of the trials that withdrew it, otherwise of all."""
    subflows = [
        subflow
        for record in records
        if record.failed is None and record.withdrawn in (None, label)
        for subflow in record.subflows
        if subflow.path == label
    ]
    rtts = [subflow_record.rtt_ms for subflow_record in subflows if subflow_record.rtt_ms is not None]
    return PathImpact(
        path=label,
        omega=summarise(omegas) if omegas else None,
        rtt_ms=summarise(rtts).mean if rtts else None,
        decision=verdict.decision,
        low=verdict.low,
        high=verdict.high,
        carried_mbps=summarise([subflow_record.throughput_mbps for subflow_record in subflows]).mean
        if subflows
        else None,
    )


def _smallest_rtts(topology: Topology, records: Sequence[Record]) -> dict[str, int]:
    """The smallest RTT that any trial saw on each path, nanoseconds."""
    seen = [subflow for record in records if record.failed is None for subflow in record.subflows]
    smallest = {
        path.label: [
            subflow_record.min_rtt_ms
            for subflow_record in seen
            if subflow_record.path == path.label and subflow_record.min_rtt_ms is not None
        ]
        for path in topology.paths
    }
    return {label: round(min(rtts) * 1e6) for label, rtts in smallest.items() if rtts}
