"""The subflows that come up between two ends whose settings are known, and why others do not."""

from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from mptune._text import number_of
from mptune.linux.path_manager.connection import Connection, Event, Half, Join, Order, Role
from mptune.linux.path_manager.ends import End, Network

#: The client's own address and the server's.
Pair = tuple[str, str]


class Subflow(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One that comes up, between own addresses of both ends; `backup` is standby."""

    client: str
    server: str
    opener: Role = "client"
    backup: bool = False


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """Predicted subflows of a connection.

    Attributes
    ----------
    subflows : that come up if packets arrive in the usual order, the first one first.
    possible : what comes up by all orders of arrival.
    refused : by pair of addresses, why an attempt does not become a subflow.
    """

    subflows: tuple[Subflow, ...]
    possible: tuple[tuple[Subflow, ...], ...]
    refused: dict[Pair, str]

    @property
    def numbers(self) -> tuple[int, ...]:
        """All numbers of subflows that there can be, ascending."""
        return tuple(sorted({len(each) for each in self.possible}))

    @property
    def surely(self) -> set[Pair]:
        """Pairs with a subflow whatever arrives first."""
        each = [{(subflow.client, subflow.server) for subflow in outcome} for outcome in self.possible]
        return set.intersection(*each)


def predict(client: End, server: End, first: Pair, network: Network | None = None) -> Prediction:
    """The subflows of a connection.

    Parameters
    ----------
    first : the client's own address on which it begins, and the server's, as the client names it.
    """
    network = network or Network()
    # What the server opens can come to something only at a port of the client's own.
    late = any(endpoint.port for endpoint in client.endpoints)
    ran = [
        _ran(client, server, first, network, order, taken=taken)
        for taken in ((True, False) if late else (True,))
        for order in ORDERS
    ]
    outcomes = [_subflows(connection) for connection in ran]
    return Prediction(
        subflows=outcomes[0],
        possible=tuple(dict.fromkeys(tuple(sorted(outcome)) for outcome in outcomes)),
        refused=_refused(ran[0]),
    )


def _ran(client: End, server: End, first: Pair, network: Network, order: Order, *, taken: bool) -> Connection:
    connection = Connection(client, server, first, network)
    if client.enabled and server.enabled:
        connection.run(order, taken=taken)
    return connection


def _preferring(*rank: Callable[[Event], bool]) -> Order:
    """The first event in flight of those that a rule prefers most."""

    def order(flight: Sequence[Event]) -> int:
        return min(range(len(flight)), key=lambda at: ([not rule(flight[at]) for rule in rank], at))

    return order


def _timely(event: Event) -> bool:
    return event.kind != "refused"


def _at_client(event: Event) -> bool:
    return event.to.role == "client"


def _at_server(event: Event) -> bool:
    return event.to.role == "server"


def _begins_at_server(event: Event) -> bool:
    return event.kind == "established" and event.to.role == "server"


def _announced(event: Event) -> bool:
    return event.kind == "announced"


def _announced_first(event: Event) -> bool:
    return event.kind == "announced" and not event.to.has_heard


def _vain(event: Event) -> bool:
    """True for attempts of the server alone, a round trip before the client's join can be complete."""
    return event.kind == "refused" or (event.kind == "arrives" and event.to.role == "client")


#: Orders of arrival. The first is the usual one: the server has the connection half a round trip earlier, and
#: an announced address is what tells the client that it is established (`check_fully_established`), which the
#: worker answers before it opens anything else (`__mptcp_pm_kernel_worker`). Then others: all announcements
#: first; as sent; one end before the other; all of them with refusals that come first, or last.
ORDERS: tuple[Order, ...] = tuple(
    _preferring(*refusals, *rest)
    for refusals in ((_vain,), (), (_timely,))
    for rest in (
        (_begins_at_server, _announced_first),
        (_at_server, _announced),
        (),
        (_at_client,),
        (_at_server,),
    )
)


def _subflows(connection: Connection) -> tuple[Subflow, ...]:
    """Those of both ends."""
    client, server = connection.client, connection.server
    first = Subflow(
        client=client.local, server=server.local, backup=client.first_backup or server.first_backup
    )
    # The one that accepts has only those that are there.
    there = [*_accepted(server), *_accepted(client)]
    return (first, *(_subflow(connection, join) for join in connection.attempts if join in there))


def _accepted(half: Half) -> list[Join]:
    return [join for join in half.subflows if join.opener != half.role]


def _ends(connection: Connection, join: Join) -> Pair:
    """Own addresses of both, as far as they are known."""
    if join.opener == "client":
        return join.local, connection.server.end.own(join.remote) or join.remote
    return connection.client.end.own(join.remote) or join.remote, join.local


def _subflow(connection: Connection, join: Join) -> Subflow:
    client, server = _ends(connection, join)
    return Subflow(client=client, server=server, opener=join.opener, backup=join.backup)


def _refused(connection: Connection) -> dict[Pair, str]:
    """Attempts that came to nothing; those of the client take precedence."""
    found: dict[Pair, str] = {}
    for opener in ("client", "server"):
        for join in connection.attempts:
            if join.opener == opener and join.fate:
                tries = "" if opener == "client" else "only the server tries, and "
                found.setdefault(_ends(connection, join), f"{tries}{join.fate}")
    return found


def because(client: End, server: End, first: Pair, pair: Pair, network: Network, found: Prediction) -> str:
    """Why a pair of own addresses has no subflow, in words that name the end."""
    if not client.enabled or not server.enabled:
        return f"MPTCP is off at the {'client' if not client.enabled else 'server'}"
    ours, theirs = pair
    if (
        (outside := server.seen(theirs)) != theirs
        and _is_told(server, theirs)
        and not _is_told(server, outside)
    ):
        return f"the server announces {theirs}, which is not reached from outside, instead of {outside}"
    if pair in found.refused:
        return found.refused[pair]
    if not client.managed:
        return "the kernel does not manage paths at the client, but a program, or nobody"
    if not client.limits.subflows:
        return "the client's limit is 0 subflows beside the first"
    own = client.endpoint(ours)
    if server.own(first[1]) in (theirs, None):
        return _at_once(
            client, server, own is not None and bool({"subflow", "fullmesh"} & set(own.flags)), ours
        )
    return _after_announcement(client, server, pair, network, found)


def _at_once(client: End, server: End, has_endpoint: bool, ours: str) -> str:
    if not has_endpoint:
        return f"the client has no endpoint subflow for {ours}"
    if not server.joins:
        return (
            "the server forbids joins to the address where connections begin (allow_join_initial_addr_port)"
        )
    return _limited(client)


def _after_announcement(client: End, server: End, pair: Pair, network: Network, found: Prediction) -> str:
    ours, theirs = pair
    outside = server.seen(theirs)
    if not _is_told(server, outside):
        return f"the server does not announce {outside} (endpoint signal)"
    if not server.managed:
        return "the kernel does not manage paths at the server, and announces nothing"
    if not client.limits.add_addr_accepted:
        return "the client uses no announced address (add_addr_accepted 0)"
    others = {subflow.server for subflow in found.subflows} - {found.subflows[0].server}
    if theirs not in others and len(others) >= client.limits.add_addr_accepted:
        accepted = client.limits.add_addr_accepted
        return f"the client uses {accepted} announced address{'' if accepted == 1 else 'es'} at most"
    own = client.endpoint(ours)
    if any("fullmesh" in endpoint.flags for endpoint in client.endpoints):
        if own is None or "fullmesh" not in own.flags:
            return f"the client has no endpoint fullmesh for {ours}, but for others"
        return _limited(client)
    if theirs in others:
        by = next(subflow.client for subflow in found.subflows if subflow.server == theirs)
        return f"without endpoints fullmesh the client joins {outside} from {by} alone, which routing selects"
    return _limited(client)


def _is_told(server: End, address: str) -> bool:
    return any(endpoint.address == address and "signal" in endpoint.flags for endpoint in server.endpoints)


def _limited(client: End) -> str:
    return f"the client's limit of {number_of(client.limits.subflows, 'subflow')} is reached"


def count(found: Prediction) -> str:
    """The number of subflows in words: "2", or "2 to 4"."""
    numbers = found.numbers
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def repeated(found: Prediction) -> list[Pair]:
    """Pairs with more than one subflow."""
    counted = Counter((subflow.client, subflow.server) for subflow in found.subflows)
    return [pair for pair, number in counted.items() if number > 1]
