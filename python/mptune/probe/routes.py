"""Routes of the paths, both ways: the routers between the two ends, and those that several paths share.

Datagrams find them (the agent's `probe/trace.rs`), all paths side by side. A router that does not answer has
no address; one router may have other addresses on other paths, so that paths may share more routers than are
listed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mptune.probe.ends import ENDS, End, Ends, Hop, Route

#: Time in which a router must answer, beside the round trip of the path, nanoseconds.
_PATIENCE_NS = 200_000_000


#: Receiving end of the data that an end sends.
TO: Mapping[End, End] = {"sender": "receiver", "receiver": "sender"}


class SharedHop(msgspec.Struct, frozen=True, kw_only=True):
    """Router on several paths.

    Attributes
    ----------
    address : of the router.
    end : the end that sends.
    paths : labels of the paths, in their order.
    """

    address: str
    end: End
    paths: tuple[str, ...]


def trace_routes(ends: Ends, udp: Sequence[int], longest_rtt_ns: int) -> dict[End, dict[int, Route]]:
    """Routes of the paths that let datagrams through, by the end that sends and path."""
    wait_ns = longest_rtt_ns + _PATIENCE_NS
    return {end: ends.trace(end, udp, wait_ns=wait_ns) for end in ENDS}


def shared_hops(routes: Mapping[End, Mapping[str, Route]]) -> list[SharedHop]:
    """Routers on more than one path, by the end that sends, in the order of their first appearance.

    Parameters
    ----------
    routes : by the end that sends and the path's label. The ends themselves are no routers.
    """
    shared = []
    for end in ENDS:
        paths: dict[str, list[str]] = {}
        for label, route in routes.get(end, {}).items():
            for address in dict.fromkeys(hop.address for hop in route.routers if hop.address is not None):
                paths.setdefault(address, []).append(label)
        shared += [
            SharedHop(address=address, end=end, paths=tuple(labels))
            for address, labels in paths.items()
            if len(labels) > 1
        ]
    return shared


class Crossing(msgspec.Struct, frozen=True, kw_only=True):
    """Routers that the same paths cross: a segment that they share.

    Attributes
    ----------
    paths : labels in their order.
    routers : addresses by the end that sends; an end from which nothing is shared has none.
    """

    paths: tuple[str, ...]
    routers: dict[End, tuple[str, ...]]


def crossings(hops: Sequence[SharedHop], ends: Mapping[str, tuple[str, str]]) -> list[Crossing]:
    """Segments that paths share behind their access links, those of most paths first.

    All paths of an interface share its access link anyway; that they share a router tells nothing more.

    Parameters
    ----------
    hops : as `shared_hops` has them.
    ends : the interfaces of every path, by its label.
    """
    routers: dict[tuple[str, ...], dict[End, list[str]]] = {}
    for hop in hops:
        if not any(
            _all_of_one(hop.paths, {label: pair[side] for label, pair in ends.items()}) for side in (0, 1)
        ):
            routers.setdefault(hop.paths, {}).setdefault(hop.end, []).append(hop.address)
    found = [
        Crossing(paths=paths, routers={end: tuple(some) for end, some in by_end.items()})
        for paths, by_end in routers.items()
    ]
    return sorted(found, key=lambda crossing: -len(crossing.paths))


def _all_of_one(paths: Sequence[str], interfaces: Mapping[str, str]) -> bool:
    """True if these are all paths of one interface."""
    used = {interfaces[label] for label in paths}
    return len(used) == 1 and len(paths) == sum(interface in used for interface in interfaces.values())


def words(route: Route) -> str:
    """The route in a line: its hops' addresses, `*` for a silent one; how it ends, if early."""
    # The rest of a loop adds nothing.
    shown = route.hops if route.state != "loop" or route.turn is None else route.hops[: route.turn + 1]
    hops = " ".join(_word(hop) for hop in shown)
    match route.state:
        case "reached":
            return hops
        case "loop":
            return f"{hops} (loop)"
        case "silent":
            return "no router answers"
        case "failed":
            return f"not traced: {route.failed}"
        case "unfinished":
            return f"{hops} ..."


def _word(hop: Hop) -> str:
    return "*" if hop.address is None else hop.address
