"""Impact factors by withdrawal, and the optional and standby sets that follow from them.

The impact factor of a subflow is the share of the throughput that the connection loses without it (MPCOA
Eq. 5). Two designs measure it: `_paired` (the default) and `_eq5` (the papers'). `_sequential` decides when
enough trials are done, `_judge` interprets them; where the factors leave the sets open, some of them compete
(`_set_contest`, `_set_trials`). This package measures and partitions; the core's path managers use the sets.
"""

from collections.abc import Sequence
from types import ModuleType

from mptune.impact import _eq5, _paired
from mptune.impact._alone import alone
from mptune.impact._candidates import candidates
from mptune.impact._eq5 import impact_factor
from mptune.impact._judge import MAX_SUM, judge, may_compete
from mptune.impact._options import DESIGNS, ZERO_RULES, ImpactOptions
from mptune.impact._result import (
    Compared,
    Decision,
    Impact,
    PathImpact,
    SubflowSets,
    every_subflow_helps,
    partition,
    warnings_of,
)
from mptune.impact._set_trials import compete, set_ns
from mptune.options.stacks import StackOptions
from mptune.options.trials import MeasuringOptions
from mptune.runner.executors import Executor
from mptune.runner.progress import Reporter
from mptune.runner.runner import TrialRunner
from mptune.runner.running import Advance
from mptune.topology import Topology
from mptune.trial import Record
from mptune.trial.stacks import DEFAULT_STACK, STACKS, Stack

__all__ = [
    "DESIGNS",
    "MAX_SUM",
    "ZERO_RULES",
    "Compared",
    "Decision",
    "Impact",
    "ImpactOptions",
    "PathImpact",
    "SubflowSets",
    "candidates",
    "every_subflow_helps",
    "impact_factor",
    "measure_alone",
    "measure_impact",
    "partition",
    "run_ns",
    "warnings_of",
]


def measure_impact(
    topology: Topology,
    runner: TrialRunner,
    ccs: Sequence[str],
    options: ImpactOptions,
    *,
    stack: Stack = STACKS[DEFAULT_STACK],
    round_: int = 0,
    contest: bool = True,
    progress: Advance | None = None,
) -> tuple[list[Impact], list[Record]]:
    """Impact factors under each congestion control, and the trials they come from.

    Parameters
    ----------
    round_ : of a campaign that is repeated over time; each round has different seeds.
    contest : sets of subflows compete where the factors leave them open; False leaves them to the signs, for
        a caller that has a contest of its own.

    Raises
    ------
    InputError : an invalid option, such as a window that is not a multiple of the sampling step.
    """
    options.check()
    topology, design = topology.for_mptcp(), _design(options)
    records = design.measure(topology, runner, ccs, options, stack, round_, progress)
    impacts = []
    for cc in ccs:
        own = [record for record in records if record.cc == cc]
        impacts.append(judge(topology, cc, own, design.factors(topology, own), options, contest=contest))
    if not contest:
        return impacts, records
    impacts, trials = compete(topology, runner, impacts, records, options, stack, round_, progress)
    return impacts, [*records, *trials]


def measure_alone(
    topology: Topology,
    cc: str,
    options: ImpactOptions,
    measuring: MeasuringOptions,
    stack: StackOptions,
    *,
    executor: Executor | None = None,
    reporter: Reporter | None = None,
) -> Impact:
    """Impact factors under one congestion control, with everything that a person asks for at once.

    Parameters
    ----------
    topology : already in the direction that is meant; `measuring.reverse` is not looked at.
    executor : where trials are run; threads by default.
    reporter : prints the expected duration, and shows the progress.

    Raises
    ------
    InputError : an invalid option.
    MptuneError : no trial gave a number.
    """

    def measure(runner: TrialRunner, progress: Advance | None) -> tuple[Impact, list[Record]]:
        (measured,), records = measure_impact(
            topology, runner, [cc], options, stack=stack.chosen(), progress=progress
        )
        return measured, records

    return alone(
        topology,
        cc,
        options,
        measuring,
        stack,
        run_ns=run_ns(topology, options),
        measure=measure,
        executor=executor,
        reporter=reporter or Reporter(quiet=True),
    )


def run_ns(topology: Topology, options: ImpactOptions, *, contest: bool = True) -> int:
    """Duration of the trials of one run under one congestion control, at most, nanoseconds."""
    paths = len(topology.for_mptcp().paths)
    duration_ns: int = _design(options).run_ns(paths, options)
    return duration_ns + (set_ns(options) if contest and may_compete(paths, options) else 0)


def _design(options: ImpactOptions) -> ModuleType:
    return _eq5 if options.design == "eq5" else _paired
