"""First step: impact factors of every congestion control, if PCDC needs them, and the sets that follow."""

from dataclasses import dataclass

import msgspec

from mptune.impact import Impact, ImpactOptions, SubflowSets, measure_impact
from mptune.optimisation.job import Job
from mptune.trial import Record


@dataclass(frozen=True)
class Impacts:
    """Conclusions from the impact factors.

    Attributes
    ----------
    factors : by congestion control; empty where PCDC was not asked for.
    records : the trials they come from.
    """

    factors: tuple[Impact, ...] = ()
    records: tuple[Record, ...] = ()

    @property
    def sets(self) -> dict[str, SubflowSets]:
        """PCDC's sets by congestion control."""
        return {impact.cc: impact.sets for impact in self.factors}

    @property
    def homogeneous(self) -> set[str]:
        """Congestion controls under which every subflow helps."""
        return {impact.cc for impact in self.factors if impact.homogeneous}


def measure_impacts(job: Job, options: ImpactOptions) -> Impacts:
    """Impact factors with these options, which a budget may have made shorter.

    Fixed buffers are no larger than hosts have memory for, as in the sweep.
    """
    if "pcdc" not in job.options.pms:
        return Impacts()
    if not job.may_have(options.buffer_bytes):
        options = msgspec.structs.replace(options, buffer_bytes=job.options.buffers[-1])
    with job.phase("impact factors") as progress:
        factors, records = measure_impact(
            job.topology,
            job.runner,
            job.options.ccs,
            options,
            stack=job.options.stack.chosen(),
            round_=job.round_,
            contest=job.options.sets == "signs",  # otherwise they compete in the steps to come
            progress=progress,
        )
    return Impacts(tuple(factors), tuple(records))
