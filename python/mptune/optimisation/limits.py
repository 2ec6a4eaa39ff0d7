"""Limits on what an answer may do beside its objective; nothing here measures."""

from typing import NamedTuple

from mptune.trial.metrics import Metric


class Limit(NamedTuple):
    """A limit on a metric that is not the objective: the least where more of it is better, or the most."""

    metric: Metric
    limit: float

    @property
    def text(self) -> str:
        """The limit for people: "delay p99 of at most 80 ms"."""
        end = "least" if self.metric.more_is_better else "most"
        return f"{self.metric.name} of at {end} {self.limit:g} {self.metric.unit}"

    def violation(self, value: float) -> float:
        """By how much a value is beyond it, as a share of it; 0 where it is not."""
        if self.limit == 0:
            return value
        beyond = value / self.limit - 1
        return max(0.0, -beyond if self.metric.more_is_better else beyond)
