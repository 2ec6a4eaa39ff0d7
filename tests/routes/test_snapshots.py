"""Routes at several times: what counts as a change, and the tables of it."""

import msgspec
import pytest

from mptune.probe.ends import Hop, Route
from mptune.routes.followed import Followed
from mptune.routes.networks import Network, Networks
from mptune.routes.snapshots import Snapshot, changes, meetings, same
from mptune.topology import load

#: What the routers belong to.
NETWORKS = Networks(
    [
        Network(prefix="10.0.0.0/8", asn=64500, name="Backbone"),
        Network(prefix="10.1.0.0/16", asn=64501),
        Network(prefix="2001:db8::/32", asn=64502),
    ]
)


def route(*addresses: str | None, reached: bool = True) -> Route:
    return Route(hops=[Hop(address=one, rtt_ns=None) for one in addresses], reached=reached)


def snapshot(hour: int, routes: dict[str, Route], back: dict[str, Route] | None = None) -> Snapshot:
    at = f"2026-11-25T{hour:02}:00:00+00:00"
    return Snapshot(at=at, routes={"sender": routes, "receiver": back or {}})


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (route("a", "b", "z"), route("a", "b", "z"), True),
        (route("a", None, "z"), route("a", "b", "z"), True),
        (route("a", "b", "z"), route("a", "c", "z"), False),
        (route("a", "b", "z"), route("a", "z"), False),
        (route("a", "b"), route("a", "b", reached=False), False),
    ],
)
def test_a_silent_router_is_no_change_and_another_one_is(one: Route, other: Route, alike: bool) -> None:
    assert same(one, other) is alike is same(other, one)


def test_a_router_that_is_silent_in_between_is_remembered() -> None:
    """Otherwise a change from b to c behind a silence would be none."""
    seen = [route("a", middle, "z") for middle in ("b", None, "c", None, "c", "b")]
    found = changes([snapshot(hour, {"A-X": one}) for hour, one in enumerate(seen)])
    assert [
        (one.at[11:13], one.path, one.before.hops[1].address, one.after.hops[1].address) for one in found
    ] == [
        ("02", "A-X", "b", "c"),
        ("05", "A-X", "c", "b"),
    ]


def test_a_failed_tracing_is_counted_and_no_change() -> None:
    failed = Snapshot(at="2026-11-25T01:00:00+00:00", failed="bob: unreachable")
    first = snapshot(0, {"A-X": route("a", "z")})
    followed = Followed(snapshots=(first, failed), networks=Networks())
    assert followed.changes == [] and followed.last == first
    assert followed.sentence == (
        "Routes were traced 2 times, 2026-11-25T00:00:00+00:00 to 2026-11-25T01:00:00+00:00, "
        "1 of them in vain (the last: bob: unreachable)."
    )
    nothing = Followed(snapshots=(failed,), networks=Networks())
    assert nothing.last is None and nothing.routes == nothing.shared == []


def test_tables_have_routes_shared_routers_and_a_row_for_each_change_with_the_systems() -> None:
    there = {
        "P-D": route("10.1.0.1", "10.9.0.1", None, "192.0.2.1"),
        "T-D": route("10.2.0.1", "10.9.0.1", "z"),
    }
    later = there | {"T-D": route("10.2.0.1", "10.1.0.9", "2001:db8::1", "z")}
    followed = Followed(snapshots=(snapshot(8, there), snapshot(9, later)), networks=NETWORKS)
    (change,) = followed.changes
    assert change == {
        "when": "2026-11-25T09:00:00+00:00",
        "direction": "to the receiver",
        "path": "T-D",
        "before": "10.2.0.1 10.9.0.1 z",
        "after": "10.2.0.1 10.1.0.9 2001:db8::1 z",
        "systems": "AS64500 Backbone > ? -> AS64500 Backbone > AS64501 > AS64502 > ?",
    }
    assert followed.routes[0]["systems"] == "AS64501 > AS64500 Backbone > ?"
    assert followed.shared == []
    before = Followed(snapshots=followed.snapshots[:1], networks=Networks())
    assert before.shared == [{"direction": "to the receiver", "router": "10.9.0.1", "paths": "P-D, T-D"}]
    assert "systems" not in before.routes[0]


def test_paths_that_meet_are_those_of_several_interfaces() -> None:
    topology = load("UNIS-HiN")
    labels = [path.label for path in topology.paths]
    all_of_them = snapshot(1, {label: route(label, "t", "z") for label in labels})
    assert [one.paths for one in meetings(all_of_them, topology)] == [tuple(labels)]
    ours = snapshot(1, {label: route("u" if label.startswith("U-") else label, "z") for label in labels})
    assert meetings(ours, topology) == []


def test_a_snapshot_is_read_as_it_was_written() -> None:
    one = snapshot(3, {"A-X": route("a", None, "z")}, {"A-X": Route(hops=[], reached=False, failed="no")})
    assert msgspec.json.decode(msgspec.json.encode(one), type=Snapshot) == one
