"""The metrics: numbers of a trial by which configurations are compared, each with its unit and its direction.

Response models and strategies know none of them. They are given the *worth* of a value, of which more is
better, whatever the metric.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from mptune import units
from mptune._text import quoted
from mptune.errors import one_of
from mptune.statistics import quantile
from mptune.trial.mixes import Mix, Workload, judged
from mptune.trial.records import Record, of_part, sent_of
from mptune.trial.workloads import Messages, OnOff, Page, Programs, Requests, Timed, Transfer, Video


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

    def mean(self, records: Sequence[Record]) -> float | None:
        """The mean over the trials that have a value; None if none has one."""
        values = self.values(records)
        return sum(values) / len(values) if values else None

    def cost(self, value: float) -> float:
        """The value with the sign with which less is better."""
        return -value if self.more_is_better else value

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


def _queueing(kept: Record) -> float | None:
    """Smoothed RTT above the smallest at the end, ms: the mean over the subflows by what they carried."""
    queued = [
        (subflow.throughput_mbps, subflow.rtt_ms - subflow.min_rtt_ms)
        for subflow in kept.subflows
        if subflow.rtt_ms is not None and subflow.min_rtt_ms is not None and subflow.throughput_mbps > 0
    ]
    carried = sum(mbps for mbps, _ in queued)
    return sum(mbps * ms for mbps, ms in queued) / carried if carried else None


#: What a sender adds to the RTT of its own packets, and of those of others behind the same queues.
QUEUEING = Metric(name="delay under load", unit="ms", more_is_better=False, read=_queueing, floor=0.5)


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
TIMES = {what: _times(what) for what in ("delay", "response", "page", "segment", "burst")}
DELAYS = TIMES["delay"]

#: The longest response, or page: what an outage costs.
_LONGEST = {
    what: _time(f"longest {what}", lambda kept: max(kept.delays_ms, default=None))
    for what in ("response", "page", "burst")
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


class _Watched(NamedTuple):
    """What one player played: bitrates, Mbit/s; start, stalls, and from the first segment to the last, s."""

    bitrates: list[float]
    highest: float
    start_s: float
    stalled_s: float
    viewed_s: float

    @property
    def quality(self) -> float:
        """Quality of experience of a video, per segment.

        Bitrates, less the changes between them and what stalls and start cost: the measure of X. Yin, A.
        Jindal, V. Sekar and B. Sinopoli, "A Control-Theoretic Approach for Dynamic Adaptive Video Streaming
        over HTTP", SIGCOMM 2015, with the bitrate as the quality of a segment and their balanced weights: a
        second without pictures costs what a segment at the highest bitrate gives (3000 of their ladder up to
        3000 kbit/s).
        """
        changes = sum(abs(after - before) for before, after in itertools.pairwise(self.bitrates))
        missed_s = self.start_s + self.stalled_s
        return (sum(self.bitrates) - changes - self.highest * missed_s) / len(self.bitrates)

    @property
    def changes(self) -> int:
        """How often the bitrate changes."""
        return sum(before != after for before, after in itertools.pairwise(self.bitrates))


def _watched(kept: Record) -> Iterator[_Watched]:
    """Every player of a trial with videos: of each the first request is the earliest."""
    sent, seen = sent_of(kept.settings), list(zip(kept.pieces, kept.delays_ms, strict=False))
    if not seen:
        return
    first = [
        place for place in range(len(seen)) if not place or seen[place][0].at_ns < seen[place - 1][0].at_ns
    ]
    for begin, end in itertools.pairwise((*first, len(seen))):
        mine = seen[begin:end]
        arrivals = [piece.at_ns / 1e9 + taken_ms / 1e3 for piece, taken_ms in mine]
        yield _Watched(
            bitrates=[piece.bytes * 8e3 / sent["segment_ns"] for piece, _ in mine],
            highest=sent["ladder_bps"][-1] / 1e6,
            start_s=mine[0][1] / 1e3,
            stalled_s=sum(piece.stalled_ns for piece, _ in mine) / 1e9,
            viewed_s=arrivals[-1] - arrivals[0],
        )


def _of_video(
    value: Callable[[_Watched], float], *, of_time: bool = False
) -> Callable[[Record], float | None]:
    """Reads the mean of a value over the players; `of_time` needs a second segment."""

    def read(kept: Record) -> float | None:
        found = [value(one) for one in _watched(kept) if one.viewed_s or not of_time]
        return sum(found) / len(found) if found else None

    return read


QUALITY = Metric(
    name="quality",
    unit="Mbit/s",
    more_is_better=True,
    read=_of_video(lambda one: one.quality),
    floor=0.01,
)
STALLED = Metric(
    name="stalled share",
    unit="%",
    more_is_better=False,
    read=_of_video(lambda one: 100 * one.stalled_s / one.viewed_s, of_time=True),
    floor=0.1,
)

#: Metrics of a video by their words, the usual first. Pictures stand still for a share of the time from the
#: arrival of the first segment to that of the last; the start is from the first request to the first segment.
VIDEO = {
    "video:quality": QUALITY,
    "video:bitrate": Metric(
        name="bitrate",
        unit="Mbit/s",
        more_is_better=True,
        read=_of_video(lambda one: sum(one.bitrates) / len(one.bitrates)),
        floor=0.01,
    ),
    "video:stalled": STALLED,
    "video:start": _time("start", _of_video(lambda one: 1e3 * one.start_s)),
    "video:changes": Metric(
        name="changes of bitrate",
        unit="/min",
        more_is_better=False,
        read=_of_video(lambda one: 60 * one.changes / one.viewed_s, of_time=True),
        floor=0.1,
    ),
}


def _while_on(kept: Record) -> float | None:
    """Payload of the bursts over the time during which any of them was under way, Mbit/s."""
    on_ns, size, until_ns = 0.0, 0, 0.0
    for piece, taken_ms in zip(kept.pieces, kept.delays_ms, strict=False):
        begin_ns = max(piece.at_ns, until_ns) if piece.at_ns else 0  # 0 of the first of each connection
        until_ns = piece.at_ns + 1e6 * taken_ms
        on_ns, size = on_ns + max(until_ns - begin_ns, 0.0), size + piece.bytes
    return 8e3 * size / on_ns if on_ns else None


#: What a connection carries while it has bursts to carry.
WHILE_ON = Metric(name="throughput while on", unit="Mbit/s", more_is_better=True, read=_while_on, floor=0.01)

#: What 10^9 bytes cost; prices are the topology's, so that `mptune.optimisation.cost` reads the value.
COST = Metric(name="cost", unit="per GB", more_is_better=False, read=lambda kept: None, floor=0.001)

#: Units as the ends of names.
UNIT_ENDS = {"ms": "ms", "%": "percent", "Mbit/s": "mbps", "/min": "per_min", "s": "s"}


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
_WORDS = {
    "throughput": THROUGHPUT,
    "completion": COMPLETION,
    "gap": GAP,
    "on-off:throughput": WHILE_ON,
    "cost": COST,
    **VIDEO,
}
_FORMS = (*_WORDS, *(f"{word}:{part}" for word, parts in TIMES.items() for part in parts), "late:TIME")


def metric_named(text: str) -> Metric:
    """The metric of a word, such as "delay:p99", "response:mean", "gap" or "late:150ms".

    Raises
    ------
    ValueError : there is none.
    """
    if text.strip() in _WORDS:
        return _WORDS[text.strip()]
    word, colon, rest = text.strip().partition(":")
    if word in TIMES and rest in TIMES[word]:
        return TIMES[word][rest]
    if word == "late" and colon:
        deadline_ns = units.parse_time(rest)
        if deadline_ns == 0:
            raise ValueError(f"expected a time above 0, found {quoted(text)}")
        return late(deadline_ns)
    raise ValueError(one_of(_FORMS, text))


#: The objective of a workload that names none, as a word.
USUAL = {
    "bulk": "throughput",
    "transfer": "completion",
    "messages": "delay:p99",
    "requests": "response:mean",
    "page": "page:mean",
    "exec": "completion",
    "video": "video:quality",
    "on-off": "burst:mean",
}

#: What is timed of each kind of workload, as in `TIMES`.
_TIMED = {"messages": "delay", "requests": "response", "page": "page", "video": "segment", "on-off": "burst"}


def usual_objective(workload: Workload) -> str:
    """The word of the metric that a workload is judged by, unless another is asked for."""
    return USUAL[judged(workload).kind]


def times_of(workload: Timed) -> dict[str, Metric]:
    """The metrics of the times of a workload, by their words."""
    return TIMES[_TIMED[workload.kind]]


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
        case OnOff():
            return (*(times_of(workload)[word] for word in ("mean", "p50", "p95", "p99")), WHILE_ON)
        case Requests() | Page():
            return tuple(times_of(workload)[word] for word in ("mean", "p50", "p95", "p99"))
        case Video():
            return tuple(VIDEO.values())
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
    match workload:
        case Messages():
            return GAP
        case Video():
            return STALLED
        case Requests() | Page() | OnOff():
            return _LONGEST[_TIMED[workload.kind]]
        case _:
            return metric_of(workload)


def has(workload: Workload, metric: Metric) -> bool:
    """True if trials of the workload have the metric."""
    if metric is COST:
        return True
    workload = judged(workload)
    if not isinstance(workload, Timed):
        return metric in metrics_of(workload)
    return metric.name.startswith(_LATER) or metric in (*times_of(workload).values(), *metrics_of(workload))


def usual_of(kept: Record) -> Metric:
    """The metric that a trial is judged by, unless another is asked for; of a saturated sender throughput."""
    return metric_named(USUAL[sent_of(kept.settings).get("kind", "bulk")])


#: Metrics of which more is better, by name.
_MORE_IS_BETTER = {metric.name for metric in _WORDS.values() if metric.more_is_better}


def cost(name: str, value: float) -> float:
    """A value of the metric of this name such that less is better, to order by."""
    return -value if name in _MORE_IS_BETTER else value


def metric_of(workload: Workload) -> Metric:
    """The metric that a workload is judged by, unless another is asked for."""
    return metrics_of(workload)[0]


#: Metrics with a column in tables of trials, by kind of workload and name of the column.
_COLUMNS = {
    "messages": {"delay_p50_ms": DELAYS["p50"], "delay_p99_ms": DELAYS["p99"], "longest_gap_ms": GAP},
    "requests": {"response_mean_ms": TIMES["response"]["mean"], "response_p99_ms": TIMES["response"]["p99"]},
    "page": {"page_mean_ms": TIMES["page"]["mean"], "page_p99_ms": TIMES["page"]["p99"]},
    "on-off": {
        "burst_mean_ms": TIMES["burst"]["mean"],
        "burst_p99_ms": TIMES["burst"]["p99"],
        "throughput_while_on_mbps": WHILE_ON,
    },
    "video": {f"{word.replace(':', '_')}_{UNIT_ENDS[metric.unit]}": metric for word, metric in VIDEO.items()},
}

#: Every such column.
TIME_COLUMNS = tuple(name for metrics in _COLUMNS.values() for name in metrics)


def times(kept: Record) -> dict[str, float | None]:
    """Those columns that the workload of a trial has, with their values."""
    kind = sent_of(kept.settings).get("kind", "")
    return {name: metric.of(kept) for name, metric in _COLUMNS.get(kind, {}).items()}
