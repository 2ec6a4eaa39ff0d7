"""The criteria by which a workload is judged: its metrics, and what they are called."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from mptune.trial.metrics import Metric, longest, times


@dataclass(frozen=True)
class Criteria:
    """The metrics of a workload.

    Attributes
    ----------
    metrics : those that an answer shows, the usual objective first.
    others : those that it shows where they are asked for.
    """

    metrics: tuple[Metric, ...]
    others: tuple[Metric, ...] = ()

    @property
    def objectives(self) -> tuple[Metric, ...]:
        """All that its trials have."""
        return (*self.metrics, *self.others)

    @property
    def outage(self) -> Metric:
        """The one that shows what an outage costs."""
        return self.metrics[0]


@dataclass(frozen=True, kw_only=True)
class Times:
    """The metrics of a workload that is judged by the time of each of its pieces, and their words in reports.

    Attributes
    ----------
    of, many : one time, and what takes it.
    from_to, waiting : what is measured, and why some take long.
    heading : of the section; empty for "Time of" them.
    across, along : column of the horizontal axis, and its title, empty for the number of the piece.
    shown, in_tables : times that an answer shows, and that have a column in tables of trials.
    own : further metrics, which both have.
    standstill : what shows the cost of an outage; None for the longest time.
    listed : name of the list of all times in documents.
    """

    of: str
    many: str
    from_to: str
    waiting: str
    heading: str = ""
    across: str = "number"
    along: str = ""
    shown: tuple[str, ...] = ("mean", "p50", "p95", "p99")
    in_tables: tuple[str, ...] = ("mean", "p99")
    own: tuple[Metric, ...] = ()
    standstill: Metric | None = None
    listed: str = "times_ms"

    @cached_property
    def by_word(self) -> Mapping[str, Metric]:
        """Mean and percentiles of the times."""
        return times(self.of)

    @cached_property
    def outage(self) -> Metric:
        """The metric that shows what an outage costs."""
        return self.standstill or longest(self.of)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Those that an answer shows, the usual objective first."""
        return (*(self.by_word[word] for word in self.shown), *self.own)

    @property
    def objectives(self) -> tuple[Metric, ...]:
        """All that its trials have, beside lateness."""
        return (*self.own, *self.by_word.values())

    @property
    def columns(self) -> dict[str, Metric]:
        """Those with a column in tables of trials, by its name."""
        tabled = (*(self.by_word[word] for word in self.in_tables), *self.own)
        return {metric.tabled or metric.column: metric for metric in tabled}

    @property
    def title(self) -> str:
        """Title of the section."""
        return self.heading or f"Time of {self.many}"

    @property
    def axis(self) -> str:
        """Title of the horizontal axis."""
        return self.along or f"number of the {self.of}"
