"""Time on the testbed: what there is of it, what each step may use, and what was used.

A budget counts the trials of a round with their set-up: what they last, or the real time that they take where
each has a clock of its own. What a trial took comes from its record, so a resumed campaign has spent as much
as one that was never interrupted. Nothing is measured here.
"""

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace

import msgspec

from mptune.errors import InputError
from mptune.impact import ImpactOptions, run_ns
from mptune.optimisation.candidates import asked, brief_ns
from mptune.optimisation.options import OptimiseOptions
from mptune.options import Place, by_flag, error_about, left_alone, written
from mptune.testbeds import Testbed, only_stack
from mptune.theory import traditional
from mptune.topology import Topology, together_bps
from mptune.trial import BIN_NS, Record
from mptune.units import format_time

#: Windows of impact factors are not made shorter than this to fit a budget, nanoseconds.
_SHORTEST_WINDOW_NS = 1_000_000_000

#: Trials are not made shorter than this to fit a budget, nanoseconds, unless somebody asks for it. What
#: collapses with a large buffer does so late: in 13 shipped networks the best of 12 configurations by trials
#: of 20 s gives 4 % less over 30 s than the best by those (19 % at most); by trials of 30 s with other seeds
#: 2 % (17 %), by trials of 15 s 8 % (59 %), of 10 s 16 % (51 %).
SHORTEST_TRIAL_NS = 20_000_000_000

#: Trials that are asked for together where a testbed runs several at once; the answer depends on it, so it is
#: the same on every machine.
BATCH = 4

#: Buffers of impact factors hold no more than the network carries in this share of a window: what is queued
#: on a subflow when it is withdrawn is still sent.
_QUEUED_SHARE = 0.25

#: Shares of a budget: the most for impact factors, and for confirming the answer.
_IMPACT_SHARE, _CONFIRM_SHARE = 0.15, 0.15

#: Configurations that an answer is shown beside and that are no part of its search: what the hosts do today,
#: and what anybody would do by hand (`mptune.optimisation.baselines`).
BESIDE = 2


@dataclass(frozen=True)
class Budget:
    """The time for a round; without a limit there is enough for everything.

    Attributes
    ----------
    set_up_s : seconds that a trial takes beside its duration.
    spent_s : seconds that the trials so far took.
    pace : of the testbed (`mptune.testbeds.Testbed`).
    at_once : trials that share real time, where each has a clock of its own.
    slowest : real seconds that one of the slowest trial so far took, without its set-up; 0 before the first.
    fresh : configurations that are measured with new seeds: the answer, the default and plain TCP; and where
        what the answer is shown beside takes real time, that too.
    kept : share of a budget that is kept for what comes after the search; None for what an answer about
        throughput needs.
    """

    topology: Topology
    options: OptimiseOptions
    set_up_s: float
    spent_s: float = 0.0
    pace: float | None = None
    at_once: int = 1
    slowest: float = 0.0
    fresh: int = 3
    kept: float | None = None

    @classmethod
    def on(cls, testbed: Testbed, topology: Topology, options: OptimiseOptions, at_once: int) -> "Budget":
        """The budget for trials on a testbed, so many at once where they do not disturb each other."""
        together = max(1, min(at_once, BATCH))
        fresh = 3 + (BESIDE if only_stack(testbed.name) is not None else 0)
        return cls(topology, options, testbed.set_up_s, pace=testbed.pace, at_once=together, fresh=fresh)

    # ---- trials ------------------------------------------------------------------------------------

    @property
    def trial_s(self) -> float:
        """Seconds that a trial of full length takes on the testbed, with its set-up."""
        return self._lasting_s(self.options.duration_ns)

    def _lasting_s(self, duration_ns: int) -> float:
        return self._costs(duration_ns / 1e9, 1)

    def _costs(self, lasting_s: float, trials: int) -> float:
        """Seconds that so many trials are expected to take, which last so long together.

        With a clock of its own a trial costs what it sends, and the answer sends most: it is as the slowest.
        """
        if self.pace is None:
            return lasting_s + trials * self.set_up_s
        return (lasting_s * (self.slowest or self.pace) + trials * self.set_up_s) / self.at_once

    def seconds(self, record: Record) -> float:
        """Seconds that a trial took on the testbed, once for every time it was repeated."""
        lasted_s = record.settings["duration_ns"] / 1e9 if record.duration_s is None else record.duration_s
        if self.pace is not None and record.took_s is not None:
            return record.took_s / self.at_once
        return (1 + record.repeated) * self._costs(lasted_s, 1)

    def learnt(self, records: Iterable[Record]) -> "Budget":
        """The budget that knows what these trials took."""
        slowest = self.slowest
        for record in records:
            if self.pace is not None and record.took_s is not None and record.duration_s:
                slowest = max(slowest, (record.took_s - self.set_up_s) / record.duration_s)
        return replace(self, slowest=slowest)

    def after(self, records: Iterable[Record]) -> "Budget":
        """The budget after further trials."""
        done = tuple(records)
        spent_s = self.spent_s + math.fsum(map(self.seconds, done))
        return replace(self.learnt(done), spent_s=spent_s)

    def keeping(self, runs: int) -> "Budget":
        """The budget less so many runs of what an answer is shown beside, where they take time."""
        return replace(self, spent_s=self.spent_s + (self.fresh - 3) * runs * self.trial_s)

    # ---- what a step may use -----------------------------------------------------------------------

    @property
    def impact(self) -> ImpactOptions:
        """Options of the impact factors: as many and as long runs as the budget's share for them has."""
        impact, budget_s = self.options.impact, self.options.budget_s
        if budget_s is None or "pcdc" not in self.options.pms:
            return impact
        run_s = self._impact_s(impact)
        runs = max(1, min(impact.most_runs, int(_IMPACT_SHARE * budget_s / run_s)))
        part = min(1.0, _IMPACT_SHARE * budget_s / run_s)
        shortest_ns = max(_SHORTEST_WINDOW_NS, 2 * (impact.settle_ns or 0))
        window_ns = max(shortest_ns, int(part * impact.length_ns / BIN_NS) * BIN_NS)
        window_ns = min(window_ns, impact.length_ns)
        buffer_bytes = min(impact.buffer_bytes, _drained(self.topology, _QUEUED_SHARE * window_ns))
        return msgspec.structs.replace(impact, runs=runs, window_ns=window_ns, buffer_bytes=buffer_bytes)

    @property
    def sweep_s(self) -> float | None:
        """Seconds that are left for the sweep; None for as many as it needs."""
        budget_s = self.options.budget_s
        if budget_s is None:
            return None
        kept_s = self._reserved_s if self.kept is None else self.kept * budget_s
        return budget_s - self.spent_s - kept_s

    @property
    def fresh_runs(self) -> int:
        """Runs with new seeds: as many as asked for, but no more than the budget's share for them has."""
        wanted, budget_s = self.options.fresh_runs, self.options.budget_s
        if budget_s is None:
            return wanted
        return max(1, min(wanted, int(_CONFIRM_SHARE * budget_s / (self.fresh * self.trial_s))))

    def affordable(self, count: int) -> int:
        """Runs of so many configurations for which the budget has time; without a budget the usual number."""
        budget_s = self.options.budget_s
        if budget_s is None:
            return self.fresh_runs
        return max(0, int((budget_s - self.spent_s) / (count * self.trial_s)))

    # ---- whether it is enough ----------------------------------------------------------------------

    def fitted(self, place: Place = by_flag) -> "Budget":
        """A budget in which every candidate can be tried once.

        Trials of which nobody asked for the length are made shorter for that, down to `SHORTEST_TRIAL_NS`.

        Raises
        ------
        InputError : with the least budget that makes sense, and the longest trials for which it is enough.
        """
        if self._is_enough:
            return self
        if left_alone(self.options, "duration_ns"):
            shortest = self._with(min(self.options.duration_ns, SHORTEST_TRIAL_NS))
            if not shortest._is_enough:
                raise shortest._refusal(place)
            fitting_ns = self._fitting_ns
            assert fitting_ns is not None  # the shortest fits
            options = msgspec.structs.replace(self.options, shortened_from_ns=self.options.duration_ns)
            return replace(self, options=options)._with(fitting_ns)
        raise self._refusal(place)

    def _refusal(self, place: Place) -> InputError:
        options = self.options
        least, found = format_time(math.ceil(self._least_s) * 10**9), format_time(options.budget_ns or 0)
        each = (
            f"for a trial of {format_time(options.duration_ns)} of each of {len(asked(options))} candidates"
        )
        fitting, helps = self._fitting_ns, "fewer candidates take less"
        if fitting is not None:
            helps = f"{written(type(options), 'duration_ns', fitting, place)} fits"
        expected = f"expected at least {least}, {each} and to confirm the answer, found {found}; {helps}"
        return error_about(type(options), ("budget_ns",), expected, place)

    @property
    def _is_enough(self) -> bool:
        return self.options.budget_s is None or self.options.budget_s >= self._least_s

    @property
    def _reserved_s(self) -> float:
        """Seconds that are kept for the confirmation and for plain TCP."""
        trials = len(self.topology.paths) + 1  # on each, and on the fastest with the hosts' own (`PlainTcp`)
        screen_s = trials * self._lasting_s(brief_ns(self.options.duration_ns))
        return self.fresh * self.fresh_runs * self.trial_s + (screen_s if self.options.off_by else 0.0)

    @property
    def _least_s(self) -> float:
        """Seconds for one trial of every candidate, the shortest impact factors and the confirmation."""
        options, least_s = self.options, 0.0
        if "pcdc" in options.pms:
            shortest = msgspec.structs.replace(options.impact, runs=1, window_ns=_SHORTEST_WINDOW_NS)
            least_s = self._impact_s(shortest)
        return least_s + len(asked(options)) * self.trial_s + self._reserved_s

    @property
    def _fitting_ns(self) -> int | None:
        """The longest duration of trials, in whole seconds, for which the budget is enough."""
        for seconds in range(self.options.duration_ns // 10**9, 0, -1):
            if self._with(seconds * 10**9)._is_enough:
                return seconds * 10**9
        return None

    def _with(self, duration_ns: int) -> "Budget":
        """The same budget for trials of another duration."""
        return replace(self, options=msgspec.structs.replace(self.options, duration_ns=duration_ns))

    def _impact_s(self, options: ImpactOptions) -> float:
        """Seconds of one run of the impact factors of every congestion control."""
        contest = self.options.sets == "signs"
        return self._costs(len(self.options.ccs) * run_ns(self.topology, options, contest=contest) / 1e9, 0)


def shortened(options: OptimiseOptions) -> list[str]:
    """That a budget made trials shorter, as a sentence; nothing where it did not."""
    usual_ns, budget_ns = options.shortened_from_ns, options.budget_ns
    if usual_ns is None or budget_ns is None:
        return []
    lasting, usual, budget = map(format_time, (options.duration_ns, usual_ns, budget_ns))
    return [
        f"Trials last {lasting} instead of {usual}, so that a budget of {budget} is enough for "
        f"{len(asked(options))} candidates (--duration decides otherwise)."
    ]


def _drained(topology: Topology, time_ns: float) -> int:
    """The largest buffer that a network empties in this time, but no less than it needs (Eq. 1), bytes."""
    if topology.missing:
        return sys.maxsize
    senders = {path.local.abbr: path.local.up_bps for path in topology.paths}
    receivers = {path.remote.abbr: path.remote.down_bps for path in topology.paths}
    rate_bps = min(sum(senders.values()), sum(receivers.values()))
    if topology.shared:
        rate_bps = min(rate_bps, together_bps(topology.paths))
    return max(int(rate_bps * time_ns / 8e9), traditional(topology)["eq1"])
