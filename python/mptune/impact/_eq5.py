"""The papers' design: one trial per withdrawn subflow, T with all subflows, then T without it (MPCOA Eq. 5).

Three things to know about the formula (PCDC Eq. 1 is the same):

- As printed, it sums T samples in the numerator and T + 1 in the denominator, which gives a subflow that
  does nothing an impact factor of 1/(T + 1) (errata E6). Here both windows have the same number of samples.
- The first window holds the handshakes and slow start, the second does not. A subflow that does
  nothing therefore gets an impact factor slightly *below* zero, more so for short T and long RTT, and
  lands in the standby set. `settle_ns` leaves out the beginning of both windows, which also keeps what was
  in flight at T out of the second.
- Any other change between the windows counts as impact too; `mptune.impact._paired` is the design without
  these properties.
"""

from collections.abc import Mapping, Sequence

import msgspec

from mptune.errors import TrialError
from mptune.impact._options import ImpactOptions
from mptune.runner.runner import TrialRunner
from mptune.runner.running import Advance
from mptune.runner.seeds import seed_for
from mptune.topology import Topology
from mptune.trial import BIN_NS, Bulk, Observation, PlannedTrial, Record, ScriptedAction, Trial
from mptune.trial.records import record
from mptune.trial.stacks import Stack


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


def measure(
    topology: Topology,
    runner: TrialRunner,
    ccs: Sequence[str],
    options: ImpactOptions,
    stack: Stack,
    round_: int,
    progress: Advance | None,
) -> list[Record]:
    """Every trial of every congestion control; those that have no impact factor count as failed."""

    def reduce(trial: PlannedTrial, observation: Observation) -> Record:
        return _record(trial, observation, options)

    planned = _plan(topology, ccs, options, stack, round_)
    return runner.measure(planned, reduce=reduce, progress=progress)


def run_ns(paths: int, options: ImpactOptions) -> int:
    """Duration of the trials of a run, one for each of so many subflows, nanoseconds."""
    return paths * 2 * options.length_ns


def factors(topology: Topology, records: Sequence[Record]) -> Mapping[str, list[float]]:
    """Impact factors of every subflow, one per trial that did not fail."""
    return {
        path.label: [
            trial_record.omega
            for trial_record in records
            if trial_record.withdrawn == path.label and trial_record.omega is not None
        ]
        for path in topology.paths
    }


def _plan(
    topology: Topology, ccs: Sequence[str], options: ImpactOptions, stack: Stack, round_: int
) -> list[PlannedTrial]:
    """Trials of every congestion control, withdrawn subflow and run.

    All withdrawals of one run share its seed and therefore the first window, so they have the same
    denominator.
    """
    return [
        PlannedTrial(
            purpose="impact",
            run=run,
            round=round_,
            withdrawn=path.label,
            trial=Trial(
                topology=topology,
                pm="fullmesh",
                cc=cc,
                buffer_bytes=options.buffer_bytes,
                buffer_mode=options.buffer_mode,
                family=options.family,
                workload=Bulk(duration_ns=2 * options.length_ns),
                script=(ScriptedAction(at_ns=options.length_ns, path=path.label, action="standby"),),
                seed=seed_for(options.seed, "impact", run, round_),
                **msgspec.structs.asdict(stack),
            ),
        )
        for cc in ccs
        for path in topology.paths
        for run in range(options.most_runs)
    ]


def _record(planned: PlannedTrial, observation: Observation, options: ImpactOptions) -> Record:
    """Condense a trial; without an impact factor it counts as failed."""
    trial_record = record(planned, observation)
    if trial_record.failed is not None:
        return trial_record
    try:
        omega = impact_factor(observation, options.length_ns, options.settle_ns or 0)
    except TrialError as error:
        return msgspec.structs.replace(trial_record, throughput_mbps=None, failed=error.failure)
    return msgspec.structs.replace(trial_record, omega=omega)
