"""Events of a dynamic that make a subflow harmful, and the time until guard demoted it.

Not a benchmark. Harm is what fullmesh gains from doing without the subflow from the event on; a subflow that
was harmful before the event does not count, nor one that guard does not use then.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from benchmarks.decision._dynamics import Dynamic
from mptune.trial import Observation

#: Gain without a subflow from which on it is harmful, and how long it may stay so, s.
HARM = 0.10
DEMOTED_S = 3.0
#: Time after an event in which its harm is measured, s, and the part left out at its beginning.
HARM_S = 12.0
BEGINNING_S = 2.0
_SECOND = 10**9
_BIN_S = 0.1


class Demotion(msgspec.Struct, frozen=True):
    """A subflow that an event made harmful while guard used it.

    Attributes
    ----------
    gain : of the connection without it, from the event on.
    after_s : from the event until guard demoted it; None if it did not before the next event.
    """

    event: str
    gain: float
    after_s: float | None


class Change(NamedTuple):
    """Guard changed the role of a path's subflow."""

    at_s: float
    path: str
    role: str


#: The gain without the subflow of an event, by its number; None if the event makes it no more harmful.
Harm = Callable[[int], float | None]


def changes(observation: Observation) -> list[Change]:
    """The changes that guard made, in order of time."""
    changes = []
    for change in filter(None, str(observation.metadata.get("path_manager_changes", "")).split(", ")):
        at, path, role = change.replace(" ms: ", " ").split(" ")
        changes.append(Change(float(at) / 1e3, path, role))
    return changes


def harm(dynamic: Dynamic, whole: Sequence[int], without: Callable[[str, int], Sequence[int]]) -> Harm:
    """The effect of a dynamic's events on fullmesh.

    Parameters
    ----------
    whole : its bytes in each bin.
    without : the same if a path carries nothing from some time (ns) on.
    """

    def gain(label: str, from_ns: int, from_s: float, to_s: float) -> float:
        part, all_of_them = (_rate(bins, from_s, to_s) for bins in (without(label, from_ns), whole))
        return part / all_of_them - 1 if all_of_them else float(part > 0) * 10

    def of(number: int) -> float | None:
        event = dynamic.events[number]
        at_s, label = event.at_ns / _SECOND, dynamic.topology.paths[event.path].label
        until_s = min(_ends(dynamic)[number], at_s + HARM_S)
        if until_s - at_s < 2 * BEGINNING_S or "dies" in event.words:
            return None
        after = gain(label, event.at_ns, at_s + BEGINNING_S, until_s)
        return after if after > HARM and gain(label, 0, max(0.0, at_s - HARM_S), at_s) <= HARM else None

    return of


def demotions(dynamic: Dynamic, done: Sequence[Change], harm: Harm) -> Iterator[Demotion]:
    """Time at which guard demoted the subflow that an event made harmful, if it used it then."""
    for number, (event, end_s) in enumerate(zip(dynamic.events, _ends(dynamic), strict=False)):
        at_s, label = event.at_ns / _SECOND, dynamic.topology.paths[event.path].label
        roles = [role for when, path, role in done if path == label and when <= at_s]
        if roles and roles[-1] == "standby":
            continue
        gain = harm(number)
        if gain is None:
            continue
        off = (
            when - at_s
            for when, path, role in done
            if path == label and role == "standby" and at_s < when <= end_s
        )
        yield Demotion(event.words, gain, next(off, None))


def demoted(demotions: Sequence[Demotion]) -> str:
    """Their number and delays, in a line."""
    times = [demotion.after_s for demotion in demotions if demotion.after_s is not None]
    middle = f", median of these {statistics.median(times):.1f} s" if times else ""
    return (
        f"Subflows made harmful by an event: {len(demotions)}; demoted within {DEMOTED_S:.0f} s "
        f"{sum(time <= DEMOTED_S for time in times)}, before the next event {len(times)}{middle}."
    )


def _ends(dynamic: Dynamic) -> list[float]:
    """End of each event, s: the next event."""
    return [event.at_ns / _SECOND for event in dynamic.events[1:]] + [dynamic.duration_ns / _SECOND]


def _rate(bins: Sequence[int], from_s: float, to_s: float) -> float:
    """Bytes per bin between two times."""
    part = bins[int(from_s / _BIN_S) : int(to_s / _BIN_S)]
    return statistics.mean(part) if part else 0.0
