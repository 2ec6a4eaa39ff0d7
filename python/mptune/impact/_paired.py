"""The paired design: windows with all subflows and windows without one, in turn, in one connection.

A trial has `LEAD` windows that are not used (handshakes, slow start), then one with all subflows, then for
every subflow in turn, in an order drawn at random, one without it and one with all again. Each
window without a subflow is compared with the mean of the two around it, so a throughput that rises or falls
in a straight line over three windows cancels out. The beginning of every window is left out: data that was
in flight, and the other subflows' growth into the room that is left.

The impact factor of a trial is `(with - without) / W`, W being the mean of `with` over the subflow's trials:
their mean is `1 - sum(without) / sum(with)`. The ratio of each trial, `1 - without/with`, would not do: where
throughput varies, its mean is below 0 for a subflow that does nothing (Jensen's inequality), far below where
it collapses at times.

Which subflows need more trials is decided by `mptune.impact._sequential`.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b

import msgspec

from mptune.errors import TrialError
from mptune.impact import _sequential
from mptune.impact._options import ImpactOptions
from mptune.runner.runner import TrialRunner
from mptune.runner.running import Advance
from mptune.runner.seeds import seed_for
from mptune.topology import Topology
from mptune.trial import BIN_NS, Bulk, Observation, PlannedTrial, Record, ScriptedAction, Trial
from mptune.trial.records import record
from mptune.trial.stacks import Stack

#: Windows at the beginning of a trial that are not used.
LEAD = 2

#: Start of each window that is left out, in RTTs of the slowest path without queues, and its minimum: full
#: queues hold a second or two.
_SETTLE_RTTS = 10
_SETTLE_LEAST_NS = 2_000_000_000


def settle_ns(topology: Topology, options: ImpactOptions) -> int:
    """Time left out at the beginning of each window, nanoseconds: by default at most half of it."""
    if options.settle_ns is not None:
        return options.settle_ns
    # The least is enough for an RTT of 200 ms, if it is not known.
    slowest = max(topology.known(path).base_rtt_ns or 0 for path in topology.paths)
    return min(max(_SETTLE_RTTS * slowest, _SETTLE_LEAST_NS), options.length_ns // 2)


def run_ns(paths: int, options: ImpactOptions) -> int:
    """Duration of a run that withdraws each of so many subflows, nanoseconds."""
    return (LEAD + 1 + 2 * paths) * options.length_ns


def measure(
    topology: Topology,
    runner: TrialRunner,
    ccs: Sequence[str],
    options: ImpactOptions,
    stack: Stack,
    round_: int,
    progress: Advance | None,
) -> list[Record]:
    """Trials of every congestion control, batch by batch, until all is decided or `most_runs` are done.

    A batch depends on nothing but the options and the trials before it, so a store resumes it.
    """
    settle = settle_ns(topology, options)

    def reduce(trial: PlannedTrial, observation: Observation) -> Record:
        return _record(trial, observation, options.length_ns, settle)

    records: list[Record] = []
    looks = _sequential.looks(options.most_runs)
    for first, last in zip((0, *looks), looks, strict=False):
        planned = [
            _planned(topology, cc, (run, round_), open_, options, stack)
            for cc in ccs
            if (
                open_ := _undecided(
                    topology, [trial_record for trial_record in records if trial_record.cc == cc], looks
                )
            )
            for run in range(first, last)
        ]
        if planned:
            records += runner.measure(planned, reduce=reduce, progress=progress, before=len(records))
    return records


def factors(topology: Topology, records: Sequence[Record]) -> Mapping[str, list[float]]:
    """Impact factors of every subflow, one per trial that did not fail and withdrew it."""
    return {path.label: _factors(path.label, records) for path in topology.paths}


def _factors(path: str, records: Sequence[Record]) -> list[float]:
    """Impact factors of one subflow; none if nothing was ever delivered around its windows."""
    pairs = [
        (subflow.with_mbps, subflow.without_mbps)
        for trial_record in records
        if trial_record.failed is None
        for subflow in trial_record.subflows
        if subflow.path == path and subflow.with_mbps is not None and subflow.without_mbps is not None
    ]
    level = sum(with_all for with_all, _ in pairs) / max(len(pairs), 1)
    return [(with_all - without) / level for with_all, without in pairs] if level else []


def _undecided(topology: Topology, records: Sequence[Record], looks: Sequence[int]) -> tuple[str, ...]:
    """Subflows that need more trials, in the order of the topology: all of them at the beginning."""
    verdicts = _sequential.verdicts(factors(topology, records), looks)
    return tuple(path for path, verdict in verdicts.items() if verdict.decision == "unresolved")


def _planned(
    topology: Topology,
    cc: str,
    place: tuple[int, int],
    paths: Sequence[str],
    options: ImpactOptions,
    stack: Stack,
) -> PlannedTrial:
    """One trial that withdraws each of the paths once; `place` is its run and its round."""
    run, round_ = place
    seed = seed_for(options.seed, "impact", run, round_)
    # Every second trial has the order of the one before backwards, so that it cannot always be the same.
    drawn = seed_for(options.seed, "impact", run - run % 2, round_)
    order = sorted(paths, key=lambda path: blake2b(f"{drawn}/{path}".encode()).digest(), reverse=run % 2 == 1)
    first, window = LEAD + 1, options.length_ns
    script: list[ScriptedAction] = []
    for turn, path in enumerate(order):
        at_ns = (first + 2 * turn) * window
        script.append(ScriptedAction(at_ns=at_ns, path=path, action="standby"))
        script.append(ScriptedAction(at_ns=at_ns + window, path=path, action="active"))
    return PlannedTrial(
        purpose="impact",
        run=run,
        round=round_,
        trial=Trial(
            topology=topology,
            pm="fullmesh",
            cc=cc,
            buffer_bytes=options.buffer_bytes,
            buffer_mode=options.buffer_mode,
            family=options.family,
            workload=Bulk(duration_ns=run_ns(len(order), options)),
            script=tuple(script),
            seed=seed,
            **msgspec.structs.asdict(stack),
        ),
    )


def _record(planned: PlannedTrial, observation: Observation, window_ns: int, settle: int) -> Record:
    """Condense a trial; one that delivered nothing, or ended early, counts as failed."""
    trial_record = record(planned, observation)
    if trial_record.failed is not None:
        return trial_record
    try:
        pairs = _pairs(planned.trial, observation, window_ns, settle)
    except TrialError as error:
        return msgspec.structs.replace(trial_record, throughput_mbps=None, failed=error.failure)
    subflows = []
    for subflow in trial_record.subflows:
        with_all, without = pairs.pop(subflow.path, (None, None))
        subflows.append(msgspec.structs.replace(subflow, with_mbps=with_all, without_mbps=without))
    return msgspec.structs.replace(trial_record, subflows=tuple(subflows))


def _pairs(
    trial: Trial, observation: Observation, window_ns: int, settle: int
) -> dict[str, tuple[float, float]]:
    """Throughput around and in the window without each subflow, Mbit/s.

    Raises
    ------
    TrialError : nothing was delivered after the first windows, or the series ends too early.
    """
    bins, width = observation.bins, window_ns // BIN_NS
    expected = trial.workload.limit_ns // BIN_NS
    if len(bins) < expected:
        raise TrialError(f"the series ends after {len(bins)} of {expected} bins", "incomplete")
    if not sum(bins[LEAD * width :]):
        raise TrialError("nothing was delivered after the first windows", "unreachable")

    def level(start_ns: int) -> float:
        begin, end = (start_ns + settle) // BIN_NS, (start_ns + window_ns) // BIN_NS
        return sum(bins[begin:end]) * 8e3 / BIN_NS / (end - begin)

    return {
        action.path: (
            (level(action.at_ns - window_ns) + level(action.at_ns + window_ns)) / 2,
            level(action.at_ns),
        )
        for action in trial.script
        if action.action == "standby"
    }
