"""The metrics: numbers of a trial by which configurations are compared, each with its unit and its direction.

Response models and strategies know none of them. They are given the *worth* of a value, of which more is
better, whatever the metric.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from mptune import units
from mptune._text import quoted
from mptune.errors import one_of
from mptune.statistics import quantile
from mptune.trial.mixes import Mix, Workload, judged
from mptune.trial.records import Record, of_part, sent_of
from mptune.trial.workloads import Messages, Page, Programs, Requests, Timed, Transfer


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


def rank(name: str, value: float) -> float:
    """A value of the metric with this name, as a key by which the best comes first."""
    return -value if name == THROUGHPUT.name else value


#: Percentiles by their words, as shares.
_PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}

#: Steps of some milliseconds in which programs play sound and pictures, and people notice nothing.
_UNNOTICED_MS = 0.5


def _percentile(what: str, word: str) -> Metric:
    share = _PERCENTILES[word]

    def read(kept: Record) -> float | None:
        return quantile(sorted(kept.delays_ms), share) if kept.delays_ms else None

    return _time(f"{what} {word}", read)


def _time(name: str, read: Callable[[Record], float | None]) -> Metric:
    return Metric(name=name, unit="ms", more_is_better=False, read=read, floor=_UNNOTICED_MS)


def _mean(kept: Record) -> float | None:
    times = kept.delays_ms
    return sum(times) / len(times) if times else None


def _times(what: str) -> dict[str, Metric]:
    """Mean and percentiles of the times of a trial, by their words."""
    percentiles = {word: _percentile(what, word) for word in _PERCENTILES}
    return {"mean": _time(f"{what} mean", _mean), **percentiles}


#: Delays of messages, from when they were due to their last byte in order; times of responses and of pages,
#: from the request on.
TIMES = {what: _times(what) for what in ("delay", "response", "page")}
DELAYS = TIMES["delay"]

#: The longest response, or page: what an outage costs.
_LONGEST = {
    what: _time(f"longest {what}", lambda kept: max(kept.delays_ms, default=None))
    for what in ("response", "page")
}


def _longest_gap(kept: Record) -> float | None:
    """The longest time without a message arriving, ms; from the first on."""
    sent = sent_of(kept.settings)
    if not sent or len(kept.delays_ms) < 2:
        return None
    interval_ms = sent["interval_ns"] / 1e6
    # Of many connections, that of each.
    count = -(-sent["duration_ns"] // sent["interval_ns"]) if kept.parts else len(kept.delays_ms)
    gaps = [
        after - before
        for first in range(0, len(kept.delays_ms), count)
        for before, after in itertools.pairwise(
            number * interval_ms + delay for number, delay in enumerate(kept.delays_ms[first : first + count])
        )
    ]
    return float(max(gaps))


GAP = Metric(name="longest gap", unit="ms", more_is_better=False, read=_longest_gap, floor=1.0)


#: What metrics of lateness are called.
_LATER = "later than"


def late(deadline_ns: int) -> Metric:
    """The share of messages or responses that take longer than this, percent."""
    deadline_ms = deadline_ns / 1e6

    def read(kept: Record) -> float | None:
        delays = kept.delays_ms
        return 100 * sum(delay > deadline_ms for delay in delays) / len(delays) if delays else None

    text = units.format_time(deadline_ns)
    return Metric(name=f"{_LATER} {text}", unit="%", more_is_better=False, read=read, floor=0.1)


#: Fairness among the connections of a workload: Jain's index.
FAIRNESS = Metric(
    name="fairness",
    unit="%",
    more_is_better=True,
    read=lambda kept: kept.parts[0].fairness if kept.parts else None,
    floor=0.5,
)


def _in_part(metric: Metric, number: int, word: str) -> Metric:
    """The metric of another part of a mix."""

    def read(kept: Record) -> float | None:
        return metric.read(of_part(kept, number)) if kept.parts else None

    return replace(metric, name=f"{word}: {metric.name}", read=read)


#: Words of objectives that need nothing more; those of `TIMES` take a part of the distribution.
_WORDS = {"throughput": THROUGHPUT, "completion": COMPLETION, "gap": GAP}
_FORMS = (*_WORDS, *(f"{word}:{part}" for word, parts in TIMES.items() for part in parts), "late:TIME")


def metric_named(text: str) -> Metric:
    """The metric of a word, such as "delay:p99", "response:mean", "gap" or "late:150ms".

    Raises
    ------
    ValueError : there is none.
    """
    word, colon, rest = text.strip().partition(":")
    if word in TIMES and rest in TIMES[word]:
        return TIMES[word][rest]
    if word == "late" and colon:
        deadline_ns = units.parse_time(rest)
        if deadline_ns == 0:
            raise ValueError(f"expected a time above 0, found {quoted(text)}")
        return late(deadline_ns)
    if not colon and word in _WORDS:
        return _WORDS[word]
    raise ValueError(one_of(_FORMS, text))


#: The objective of a workload that names none, as a word.
USUAL = {
    "bulk": "throughput",
    "transfer": "completion",
    "messages": "delay:p99",
    "requests": "response:mean",
    "page": "page:mean",
    "exec": "completion",
}


def usual_objective(workload: Workload) -> str:
    """The word of the metric that a workload is judged by, unless another is asked for."""
    return USUAL[judged(workload).kind]


def times_of(workload: Timed) -> dict[str, Metric]:
    """The metrics of the times of a workload, by their words."""
    return TIMES[USUAL[workload.kind].partition(":")[0]]


def metrics_of(workload: Workload) -> tuple[Metric, ...]:
    """The metrics that a workload has and an answer shows, the usual objective first.

    Of a mix those of its first part, the fairness among its connections, and those of the other parts.
    """
    match workload:
        case Mix():
            shared = (FAIRNESS,) if workload.parts[0].connections > 1 else ()
            return (*metrics_of(judged(workload)), *shared, *_of_others(workload))
        case Messages():
            return DELAYS["p99"], DELAYS["p50"], DELAYS["p99.9"], GAP
        case Requests() | Page():
            return tuple(times_of(workload)[word] for word in ("mean", "p50", "p95", "p99"))
        case Transfer() | Programs():
            return COMPLETION, THROUGHPUT
        case _:
            return (THROUGHPUT,)


def _of_others(mix: Mix) -> Iterator[Metric]:
    """Metrics of all parts but the first."""
    words = [part.word for part in mix.parts]
    for number, part in enumerate(mix.parts[1:], start=1):
        word = part.word if words.count(part.word) == 1 else f"{part.word} {number + 1}"
        for metric in metrics_of(part.workload):
            yield _in_part(metric, number, word)


def through_an_outage(workload: Workload) -> Metric:
    """The metric that shows what an outage costs."""
    workload = judged(workload)
    if not isinstance(workload, Timed):
        return metric_of(workload)
    return GAP if isinstance(workload, Messages) else _LONGEST[USUAL[workload.kind].partition(":")[0]]


def has(workload: Workload, metric: Metric) -> bool:
    """True if trials of the workload have the metric."""
    workload = judged(workload)
    if not isinstance(workload, Timed):
        return metric in metrics_of(workload)
    more = (GAP,) if isinstance(workload, Messages) else ()
    return metric.name.startswith(_LATER) or metric in (*times_of(workload).values(), *more)


def metric_of(workload: Workload) -> Metric:
    """The metric that a workload is judged by, unless another is asked for."""
    return metrics_of(workload)[0]


#: Metrics with a column in tables of trials, by kind of workload and name of the column, ms.
_COLUMNS = {
    "messages": {"delay_p50_ms": DELAYS["p50"], "delay_p99_ms": DELAYS["p99"], "longest_gap_ms": GAP},
    "requests": {"response_mean_ms": TIMES["response"]["mean"], "response_p99_ms": TIMES["response"]["p99"]},
    "page": {"page_mean_ms": TIMES["page"]["mean"], "page_p99_ms": TIMES["page"]["p99"]},
}

#: Every such column.
TIME_COLUMNS = tuple(name for metrics in _COLUMNS.values() for name in metrics)


def times(kept: Record) -> dict[str, float | None]:
    """Those columns that the workload of a trial has, with their values."""
    kind = sent_of(kept.settings).get("kind", "")
    return {name: metric.of(kept) for name, metric in _COLUMNS.get(kind, {}).items()}
