"""Second step of the papers' strategy: which other sets of subflows for PCDC are worth a sweep.

Sets that the impact factors propose are measured with few buffers and runs beside what was asked for; then
the fastest are changed one subflow at a time (`set_search`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mptune.decision.sweep import named
from mptune.optimisation.candidates import (
    SCREEN_RUNS,
    asked,
    competing,
    peaks,
    screen_buffers,
    screened,
    sets_compete,
)
from mptune.optimisation.impacts import Impacts
from mptune.optimisation.job import Job
from mptune.optimisation.set_search import SetSearch
from mptune.trial import Combination, Record


@dataclass(frozen=True)
class Screened:
    """Result of the screening of sets.

    Attributes
    ----------
    records : its trials, which last as long as all others.
    brief : the short ones of the search.
    staying : what is worth a sweep.
    """

    records: tuple[Record, ...] = ()
    brief: tuple[Record, ...] = ()
    staying: tuple[Combination, ...] = ()


@dataclass(frozen=True)
class Screening:
    """The step, for sets that these impact factors propose."""

    job: Job
    impacts: Impacts

    def run(self) -> Screened:
        """Measure, search and choose; nothing where PCDC may have no other sets than its own."""
        job = self.job
        if not sets_compete(job.options, job.mptcp):
            return Screened()
        usual = asked(job.options)
        proposed = competing(job.options, job.mptcp, self.impacts.factors)
        records = self._measure([*usual, *proposed], "screening")
        found = named(records, job.optional)
        further, brief = self._search(peaks(found))
        more = self._measure(further, "found sets") if further else []
        found += named(more, job.optional)
        staying = screened(found, job.options.sacrifice, usual)
        return Screened((*records, *more), tuple(brief), tuple(staying))

    def _search(self, known: Mapping[Combination, float]) -> tuple[list[Combination], list[Record]]:
        """Sets that nothing proposed, found by single short trials, and these."""
        job = self.job
        mesh = "fullmesh" in job.options.pms
        search = SetSearch(job.mptcp, job.options.ccs, job.optional, mesh=mesh)
        search.start(known)
        records: list[Record] = []
        while wanted := search.ask():
            given = self._measure(wanted, "search of sets", brief=True)
            search.tell(peaks(named(given, job.optional)))
            records += given
        return search.found(known), records

    def _measure(
        self, combinations: Sequence[Combination], name: str, *, brief: bool = False
    ) -> list[Record]:
        """Trials of combinations with the buffers of a screening; brief ones are single and short."""
        job, options = self.job, self.job.options
        return job.measure(
            [
                job.configuration(combination, buffer_bytes)
                for combination in combinations
                for buffer_bytes in screen_buffers(options.buffers)
            ],
            "search" if brief else "screen",
            1 if brief else min(options.runs_each, SCREEN_RUNS),
            name,
            workload=job.brief if brief else None,
        )
