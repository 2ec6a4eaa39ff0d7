"""The favourite beside what might be better with the same buffer, in fresh trials here and elsewhere.

If the fresh trials miss the target, again with a larger buffer that was measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mptune.decision import Decision
from mptune.decision.revision import enlarged, moved, tried
from mptune.decision.robustness import change, survivor
from mptune.decision.selection import whole_buffer
from mptune.decision.sweep import SweepPoint, named
from mptune.optimisation.candidates import ENLARGEMENTS, again, collapsing, larger, rivals, wanted
from mptune.optimisation.job import Job
from mptune.optimisation.options import DEFAULT_CC, DEFAULT_PM
from mptune.optimisation.rivals import Contest, compare
from mptune.trial import Combination, Record


@dataclass(frozen=True)
class Shortlist:
    """The step, for an answer from these points.

    Attributes
    ----------
    screening : the trials of sets that were screened; some of them are measured again.
    """

    job: Job
    points: Sequence[SweepPoint]
    screening: Sequence[Record]

    def run(self, decision: Decision) -> Contest:
        """The rivals beside the answer; again with a larger buffer while fresh trials miss the target."""
        contest = self._contest(decision)
        records, sentences = contest.records, contest.sentences
        target = wanted(decision, self.points)
        for _ in range(ENLARGEMENTS):
            buffer_mib = larger(contest.decision, contest.finalists, self.points, target)
            if buffer_mib is None:
                break
            contest = self._contest(enlarged(contest.decision, buffer_mib, self.points))
            records, sentences = records + contest.records, sentences + contest.sentences
        fresh = contest.compared.stated.get(contest.decision.optimum.combination, ())
        return replace(contest, decision=tried(contest.decision, fresh), records=records, sentences=sentences)

    def _contest(self, decision: Decision) -> Contest:
        """Fresh trials of the favourite and of its rivals with one buffer."""
        options, favourite = self.job.options, decision.optimum.combination
        buffer_bytes = whole_buffer(decision.optimum.buffer_mib)
        combinations = self._combinations(decision, buffer_bytes)
        if not options.off_by or (len(combinations) < 2 and not options.tcp):
            return Contest(decision)
        compared = compare(self.job, combinations, buffer_bytes)
        found = compared.finalists(buffer_bytes)
        barred = collapsing(decision, self.points, combinations)
        eligible = [finalist for finalist in found if finalist.combination not in barred]
        chosen = survivor(favourite, compared.stated, eligible, options.sacrifice)
        contest = Contest(decision, found, records=compared.records, compared=compared)
        if chosen == favourite:
            return contest
        return replace(
            contest,
            decision=moved(decision, chosen, compared.stated[chosen]),
            sentences=(change(favourite, chosen, found, options.off_by),),
        )

    def _combinations(self, decision: Decision, buffer_bytes: int) -> list[Combination]:
        """The favourite first, then what might be better with its buffer (bytes)."""
        job, favourite = self.job, decision.optimum.combination
        default = Combination(DEFAULT_PM, DEFAULT_CC, (), favourite.initial_path)
        combinations = rivals(decision, job.mptcp, job.options.pms, default, job.optional)
        screening = named(self.screening, job.optional)
        combinations += again(screening, combinations, buffer_bytes, job.mptcp, job.optional)
        familiar = favourite._replace(cc=DEFAULT_CC)
        if DEFAULT_CC in job.options.ccs and familiar not in combinations:
            combinations.append(familiar)
        return combinations
