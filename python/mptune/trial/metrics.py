"""The metrics: numbers of a trial by which configurations are compared, each with its unit and its direction.

Response models and strategies know none of them. They are given the *worth* of a value, of which more is
better, whatever the metric.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mptune import units
from mptune._text import quoted
from mptune.errors import one_of
from mptune.statistics import quantile
from mptune.trial.records import Record
from mptune.trial.workloads import Messages, Requests, Transfer, Workload


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A number of a trial.

    Attributes
    ----------
    unit : of its values.
    more_is_better : its direction.
    read : the value in a record; None if the trial has none.
    floor : differences up to this do not matter to anybody, in the unit.
    """

    name: str
    unit: str
    more_is_better: bool
    read: Callable[[Record], float | None]
    floor: float = 0.0

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


#: Percentiles by their words, as shares.
_PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}

#: Steps of some milliseconds in which programs play sound and pictures, and people notice nothing.
_UNNOTICED_MS = 0.5


def _percentile(what: str, word: str) -> Metric:
    share = _PERCENTILES[word]

    def read(kept: Record) -> float | None:
        return quantile(sorted(kept.delays_ms), share) if kept.delays_ms else None

    return Metric(name=f"{what} {word}", unit="ms", more_is_better=False, read=read, floor=_UNNOTICED_MS)


def _mean(kept: Record) -> float | None:
    times = kept.delays_ms
    return sum(times) / len(times) if times else None


#: Percentiles of the delay of messages, from when they were due to their last byte in order.
DELAYS = {word: _percentile("delay", word) for word in _PERCENTILES}

#: The time of responses, from the request to the last byte in order: its mean and percentiles.
RESPONSES = {
    "mean": Metric(name="response mean", unit="ms", more_is_better=False, read=_mean, floor=_UNNOTICED_MS),
    **{word: _percentile("response", word) for word in _PERCENTILES},
}


#: The longest response: what an outage costs.
LONGEST = Metric(
    name="longest response",
    unit="ms",
    more_is_better=False,
    read=lambda kept: max(kept.delays_ms, default=None),
    floor=_UNNOTICED_MS,
)


def _longest_gap(kept: Record) -> float | None:
    """The longest time without a message arriving, ms; from the first on."""
    sent = kept.settings.get("workload")
    if not sent or len(kept.delays_ms) < 2:
        return None
    interval_ms = sent["interval_ns"] / 1e6
    arrivals = [number * interval_ms + delay for number, delay in enumerate(kept.delays_ms)]
    return float(max(after - before for before, after in itertools.pairwise(arrivals)))


GAP = Metric(name="longest gap", unit="ms", more_is_better=False, read=_longest_gap, floor=1.0)


def late(deadline_ns: int) -> Metric:
    """The share of messages or responses that take longer than this, percent."""
    deadline_ms = deadline_ns / 1e6

    def read(kept: Record) -> float | None:
        delays = kept.delays_ms
        return 100 * sum(delay > deadline_ms for delay in delays) / len(delays) if delays else None

    text = units.format_time(deadline_ns)
    return Metric(name=f"later than {text}", unit="%", more_is_better=False, read=read, floor=0.1)


#: Words of objectives that need nothing more, and those that take a part of the distribution.
_WORDS = {"throughput": THROUGHPUT, "completion": COMPLETION, "gap": GAP}
_PARTS = {"delay": DELAYS, "response": RESPONSES}
_FORMS = (*_WORDS, *(f"{word}:{part}" for word, parts in _PARTS.items() for part in parts), "late:TIME")


def metric_named(text: str) -> Metric:
    """The metric of a word, such as "delay:p99", "response:mean", "gap" or "late:150ms".

    Raises
    ------
    ValueError : there is none.
    """
    word, colon, rest = text.strip().partition(":")
    if word in _PARTS and rest in _PARTS[word]:
        return _PARTS[word][rest]
    if word == "late" and colon:
        deadline_ns = units.parse_time(rest)
        if deadline_ns == 0:
            raise ValueError(f"expected a time above 0, found {quoted(text)}")
        return late(deadline_ns)
    if not colon and word in _WORDS:
        return _WORDS[word]
    raise ValueError(one_of(_FORMS, text))


#: The objective of a workload that names none, as a word.
USUAL = {"bulk": "throughput", "transfer": "completion", "messages": "delay:p99", "requests": "response:mean"}


def usual_objective(workload: Workload) -> str:
    """The word of the metric that a workload is judged by, unless another is asked for."""
    return USUAL[workload.kind]


def metrics_of(workload: Workload) -> tuple[Metric, ...]:
    """The metrics that a workload has and an answer shows, the usual objective first."""
    match workload:
        case Messages():
            return DELAYS["p99"], DELAYS["p50"], DELAYS["p99.9"], GAP
        case Requests():
            return RESPONSES["mean"], RESPONSES["p50"], RESPONSES["p95"], RESPONSES["p99"]
        case Transfer():
            return COMPLETION, THROUGHPUT
        case _:
            return (THROUGHPUT,)


def through_an_outage(workload: Workload) -> Metric:
    """The metric that shows what an outage costs."""
    return LONGEST if isinstance(workload, Requests) else GAP


def has(workload: Workload, metric: Metric) -> bool:
    """True if trials of the workload have the metric."""
    late_ones = metric.unit == "%"
    match workload:
        case Messages():
            return late_ones or metric in (*DELAYS.values(), GAP)
        case Requests():
            return late_ones or metric in RESPONSES.values()
        case _:
            return metric in metrics_of(workload)


def metric_of(workload: Workload) -> Metric:
    """The metric that a workload is judged by, unless another is asked for."""
    return metrics_of(workload)[0]
