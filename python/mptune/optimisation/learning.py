"""The sweep as a strategy asks for it: which arms compete, what is measured next, and what follows.

    arms -> strategy asks, testbed answers, ... -> neighbours of the best arms -> ... -> decision

The strategy (`mptune.strategy`) decides what to measure and how sure the answer is, and `asking` measures it.
Here its answer becomes a `Decision`.
"""

from collections.abc import Sequence

import msgspec

from mptune.decision import Decision, decide
from mptune.decision.revision import answering
from mptune.decision.selection import Optimum
from mptune.decision.sweep import stalls, sweep_samples
from mptune.decision.uncertainty import Uncertainty
from mptune.errors import MptuneError
from mptune.impact import Impact
from mptune.optimisation.arms import Arms
from mptune.optimisation.asking import Search
from mptune.optimisation.budget import Budget
from mptune.optimisation.job import Job
from mptune.optimisation.sweep import Swept
from mptune.strategy import Verdict
from mptune.trial import Bulk, Record
from mptune.trial.metrics import THROUGHPUT
from mptune.units import MIB


def learn(job: Job, budget: Budget, impacts: Sequence[Impact]) -> Swept:
    """Ask the strategy until it is certain, the budget is used up, or there is nothing left to ask.

    Parameters
    ----------
    budget : after the impact factors.

    Raises
    ------
    Interrupted, LimitReached : Ctrl-C, or a limit of the user's, with the best answer so far.
    MptuneError : no trial gave a usable throughput.
    """
    throughput = _Throughput(job, impacts)
    search = Search(job, budget, throughput)
    search.run()
    return Swept.of(job, search.records, _decision(job, search, throughput), search.reached)


class _Throughput(Arms):
    """The arms of a question about the throughput of a saturated sender, and its trials."""

    unit, aim = THROUGHPUT.unit, "the sacrifice allows"

    def __init__(self, job: Job, impacts: Sequence[Impact]) -> None:
        super().__init__(job, impacts)
        self.sacrifice = job.options.sacrifice

    def grow(self, verdict: Verdict) -> bool:
        """Buffers beyond the ends, or sets of subflows beside the best ones."""
        return self.widen(verdict) or self.add_neighbours(verdict)

    def workload(self, run: int) -> Bulk:
        """A first look may be short; what is looked at again must be sure."""
        return Bulk(duration_ns=self.job.options.duration_ns, ends_early=self.job.is_lean and run == 0)

    def worths(self, records: Sequence[Record]) -> list[float | None]:
        """A stalled connection delivers nothing any more; other failures carry no information."""
        return [0.0 if one.failed_kind == "stalled" else one.throughput_mbps for one in records]

    def value(self, worth: float) -> float:
        """Mbit/s."""
        return worth


def _decision(job: Job, search: Search, arms: Arms) -> Decision:
    """The strategy's answer, with the curves that belong to it."""
    options = job.options
    verdict = search.strategy().verdict()
    if verdict is None:
        raise MptuneError(f"every trial of the sweep failed (first reason: {search.records[0].failed})")
    decision = decide(
        sweep_samples(search.records, job.optional),
        msgspec.structs.replace(options, resamples=0, model="belief"),
        stalled=stalls(search.records, job.optional),
        reporter=job.reporter,
    )
    combination, buffer_mib = arms.combinations[verdict.arm], arms.buffers[verdict.size] / MIB
    curve = decision.response.curves.get(combination)
    optimum = Optimum(
        **combination._asdict(),
        buffer_mib=buffer_mib,
        throughput_mbps=verdict.value if curve is None else curve.predict(buffer_mib),
    )
    low, high = verdict.sizes
    # The answer lies above the buffer before the smallest that may do.
    ends = arms.buffers[max(low - 1, 0)] / MIB, arms.buffers[high] / MIB
    uncertainty = Uncertainty(
        resamples=0,
        obs_mib=(min(ends[0], buffer_mib), max(ends[1], buffer_mib)),
        otp_mbps=verdict.interval,
        wins={
            arms.combinations[arm]: share
            for arm, share in zip(verdict.contenders, verdict.shares, strict=True)
        },
        single_runs=False,
    )
    answered = answering(decision, optimum)
    # The other points are the curves' alone: what contradicts the answer, which knows more, is left out.
    front = tuple(
        point
        for point in answered.front
        if point.optimum == optimum
        or (point.sacrifice < options.sacrifice) == (point.optimum.buffer_mib > optimum.buffer_mib)
    )
    return msgspec.structs.replace(answered, front=front, uncertainty=uncertainty)
