"""The rounds of a main job that is repeated over time: what each answered, and what changed in between.

It compares answers and puts the difference into sentences; `mptune.campaign.execution` runs the rounds.
"""

from collections.abc import Iterator, Sequence

import msgspec

from mptune._text import digits
from mptune.decision import Decision
from mptune.decision.selection import Optimum
from mptune.impact import Impact
from mptune.statistics import Summary
from mptune.units import MIB


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of one round.

    Attributes
    ----------
    subflows : labels of those that carry data.
    confirmed, gain : throughput with new seeds, and what it is more than the default's, Mbit/s.
    """

    decision: Decision
    optimum: Optimum
    buffer_bytes: int
    subflows: tuple[str, ...]
    impacts: tuple[Impact, ...]
    confirmed: Summary | None
    gain: Summary | None


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One round.

    Attributes
    ----------
    number : from 0.
    at_ns : when it was due, nanoseconds after the first.
    answered : None if its trials gave no answer, for the reason in `failed`.
    changes : what is different from the last answer before, and why, in sentences; empty if nothing is, and
        in the first round.
    """

    number: int
    at_ns: int
    answered: Answered | None
    failed: str = ""
    changes: tuple[str, ...] = ()


def changes(before: Answered, now: Answered) -> tuple[str, ...]:
    """Differences from an earlier answer, with their reasons.

    A buffer counts as another one where it is outside the 95 % interval of the earlier one (without an
    interval, if it differs by more than a tenth): two rounds never choose the same byte.
    """
    what = list(_differences(before, now))
    if not what:
        return ()
    return (f"{'; '.join(what)}.", *_reasons(before, now))


def _differences(before: Answered, now: Answered) -> Iterator[str]:
    """Parts of the answer that differ, as phrases."""
    old, new = before.optimum, now.optimum
    for name, was, is_ in (
        ("path manager", old.pm, new.pm),
        ("congestion control", old.cc, new.cc),
        ("initial path", old.initial_path or "any", new.initial_path or "any"),
        ("subflows", ", ".join(before.subflows), ", ".join(now.subflows)),
    ):
        if was != is_:
            yield f"{name} {is_} instead of {was}"
    if _is_another_buffer(before, now):
        yield f"buffer {now.buffer_bytes / MIB:.2f} instead of {before.buffer_bytes / MIB:.2f} MiB"


def _is_another_buffer(before: Answered, now: Answered) -> bool:
    uncertainty, buffer_mib = before.decision.uncertainty, now.optimum.buffer_mib
    if uncertainty is None:
        return abs(buffer_mib - before.optimum.buffer_mib) > before.optimum.buffer_mib / 10
    low, high = uncertainty.obs_mib
    return not low <= buffer_mib <= high


def _reasons(before: Answered, now: Answered) -> Iterator[str]:
    """Why: what the earlier answer would give now, and impact factors that changed their sign."""
    curve = now.decision.response.curves.get(before.optimum.combination)
    if curve is not None:
        would = curve.predict(before.optimum.buffer_mib)
        yield (
            f"The earlier answer would give {digits(would)} Mbit/s now, and gave "
            f"{digits(before.optimum.throughput_mbps)}; this one gives {digits(now.optimum.throughput_mbps)}."
        )
    yield from _moved(before.impacts, now.impacts)


def _moved(before: Sequence[Impact], now: Sequence[Impact]) -> Iterator[str]:
    """Subflows that moved between the optional and the standby set, with their impact factors."""
    earlier = {each_impact.cc: each_impact for each_impact in before}
    for impact in now:
        old = earlier.get(impact.cc)
        if old is None:
            continue
        was = {path.path: path.omega.mean for path in old.paths if path.omega is not None}
        for path in impact.paths:
            optional = path.path in impact.sets.optional
            if optional == (path.path in old.sets.optional) or path.omega is None or path.path not in was:
                continue
            yield (
                f"Under {impact.cc} {path.path} now {'carries data' if optional else 'is on standby'}: its "
                f"impact factor is {path.omega.mean:.2f} and was {was[path.path]:.2f}."
            )
