"""What a link does to packets, and the background traffic, in words: for listing a topology.

Nothing is decided here; the numbers are in `_effects`.
"""

from __future__ import annotations

from mptune import units
from mptune.topology._effects import (
    Aqm,
    Background,
    Codel,
    FqCodel,
    GilbertElliott,
    Red,
    Schedule,
    StepMarking,
    UdpBackground,
)
from mptune.topology._network import Link

#: Significant digits.
_DIGITS = 4
_WHOLE = units.FRACTIONS[""]


def effects(link: Link) -> list[str]:
    """Each effect of a link; empty if it has none."""
    has, found = link.effects, []
    if has.trace_ms is not None and link.rate_bps is not None:
        found.append(f"rate trace, {_rate(link.rate_bps)} on average, {_every(has.trace_ms[-1] * 10**6)}")
    if has.schedule is not None:
        found.append(_schedule(has.schedule, link))
    if has.bucket is not None:
        found.append(f"token bucket, {_rate(has.bucket.rate_bps)} and {_size(has.bucket.burst_bytes)}")
    if has.aqm is not None:
        found.append(_aqm(has.aqm))
    if has.gilbert_elliott is not None:
        found.append(_gilbert_elliott(has.gilbert_elliott))
    if has.reorder is not None:
        late = units.format_fraction(has.reorder.probability_ppb, _DIGITS)
        found.append(f"{late} of the packets {_time(has.reorder.delay_ns)} late")
    if has.duplicate_ppb:
        found.append(f"{units.format_fraction(has.duplicate_ppb, _DIGITS)} of the packets twice")
    return found


def background(flow: Background) -> str:
    """A background flow."""
    if isinstance(flow, UdpBackground):
        what = f"UDP on {flow.link}, {_rate(flow.rate_bps)} in packets of {flow.packet_bytes} bytes"
        if flow.on_off is not None:
            periods = f"{_time(flow.on_off.on_ns)} on, {_time(flow.on_off.off_ns)} off"
            mean = " on average" if flow.on_off.lengths == "exponential" else ""
            what += f", {periods}{mean}"
    else:
        what = f"TCP on {flow.path}, {flow.cc}"
    start = f", from {_time(flow.start_ns)}" if flow.start_ns else ""
    return what + start + (f", until {_time(flow.stop_ns)}" if flow.stop_ns is not None else "")


def _schedule(schedule: Schedule, link: Link) -> str:
    count = len(schedule.steps)
    what = f"schedule of {count} step{'s' if count > 1 else ''}"
    if schedule.period_ns is not None:
        what += f" {_every(schedule.period_ns)}"
    if link.rate_bps is not None and any(step.rate_bps is not None for step in schedule.steps):
        mean = schedule.mean(link.rate_bps, lambda step: step.rate_bps)
        what += f", {_rate(mean)} in the long run"
    return what


def _aqm(aqm: Aqm) -> str:
    match aqm:
        case Red():
            name = f"RED, {_size(aqm.min_bytes)} to {_size(aqm.max_bytes)}"
        case StepMarking():
            return f"ECN marks above {_size(aqm.mark_bytes)}"
        case Codel():
            name = f"CoDel, {_time(aqm.target_ns)} in {_time(aqm.interval_ns)}"
        case FqCodel():
            name = f"FQ-CoDel, {_time(aqm.target_ns)} in {_time(aqm.interval_ns)}, {aqm.queues} queues"
    return f"{name}, {'marks ECN' if aqm.ecn else 'drops'}"


def _gilbert_elliott(chain: GilbertElliott) -> str:
    mean = units.format_fraction(chain.mean_loss_ppb, _DIGITS)
    run = _WHOLE / chain.leave_ppb
    return f"Gilbert-Elliott losses, {mean} on average, bad for {run:.3g} packets at a time"


def _every(period_ns: int) -> str:
    return f"repeating every {_time(period_ns)}"


def _rate(bps: int) -> str:
    return units.format_rate(bps, _DIGITS)


def _time(ns: int) -> str:
    return units.format_time(ns, _DIGITS)


def _size(size: int) -> str:
    return units.format_size(size, _DIGITS)
