"""Routes of the paths, both ways: the routers between the two ends, and those that several paths share.

Datagrams find them (the agent's `probe/trace.rs`), all paths side by side. A router that does not answer has
no address; one router may have other addresses on other paths, so that paths may share more routers than are
listed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mptune.probe.ends import ENDS, End, Hop, Route
from mptune.probe.preparation import Prepared

#: Time in which a router must answer, beside the round trip of the path, nanoseconds.
_PATIENCE_NS = 200_000_000


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


def trace_routes(prepared: Prepared, udp: Sequence[int], longest_rtt_ns: int) -> dict[End, dict[int, Route]]:
    """Routes of the paths that let datagrams through, by the end that sends and path."""
    wait_ns = longest_rtt_ns + _PATIENCE_NS
    return {end: prepared.ends.trace(end, udp, wait_ns=wait_ns) for end in ENDS}


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


def words(route: Route) -> str:
    """The route in a line: its hops' addresses, `*` for a silent one."""
    return " ".join(_word(hop) for hop in route.hops) + ("" if route.reached else " ...")


def _word(hop: Hop) -> str:
    return "*" if hop.address is None else hop.address
