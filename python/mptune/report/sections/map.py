"""Section of the map: sites with their paths and what these share, where the topology has coordinates."""

from collections.abc import Iterator

from mptune.report import mapping
from mptune.report.charts import world as charts
from mptune.report.charts.style import key
from mptune.report.choices import Choices
from mptune.report.coastlines import COASTS
from mptune.report.mapping import Extent, Point
from mptune.report.sections._base import Panel, Rows, Section, Table
from mptune.result.run_data import RunData
from mptune.routes.networks import Network
from mptune.routes.snapshots import addresses, meetings
from mptune.topology import Topology

#: Height of the legs of two paths over the same routers, as a share of their length.
_ASIDE = 0.03


def map_(run: RunData, choices: Choices) -> Iterator[Section]:
    """The sites where they are, and the paths between them."""
    topology = run.topology
    if topology is None:
        return
    start, end = mapping.placed(topology.sender), mapping.placed(topology.receiver)
    if start is None or end is None:
        return
    end = mapping.near(end, start)
    crossed, routers = _crossed(run, topology), _routers(run, topology)
    lines = _lines(topology, start, end, crossed, routers)
    segments = [] if any(routers.values()) else _segments(start, end, crossed)
    located = {
        (network.words, network.site): _of(network, start) for found in routers.values() for network in found
    }
    shown = mapping.extent([point for points in lines.values() for point in points])
    rows = [
        {"path": path, **_at(number, point)}
        for path, points in lines.items()
        for number, point in enumerate(points)
    ]
    colours = key("path", "path", rows)
    # A path that goes the other way around the world ends at the same site a second time.
    ends = dict.fromkeys((topology.receiver, points[-1]) for points in lines.values())
    sites = [
        {"site": site.name, "lon": round(point.lon, 3), "lat": round(point.lat, 3)}
        for site, point in ((topology.sender, start), *ends)
    ]
    places = [
        {"system": words, "place": place, "lon": point.lon, "lat": point.lat}
        for (words, place), point in located.items()
    ]
    chart = charts.world(sites, rows, segments, places, _coasts(shown), shown, colours)
    listed: Rows = [{"segment": name, "paths": ", ".join(labels)} for name, labels in crossed.items()]
    yield Section(
        name="map",
        title="Map",
        lead=_lead(bool(crossed), bool(places)),
        panels=[Panel(chart=chart, zoom=("x", "y"))],
        key=colours,
        tables=[Table(title="Segments that paths share", rows=listed, source="config.json")]
        if listed
        else (),
    )


def _lead(shares: bool, places: bool) -> str:
    lead = "The two sites and the paths between them, over coasts drawn by hand."
    if places:
        return f"{lead} Paths lead by the networks of their routers, where networks.csv has the places."
    lead += " The routes of the paths are unknown, so each is drawn as an arc."
    return f"{lead} Paths lie on each other where they share a segment, wherever that is." if shares else lead


def _crossed(run: RunData, topology: Topology) -> dict[str, list[str]]:
    """Shared segments with the paths that cross each: of the topology, else of the last routes."""
    if topology.shared:
        return {
            name: [path.label for path in topology.paths if segment in path.shared]
            for name, segment in topology.shared.items()
        }
    last = None if run.routes is None else run.routes.last
    found = [] if last is None else meetings(last, topology)
    return {f"shared {number}": list(shared.paths) for number, shared in enumerate(found, 1)}


def _routers(run: RunData, topology: Topology) -> dict[str, list[Network]]:
    """Networks with a place on the last route of each path, each once in a row."""
    last = None if run.routes is None else run.routes.last
    routes = {} if last is None else last.routes.get("sender", {})
    found: dict[str, list[Network]] = {path.label: [] for path in topology.paths}
    for path, route in routes.items():
        for hop in addresses(route):
            network = (
                None if hop.address is None or run.routes is None else run.routes.networks.of(hop.address)
            )
            if (
                network is not None
                and network.lat is not None
                and path in found
                and network not in found[path][-1:]
            ):
                found[path].append(network)
    return found


def _lines(
    topology: Topology,
    start: Point,
    end: Point,
    crossed: dict[str, list[str]],
    routers: dict[str, list[Network]],
) -> dict[str, list[Point]]:
    """Points of every path."""
    labels = [path.label for path in topology.paths]
    lines = mapping.bows(start, end, labels, {} if any(routers.values()) else crossed)
    for number, label in enumerate(labels):
        if routers[label]:
            aside = (number - (len(labels) - 1) / 2) * _ASIDE
            lines[label] = mapping.along(start, end, [_of(router, start) for router in routers[label]], aside)
    return lines


def _of(network: Network, beside: Point) -> Point:
    """Place of a network that has one."""
    return mapping.near(Point(network.lon or 0.0, network.lat or 0.0), beside)


def _segments(start: Point, end: Point, crossed: dict[str, list[str]]) -> Rows:
    """Both ends and the middle of each shared segment."""
    return [
        {"segment": name, "label": name if part == 1 else "", **_at(part, mapping.on_line(start, end, share))}
        for name, (begin, stop) in mapping.spans_of(list(crossed)).items()
        for part, share in enumerate((begin, (begin + stop) / 2, stop))
    ]


def _coasts(shown: Extent) -> Rows:
    """Coasts, those west and east of the date line a second time where the map goes beyond it."""
    turns = [turn for turn in (-360, 0, 360) if shown.west < turn + 180 and shown.east > turn - 180]
    return [
        {"coast": f"{number} {turn}", **_at(part, Point(lon + turn, lat))}
        for turn in turns
        for number, coast in enumerate(COASTS)
        for part, (lon, lat) in enumerate(coast)
    ]


def _at(number: int, point: Point) -> dict[str, float]:
    return {"point": number, "lon": round(point.lon, 3), "lat": round(point.lat, 3)}
