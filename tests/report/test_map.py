"""The map: where sites, paths and shared segments are drawn, and what is drawn of the routes of a run."""

import json
import math
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptune.probe.ends import Hop, Route
from mptune.report.choices import choices
from mptune.report.coastlines import COASTS
from mptune.report.mapping import Point, along, bows, extent, near, on_line, spans_of
from mptune.report.sections import Section
from mptune.report.sections.map import map_
from mptune.report.sections.routes import routes
from mptune.result.run_data import RunData
from mptune.routes.followed import Followed
from mptune.routes.networks import Network, Networks
from mptune.routes.snapshots import Snapshot
from mptune.topology import SharedSegment, Site, Topology

OSLO, HAIKOU = Point(10.7, 59.9), Point(110.3, 20.0)
points = st.builds(Point, st.floats(-180, 180), st.floats(-85, 85))


def distance(one: Point, other: Point) -> float:
    return math.dist(one, other)


def test_every_bow_begins_and_ends_at_the_sites_and_no_two_are_the_same() -> None:
    found = bows(OSLO, HAIKOU, ["a", "b", "c"], {})
    assert all(
        distance(line[0], OSLO) < 1e-9 and distance(line[-1], HAIKOU) < 1e-9 for line in found.values()
    )
    middles = [line[len(line) // 2] for line in found.values()]
    assert distance(middles[1], on_line(OSLO, HAIKOU, 0.5)) < 1e-9
    assert min(distance(middles[0], middles[1]), distance(middles[1], middles[2])) > 5
    (alone,) = bows(OSLO, HAIKOU, ["a"], {}).values()
    assert max(distance(point, on_line(OSLO, HAIKOU, n / 40)) for n, point in enumerate(alone)) < 1e-9


def test_paths_lie_on_each_other_within_a_shared_segment_alone() -> None:
    found = bows(OSLO, HAIKOU, ["a", "b", "c"], {"sea": ["a", "b"], "land": ["b", "c"]})
    spans = spans_of(["sea", "land"])
    for name, together, apart in (("sea", "ab", "c"), ("land", "bc", "a")):
        begin, end = spans[name]
        inside = [n for n in range(41) if begin <= n / 40 <= end]
        assert inside
        for number in inside:
            straight = on_line(OSLO, HAIKOU, number / 40)
            assert all(distance(found[path][number], straight) < 1e-9 for path in together)
            assert distance(found[apart][number], straight) > 1
    assert spans["sea"][1] < spans["land"][0]


@given(points, points)
def test_what_is_drawn_is_in_the_map_and_the_short_way_is_taken(one: Point, other: Point) -> None:
    other = near(other, one)
    assert abs(other.lon - one.lon) <= 180 + 1e-9
    line = bows(one, other, ["a", "b"], {})
    shown = extent([point for points in line.values() for point in points])
    for point in (one, other):
        assert shown.west <= point.lon <= shown.east and shown.south <= point.lat <= shown.north
    assert shown.east - shown.west >= 2 and shown.north > shown.south


def test_routers_with_places_lead_the_path_by_them_across_the_date_line() -> None:
    angeles = Point(-118, 34)
    line = along(OSLO, HAIKOU, [angeles], 0.0)
    assert angeles in line and line[0] == OSLO
    assert line[-1] == pytest.approx((HAIKOU.lon - 360, HAIKOU.lat))


def test_coasts_are_places() -> None:
    for coast in COASTS:
        assert len(coast) > 2 and all(-180 <= lon <= 180 and -60 < lat < 84 for lon, lat in coast)
    # Roughly: the north cape, the cape, the horn.
    assert max(lat for lon, lat in COASTS[0] if 20 < lon < 35) == 71
    assert min(lat for _, lat in COASTS[1]) == -34


Place = Callable[..., RunData]


@pytest.fixture
def run(optimised: RunData) -> Place:
    """A run whose sites have coordinates, with shared segments and routes."""

    def made(*, shared: bool = False, followed: Followed | None = None, here: bool = True) -> RunData:
        assert optimised.topology is not None
        topology = optimised.topology

        def at(site: Site, point: Point) -> Site:
            return msgspec.structs.replace(site, lat=point.lat, lon=point.lon) if here else site

        paths = topology.paths
        if shared:
            segment = SharedSegment(name="sea", forward_ns=0, reverse_ns=0, jitter_ns=0, loss_ppb=0)
            paths = tuple(msgspec.structs.replace(path, shared=(segment,)) for path in paths)
        placed: Topology = msgspec.structs.replace(
            topology, sender=at(topology.sender, OSLO), receiver=at(topology.receiver, HAIKOU), paths=paths
        )
        return msgspec.structs.replace(optimised, topology=placed, routes=followed)

    return made


def drawn(run: RunData) -> Section:
    (section,) = map_(run, choices(run))
    return section


def datasets(section: Section) -> dict[str, list[dict[str, object]]]:
    (panel,) = section.panels
    found: dict[str, list[dict[str, object]]] = panel.chart["datasets"]
    return found


def test_without_coordinates_there_is_no_map(run: Place) -> None:
    assert not list(map_(run(here=False), choices(run())))


def test_sites_paths_and_shared_segments_are_on_it(run: Place) -> None:
    plain, shared = drawn(run()), drawn(run(shared=True))
    topology = run().topology
    assert topology is not None
    assert [row["site"] for row in datasets(plain)["sites"]] == [topology.sender.name, topology.receiver.name]
    assert {row["path"] for row in datasets(plain)["lines"]} == {path.label for path in topology.paths}
    assert "segments" not in datasets(plain) and not plain.tables
    assert {row["segment"] for row in datasets(shared)["segments"]} == {"sea"}
    (table,) = shared.tables
    assert table.rows == [{"segment": "sea", "paths": ", ".join(path.label for path in topology.paths)}]


def followed(topology: Topology, *networks: Network) -> Followed:
    hops = [Hop(address=one, rtt_ns=None) for one in ("192.0.2.1", None, "198.51.100.1", "203.0.113.9")]
    by_path = {path.label: Route(hops=hops, reached=True) for path in topology.paths}
    snapshot = Snapshot(at="2026-11-25T12:00:00+00:00", routes={"sender": by_path, "receiver": {}})
    return Followed(snapshots=(snapshot,), networks=Networks(networks))


def test_networks_with_places_are_on_the_way_and_each_system_is_a_node(run: Place) -> None:
    topology = run().topology
    assert topology is not None
    frankfurt = Network(
        prefix="192.0.2.0/24", asn=64500, name="<b>Transit", site="Frankfurt", lat=50.1, lon=8.7
    )
    asia = Network(prefix="198.51.100.0/24", asn=64501)
    whole = run(followed=followed(topology, frankfurt, asia))
    (router,) = datasets(drawn(whole))["routers"]
    assert (router["system"], router["place"]) == ("AS64500 <b>Transit", "Frankfurt")
    lines = [row for row in datasets(drawn(whole))["lines"] if row["path"] == topology.paths[0].label]
    assert any((row["lon"], row["lat"]) == (8.7, 50.1) for row in lines)
    (section,) = routes(whole, choices(whole))
    (panel,) = section.panels
    rows = panel.chart["datasets"]["rows"]
    first = [row["system"] for row in rows if row["path"] == topology.paths[0].label]
    assert first == ["AS64500 <b>Transit", "AS64501", "?"] and panel.title == "to the receiver"
    json.dumps(panel.chart)


def test_without_networks_there_are_only_tables_of_routes(run: Place) -> None:
    topology = run().topology
    assert topology is not None
    whole = run(followed=followed(topology))
    (section,) = routes(whole, choices(whole))
    assert not section.panels and {table.title for table in section.open} == {
        "Routers that paths share",
        "The last routes",
    }
    assert "They never changed" in section.lead
    # What the routes show is shared on the map too, where the topology does not say anything of it.
    expected = (
        len({path.local_index for path in topology.paths}) > 1 < len({p.remote_index for p in topology.paths})
    )
    assert ("segments" in datasets(drawn(whole))) is expected
