"""Standstill after the death of a path, and the mildest timeouts of the hosts that keep it within a limit.

Each path that carries data is cut in runs of its own, at several moments. The metric is the one of a
standstill (`judged_by.outage` of its workload). It prints nothing and writes no file.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from mptune.optimisation.job import Job
from mptune.trial import Bulk, Configuration, Mix, Record, ScriptedAction, Timed, judged
from mptune.trial.metrics import THROUGHPUT, Metric

#: Share of the cases that a limit is about.
CASES = 0.95

#: Timeouts, the mildest first: when a subflow is given up, then ever shorter retransmission timeouts, which
#: may repeat what was only late.
RUNGS: tuple[dict[str, int], ...] = (
    {},
    {"stale_loss_cnt": 1},
    *({"stale_loss_cnt": 1, "rto_min_us": rto_us} for rto_us in (100_000, 50_000, 20_000)),
)

#: Moments after the middle of a trial at which a path is cut, in no step with messages or thinking.
_CUTS_NS = tuple(137_000_000 * number for number in range(5))


class Standstill(msgspec.Struct, frozen=True, kw_only=True):
    """Cost of dead paths with a configuration.

    Attributes
    ----------
    by_path : the time within which `CASES` of the runs went on, ms, for each path that was cut; infinite
        where too many did not at all.
    """

    by_path: dict[str, float]

    @property
    def path(self) -> str:
        """The path that costs most."""
        return max(self.by_path, key=lambda label: (self.by_path[label], label))

    @property
    def ms(self) -> float:
        """Its cost, ms."""
        return self.by_path[self.path]


class Failover(msgspec.Struct, frozen=True, kw_only=True):
    """The mildest timeouts that keep a limit, or those that come nearest.

    Attributes
    ----------
    metric : what was limited.
    limit_ms : the limit.
    members : members of the stack, where they are not the usual ones.
    ours, default : of the configuration with these timeouts, and of the default with the usual ones.
    tried : timeouts that were tried, the mildest first, and what a dead path costs with each.
    spoilt : timeouts that were tried and left out: the objective or the throughput was worse with them.
    """

    metric: str
    limit_ms: float
    members: dict[str, int]
    ours: Standstill
    default: Standstill
    tried: tuple[tuple[dict[str, int], float], ...]
    spoilt: int

    @property
    def kept(self) -> bool:
        """True if it is within the limit."""
        return self.ours.ms <= self.limit_ms


@dataclass(frozen=True)
class Search:
    """The search for one configuration.

    Attributes
    ----------
    paths : those that carry data, each of which is cut.
    runs : of each path and configuration, at least.
    """

    job: Job
    workload: Timed | Mix
    objective: Metric
    paths: tuple[str, ...]
    runs: int

    @property
    def metric(self) -> Metric:
        """Metric of a dead path's cost."""
        return judged(self.workload).judged_by.outage

    def within(
        self, limit_ms: float, ours: Configuration, default: Standstill, records: list[Record]
    ) -> Failover:
        """Timeouts for a configuration; the trials that are done for it go to the records."""
        usual = self._figures(ours, records)
        best: tuple[dict[str, int], Standstill] | None = None
        tried: list[tuple[dict[str, int], float]] = []
        spoilt = 0
        for members in RUNGS:
            told = with_members(ours, members)
            cost = self.standstill(told, records)
            tried.append((members, cost.ms))
            if best is not None and (cost.ms >= best[1].ms or self._spoils(usual, told, records)):
                spoilt += cost.ms < best[1].ms
                continue
            best = members, cost
            if cost.ms <= limit_ms:
                break
        assert best is not None
        return Failover(
            metric=self.metric.name,
            limit_ms=limit_ms,
            members=best[0],
            ours=best[1],
            default=default,
            tried=tuple(tried),
            spoilt=spoilt,
        )

    def standstill(self, configuration: Configuration, records: list[Record]) -> Standstill:
        """Cost of each path's death with a configuration; the trials go to the records."""
        middle = self.workload.duration_ns // 2
        cuts = [
            msgspec.structs.replace(
                configuration, script=(ScriptedAction(at_ns=middle + after, path=path, action="down"),)
            )
            for path in self.paths
            for after in _CUTS_NS
        ]
        each = -(-self.runs // len(_CUTS_NS))
        found = self.job.measure(cuts, "vary", each, "dead paths")
        records += found
        of_path = len(found) // len(self.paths)
        by_path = {}
        for number, path in enumerate(self.paths):
            ran = [
                record
                for record in found[number * of_path : (number + 1) * of_path]
                if record.failed_kind != "overloaded"
            ]
            values = [self.metric.of(record) for record in ran]
            ordered = sorted(math.inf if value is None else value for value in values)
            by_path[path] = _at_most(ordered)
        return Standstill(by_path=by_path)

    def _figures(
        self, configuration: Configuration, records: list[Record]
    ) -> list[tuple[Metric, float | None]]:
        """The objective and a saturated sender's throughput, means without an outage."""
        duration_ns = self.job.options.duration_ns
        saturated = configuration.under(Bulk(duration_ns=duration_ns))
        found = self.job.measure([configuration, saturated], "vary", self.runs, "without outages")
        records += found
        figures = (self.objective, found[: self.runs]), (THROUGHPUT, found[self.runs :])
        return [(metric, metric.mean(ran)) for metric, ran in figures]

    def _spoils(
        self, usual: list[tuple[Metric, float | None]], told: Configuration, records: list[Record]
    ) -> bool:
        """True if anything is worse without an outage by more than matters."""
        for (metric, before), (_, after) in zip(usual, self._figures(told, records), strict=True):
            if before is None:
                continue
            if after is None:
                return True
            if metric.cost(after) - metric.cost(before) > metric.unnoticed(before):
                return True
        return False


def with_members(configuration: Configuration, members: dict[str, int]) -> Configuration:
    """The configuration with these members of its stack."""
    return msgspec.structs.replace(
        configuration, stack=msgspec.structs.replace(configuration.stack, **members)
    )


def _at_most(ordered: Sequence[float]) -> float:
    """The value that `CASES` of them do not exceed: the smallest such one, which infinite ones may be."""
    if not ordered:
        return math.inf
    return ordered[min(len(ordered) - 1, math.ceil(CASES * len(ordered)) - 1)]
