"""The metrics: numbers of a trial by which configurations are compared, each with its unit and its direction.

Response models and strategies know none of them. They are given the *worth* of a value, of which more is
better, whatever the metric.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mptune.trial.records import Record
from mptune.trial.workloads import Transfer, Workload


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A number of a trial.

    Attributes
    ----------
    unit : of its values.
    more_is_better : its direction.
    read : the value in a record; None if the trial has none.
    """

    name: str
    unit: str
    more_is_better: bool
    read: Callable[[Record], float | None]

    def of(self, trial_record: Record) -> float | None:
        """The value of a trial; None if it failed."""
        return None if trial_record.failed is not None else self.read(trial_record)

    def values(self, records: Sequence[Record]) -> list[float]:
        """The values of the trials that have one, in their order."""
        return [value for trial_record in records if (value := self.of(trial_record)) is not None]

    def worth(self, value: float) -> float:
        """The value, or where less is better its inverse: a share of the worth is a share of either."""
        return value if self.more_is_better else 1 / value

    def gains(self, records: Sequence[Record], baseline: Sequence[Record]) -> list[float]:
        """Gain over a baseline, run by run where both have values, in the metric's unit."""
        sign = 1 if self.more_is_better else -1
        pairs = [(self.of(ours), self.of(theirs)) for ours, theirs in zip(records, baseline, strict=True)]
        return [sign * (ours - theirs) for ours, theirs in pairs if ours is not None and theirs is not None]


THROUGHPUT = Metric(
    name="throughput", unit="Mbit/s", more_is_better=True, read=lambda kept: kept.throughput_mbps
)
COMPLETION = Metric(
    name="completion time", unit="s", more_is_better=False, read=lambda kept: kept.completion_s
)


def metric_of(workload: Workload) -> Metric:
    """The metric that a workload is judged by, unless another is asked for."""
    return COMPLETION if isinstance(workload, Transfer) else THROUGHPUT
