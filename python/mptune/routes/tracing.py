"""Routes between two hosts: the agents at both ends are started, asked and ended again.

Nothing but datagrams of the smallest size is sent: five echoes on each path, and two for each router.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime

from mptune.errors import TrialError
from mptune.linux.addresses import NamedInterface, Side
from mptune.linux.talker import Talker
from mptune.probe.echoes import answered
from mptune.probe.ends import ENDS, LEAST_BYTES, End, Ends, Path, Route
from mptune.probe.routes import trace_routes
from mptune.routes.snapshots import NO_DATAGRAMS, Snapshot
from mptune.topology import Topology
from mptune.trial import FAMILIES

#: The side of each end.
_SIDES: Mapping[End, Side] = {"sender": "local", "receiver": "remote"}

#: Starts the role `probe` on the host of a side.
Start = Callable[[Side], Talker]


def trace(
    topology: Topology,
    named: Mapping[Side, tuple[NamedInterface, ...]],
    start: Start,
    interrupted: Callable[[], bool] = lambda: False,
) -> Snapshot:
    """Routes of all paths, both ways; of paths that let no datagram through, that.

    Parameters
    ----------
    named : the interfaces of both sites as their hosts know them.
    interrupted : called regularly; True ends it.

    Raises
    ------
    KeyboardInterrupt : it was interrupted.
    """
    at = now()
    pairs = {
        path.label: _pair(named["local"][path.local_index], named["remote"][path.remote_index])
        for path in topology.paths
    }
    possible = {label: pair for label, pair in pairs.items() if not isinstance(pair, str)}
    routes: dict[End, dict[str, Route]] = {
        end: {label: _none(pair) for label, pair in pairs.items() if isinstance(pair, str)} for end in ENDS
    }
    if possible:
        try:
            found = _traced(list(possible.values()), start, interrupted)
        except TrialError as error:
            return Snapshot(at=at, failed=str(error))
        for end in ENDS:
            routes[end] |= {
                label: found[end].get(number, _none(NO_DATAGRAMS)) for number, label in enumerate(possible)
            }
    order = [path.label for path in topology.paths]
    return Snapshot(at=at, routes={end: {label: routes[end][label] for label in order} for end in ENDS})


def now() -> str:
    """The time as snapshots have it."""
    return datetime.now(UTC).astimezone().isoformat(timespec="seconds")


def _traced(
    pairs: list[tuple[str, str]], start: Start, interrupted: Callable[[], bool]
) -> dict[End, dict[int, Route]]:
    """Routes by the number of their pair of addresses."""
    addresses = {end: list(dict.fromkeys(pair[side] for pair in pairs)) for side, end in enumerate(ENDS)}
    with ExitStack() as stack:
        talkers = {end: stack.enter_context(start(_SIDES[end])) for end in ENDS}
        ends = Ends(talkers, addresses, interrupted=interrupted)
        ends.join([Path(0, 0, pair) for pair in pairs])
        sizes = {number: LEAST_BYTES[6 if ":" in local else 4] for number, (local, _) in enumerate(pairs)}
        greeted = answered(ends, sizes)
        return trace_routes(ends, greeted.udp, greeted.longest_ns)


def _pair(local: NamedInterface, remote: NamedInterface) -> tuple[str, str] | str:
    """The addresses of a path, IPv4 if both ends have it; or why there is no route to trace."""
    for family in FAMILIES:
        near, far = local.address(family), remote.address(family)
        if near is not None and far is not None:
            if remote.reached_at(family) != far:
                return "the receiver is behind an address translation"
            return near, far
    return "its ends have no family of addresses in common"


def _none(reason: str) -> Route:
    return Route(hops=[], reached=False, failed=reason)
