"""Kinds of divergence: hints by rules, with their evidence.

Each rule looks at a short time before and after, where causes precede: the first that holds is named. They
show where to look, no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from typing import Any, Literal

import msgspec

from mptune.capture.divergence._bands import Side
from mptune.capture.series import STEP_S, Curves, Subflow

Array = Any

Name = Literal[
    "start of the subflow",
    "RTO timing",
    "slow start exit",
    "queue overflow",
    "loss recovery",
    "window-limited",
    "memory/accounting",
    "ACK behaviour",
    "congestion window",
    "scheduler's choice",
    "unknown",
]

#: Time before and after the difference that the rules examine, seconds.
BEFORE_S, AFTER_S = 0.2, 0.1
#: Two events this close are the same one, seconds.
_SAME_S = 0.05
#: The silence that one side breaks earlier shows this long before, seconds.
_AHEAD_S = 0.1
#: A side is limited by a window if it has less room than this many segments for this share of the time.
_ROOM_SEGMENTS, _SHARE = 2, 0.3
#: Ratios of acknowledgements to packets that differ by this factor are different behaviour.
_RATIO = 1.3
#: Part of the congestion window that must be in use for it to be what limits.
_USED = 0.8


class Kind(msgspec.Struct, frozen=True):
    """A kind of difference, and what speaks for it."""

    name: Name
    evidence: str


class _Scene:
    """Both sides around a time on one subflow; without one on that which has carried most."""

    def __init__(self, reference: Side, other: Side, subflow: str, quantity: str, at_s: float) -> None:
        self.sides, self.subflow, self.quantity, self.at_s = (reference, other), subflow, quantity, at_s
        self.low, self.high = max(0.0, at_s - BEFORE_S), at_s + AFTER_S
        self.flows = [side.of(subflow) for side in self.sides]

    def counts(self, events: Callable[[Subflow], Array], low: float, high: float) -> list[float]:
        """Number of events in a time, the median of each side's runs."""
        return [
            median([int(((events(flow) >= low) & (events(flow) <= high)).sum()) for flow in flows] or [0])
            for flows in self.flows
        ]

    def first(self, events: Callable[[Subflow], Array], high: float) -> list[float | None]:
        """The first event up to a time, median of each side's runs that have one; None if most have none."""
        values: list[float | None] = []
        for flows in self.flows:
            firsts = [float(at[0]) for flow in flows if len(at := events(flow)) and at[0] <= high]
            values.append(median(firsts) if 2 * len(firsts) > len(flows) else None)
        return values

    def mean(self, values: Callable[[Curves, Subflow], Array]) -> list[float]:
        """Mean over the time around, the median of each side's runs."""
        import numpy as np

        low, high = int(self.low / STEP_S), int(self.high / STEP_S) + 1
        samples = []
        for side in self.sides:
            means = [
                float(np.nanmean(part))
                for run in side.runs
                if self.subflow in run.subflows
                and np.isfinite(part := values(run, run.subflows[self.subflow])[low:high]).any()
            ]
            samples.append(median(means) if means else float("nan"))
        return samples

    def words(self, values: list[float | None] | list[float], text: str) -> str:
        """Both sides' values in words: "kernel 0.31 s, simulated none"."""
        texts = [text.format(value) if value is not None else "none" for value in values]
        return ", ".join(f"{side.name} {name}" for side, name in zip(self.sides, texts, strict=True))


def kind_of(reference: Side, other: Side, subflow: str, quantity: str, at_s: float) -> Kind:
    """The kind that a difference resembles."""
    name = subflow or _busiest(reference)
    scene = _Scene(reference, other, name, quantity, at_s)
    if not all(scene.flows):
        return Kind("start of the subflow", f"one side has no subflow {name}")
    for kind in _rules(scene):
        if kind is not None:
            return kind
    return Kind("unknown", "no rule holds: see the table and the figure")


def _busiest(side: Side) -> str:
    run = side.runs[0]
    return max(run.subflows, key=lambda name: float(run.subflows[name].delivered[-1]))


def _rules(scene: _Scene) -> Iterator[Kind | None]:
    yield _start(scene)
    yield _timeouts(scene)
    yield _losses(scene)
    yield _slow_start(scene)
    yield _recovery(scene)
    yield _window(scene)
    yield _memory(scene)
    yield _acknowledgements(scene)
    yield _congestion_window(scene)
    yield _choice(scene)


def _differ(values: list[float | None], by: float) -> bool:
    """One has none, or they are further apart."""
    number, two = values
    if number is None or two is None:
        return (number is None) != (two is None)
    return abs(number - two) > by


def _start(scene: _Scene) -> Kind | None:
    """The subflow began to carry data at another time."""
    import numpy as np

    firsts = scene.first(
        lambda subflow: np.array([] if subflow.first_data is None else [subflow.first_data]),
        scene.high + _SAME_S,
    )
    if _differ(firsts, _SAME_S / 2):
        return Kind("start of the subflow", scene.words(firsts, "{:.3f} s") + " for its first data")
    return None


def _timeouts(scene: _Scene) -> Kind | None:
    """A segment is sent again after silence, on one side or at another time."""
    low, high = scene.low, scene.at_s + _SAME_S + _AHEAD_S
    firsts = scene.first(lambda subflow: subflow.timeouts[subflow.timeouts >= low], high)
    if _differ(firsts, _SAME_S):
        return Kind("RTO timing", "sent again after silence: " + scene.words(firsts, "at {:.3f} s"))
    return None


def _losses(scene: _Scene) -> Kind | None:
    """A queue overflows or a wire loses packets, on one side, or at another time."""
    low = scene.low - _SAME_S
    ever = scene.first(lambda subflow: subflow.drops, scene.high)
    now = scene.first(lambda subflow: subflow.drops[subflow.drops >= low], scene.high)
    if not _differ(now, _SAME_S):
        return None
    first_of_all = [number is None or number >= low for number in ever]
    evidence = "first packet lost: " + scene.words(now, "at {:.3f} s")
    return Kind("slow start exit" if all(first_of_all) else "queue overflow", evidence)


def _slow_start(scene: _Scene) -> Kind | None:
    """The threshold was set without a loss, as HyStart does, on one side or at another time."""
    import numpy as np

    def set_at(subflow: Subflow) -> Array:
        return np.flatnonzero(np.isfinite(subflow.ssthresh)) * STEP_S

    firsts = scene.first(set_at, scene.high)
    if _differ(firsts, _SAME_S) and any(first is None or first >= scene.low - _SAME_S for first in firsts):
        return Kind("slow start exit", "slow-start threshold set: " + scene.words(firsts, "at {:.3f} s"))
    return None


def _recovery(scene: _Scene) -> Kind | None:
    """Both repeat what was lost, but not alike."""
    retransmitted = scene.counts(lambda subflow: subflow.repeats, scene.low - BEFORE_S, scene.high)
    if max(retransmitted) == 0:
        return None
    evidence = scene.words(retransmitted, "{:.0f}") + " segments sent again in the 0.5 s around"
    lost = scene.counts(lambda subflow: subflow.drops, scene.low - BEFORE_S, scene.high)
    return Kind("loss recovery", f"{evidence}; lost: " + scene.words(lost, "{:.0f}"))


def _limited(run: Curves) -> Array:
    """Times at which the receiver's window has no room."""
    import numpy as np

    room = _ROOM_SEGMENTS * run.segment
    with np.errstate(invalid="ignore"):
        return np.where(np.isnan(run.window), np.nan, (run.window < room).astype("f8"))


def _window(scene: _Scene) -> Kind | None:
    shares = scene.mean(lambda run, one: _limited(run))
    if abs(shares[0] - shares[1]) > _SHARE or min(shares) > _SHARE:
        return Kind("window-limited", "no room in the window: " + scene.words(shares, "{:.0%} of the time"))
    return None


def _memory(scene: _Scene) -> Kind | None:
    """Neither the congestion window nor the receiver's is full, on one side: something else holds back."""

    def used(run: Curves, subflow: Subflow) -> Array:
        return subflow.inflight / (subflow.cwnd * run.segment)

    shares = scene.mean(used)
    if (shares[0] < _USED) != (shares[1] < _USED) and abs(shares[0] - shares[1]) > 1 - _USED:
        used_share = scene.words(shares, "{:.0%}")
        evidence = f"congestion window in use: {used_share}, with room in the receiver's window"
        return Kind("memory/accounting", evidence)
    return None


def _acknowledgements(scene: _Scene) -> Kind | None:
    acks = scene.counts(lambda subflow: subflow.acks_at, scene.low - BEFORE_S, scene.high)
    data = scene.counts(lambda subflow: subflow.arrived_at, scene.low - BEFORE_S, scene.high)
    if min(*acks, *data) < 10:
        return None
    ratios = [a / d for a, d in zip(acks, data, strict=True)]
    if max(ratios) > _RATIO * min(ratios):
        return Kind("ACK behaviour", "acknowledgements per packet: " + scene.words(ratios, "{:.2f}"))
    return None


def _congestion_window(scene: _Scene) -> Kind | None:
    windows = scene.mean(lambda run, subflow: subflow.cwnd)
    if abs(windows[0] - windows[1]) > 0.1 * max(windows):
        return Kind("congestion window", "it grows differently: " + scene.words(windows, "{:.0f} segments"))
    return None


def _choice(scene: _Scene) -> Kind | None:
    """As much is sent in all, but on other subflows."""
    import numpy as np

    if scene.quantity not in ("assigned", "inflight", "delivered") or len(scene.sides[0].subflows) < 2:
        return None
    index = min(int(scene.high / STEP_S), len(scene.sides[0].runs[0].times) - 1)
    totals = [
        float(
            np.median(
                [sum(subflow.assigned[index] for subflow in run.subflows.values()) for run in side.runs]
            )
        )
        for side in scene.sides
    ]
    if abs(totals[0] - totals[1]) <= 0.05 * max(totals):
        return Kind("scheduler's choice", "as much was sent in all, on other subflows")
    return None
