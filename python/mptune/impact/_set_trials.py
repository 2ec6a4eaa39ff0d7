"""Trials of the contests of sets (`_set_contest`): PCDC on each set, saturated, as long as three windows.

All congestion controls go on side by side, batch by batch. A set has the seed of its run under each of them,
so two sets differ by their subflows and not by luck.
"""

from collections.abc import Mapping, Sequence

from mptune.impact._judge import may_compete, revised
from mptune.impact._options import ImpactOptions
from mptune.impact._paired import LEAD
from mptune.impact._result import Impact
from mptune.impact._set_contest import Contest, decided
from mptune.runner.planning import plan_run
from mptune.runner.runner import TrialRunner
from mptune.runner.running import Advance
from mptune.topology import Topology
from mptune.trial import Bulk, Configuration, PlannedTrial, Record
from mptune.trial.stacks import Stack

#: Purpose of the trials.
_PURPOSE = "sets"


def set_ns(options: ImpactOptions) -> int:
    """Duration of a trial of a set, nanoseconds: as long as a trial lasts before the first withdrawal."""
    return (LEAD + 1) * options.length_ns


def compete(
    topology: Topology,
    runner: TrialRunner,
    impacts: Sequence[Impact],
    records: Sequence[Record],
    options: ImpactOptions,
    stack: Stack,
    round_: int,
    progress: Advance | None,
) -> tuple[list[Impact], list[Record]]:
    """Impact factors with the sets that won, and the trials of the contests.

    Where every subflow helps, there is no contest (`Impact.homogeneous`).

    Parameters
    ----------
    records : trials of the factors.
    """
    contests = {
        impact.cc: Contest(topology, impact.paths, impact.sets, options.most_runs)
        for impact in impacts
        if may_compete(len(impact.paths), options)
        and not impact.homogeneous
        and any(path.omega is not None for path in impact.paths)  # a trial of the factors gave a number
    }
    by_cc = {impact.cc: impact for impact in impacts}
    trials: list[Record] = []

    def advance(done: int, total: int, note: str = "") -> None:
        if progress is not None:
            progress(len(records) + done, len(records) + total, note)

    while asked := {cc: batch for cc, contest in contests.items() if (batch := contest.ask())}:
        planned = [
            _planned(topology, by_cc[cc], labels, (run, round_), options, stack)
            for cc, batch in asked.items()
            for labels, run in batch
        ]
        given = runner.measure(planned, progress=advance, before=len(trials))
        trials += given
        _tell(contests, asked, given)
    revisions = []
    for impact in impacts:
        if impact.cc in contests:
            own = [record for record in records if record.cc == impact.cc]
            more = [record for record in trials if record.cc == impact.cc]
            impact = revised(impact, own, contests[impact.cc], more)
        revisions.append(impact)
    return revisions, trials


def _tell(
    contests: Mapping[str, Contest],
    asked: Mapping[str, Sequence[tuple[tuple[str, ...], int]]],
    given: Sequence[Record],
) -> None:
    """Give each contest the throughputs of its trials."""
    values = iter(record.throughput_mbps or 0.0 for record in given)
    for cc, batch in asked.items():
        contests[cc].tell(batch, [next(values) for _ in batch])


def _planned(
    topology: Topology,
    impact: Impact,
    labels: tuple[str, ...],
    place: tuple[int, int],
    options: ImpactOptions,
    stack: Stack,
) -> PlannedTrial:
    """One trial of a set; `place` is its run and its round."""
    factors = {path.path: path.omega.mean if path.omega else 0.0 for path in impact.paths}
    sets, (run, round_) = decided(impact.sets, labels, factors), place
    told = {"active": sets.optional, "standby_order": sets.standby}
    return plan_run(
        topology,
        Configuration(
            pm="pcdc",
            cc=impact.cc,
            buffer_bytes=options.buffer_bytes,
            buffer_mode=options.buffer_mode,
            family=options.family,
            workload=Bulk(duration_ns=set_ns(options)),
            pm_options={name: value for name, value in told.items() if value},
            stack=stack,
        ),
        purpose=_PURPOSE,
        run=run,
        base_seed=options.seed,
        round_=round_,
    )
