"""A recording: the entries of a trace, checked and put into series of a link's rate, delay and loss.

This holds for every format: times go forward, gaps are recognised, a part can be chosen, single lost probes
become a probability and runs of them outages, and round trips are divided between the directions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from statistics import median, median_low
from typing import NamedTuple

from mptune import units
from mptune.topology._effects import Schedule, Step
from mptune.topology._kinds import MIN_RATE_BPS
from mptune.topology.traces._format import SECOND, WHOLE, Entry, Format, Source, unfit

#: Most entries of a part: with more, every trial would carry megabytes.
MOST_ENTRIES = 100_000
#: Longest part, ns: the core's periods end below 26 days.
LONGEST = 25 * 86_400 * SECOND
#: A longer time than this multiple of the median spacing between entries, and than a second, is a gap.
_GAP = 10
#: Lost probes in a row that are an outage; fewer are losses.
OUTAGE = 2
#: Probes whose losses make a probability.
WINDOW = 50
#: Later than this a `start` or `stop` is a date, earlier a time since the first entry.
_DATES = 10**6 * SECOND
GAPS = ("refuse", "cut", "hold")
WAYS = ("up", "down")

#: Time and value.
Series = tuple[tuple[int, int], ...]


class Part(NamedTuple):
    """The part of a trace that is meant, and what becomes of it.

    Attributes
    ----------
    start_ns, stop_ns : since the first entry, or since 1970; None is the end.
    gaps : of `GAPS`: what becomes of times without a measurement.
    mean_bps : rates are multiplied so that this is their mean; None leaves them.
    elsewhere_ns : part of each RTT that other links have.
    hold : the last values stay; otherwise everything repeats.
    anywhere : a trial begins at a moment of it that its seed draws.
    """

    start_ns: int = 0
    stop_ns: int | None = None
    gaps: str = "refuse"
    mean_bps: int | None = None
    elsewhere_ns: int = 0
    hold: bool = False
    anywhere: bool = False


class Recording(NamedTuple):
    """Values of an interface in a trace.

    Attributes
    ----------
    rate, delay, loss : way -> its rate in bit/s, one-way delay in ns, loss in ppb over time, from 0 on.
    length_ns : how long it is.
    hold : the last values stay; otherwise it repeats.
    anywhere : a trial begins at a moment of it that its seed draws.
    entries : number of measurements.
    """

    rate: dict[str, Series]
    delay: dict[str, Series]
    loss: dict[str, Series]
    length_ns: int
    hold: bool
    anywhere: bool
    entries: int

    def mean(self, series: Series) -> float:
        """Mean of a series over the whole recording, whether or not it is held after that."""
        ends = [at for at, _ in series[1:]] + [self.length_ns]
        held = sum(value * (end - at) for (at, value), end in zip(series, ends, strict=True))
        return held / (self.length_ns - series[0][0])


def recorded(source: Source, kind: Format, part: Part) -> Recording:
    """Read a trace.

    Raises
    ------
    ValueError : anything that is not as expected, with its line.
    """
    chosen = list(_chosen(kind.read(source), part))
    if len(chosen) < 2:
        raise ValueError(f"expected at least two measurements from start to stop, found {len(chosen)}")
    spacing = _spacing(chosen)
    entries = _without_gaps(chosen, spacing, part.gaps)
    length = entries[-1].at_ns + spacing
    if length > LONGEST:
        long = units.format_time(length, 3)
        raise ValueError(f"expected at most 25 days (start and stop choose a part), found {long}")
    series = _series(entries, kind.probes)
    rates = {way: _rate(series, way) for way in WAYS}
    recording = Recording(
        rate={way: found for way, found in rates.items() if found},
        delay={way: found for way in WAYS if (found := _delay(series, way, part.elsewhere_ns // 2))},
        loss={way: found for way in WAYS if (found := _loss(series, way))},
        length_ns=length,
        hold=part.hold,
        anywhere=part.anywhere,
        entries=len(entries),
    )
    _check(recording)
    return recording if part.mean_bps is None else _scaled(recording, part.mean_bps)


def _check(recording: Recording) -> None:
    """Refuse a link on which nothing passes in the long run."""
    for of_ways, nothing in ((recording.rate, 0), (recording.loss, WHOLE)):
        for series in of_ways.values():
            if (series[-1][1] if recording.hold else recording.mean(series)) == nothing:
                when = "at its end, which is held" if recording.hold else "at some time"
                raise ValueError(f"expected that something gets through {when}, found an outage")


def _chosen(entries: Iterable[Entry], part: Part) -> Iterator[Entry]:
    """Entries of the part, with times from its beginning on."""
    first: int | None = None
    before, kept = 0, 0
    for entry in entries:
        if first is None:
            first = before = entry.at_ns
        if entry.at_ns < before:
            back = units.format_time(before - entry.at_ns, 3)
            raise unfit(entry.line, "a time that does not go back (the clock was set)", f"{back} earlier")
        before = entry.at_ns
        start = part.start_ns if part.start_ns > _DATES else first + part.start_ns
        if part.stop_ns is not None:
            stop = part.stop_ns if part.stop_ns > _DATES else first + part.stop_ns
            if entry.at_ns >= stop:
                return
        if entry.at_ns >= start:
            kept += 1
            if kept > MOST_ENTRIES:
                raise unfit(entry.line, f"at most {MOST_ENTRIES} measurements (start, stop)", str(kept))
            yield entry


def _spacing(entries: Sequence[Entry]) -> int:
    """Median time between entries of different times."""
    times = [after.at_ns - before.at_ns for before, after in pairwise(entries)]
    apart = [time for time in times if time > 0]
    if not apart:
        raise unfit(entries[-1].line, "measurements at several times", "all at one")
    return median_low(apart)


def _without_gaps(entries: Sequence[Entry], spacing: int, gaps: str) -> list[Entry]:
    """The entries from 0 on, after gaps were refused, cut out, or left for the values before them."""
    longest = max(_GAP * spacing, SECOND)
    taken = entries[0].at_ns
    found = [entries[0]._replace(at_ns=0)]
    for before, after in pairwise(entries):
        gap = after.at_ns - before.at_ns
        if gap > longest and gaps == "refuse":
            usual, time = units.format_time(spacing, 3), units.format_time(gap, 3)
            way_out = 'start and stop choose a part, gaps = "cut" or "hold"'
            expected = f"a measurement every {usual} or so ({way_out})"
            raise unfit(after.line, expected, f"a gap of {time}")
        if gap > longest and gaps == "cut":
            taken += gap - spacing
        found.append(after._replace(at_ns=after.at_ns - taken))
    return found


def _series(entries: Sequence[Entry], probes: bool) -> dict[str, Series]:
    """Each quantity over time; of several values of one time the last."""
    found: dict[str, dict[int, int]] = {}
    for entry in entries:
        for name, value in entry.values.items():
            found.setdefault(name, {})[entry.at_ns] = value
    series = {name: tuple(values.items()) for name, values in found.items()}
    losses = [name for name in series if probes and name.endswith("loss")]
    return series | {name: _of_probes(series[name]) for name in losses}


def _of_probes(series: Series) -> Series:
    """Probability of loss from probes that were lost or not: runs of lost ones are outages."""
    outages: list[bool] = []
    for lost, run in groupby(value == WHOLE for _, value in series):
        count = len(list(run))
        outages += [lost and count >= OUTAGE] * count
    outside = [number for number, outage in enumerate(outages) if not outage]
    values = [WHOLE] * len(series)
    for begin in range(0, len(outside), WINDOW):
        window = outside[begin : begin + WINDOW]
        lost_share = sum(series[number][1] for number in window) // len(window)
        for number in window:
            values[number] = lost_share
    return tuple((at, value) for (at, _), value in zip(series, values, strict=True))


def _rate(series: dict[str, Series], way: str) -> Series:
    """Rate of a way: its own, or that of either; of a file with one way alone, that one's."""
    other = WAYS[1 - WAYS.index(way)]
    own = series.get(way) or series.get("rate")
    found = own or (() if "rate" in series else series.get(other, ()))
    return tuple((at, value if value >= MIN_RATE_BPS else 0) for at, value in found)


def _delay(series: dict[str, Series], way: str, elsewhere_ns: int) -> Series:
    """One-way delay of a way: its own, or half the RTT."""
    if own := series.get(f"{way}_delay"):
        return tuple((at, max(0, value - elsewhere_ns)) for at, value in own)
    return tuple((at, max(0, value // 2 - elsewhere_ns)) for at, value in series.get("rtt", ()))


def _loss(series: dict[str, Series], way: str) -> Series:
    """Loss of a way: its own, or that of either, or its part of the round trip's."""
    if own := series.get(f"{way}_loss") or series.get("loss"):
        return own
    return tuple((at, _half_ppb(value)) for at, value in series.get("round_loss", ()))


def _half_ppb(round_trip_ppb: int) -> int:
    """Loss of each of two directions that lose alike: 1 - sqrt(1 - L)."""
    return WHOLE - round(WHOLE * math.sqrt((WHOLE - round_trip_ppb) / WHOLE))


def _scaled(recording: Recording, mean_bps: int) -> Recording:
    if not recording.rate:
        raise ValueError("expected rates in the file beside mean, found none")
    rates = {}
    for way, series in recording.rate.items():
        mean = recording.mean(series)
        scaled = ((at, round(value * mean_bps / mean)) for at, value in series)
        rates[way] = tuple((at, value if value >= MIN_RATE_BPS else 0) for at, value in scaled)
    return recording._replace(rate=rates)


def typical_delay_ns(delays: Iterable[Series]) -> int:
    """Median of one-way delays, ns."""
    return int(median(value for series in delays for _, value in series))


def schedule(
    rate: Recording | None, delay: Recording | None, loss: Recording | None, way: str
) -> Schedule | None:
    """Schedule of one link from its recordings, together as long as the shortest of them."""
    parts = [
        (field, recording, series[way])
        for field, recording, series in (
            ("rate_bps", rate, rate.rate if rate else {}),
            ("delay_ns", delay, delay.delay if delay else {}),
            ("loss_ppb", loss, loss.loss if loss else {}),
        )
        if recording is not None
    ]
    if not parts:
        return None
    length = min(recording.length_ns for _, recording, _ in parts)
    steps: dict[int, dict[str, int]] = {}
    for field, _, series in parts:
        for at, value in _changes(series, length):
            steps.setdefault(at, {})[field] = value
    hold = any(recording.hold for _, recording, _ in parts)
    return Schedule(
        steps=tuple(Step(at_ns=at, **steps[at]) for at in sorted(steps)),
        period_ns=None if hold else length,
        anywhere=any(recording.anywhere for _, recording, _ in parts),
    )


def _changes(series: Series, length_ns: int) -> Iterator[tuple[int, int]]:
    """The entries of a series that differ from the one before; the first holds from 0 on."""
    before: int | None = None
    for at, value in series:
        if at >= length_ns:
            return
        if value != before:
            yield (0 if before is None else at), value
        before = value
