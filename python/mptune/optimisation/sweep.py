"""The sweep of the papers' strategy: every combination with every buffer, then what the decision asks for.

While the optimum is at an end of the buffers, beyond it; then around it. `learning` has the sweep of a
strategy that chooses its trials; both end as `Swept`.
"""

import bisect
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec

from mptune.decision import Decision, decide
from mptune.decision.sweep import SweepPoint, stalls, sweep_points, sweep_samples
from mptune.optimisation.candidates import between, beyond
from mptune.optimisation.job import Job
from mptune.optimisation.mpcoa import Fit, MpcoaOptions, StepSix, averaged, ending, fits
from mptune.optimisation.reached import Reached, Step
from mptune.trial import Combination, Record

#: Most extensions of the sweep beyond its smallest or largest buffer.
EXTENSIONS = 3

#: Most additions of buffers around the optimum, which may move by them.
REFINEMENTS = 3


@dataclass(frozen=True)
class Swept:
    """The trials of a sweep, and the decision on them.

    Attributes
    ----------
    points : the trials by configuration.
    reached : how the decision was reached; None for a grid.
    step_six : how the response model was accepted; None but for MPCOA's Algorithm 1.
    """

    records: tuple[Record, ...]
    decision: Decision
    points: tuple[SweepPoint, ...]
    reached: Reached | None = None
    step_six: StepSix | None = None

    @property
    def steps(self) -> tuple[Step, ...]:
        """Beliefs on the way; none for a grid."""
        return () if self.reached is None else self.reached.steps

    @classmethod
    def of(
        cls,
        job: Job,
        records: Sequence[Record],
        decision: Decision,
        reached: Reached | None = None,
        step_six: StepSix | None = None,
    ) -> "Swept":
        """The sweep with its points."""
        points = sweep_points(sweep_samples(records, job.optional))
        return cls(tuple(records), decision, points, reached, step_six)


class Sweep:
    """The step, with the buffers and trials so far.

    Parameters
    ----------
    homogeneous : congestion controls under which every subflow helps.
    """

    def __init__(self, job: Job, homogeneous: Collection[str]) -> None:
        self._job, self._homogeneous = job, homogeneous
        self._records: list[Record] = []
        #: Buffers of every combination, bytes, ascending.
        self._measured: dict[Combination, list[int]] = {}
        #: Runs of each.
        self._runs = job.options.runs_each

    def run(self, combinations: Sequence[Combination]) -> Swept:
        """Sweep these combinations, and decide."""
        options = self._job.options
        self._measure(combinations, options.buffers, "sweep")
        step_six = self._measure_on(options) if isinstance(options, MpcoaOptions) else None
        extensions, refinements = EXTENSIONS, REFINEMENTS
        while options.extend and not options.on_grid:
            decision = self._decide(0)
            near, sizes = beyond(decision, self._measured) if extensions else ([], [])
            sizes = [size for size in sizes if self._job.may_have(size)]
            name, extensions = "beyond the ends", extensions - 1
            if not sizes and refinements:
                near, sizes = between(decision, self._measured)
                name, extensions, refinements = "around the optimum", extensions + 1, refinements - 1
            if not sizes:
                break
            self._measure(near, sizes, name)
        return Swept.of(self._job, self._records, self._decide(options.resamples), step_six=step_six)

    def _measure_on(self, options: MpcoaOptions) -> StepSix:
        """Further runs until the response model is accepted (MPCOA step 6), or clearly never will be."""
        course: list[Fit] = []
        while True:
            now = fits(sweep_samples(self._records, self._job.optional), self._runs)
            course += now
            if ended := ending(now, self._runs, options.most_runs):
                return StepSix(fits=tuple(course), ended=ended, most_runs=options.most_runs)
            configurations = [
                self._job.configuration(combination, buffer_bytes)
                for combination, sizes in self._measured.items()
                for buffer_bytes in sizes
            ]
            name = f"step 6, run {self._runs + 1} of {options.most_runs} at most"
            self._records += self._job.measure(configurations, "sweep", 1, name, first=self._runs)
            self._runs += 1

    def _measure(self, combinations: Sequence[Combination], sizes: Sequence[int], name: str) -> None:
        """Trials of what was not measured yet."""
        job = self._job
        new = [
            (combination, buffer_bytes)
            for combination in combinations
            for buffer_bytes in sizes
            if buffer_bytes not in self._measured.get(combination, ())
        ]
        for combination, buffer_bytes in new:
            bisect.insort(self._measured.setdefault(combination, []), buffer_bytes)
        configurations = [job.configuration(combination, buffer_bytes) for combination, buffer_bytes in new]
        self._records += job.measure(configurations, "sweep", self._runs, name)

    def _decide(self, resamples: int) -> Decision:
        job, optional = self._job, self._job.optional
        samples = sweep_samples(self._records, optional)
        return decide(
            averaged(samples) if isinstance(job.options, MpcoaOptions) else samples,
            msgspec.structs.replace(job.options, resamples=resamples),
            homogeneous=self._homogeneous,
            stalled=stalls(self._records, optional),
            reporter=job.reporter,
        )
