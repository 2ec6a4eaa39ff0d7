"""Geometry of a map: where sites, paths and shared segments are drawn, in degrees. It draws nothing.

Longitudes are counted on beyond 180 or -180 where the short way between two places crosses the date line.
A path whose routers have no place is a bow of its own between the sites; where it shares a segment, it lies
on the straight line between them, which is no statement on where that segment is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mptune.topology import Site

#: Points of a bow, and the height of the outermost ones as a share of the distance.
_STEPS, _HEIGHT = 40, 0.22
#: Part of the straight line that all shared segments have together.
_SHARED = 0.5
#: Width and height of the drawing for which degrees are about equally long, pixels; its margin as a share.
_WIDTH, _DOWN, _MARGIN = 760, 360, 0.25
#: Degrees that a map shows at least.
_LEAST = 2.0


class Point(NamedTuple):
    """A place, degrees east and north."""

    lon: float
    lat: float


class Extent(NamedTuple):
    """The part of the world that is drawn."""

    west: float
    east: float
    south: float
    north: float


def placed(site: Site) -> Point | None:
    """Coordinates of a site; None if they are unknown."""
    return None if site.lat is None or site.lon is None else Point(site.lon, site.lat)


def near(point: Point, other: Point) -> Point:
    """The point with the longitude on the short way from another one."""
    turns = round((other.lon - point.lon) / 360)
    return Point(point.lon + 360 * turns, point.lat)


def bows(
    start: Point, end: Point, paths: Sequence[str], crossed: Mapping[str, Sequence[str]]
) -> dict[str, list[Point]]:
    """Points of each path between two sites.

    Parameters
    ----------
    crossed : shared segments -> the labels of the paths that cross each.
    """
    spans = spans_of(list(crossed))
    middle = (len(paths) - 1) / 2
    # No bow is straight where the straight line has a meaning.
    shift = 0.5 if crossed and len(paths) % 2 else 0.0
    widest = max(1.0, middle + shift)
    found = {}
    for number, path in enumerate(paths):
        height = (number - middle + shift) / widest * (_HEIGHT if len(paths) > 1 or crossed else 0.0)
        own = [spans[name] for name, labels in crossed.items() if path in labels]
        found[path] = [
            _beside(start, end, t, height * 4 * t * (1 - t) * _apart(t, own))
            for t in (step / _STEPS for step in range(_STEPS + 1))
        ]
    return found


def along(start: Point, end: Point, through: Sequence[Point], height: float) -> list[Point]:
    """Points of a path whose routers have places: a leg between any two, a little aside from those of others.

    Parameters
    ----------
    height : how much, as a share of the leg.
    """
    whole = [start]
    for point in (*through, end):
        whole.append(near(point, whole[-1]))
    points = []
    for before, after in itertools.pairwise(whole):
        points += [
            _beside(before, after, t, height * 4 * t * (1 - t)) for t in (step / 10 for step in range(11))
        ]
    return points


def spans_of(names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Beginning and end of each shared segment, as shares of the straight line."""
    each = _SHARED / max(1, len(names))
    return {
        name: (centre - each / 2, centre + each / 2)
        for number, name in enumerate(names)
        for centre in [(number + 1) / (len(names) + 1)]
    }


def on_line(start: Point, end: Point, share: float) -> Point:
    """A place on the straight line between two sites."""
    return _beside(start, end, share, 0.0)


def extent(points: Sequence[Point]) -> Extent:
    """Extent of a map of these points, about equally scaled both ways in the middle."""
    west, east = min(point.lon for point in points), max(point.lon for point in points)
    south, north = min(point.lat for point in points), max(point.lat for point in points)
    lon, lat = (west + east) / 2, (south + north) / 2
    shrunk = max(0.2, math.cos(math.radians(lat)))
    wide, high = (max(_LEAST, span * (1 + 2 * _MARGIN)) for span in (east - west, north - south))
    per_pixel = max(wide * shrunk / _WIDTH, high / _DOWN)
    wide, high = per_pixel * _WIDTH / shrunk, per_pixel * _DOWN
    return Extent(lon - wide / 2, lon + wide / 2, max(-90, lat - high / 2), min(90, lat + high / 2))


def _beside(start: Point, end: Point, share: float, height: float) -> Point:
    """A point at a share of the way, and aside from it by a share of the distance."""
    shrunk = max(0.2, math.cos(math.radians((start.lat + end.lat) / 2)))
    east, north = (end.lon - start.lon) * shrunk, end.lat - start.lat
    return Point(
        start.lon + share * (end.lon - start.lon) - height * north / shrunk,
        max(-90.0, min(90.0, start.lat + share * north + height * east)),
    )


def _apart(share: float, spans: Sequence[tuple[float, float]]) -> float:
    """0 within shared segments, rising to 1 within a tenth of the way beside them."""
    away = [max(0.0, begin - share, share - end) for begin, end in spans]
    return min((min(1.0, distance / 0.1) for distance in away), default=1.0)
