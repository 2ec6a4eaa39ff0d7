"""The metrics: numbers of a trial by which configurations are compared, each with its unit and its direction.

Response models and strategies know none of them. They are given the *worth* of a value, of which more is
better, whatever the metric. Here are those that do not belong to one workload (`mptune.trial.workloads`);
which a workload has is in `mptune.trial.objectives`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from mptune import units
from mptune.statistics import Summary, quantile, summary_of
from mptune.trial.kept import Record

#: Differences up to this share of a value make none to anybody, nor do those up to a metric's `floor`.
UNNOTICED = 0.01

#: Units as the ends of names.
_ENDS = {"ms": "ms", "%": "percent", "Mbit/s": "mbps", "/min": "per_min", "s": "s"}


@dataclass(frozen=True)
class Metric:
    """A number of a trial.

    Attributes
    ----------
    word : as an objective; empty if it is none.
    unit : of its values.
    more_is_better : its direction.
    read : the value in a record; None if the trial has none.
    tabled : its column in tables of trials, if that has another name than `column`.
    floor : differences up to this do not matter to anybody, in the unit.
    """

    name: str
    unit: str
    more_is_better: bool
    read: Callable[[Record], float | None]
    floor: float = 0.0
    word: str = ""
    tabled: str = ""

    @property
    def column(self) -> str:
        """Its name in documents, which ends in its unit."""
        return f"{self.name.replace(' ', '_')}_{self.ending}"

    @property
    def ending(self) -> str:
        """Its unit as the end of a name."""
        return _ENDS[self.unit]

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

    def summary(self, values: Sequence[float]) -> Summary | None:
        """Summary of values or of their differences; its interval is no narrower than what is noticed.

        Runs that all agree say nothing about rare ones, in which the one packet was lost that counts. None of
        nothing.
        """
        found = summary_of(values)
        if found is None or found.low is None or found.high is None:
            return found
        low, high = found.mean - self.floor, found.mean + self.floor
        return msgspec.structs.replace(found, low=min(found.low, low), high=max(found.high, high))

    def cost(self, value: float) -> float:
        """The value with the sign with which less is better."""
        return -value if self.more_is_better else value

    def unnoticed(self, value: float) -> float:
        """The largest difference from a value that makes none to anybody, in the unit."""
        return max(self.floor, UNNOTICED * abs(value))

    def worth(self, value: float) -> float:
        """A positive number of which more is better, for values of either sign.

        The same share of it matters as much everywhere: `UNNOTICED` of it is `unnoticed`. So it is the
        value, or where less is better its inverse; and up to `floor / UNNOTICED`, where the floor is the
        larger step, the exponential function that goes on from there.
        """
        if not self.floor:
            return value if self.more_is_better else 1 / value
        knee = self.floor / UNNOTICED
        steps = value / knee if abs(value) <= knee else math.copysign(1 + math.log(abs(value) / knee), value)
        return math.exp(steps if self.more_is_better else -steps)

    def of_worth(self, worth: float) -> float:
        """The value that has a worth."""
        if not self.floor:
            return worth if self.more_is_better else 1 / worth
        knee, steps = self.floor / UNNOTICED, math.log(worth) * (1 if self.more_is_better else -1)
        return knee * (steps if abs(steps) <= 1 else math.copysign(math.exp(abs(steps) - 1), steps))

    def worths(self, values: Sequence[float]) -> list[float]:
        """Worths of the runs of a configuration, whose mean is the worth of their mean.

        Along the tangent there: a rare run that is far worse weighs as much as it does in the mean.
        """
        if self.more_is_better and not self.floor:
            return list(values)
        mean = math.fsum(values) / len(values)
        worth = self.worth(mean)
        slope = -self.cost(1.0) * worth * UNNOTICED / self.unnoticed(mean)
        return [worth + slope * (value - mean) for value in values]

    def gains(self, records: Sequence[Record], baseline: Sequence[Record]) -> list[float]:
        """Gain over a baseline, run by run where both have values, in the metric's unit."""
        sign = 1 if self.more_is_better else -1
        pairs = [(self.of(ours), self.of(theirs)) for ours, theirs in zip(records, baseline, strict=True)]
        return [sign * (ours - theirs) for ours, theirs in pairs if ours is not None and theirs is not None]


THROUGHPUT = Metric(
    name="throughput",
    word="throughput",
    unit="Mbit/s",
    more_is_better=True,
    read=lambda kept: kept.throughput_mbps,
)
#: Throughput that 95 % of the seconds of a trial reach: a mean hides those in which a call would have failed.
NEARLY_ALWAYS = Metric(
    name="throughput p5",
    word="throughput:p5",
    unit="Mbit/s",
    more_is_better=True,
    read=lambda kept: kept.p5_mbps,
)
COMPLETION = Metric(
    name="completion time",
    word="completion",
    unit="s",
    more_is_better=False,
    read=lambda kept: kept.completion_s,
)


def _by_load(kept: Record, value: Callable[[float, float], float]) -> float | None:
    """A value of smoothed and smallest RTT at the end: the mean over the subflows by what they carried."""
    found = [
        (subflow.throughput_mbps, value(subflow.rtt_ms, subflow.min_rtt_ms))
        for subflow in kept.subflows
        if subflow.rtt_ms is not None and subflow.min_rtt_ms is not None and subflow.throughput_mbps > 0
    ]
    carried = sum(mbps for mbps, _ in found)
    return sum(mbps * each for mbps, each in found) / carried if carried else None


def _round_trips(kept: Record) -> float | None:
    """Round trips per minute under load (draft-ietf-ippm-responsiveness: 60,000 / latency in ms).

    The latency is the smoothed RTT of the load's own packets.
    """
    latency_ms = _by_load(kept, lambda rtt_ms, _: rtt_ms)
    return None if not latency_ms else 60_000 / latency_ms


#: Delay that a sender adds to the RTT of its own packets, and of those of others behind the same queues.
QUEUEING = Metric(
    name="delay under load",
    unit="ms",
    more_is_better=False,
    read=lambda kept: _by_load(kept, lambda rtt_ms, min_rtt_ms: rtt_ms - min_rtt_ms),
    floor=0.5,
)
#: What somebody behind the same queues has left of them while the connection sends.
ROUND_TRIPS = Metric(
    name="round trips under load",
    word="rpm",
    unit="/min",
    more_is_better=True,
    read=_round_trips,
    floor=1.0,
)

#: Cost of 10^9 bytes; prices are the topology's, so that `mptune.optimisation.cost` reads the value.
COST = Metric(
    name="cost", word="cost", unit="per GB", more_is_better=False, read=lambda kept: None, floor=0.001
)

#: Fairness among the connections of a workload: Jain's index.
FAIRNESS = Metric(
    name="fairness",
    unit="%",
    more_is_better=True,
    read=lambda kept: kept.parts[0].fairness if kept.parts else None,
    floor=0.5,
)

#: Percentiles by their words, as shares.
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}

#: Steps of some milliseconds in which programs play sound and pictures, and people notice nothing.
_UNNOTICED_MS = 0.5


def time(name: str, read: Callable[[Record], float | None], word: str = "") -> Metric:
    """A time, ms, of which less is better."""
    return Metric(name=name, unit="ms", more_is_better=False, read=read, floor=_UNNOTICED_MS, word=word)


def times(what: str) -> dict[str, Metric]:
    """Mean and percentiles of the times of a trial (`Record.delays_ms`), by their words."""

    def percentile(word: str) -> Metric:
        share = PERCENTILES[word]

        def read(kept: Record) -> float | None:
            return quantile(sorted(kept.delays_ms), share) if kept.delays_ms else None

        return time(f"{what} {word}", read, f"{what}:{word}")

    def mean(kept: Record) -> float | None:
        found = kept.delays_ms
        return sum(found) / len(found) if found else None

    percentiles = {word: percentile(word) for word in PERCENTILES}
    return {"mean": time(f"{what} mean", mean, f"{what}:mean"), **percentiles}


def longest(what: str) -> Metric:
    """The longest of these times: what an outage costs those who wait."""
    return time(f"longest {what}", lambda kept: max(kept.delays_ms, default=None))


#: Beginning of the names of lateness metrics.
LATER = "later than"


def late(deadline_ns: int) -> Metric:
    """The share of messages or responses that take longer than this, percent."""
    deadline_ms = deadline_ns / 1e6

    def read(kept: Record) -> float | None:
        delays = kept.delays_ms
        return 100 * sum(delay > deadline_ms for delay in delays) / len(delays) if delays else None

    text = units.format_time(deadline_ns)
    return Metric(name=f"{LATER} {text}", unit="%", more_is_better=False, read=read, floor=0.1)
