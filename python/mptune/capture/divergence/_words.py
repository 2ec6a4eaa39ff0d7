"""A divergence in words and in a small table."""

from __future__ import annotations

import math
from statistics import median
from typing import Any

import msgspec

from mptune.capture.divergence._bands import SUMS, Side
from mptune.capture.divergence._finding import Departure, Divergence
from mptune.capture.series import STEP_S

#: Extent of the table around the difference, and its steps, seconds.
_AROUND_S, _TABLE_STEP_S = 0.2, 0.05

#: Packets that follow within this time were sent at once, seconds.
_AT_ONCE_S = 30e-6

#: Names of quantities, and their units with the factor from bytes or seconds.
_NAMES = {
    "assigned": ("data given to", "KiB", 1 / 1024),
    "inflight": ("data in flight on", "KiB", 1 / 1024),
    "rtt": ("the round-trip time on", "ms", 1e3),
    "delivered": ("data delivered on", "KiB", 1 / 1024),
    "in_order": ("data in order on", "KiB", 1 / 1024),
}


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """Both sides at one time: the median of the runs of each; None where nothing is known.

    Sizes in KiB, times in ms, the congestion window in segments; `delivered`, `assigned`, `burst` (packets
    sent at once, on average), `lost` and `repeated` since the moment before.
    """

    at_s: float
    side: str
    inflight_kib: float | None
    cwnd: float | None
    rtt_ms: float | None
    delivered_kib: float | None
    assigned_kib: float | None
    window_kib: float | None
    burst: float | None
    lost: int
    repeated: int


def unit_of(quantity: str) -> tuple[str, float]:
    """Unit of a quantity, and the factor to it."""
    _, unit, factor = _NAMES[quantity]
    return unit, factor


def paragraph(divergence: Divergence, reference: Side, other: Side) -> str:
    """The difference in words: time, place, quantity, probable cause, and its evidence."""
    ours, theirs = reference.recording.about, other.recording.about
    runs = f"{len(reference.runs)} {'run' if len(reference.runs) == 1 else 'runs'}"
    what = (
        f"{divergence.other} ({theirs.release}) against {runs} of {divergence.reference} ({ours.release}) "
        f"on {ours.topology}, {ours.trial['pm']}, {ours.trial['cc']}"
    )
    alike = (
        ""
        if divergence.alike_until_s is None
        else f" The {runs} of {divergence.reference} stay together until {divergence.alike_until_s:.3f} s; "
        "differences as large as theirs do not count from then on."
    )
    if divergence.first is None or divergence.kind is None:
        end = reference.runs[0].times[-1]
        return f"{what}: no divergence in {end:g} s.{alike}"
    first = divergence.first
    return (
        f"{what}: first divergence at {first.at_s:.3f} s, {_described(first)}: "
        f"{_values(first, reference, other)}. "
        f"It looks like {divergence.kind.name} ({divergence.kind.evidence}).{alike}"
    )


def _described(departure: Departure) -> str:
    name = _NAMES[departure.quantity][0]
    return f"{name} {departure.subflow or 'the connection'}"


def _values(departure: Departure, reference: Side, other: Side) -> str:
    """Both sides' values just after it began: "kernel 102-110 KiB, simulated 151 KiB"."""
    unit, factor = unit_of(departure.quantity)
    index = min(int((departure.at_s + 0.05) / STEP_S), len(reference.runs[0].times) - 1)
    if departure.quantity in SUMS:
        unit += f" in the last {reference.recent_s(departure.subflow):.2g} s"
    parts = []
    for side in (reference, other):
        values = side.lately(departure.subflow, departure.quantity)[:, index] * factor
        ends = [f"{value:.4g}" for value in (values.min(), values.max())]
        parts.append(f"{side.name} {ends[0] if ends[0] == ends[1] else '-'.join(ends)} {unit}")
    return ", ".join(parts) + f" at {index * STEP_S:.3f} s"


def table_around(divergence: Divergence, reference: Side, other: Side) -> list[Moment]:
    """Both sides around the first divergence, moment by moment; empty without one."""
    if divergence.first is None:
        return []
    first = divergence.first
    subflow = first.subflow or max(
        reference.runs[0].subflows, key=lambda name: float(reference.runs[0].subflows[name].delivered[-1])
    )
    end_s = reference.runs[0].times[-1]
    low = max(0.0, first.at_s - _AROUND_S)
    count = round(2 * _AROUND_S / _TABLE_STEP_S) + 1
    times = [low + number * _TABLE_STEP_S for number in range(count)]
    return [_moment(side, subflow, at_s) for at_s in times if at_s <= end_s for side in (reference, other)]


def _moment(side: Side, subflow: str, at_s: float) -> Moment:
    index = round(at_s / STEP_S)
    before = max(index - round(_TABLE_STEP_S / STEP_S), 0)
    low_s, high_s = before * STEP_S, index * STEP_S
    flows = [(run, run.subflows[subflow]) for run in side.runs if subflow in run.subflows]

    def middle(values: list[Any], factor: float = 1.0) -> float | None:
        known = [float(value) for value in values if math.isfinite(value)]
        return median(known) * factor if known else None

    def count(name: str) -> int:
        events = [getattr(flow, name) for _, flow in flows]
        return round(median([int(((at > low_s) & (at <= high_s)).sum()) for at in events] or [0]))

    kib = 1 / 1024
    return Moment(
        at_s=high_s,
        side=side.name,
        inflight_kib=middle([flow.inflight[index] for _, flow in flows], kib),
        cwnd=middle([flow.cwnd[index] for _, flow in flows]),
        rtt_ms=middle([flow.rtt[index] for _, flow in flows], 1e3),
        delivered_kib=middle([flow.delivered[index] - flow.delivered[before] for _, flow in flows], kib),
        assigned_kib=middle([flow.assigned[index] - flow.assigned[before] for _, flow in flows], kib),
        window_kib=middle([run.window[index] for run, _ in flows], kib),
        burst=middle([_burst(flow.sent_at, low_s, high_s) for _, flow in flows]),
        lost=count("drops"),
        repeated=count("repeats"),
    )


def _burst(sent_at: Any, low_s: float, high_s: float) -> float:
    """Packets per burst; NaN if none was sent."""
    import numpy as np

    within = sent_at[(sent_at > low_s) & (sent_at <= high_s)]
    bursts = 1 + int((np.diff(within) > _AT_ONCE_S).sum())
    return len(within) / bursts if len(within) else math.nan
