"""Routes of all paths at one time, and the changes from one time to the next.

A router that does not answer now and then is no change: only two different addresses at the same place,
another number of hops, or another end of the route.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from mptune.probe.ends import ENDS, End, Hop, Route
from mptune.probe.routes import TO, Crossing, SharedHop, crossings, shared_hops
from mptune.topology import Topology

#: Why a route was not traced although its path exists.
NO_DATAGRAMS = "no datagram comes through"


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Routes of the paths at one time.

    Attributes
    ----------
    at : when they were traced, ISO 8601 with the time zone.
    routes : by the end that sends, and the path's label.
    failed : why none was traced.
    """

    at: str
    routes: dict[End, dict[str, Route]] = {}
    failed: str | None = None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A route that was another one before, or that begins or ceases to be known.

    Attributes
    ----------
    at : of the first snapshot with the new route.
    end : the end that sends.
    """

    at: str
    end: End
    path: str
    before: Route
    after: Route


def changes(snapshots: Iterable[Snapshot]) -> list[Change]:
    """Every change, in the order of time; those at one time by direction and path."""
    known: dict[tuple[End, str], Route] = {}
    found = []
    for snapshot in snapshots:
        for end in ENDS:
            for path, route in snapshot.routes.get(end, {}).items():
                before = known.get((end, path))
                if before is not None and not same(before, route):
                    found.append(Change(at=snapshot.at, end=end, path=path, before=before, after=route))
                known[end, path] = (
                    route if before is None or not same(before, route) else _filled(before, route)
                )
    return found


def same(one: Route, other: Route) -> bool:
    """True if two routes do not contradict each other."""
    pairs = zip(one.hops, other.hops, strict=False)
    return (
        one.state == other.state
        and len(one.hops) == len(other.hops)
        and all(a.address == b.address or None in (a.address, b.address) for a, b in pairs)
    )


def _filled(before: Route, after: Route) -> Route:
    """The route with routers that answered earlier and do not now."""
    hops = [a if b.address is None else b for a, b in zip(before.hops, after.hops, strict=True)]
    return msgspec.structs.replace(after, hops=hops)


def latest(snapshots: Sequence[Snapshot]) -> Snapshot | None:
    """The last one with routes."""
    return next((snapshot for snapshot in reversed(snapshots) if snapshot.failed is None), None)


def shared(snapshot: Snapshot) -> list[SharedHop]:
    """Routers on several paths."""
    return shared_hops(snapshot.routes)


def meetings(snapshot: Snapshot, topology: Topology) -> list[Crossing]:
    """Segments that paths share behind their access links."""
    ends = {path.label: (path.local.abbr, path.remote.abbr) for path in topology.paths}
    return crossings([hop for hop in shared(snapshot) if set(hop.paths) <= set(ends)], ends)


def rows(snapshot: Snapshot) -> Iterator[tuple[End, str, Route]]:
    """Direction, path and route, to the receiver first."""
    for end in ENDS:
        for path, route in snapshot.routes.get(end, {}).items():
            yield end, path, route


def addresses(route: Route) -> list[Hop]:
    """Hops of a route, those of a loop once around."""
    turn = route.turn if route.state == "loop" else None
    return list(route.hops if turn is None else route.hops[: turn + 1])


def described(snapshots: Sequence[Snapshot]) -> str:
    """Number and times of the traces: a sentence."""
    times, failed = len(snapshots), sum(snapshot.failed is not None for snapshot in snapshots)
    often = "once" if times == 1 else f"{times} times"
    last = "" if times == 1 else f" to {snapshots[-1].at}"
    missed = f", {failed} of them in vain (the last: {_reason(snapshots)})" if failed else ""
    return f"Routes were traced {often}, {snapshots[0].at}{last}{missed}."


def _reason(snapshots: Sequence[Snapshot]) -> str:
    return next((snapshot.failed for snapshot in reversed(snapshots) if snapshot.failed is not None), "")


def to(end: End) -> str:
    """Direction of the data that an end sends, for tables."""
    return f"to the {TO[end]}"
