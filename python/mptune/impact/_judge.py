"""From trials to `Impact`: statistics, decisions, sets, and the reasons to doubt them.

The bounds of what is plausible are here. It runs no trial, and knows the designs only by their factors.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from mptune.impact import _sequential
from mptune.impact._options import ImpactOptions
from mptune.impact._result import Impact, PathImpact, SubflowSets, every_subflow_helps, partition
from mptune.impact._sequential import Verdict
from mptune.impact._set_contest import LEAST, Contest, decided
from mptune.statistics import summarise, summary_of
from mptune.topology import Topology
from mptune.trial import Record

#: If the impact factors add up to more than this, they do not measure shares of the throughput: the sums are
#: 0.7 to 1.3 in MPCOA Table 2 where no factor is far below 0. There is no lower bound: subflows that take
#: over each other's share all have small factors.
MAX_SUM = 1.5

#: Failed trials, as a share of all, above which the others may be a selection.
_MAX_FAILED = 0.1


def judge(
    topology: Topology,
    cc: str,
    records: Sequence[Record],
    factors: Mapping[str, Sequence[float]],
    options: ImpactOptions,
    *,
    contest: bool,
) -> Impact:
    """Statistics, decisions, sets, warnings and doubts of one congestion control.

    Parameters
    ----------
    records : its trials.
    factors : impact factors of every subflow, one per trial.
    contest : sets compete afterwards, where they may.
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
    open_ = contest and may_compete(len(paths), options)
    instead = "sets of subflows compete" if open_ else "the sign of the mean decides"
    doubts = tuple(_doubts(paths, records, instead))
    return Impact(
        cc=cc,
        paths=paths,
        sets=sets,
        warnings=_warnings(cc, records, sets, doubts),
        doubts=doubts,
        homogeneous=not doubts and every_subflow_helps(path.low for path in paths),
        design=options.design,
        trials=len(records),
        measured_ns=sum(record.settings["duration_ns"] for record in records),
        error_rate=_sequential.ERROR_RATE,
    )


def may_compete(paths: int, options: ImpactOptions) -> bool:
    """True if sets may compete: not with the papers' design, nor with fewer trials than a contest takes."""
    return options.design == "paired" and options.most_runs >= LEAST and paths > 1


def revised(impact: Impact, records: Sequence[Record], contest: Contest, trials: Sequence[Record]) -> Impact:
    """The outcome of a contest: the sets, and what competed.

    Parameters
    ----------
    records, trials : those of the factors, and those of the contest.
    """
    sets = impact.sets
    if contest.best is not None:
        factors = {path.path: _mean(path) or 0.0 for path in impact.paths}
        sets = decided(sets, contest.best, factors)
    return msgspec.structs.replace(
        impact,
        sets=sets,
        warnings=_warnings(impact.cc, records, sets, impact.doubts),
        compared=contest.compared,
        trials=impact.trials + len(trials),
        measured_ns=impact.measured_ns + sum(record.settings["duration_ns"] for record in trials),
    )


def _sets(paths: Sequence[PathImpact], options: ImpactOptions) -> SubflowSets:
    """The sets by the sign of the mean (MPCOA Eq. 6).

    With "paired" what does not matter is optional, until sets have competed: two subflows that share a link
    take over from each other, so neither matters as long as the other is there.
    """
    if options.design == "eq5":
        return partition({path.path: _mean(path) for path in paths}, options.zero)
    inert = [path for path in paths if path.decision == "does not matter"]
    sets = partition({path.path: None if path in inert else _mean(path) for path in paths})
    return msgspec.structs.replace(sets, fallback=sets.fallback and not inert)


def _mean(path: PathImpact) -> float | None:
    return None if path.omega is None else path.omega.mean


def _warnings(
    cc: str, records: Sequence[Record], sets: SubflowSets, doubts: Sequence[str]
) -> tuple[str, ...]:
    """Warnings, as sentences: doubts, and decisions made in spite of them."""
    return tuple(f"{cc}: {text}" for text in (*doubts, *_notes(records, sets)))


def _notes(records: Sequence[Record], sets: SubflowSets) -> Iterator[str]:
    """Decisions made in spite of doubts, as sentences."""
    failed = [record for record in records if record.failed is not None]
    if failed:
        yield (
            f"{len(failed)} of {len(records)} withdrawal trials failed and are left out "
            f"(first reason: {failed[0].failed})."
        )
    if sets.fallback:
        yield f"no subflow has a positive impact factor; the best one, {sets.optional[0]}, is used."


def _doubts(paths: Sequence[PathImpact], records: Sequence[Record], instead: str) -> Iterator[str]:
    """Reasons not to believe the factors, in sentences.

    Parameters
    ----------
    instead : what decides about subflows of unknown sign.
    """
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
        helps = "helps or hurts" if len(unresolved) == 1 else "help or hurt"
        yield f"the trials do not show whether {', '.join(unresolved)} {helps}; {instead}."
    if len(unknown) < len(paths) and all(
        path.decision == "hurts" for path in paths if path.omega is not None
    ):
        yield "every subflow hurts, although the connection must send on one."


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
        omega=summary_of(omegas),
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
