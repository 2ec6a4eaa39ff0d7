"""Reports of the role `watch` on a world's connections, and those that tests wait for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mptune.linux.addresses import Side
from mptune.linux.sandbox.processes import Child
from mptune.monitor.shape import Census, Connection, census
from tests.plugins.path_world import World
from tests.plugins.waiting import PATIENCE_S, until

INTERVAL_NS = 100_000_000


@contextmanager
def watching(world: World, side: Side = "local") -> Iterator[Child]:
    with world.sites.start_agent("watch", side) as child:
        child.tell({"interval_ns": INTERVAL_NS})
        yield child


def reported(child: Child, condition: Callable[[Census], Any] = bool) -> Census:
    """The first report from now on that is wanted."""
    child.take()
    censuses: list[Census] = []

    def comes() -> bool:
        censuses.append(census(child.expect("connections", PATIENCE_S)))
        return bool(condition(censuses[-1]))

    until(comes, "a report")
    return censuses[-1]


def with_subflows(count: int) -> Callable[[Census], bool]:
    """There is one connection, and so many of its subflows are established."""

    def matches(census: Census) -> bool:
        subflows = [flow for connection in census.connections for flow in connection.subflows]
        return len(census.connections) == 1 and [flow.state for flow in subflows] == ["established"] * count

    return matches


def only(census: Census) -> Connection:
    (connection,) = census.connections
    return connection


def ends(connection: Connection) -> list[tuple[str, str]]:
    """Local and remote addresses of the established subflows, in order."""
    address = lambda end: end.rpartition(":")[0].strip("[]")  # noqa: E731
    established = [flow for flow in connection.subflows if flow.state == "established"]
    return sorted((address(flow.local), address(flow.remote)) for flow in established)


def with_established(count: int) -> Any:
    """There is one connection with this many established subflows, and perhaps others that are ending."""
    return lambda census: len(census.connections) == 1 and len(ends(only(census))) == count


def every(count: int, subflows: int) -> Any:
    """There are this many connections, each with this many established subflows."""

    def matches(census: Census) -> bool:
        states = [[flow.state for flow in connection.subflows] for connection in census.connections]
        return states == [["established"] * subflows] * count

    return matches
