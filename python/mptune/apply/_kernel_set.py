"""The subflows that Linux opens by itself for given endpoints, and the endpoints nearest to a desired set.

The rules are those of the kernel's own path manager (net/mptcp/pm_kernel.c, before Linux 6.16 pm_netlink.c;
`ip-mptcp(8)`). Endpoints belong to addresses, not to paths:

- The first subflow runs between the address that routing selects and the one that the program connects to.
- An endpoint `subflow` of whoever opened the connection opens one subflow to the address of the first one.
- An endpoint `signal` of the other side announces an address. If there are endpoints `fullmesh`, each opens
  a subflow to every address announced; if there are none, one subflow goes there from the address that
  routing selects.
- `backup` makes every subflow of that address standby, the first one too.
- A connection has at most eight subflows beside the first.

Here are only numbers of interfaces: a pair is one of who opens connections and one of the other side. What
is set where is `mptune.apply.plan`'s business.
"""

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

#: An interface of who opens connections, and one of the other side.
Pair = tuple[int, int]

#: Flags of endpoints on the side that opens connections; "none" is no endpoint.
Use = Literal["none", "subflow", "backup", "fullmesh"]

#: Most subflows beside the first one, and most endpoints (MPTCP_PM_ADDR_MAX).
MOST = 8

#: From so many further interfaces of the other side on, not every selection of them is tried.
_MANY = 8


class Endpoints(NamedTuple):
    """Endpoints of both sides.

    Attributes
    ----------
    initial : where connections begin.
    uses : of every interface of who opens connections.
    announced : interfaces of the other side that it announces.
    """

    initial: Pair
    uses: tuple[Use, ...]
    announced: tuple[int, ...] = ()


class Used(NamedTuple):
    """The subflows that the kernel opens for endpoints, in that order; the first subflow comes first.

    Attributes
    ----------
    active, standby : pairs with a subflow that carries data, or waits.
    left_out : pairs beyond the limit.
    """

    active: tuple[Pair, ...]
    standby: tuple[Pair, ...]
    left_out: tuple[Pair, ...]


def used(endpoints: Endpoints) -> Used:
    """Subflows that the kernel opens; routing is assumed to select the address where connections begin."""
    opened = [endpoints.initial, *_further(endpoints)]
    possible, left_out = opened[: 1 + MOST], opened[1 + MOST :]
    standby = [pair for pair in possible if endpoints.uses[pair[0]] == "backup"]
    return Used(tuple(pair for pair in possible if pair not in standby), tuple(standby), tuple(left_out))


def _further(endpoints: Endpoints) -> Iterator[Pair]:
    """The subflows beside the first: those to its address at once, others as addresses are announced."""
    (first, there), uses = endpoints.initial, endpoints.uses
    for local, use in enumerate(uses):
        if use != "none" and local != first:
            yield local, there
    meshed = [local for local, use in enumerate(uses) if use == "fullmesh"]
    for remote in endpoints.announced:
        for local in meshed or [first]:
            yield local, remote


def nearest(
    size: tuple[int, int],
    initial: Pair,
    asked: Collection[Pair],
    standby: Collection[Pair] = (),
    weights: Mapping[Pair, float] | None = None,
) -> Endpoints:
    """The endpoints whose active subflows are nearest to the wanted ones.

    First there are as few as possible that are not wanted, because one that does harm can cost more than all
    the others bring; then those that are missing matter least; then there are few endpoints.

    Parameters
    ----------
    size : number of interfaces of who opens connections, and of the other side.
    standby : pairs whose interfaces get an endpoint `backup` if nothing else uses them.
    weights : what a pair that is missing costs; 1 if it is not named.
    """
    weights = weights or {}

    def cost(endpoints: Endpoints) -> tuple[int, float, int]:
        count = sum(use != "none" for use in endpoints.uses) + len(endpoints.announced)
        return *_missed(set(used(endpoints).active), set(asked), weights), count

    best = min(_candidates(size, initial, asked, weights), key=cost)
    silent = {local for local, _ in standby} - {initial[0]}
    uses: list[Use] = [
        "backup" if use == "none" and local in silent else use for local, use in enumerate(best.uses)
    ]
    return _needed(best._replace(uses=tuple(uses)))


def _needed(endpoints: Endpoints) -> Endpoints:
    """Without those that open nothing because of the limit; the kernel takes no more than `MOST` either."""
    given = used(endpoints)
    needed = {*given.active, *given.standby}
    uses: list[Use] = []
    for local, use in enumerate(endpoints.uses):
        room = sum(earlier != "none" for earlier in uses) < MOST
        uses.append(use if room and any(pair[0] == local for pair in needed) else "none")
    announced = (number for number in endpoints.announced if any(pair[1] == number for pair in needed))
    return endpoints._replace(uses=tuple(uses), announced=tuple(announced))


def _candidates(
    size: tuple[int, int], initial: Pair, asked: Collection[Pair], weights: Mapping[Pair, float]
) -> Iterator[Endpoints]:
    """For each selection of announced addresses, with and without a mesh, the best use of every interface."""
    for announced in _announced(size[1], initial[1], asked):
        for meshed in (False, True):
            uses = tuple(
                _best_use(local, initial, announced, meshed, asked, weights) for local in range(size[0])
            )
            if meshed == ("fullmesh" in uses):
                yield Endpoints(initial, uses, announced)


def _announced(count: int, there: int, asked: Collection[Pair]) -> Iterator[tuple[int, ...]]:
    others = [remote for remote in range(count) if remote != there]
    if len(others) > _MANY:
        needed = {remote for _, remote in asked}
        yield ()
        yield tuple(remote for remote in others if remote in needed)[:MOST]
        return
    for number in range(len(others) + 1):
        yield from itertools.combinations(others, number)


def _best_use(
    local: int,
    initial: Pair,
    announced: Sequence[int],
    meshed: bool,
    asked: Collection[Pair],
    weights: Mapping[Pair, float],
) -> Use:
    """The use of one interface whose active subflows differ least from the wanted ones."""
    first, there = initial
    mine = {pair for pair in asked if pair[0] == local}
    whole = {(local, there), *((local, remote) for remote in announced)}
    gives: dict[Use, set[Pair]] = {"none": set(), "subflow": {(local, there)}}
    if local == first:
        gives = {"none": {(local, there)} if meshed else whole}
        # Without a mesh an announced address would be reached from here all the same, and not as standby.
        if meshed or not announced:
            gives["backup"] = set()
    if meshed:
        gives["fullmesh"] = whole
    return min(gives, key=lambda use: _missed(gives[use], mine, weights))


def _missed(given: set[Pair], asked: set[Pair], weights: Mapping[Pair, float]) -> tuple[int, float]:
    """Number of surplus subflows, and the weight of the missing ones."""
    return len(given - asked), math.fsum(weights.get(pair, 1.0) for pair in asked - given)
