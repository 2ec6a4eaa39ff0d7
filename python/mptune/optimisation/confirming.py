"""The last step: the answer, the default and the opponent across protocols, with new seeds.

Where there was no time for a shortlist it also decides whether plain TCP is the better answer, and whether
the buffer is to be enlarged. What is left of a budget goes into more runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mptune.decision.confirmation import Confirmation, confirm, turned
from mptune.decision.revision import enlarged
from mptune.decision.selection import whole_buffer
from mptune.decision.sweep import SweepPoint
from mptune.optimisation.budget import Budget
from mptune.optimisation.candidates import ENLARGEMENTS, missed, next_larger, wanted
from mptune.optimisation.job import Job
from mptune.optimisation.rivals import Compared, Contest


@dataclass(frozen=True)
class Confirmed:
    """The answer as the confirmation leaves it, and the confirmation."""

    contest: Contest
    confirmation: Confirmation


@dataclass(frozen=True)
class Confirming:
    """The step.

    Attributes
    ----------
    budget : after all trials before.
    points : the sweep that was decided on.
    """

    job: Job
    budget: Budget
    points: Sequence[SweepPoint]

    def run(self, contest: Contest) -> Confirmed:
        """Confirm an answer, or the larger buffer or the plain TCP that is better."""
        budget, target = self.budget, wanted(contest.decision, self.points)
        confirmation = self._confirm(contest, target, budget, budget.fresh_runs)
        if not self.job.is_lean:
            return Confirmed(contest, confirmation)
        for _ in range(ENLARGEMENTS):
            buffer_mib = next_larger(contest.decision, self.points, target)
            budget = budget.after(confirmation.records)
            runs = budget.affordable(len(confirmation.records) // confirmation.runs)
            if buffer_mib is None or not runs or not confirmation.misses(target):
                break
            again = replace(contest, decision=enlarged(contest.decision, buffer_mib, self.points))
            other = self._confirm(again, target, budget, min(runs, budget.fresh_runs))
            if other.mean_mbps <= confirmation.mean_mbps:
                contest = contest.with_trials(other.records)
                break
            contest = again.with_trials(confirmation.records, missed(confirmation, other, target))
            confirmation = other
        return self._facing_tcp(contest, confirmation)

    def _confirm(self, contest: Contest, target: float, budget: Budget, runs: int) -> Confirmation:
        """At least so many runs of the answer and of what it is compared with.

        Parameters
        ----------
        target : what the answer is to reach, Mbit/s.
        """
        job, options = self.job, self.job.options
        optimum, other = contest.decision.optimum, contest.opponent
        buffer_bytes = whole_buffer(optimum.buffer_mib)

        def more(so_far: Confirmation) -> bool:
            """True if the budget has time for another run, and there is a use for it."""
            if options.budget_s is None or so_far.is_tight or so_far.misses(target):
                return False
            return budget.after(so_far.records).affordable(len(so_far.records) // so_far.runs) > 0

        with job.phase("confirmation") as progress:
            return confirm(
                job.topology,
                job.runner,
                job.configuration(optimum.combination, buffer_bytes),
                job.default,
                other=None if other is None else job.configuration(other, buffer_bytes),
                runs=runs,
                base_seed=options.seed,
                round_=job.round_,
                progress=progress,
                more=more,
            )

    def _facing_tcp(self, contest: Contest, confirmation: Confirmation) -> Confirmed:
        """The answer, or plain TCP where the confirmation found it clearly faster."""
        options, mptcp, tcp = self.job.options, contest.decision.optimum.combination, contest.opponent
        if tcp is None or not options.tcp:
            return Confirmed(contest, confirmation)
        runs = confirmation.runs
        values = [record.throughput_mbps or 0.0 for record in confirmation.records]
        compared = Compared({mptcp: values[:runs], tcp: values[2 * runs :]}, {mptcp: [], tcp: []})
        buffer_bytes = confirmation.recommended.buffer_bytes
        contest = contest.facing(tcp, compared, buffer_bytes, options.sacrifice)
        beaten = contest.opponent == mptcp
        return Confirmed(contest, turned(confirmation) if beaten else confirmation)
