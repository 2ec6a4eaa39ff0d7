"""The subflows that Linux opens by itself for given endpoints, and the endpoints nearest to a desired set.

The rules are those of the kernel's own path manager (net/mptcp/pm_kernel.c, before Linux 6.16 pm_netlink.c;
`ip-mptcp(8)`). Endpoints belong to addresses, not to paths:

- The first subflow runs between the address that routing selects and the one that the program connects to.
- An endpoint `subflow` of whoever opened the connection opens one subflow to the address of the first one.
- An endpoint `signal` of the other side announces an address. If there are endpoints `fullmesh`, each opens
  a subflow to every address announced; if there are none, one subflow goes there from the address that
  routing selects.
- All of that within a family of addresses, and over both only in sockets of IPv6
  (`mptcp_pm_addr_families_match`): an endpoint of the other family than the first subflow's needs `fullmesh`
  and an announced address.
- If there is no mesh, and there are endpoints `laminar` (Linux 6.18), each announced address gets a subflow
  from the first of them that has none yet; once they are all taken, none.
- `backup` makes every subflow of that address standby, the first one too.
- A connection has a limit of subflows beside the first, of which kernels take different ones.

Here are only numbers of addresses: a pair is one of who opens connections and one of the other side. Over
both families those of IPv6 come last, in the order of those of IPv4. What is set where is
`mptune.apply.plan`'s business. Many sets are compared here, so that the rules have a short form, for ends
whose limits are ample and where nobody else has endpoints; the whole is in
`mptune.linux.path_manager.connection`, and a test holds the two together.
"""

import itertools
import math
from collections.abc import Collection, Iterator, Mapping
from typing import Literal, NamedTuple

from mptune.linux.path_manager.ends import MOST

#: An address of who opens connections, and one of the other side.
Pair = tuple[int, int]

#: Flags of endpoints on the side that opens connections; "none" is no endpoint.
Use = Literal["none", "subflow", "backup", "fullmesh", "laminar"]

#: Flags of an endpoint by its use.
FLAGS: dict[Use, tuple[str, ...]] = {
    "subflow": ("subflow",),
    "backup": ("subflow", "backup"),
    "fullmesh": ("subflow", "fullmesh"),
    "laminar": ("laminar",),
}

#: Families with endpoints `fullmesh`, as whether they are IPv6 beside IPv4.
_MESHES: tuple[frozenset[bool], ...] = tuple(map(frozenset, ([], [False], [True], [False, True])))

#: From so many further interfaces of the other side on, not every selection of them is tried.
_MANY = 8


class Families(NamedTuple):
    """Addresses of both families.

    Attributes
    ----------
    six : numbers of the first addresses of IPv6, here and there.
    pairs : those between which there are paths.
    """

    six: Pair
    pairs: frozenset[Pair]


class Endpoints(NamedTuple):
    """Endpoints of both sides.

    Attributes
    ----------
    initial : where connections begin.
    uses : of every address of who opens connections.
    announced : addresses of the other side that it announces, in that order.
    families : None where all are of one family.
    most : subflows beside the first one, and endpoints, that the kernel takes.
    """

    initial: Pair
    uses: tuple[Use, ...]
    announced: tuple[int, ...] = ()
    families: Families | None = None
    most: int = MOST

    def match(self, local: int, remote: int) -> bool:
        """A subflow between two addresses is possible."""
        return self.families is None or (local, remote) in self.families.pairs

    def is_six(self, local: int) -> bool:
        """An address here is one of IPv6 beside IPv4."""
        return self.families is not None and local >= self.families.six[0]

    def selected(self, remote: int) -> int:
        """The address that routing selects towards one of the other side: of the first interface."""
        first, _ = self.initial
        if self.families is None:
            return first
        here, there = self.families.six
        return first % here + here * (remote >= there)


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
    possible, left_out = opened[: 1 + endpoints.most], opened[1 + endpoints.most :]
    standby = [pair for pair in possible if endpoints.uses[pair[0]] == "backup"]
    return Used(tuple(pair for pair in possible if pair not in standby), tuple(standby), tuple(left_out))


def _further(endpoints: Endpoints) -> Iterator[Pair]:
    """The subflows beside the first: those to its address at once, others as addresses are announced."""
    (first, there), uses = endpoints.initial, endpoints.uses
    for local, use in enumerate(uses):
        if use not in ("none", "laminar") and local != first and endpoints.match(local, there):
            yield local, there
    meshed = [local for local, use in enumerate(uses) if use == "fullmesh"]
    if not meshed and "laminar" in uses:
        yield from _one_each(endpoints)
        return
    for remote in endpoints.announced:
        own = [local for local in meshed if endpoints.match(local, remote)]
        selected = endpoints.selected(remote)
        yield from ((local, remote) for local in own)
        if not own and endpoints.match(selected, remote):
            yield selected, remote


def _one_each(endpoints: Endpoints) -> Iterator[Pair]:
    """Every announced address from an address that has no subflow yet."""
    left = [
        local
        for local, use in enumerate(endpoints.uses)
        if use == "laminar" and local != endpoints.initial[0]
    ]
    for remote in endpoints.announced:
        local = next((interface for interface in left if endpoints.match(interface, remote)), None)
        if local is not None:
            left.remove(local)
            yield local, remote


def nearest(
    size: tuple[int, int],
    initial: Pair,
    asked: Collection[Pair],
    standby: Collection[Pair] = (),
    weights: Mapping[Pair, float] | None = None,
    families: Families | None = None,
    *,
    most: int = MOST,
    laminar: bool = False,
) -> Endpoints:
    """The endpoints whose active subflows are nearest to the wanted ones.

    First there are as few as possible that are not wanted, because one that does harm can cost more than all
    the others bring; then those that are missing matter least; then there are few endpoints.

    Parameters
    ----------
    size : number of addresses of who opens connections, and of the other side.
    standby : pairs whose interfaces get an endpoint `backup` if nothing else uses them.
    weights : what a pair that is missing costs; 1 if it is not named.
    families, most : as in `Endpoints`.
    laminar : the kernel of who opens connections has such endpoints.
    """
    weights = weights or {}
    begun = Endpoints(initial, (), (), families, most)

    def cost(endpoints: Endpoints) -> tuple[int, float, int]:
        count = sum(use != "none" for use in endpoints.uses) + len(endpoints.announced)
        return *_missed(set(used(endpoints).active), set(asked), weights), count

    candidates = _candidates(size, begun, asked, weights)
    if laminar:
        candidates = itertools.chain(candidates, [_laminar(size[0], begun, asked, weights)])
    best = min(candidates, key=cost)
    silent = {local for local, _ in standby} - {initial[0]}
    uses: list[Use] = [
        "backup" if use == "none" and local in silent else use for local, use in enumerate(best.uses)
    ]
    return _needed(best._replace(uses=tuple(uses)))


def _needed(endpoints: Endpoints) -> Endpoints:
    """Without those that open nothing because of the limit; the kernel takes no more either."""
    given = used(endpoints)
    needed = {*given.active, *given.standby}
    uses: list[Use] = []
    for local, use in enumerate(endpoints.uses):
        room = sum(earlier != "none" for earlier in uses) < endpoints.most
        uses.append(use if room and any(pair[0] == local for pair in needed) else "none")
    announced = (number for number in endpoints.announced if any(pair[1] == number for pair in needed))
    return endpoints._replace(uses=tuple(uses), announced=tuple(announced))


def _candidates(
    size: tuple[int, int], begun: Endpoints, asked: Collection[Pair], weights: Mapping[Pair, float]
) -> Iterator[Endpoints]:
    """For each selection of announced addresses, with and without a mesh, the best use of every address."""
    for announced in _announced(size[1], begun.initial[1], asked, begun.most):
        given = begun._replace(announced=announced)
        for meshed in _MESHES if begun.families else _MESHES[:2]:
            uses = tuple(_best_use(local, given, meshed, asked, weights) for local in range(size[0]))
            if meshed == {given.is_six(local) for local, use in enumerate(uses) if use == "fullmesh"}:
                yield given._replace(uses=uses)


def _laminar(
    count: int, begun: Endpoints, asked: Collection[Pair], weights: Mapping[Pair, float]
) -> Endpoints:
    """A subflow for each announced address from an address of its own, those first that matter most."""
    first, there = begun.initial
    at_once = {local for local, remote in asked if remote == there and local != first}
    apart: dict[int, int] = {}
    for local, remote in sorted(asked, key=lambda pair: (-weights.get(pair, 1.0), pair)):
        free = local not in at_once and local != first and local not in apart
        if free and remote != there and remote not in apart.values():
            apart[local] = remote
    uses: list[Use] = [
        "laminar" if local in apart else "subflow" if local in at_once else "none" for local in range(count)
    ]
    return begun._replace(uses=tuple(uses), announced=tuple(apart[local] for local in sorted(apart)))


def _announced(count: int, there: int, asked: Collection[Pair], most: int) -> Iterator[tuple[int, ...]]:
    others = [remote for remote in range(count) if remote != there]
    if len(others) > _MANY:
        needed = {remote for _, remote in asked}
        yield ()
        yield tuple(remote for remote in others if remote in needed)[:most]
        return
    for number in range(len(others) + 1):
        yield from itertools.combinations(others, number)


def _best_use(
    local: int,
    given: Endpoints,
    meshes: Collection[bool],
    asked: Collection[Pair],
    weights: Mapping[Pair, float],
) -> Use:
    """The use of one address whose active subflows differ least from the wanted ones."""
    (first, there), meshed = given.initial, given.is_six(local) in meshes
    mine = {pair for pair in asked if pair[0] == local}
    announced = {(local, remote) for remote in given.announced if given.match(local, remote)}
    at_once = {(local, there)} if given.match(local, there) else set()
    # Without a mesh routing selects where subflows to announced addresses begin.
    selected = set() if meshed else {pair for pair in announced if given.selected(pair[1]) == local}
    gives: dict[Use, set[Pair]] = {"none": selected}
    if local == first:
        gives = {"none": at_once | selected}
        # An announced address would still be reached from here, and not as standby.
        if not selected:
            gives["backup"] = set()
    elif at_once:
        gives["subflow"] = at_once
    if meshed:
        gives["fullmesh"] = at_once | announced
    return min(gives, key=lambda use: _missed(gives[use], mine, weights))


def _missed(given: set[Pair], asked: set[Pair], weights: Mapping[Pair, float]) -> tuple[int, float]:
    """Number of surplus subflows, and the weight of the missing ones."""
    return len(given - asked), math.fsum(weights.get(pair, 1.0) for pair in asked - given)
