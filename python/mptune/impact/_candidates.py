"""Sets of subflows that are worth comparing, from the impact factors of one congestion control.

The impact factor of a subflow is measured while all others carry data; it does not show what several of them
do without the others. So the sets compete, and fewer of them where the factors can be believed. Nothing is
measured here.
"""

from collections.abc import Iterator, Sequence

import msgspec

from mptune.impact._result import Impact, SubflowSets
from mptune.topology import Topology


def candidates(impact: Impact, topology: Topology) -> tuple[SubflowSets, ...]:
    """Sets to compare, each with a name; no two have the same optional set, and there is at least one.

    Always the set that follows from the signs ("sign"), "all", "single", the subflow that delivered most, and
    "disjoint", the best subflows of which no two share an interface (one-to-one, as `laminar` endpoints open
    them). Where the factors are plausible, also the sign set with the next best subflow ("sign + K-C") and
    without its worst ("sign - T-CU"); where they are not, the best subflows by impact factor: "top 1", "top
    2" and so on. Of several names for one set the first in this order stays.
    """
    labels = [path.label for path in topology.paths]
    ranked = _ranked(impact, labels)
    nearby = _neighbours(impact, ranked) if impact.plausible else _nested(ranked)
    named = [
        ("sign", impact.sets.optional),
        ("all", tuple(labels)),
        ("single", (_single(impact, ranked),)),
        *nearby,
        ("disjoint", _disjoint(topology, ranked)),
    ]
    by_set: dict[frozenset[str], SubflowSets] = {}
    for name, active in named:
        by_set.setdefault(frozenset(active), _set(impact, labels, ranked, name, active))
    return tuple(by_set.values())


def _ranked(impact: Impact, labels: Sequence[str]) -> list[str]:
    """Subflows by falling impact factor; one that could not be measured counts as 0."""
    means = {path.path: path.omega.mean for path in impact.paths if path.omega is not None}
    return sorted(labels, key=lambda label: -means.get(label, 0.0))


def _single(impact: Impact, ranked: Sequence[str]) -> str:
    """The subflow that delivered most while all carried data; the best by impact factor if none is known."""
    carried = {path.path: path.carried_mbps or 0.0 for path in impact.paths}
    return max(ranked, key=lambda label: carried.get(label, 0.0))


def _disjoint(topology: Topology, ranked: Sequence[str]) -> tuple[str, ...]:
    """The subflows by falling impact factor, without those that share an interface with one before."""
    paths = {path.label: path for path in topology.paths}
    taken: list[str] = []
    here: set[int] = set()
    there: set[int] = set()
    for label in ranked:
        path = paths[label]
        if path.local_index not in here and path.remote_index not in there:
            taken.append(label)
            here.add(path.local_index)
            there.add(path.remote_index)
    return tuple(taken)


def _nested(ranked: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The best subflow, the two best, and so on, without the set of all."""
    for size in range(1, len(ranked)):
        yield f"top {size}", tuple(ranked[:size])


def _neighbours(impact: Impact, ranked: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The sign set with one more subflow, and with one fewer."""
    optional = impact.sets.optional
    outside = [label for label in ranked if label not in optional]
    if outside:
        yield f"sign + {outside[0]}", (*optional, outside[0])
    inside = [label for label in ranked if label in optional]
    if len(inside) > 1:
        yield f"sign - {inside[-1]}", tuple(inside[:-1])


def _set(
    impact: Impact, labels: Sequence[str], ranked: Sequence[str], name: str, active: Sequence[str]
) -> SubflowSets:
    """A partition with these active subflows; the others are on standby, best impact factor first."""
    return msgspec.structs.replace(
        impact.sets,
        name=name,
        optional=tuple(label for label in labels if label in active),
        standby=tuple(label for label in ranked if label not in active),
        fallback=impact.sets.fallback and name == "sign",
    )
