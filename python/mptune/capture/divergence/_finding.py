"""The first time at which one side leaves the other's band, by more than a tolerance and for some time."""

from __future__ import annotations

from typing import Any

import msgspec

from mptune.capture.divergence._bands import OF_CONNECTION, OF_SUBFLOWS, Side, band, chance
from mptune.capture.divergence._kinds import Kind, kind_of
from mptune.capture.series import STEP_S
from mptune.errors import InputError

Array = Any

#: A difference in time of this share of the path's RTT is none, within limits (seconds).
_LAG_OF_RTT, _LEAST_LAG_S, _MOST_LAG_S = 0.25, 0.005, 0.025
#: Time for which the effect of chance counts afterwards, seconds.
_MEMORY_S = 0.25
#: A tolerance is at least this many segments, and of an RTT this many seconds.
_SEGMENTS, _LEAST_RTT_S = 4, 0.002


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Thresholds above which a difference counts.

    Attributes
    ----------
    tolerance : share of the reference's value.
    span_s : a difference lasts at least this long, or one RTT of its path.
    """

    tolerance: float = 0.1
    span_s: float = 0.05


class Departure(msgspec.Struct, frozen=True, kw_only=True):
    """First departure of a quantity from the reference's band.

    Attributes
    ----------
    subflow : its name; empty for the whole connection.
    excess : by how much more than allowed, as a multiple of what is allowed, at the most within the span.
    """

    subflow: str
    quantity: str
    at_s: float
    excess: float


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """The answer.

    Attributes
    ----------
    reference, other : names of the sides.
    first : the earliest departure; None if there is none.
    all : the first departure of each quantity, in order of time.
    kind : what it looks like, and why; None without a departure.
    alike_until_s : until when the reference's own runs stay together; None if they always do, or for one.
    """

    reference: str
    other: str
    first: Departure | None
    all: tuple[Departure, ...]
    kind: Kind | None
    alike_until_s: float | None


def find(reference: Side, other: Side, limits: Limits | None = None) -> Divergence:
    """Compare two sides.

    Parameters
    ----------
    reference : usually the kernel, with several runs: what they do not agree on is chance.

    Raises
    ------
    InputError : they are not of the same paths.
    """
    limits = limits or Limits()
    ours, theirs = reference.recording.about, other.recording.about
    if ours.paths != theirs.paths:
        paths = " and ".join(", ".join(about.paths) for about in (ours, theirs))
        raise InputError(other.name, "", f"expected recordings of the same paths, found {paths}")
    departures = sorted(
        (
            candidate
            for subflow, quantity in _compared(reference, other)
            if (candidate := _departure(reference, other, subflow, quantity, limits)) is not None
        ),
        key=lambda departure: (departure.at_s, (*OF_SUBFLOWS, *OF_CONNECTION).index(departure.quantity)),
    )
    first = departures[0] if departures else None
    return Divergence(
        reference=reference.name,
        other=other.name,
        first=first,
        all=tuple(departures),
        kind=None if first is None else kind_of(reference, other, first.subflow, first.quantity, first.at_s),
        alike_until_s=_alike_until(reference, limits),
    )


def _compared(reference: Side, other: Side) -> list[tuple[str, str]]:
    names = tuple(dict.fromkeys((*reference.subflows, *other.subflows)))
    of_subflows = [(name, quantity) for name in names for quantity in OF_SUBFLOWS]
    return [*of_subflows, *(("", quantity) for quantity in OF_CONNECTION)]


def lag_of(side: Side, subflow: str) -> float:
    """Tolerated time shift: the same value this much earlier or later is no difference."""
    return min(max(_LAG_OF_RTT * side.rtt_s(subflow), _LEAST_LAG_S), _MOST_LAG_S)


def _departure(reference: Side, other: Side, subflow: str, quantity: str, limits: Limits) -> Departure | None:
    import numpy as np

    lag_s = lag_of(reference, subflow)
    rows = reference.lately(subflow, quantity)
    mine = band(rows, lag_s)
    apart = mine.distance(band(other.lately(subflow, quantity), 0.0))
    allowed = _allowed(reference, quantity, mine.high, limits) + chance(rows, lag_s, _MEMORY_S)
    with np.errstate(invalid="ignore"):
        exceeds = apart > allowed
    span = max(limits.span_s, reference.rtt_s(subflow))
    index = _first_run(exceeds, max(round(span / STEP_S), 1))
    if index is None:
        return None
    stop = index + max(round(span / STEP_S), 1)
    excess = float(np.nanmax(apart[index:stop] / allowed[index:stop]))
    return Departure(subflow=subflow, quantity=quantity, at_s=float(index * STEP_S), excess=excess)


def _allowed(reference: Side, quantity: str, high: Array, limits: Limits) -> Array:
    """The tolerance over time."""
    import numpy as np

    if quantity == "rtt":
        return np.maximum(limits.tolerance * np.nan_to_num(high), _LEAST_RTT_S)
    return np.maximum(limits.tolerance * high, _SEGMENTS * reference.runs[0].segment)


def _first_run(flags: Array, length: int) -> int | None:
    """Index of the first run of at least this many true values."""
    import numpy as np

    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    starts, ends = edges[::2], edges[1::2]
    long = np.flatnonzero(ends - starts >= length)
    return int(starts[long[0]]) if len(long) else None


def _alike_until(reference: Side, limits: Limits) -> float | None:
    """Time at which the reference's own runs part: one of them leaves the band of the others."""
    import numpy as np

    times = []
    for subflow, quantity in _compared(reference, reference):
        lag_s = lag_of(reference, subflow)
        rows = reference.lately(subflow, quantity)
        own = chance(rows, lag_s, 0.0)
        with np.errstate(invalid="ignore"):
            exceeds = own > _allowed(reference, quantity, band(rows, lag_s).high, limits)
        span = max(limits.span_s, reference.rtt_s(subflow))
        index = _first_run(exceeds, max(round(span / STEP_S), 1))
        if index is not None:
            times.append(index * STEP_S)
    return min(times, default=None)
