"""Plain TCP beside MPTCP: on which paths, and with which congestion controls, it is worth measuring.

MPTCP should be at least as fast as TCP on the best path (RFC 6356 section 2, goal 1). Which path that is
depends on rate, RTT and loss alike, so all of them are screened in short trials. Whether TCP is the answer is
decided by `mptune.decision.robustness.is_beaten`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mptune.decision.selection import whole_buffer
from mptune.optimisation.candidates import SCREEN_RUNS
from mptune.optimisation.job import Job
from mptune.optimisation.options import DEFAULT_CC
from mptune.optimisation.rivals import Contest, Throughputs, by_combination, compare
from mptune.topology import Topology
from mptune.trial import Combination, Record

#: Single-flow equivalent of a coupled congestion control: with one path LIA's, OLIA's and BALIA's increase is
#: Reno's (RFC 6356 section 3; Khalili et al., CoNEXT 2012; Peng et al., ToN 2016), and wVegas has the weight
#: of all of Vegas's packets (Cao et al., ICNP 2012).
_ALONE = {"lia": "reno", "olia": "reno", "balia": "reno", "wvegas": "vegas"}

#: Combinations of a path and a congestion control that stay after the screening, at most; and how close to
#: the fastest one they must come, as slow start weighs more in a short trial.
_STAYING, _NEAR = 2, 0.8


@dataclass(frozen=True)
class PlainTcp:
    """The step: the outcome of the shortlist beside plain TCP on the fastest paths, with the same buffer."""

    job: Job

    def face(self, contest: Contest) -> Contest:
        """The outcome with the fastest plain TCP as its opponent, or as the answer if it is better.

        Where only what the answer needs is measured, the confirmation compares the two.
        """
        job, options = self.job, self.job.options
        if not options.off_by:
            return contest
        optimum = contest.decision.optimum
        buffer_bytes = whole_buffer(optimum.buffer_mib)
        found, records = self._screen(optimum.cc, buffer_bytes)
        fast = fastest(found)
        contest = contest.with_trials(records, *([] if fast or not records else [none_of(records)]))
        if job.is_lean or not (options.tcp and fast):
            return replace(contest, opponent=next(iter(fast), None))
        compared = compare(job, fast, buffer_bytes)
        tcp = max(fast, key=lambda combination: sum(compared.stated[combination]))
        contest = contest.with_trials(compared.records)
        return contest.facing(tcp, contest.compared.beside(compared), buffer_bytes, options.sacrifice)

    def _screen(self, cc: str, buffer_bytes: int) -> tuple[Throughputs, list[Record]]:
        """Short trials with a congestion control, the usual one and the hosts' own.

        Where every trial costs real time, the usual one is left out, and the hosts' own is tried on the
        fastest path alone.
        """
        job, own = self.job, alone(self.job.todays_cc)
        anywhere = Combination.plain_tcp(job.topology.paths[0].label, own)
        is_there = not job.refusal([job.configuration(anywhere, buffer_bytes)])
        if not job.is_lean:
            every = everywhere(job.topology, (cc, DEFAULT_CC, *([own] if is_there else [])))
            return self._brief(every, buffer_bytes, SCREEN_RUNS)
        found, records = self._brief(everywhere(job.topology, (cc,)), buffer_bytes, 1)
        fast = fastest(found)
        if not (is_there and fast) or own == alone(cc):
            return found, records
        more, others = self._brief([fast[0]._replace(cc=own)], buffer_bytes, 1)
        return {**found, **more}, [*records, *others]

    def _brief(
        self, combinations: Sequence[Combination], buffer_bytes: int, runs: int
    ) -> tuple[Throughputs, list[Record]]:
        job = self.job
        configurations = [job.configuration(combination, buffer_bytes) for combination in combinations]
        records = job.measure(configurations, "screen", runs, "plain TCP", workload=job.brief)
        return by_combination(combinations, records), records


def everywhere(topology: Topology, ccs: Iterable[str]) -> list[Combination]:
    """Plain TCP on every path with what each congestion control is for a single flow."""
    single = dict.fromkeys(map(alone, ccs))
    return [Combination.plain_tcp(path.label, cc) for path in topology.paths for cc in single]


def alone(cc: str) -> str:
    """Equivalent of a congestion control for a single flow."""
    return _ALONE.get(cc, cc)


def fastest(found: Mapping[Combination, Sequence[float]]) -> list[Combination]:
    """The combinations that stay, the fastest first; none where nothing was delivered.

    Parameters
    ----------
    found : throughputs of the screening, equally many of each, 0 for a failed trial.
    """
    totals = {combination: sum(values) for combination, values in found.items()}
    mark = _NEAR * max(totals.values())
    near = [number for number, total in totals.items() if total and total >= mark]
    return sorted(near, key=lambda combination: (-totals[combination], combination))[:_STAYING]


def none_of(records: Sequence[Record]) -> str:
    """That plain TCP could not be compared with, because every trial of it failed, as a sentence."""
    first = next((record for record in records if record.failed is not None), None)
    why = "nothing was delivered" if first is None else f"{first.manager}/{first.cc}: {first.failed}"
    return (
        f"There is no comparison with plain TCP: all {len(records)} short trials of it failed (first: {why})."
    )
