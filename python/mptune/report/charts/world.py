"""Chart of the map: sites, paths and shared segments over coasts."""

from typing import Any

from mptune.report.charts.style import Key, Rows, Spec, base, layered, tips
from mptune.report.mapping import Extent

_HEIGHT = 360

#: Degrees as people write them; beyond the date line they are counted on.
_LON = "datum.value - 360 * round(datum.value / 360)"
_EAST = f"format(abs({_LON}), '~g') + '\u00b0' + ({_LON} < 0 ? ' W' : {_LON} > 0 ? ' E' : '')"
_NORTH = "format(abs(datum.value), '~g') + '\u00b0' + (datum.value < 0 ? ' S' : datum.value > 0 ? ' N' : '')"


def world(
    sites: Rows, lines: Rows, segments: Rows, routers: Rows, coasts: Rows, shown: Extent, colours: Key
) -> Spec:
    """Sites and paths over coasts, cut off at the edges.

    Parameters
    ----------
    sites : site, lon, lat.
    lines : column of `colours`, point (ordered), lon, lat.
    segments : segment, point, lon, lat; its middle has a label.
    routers : system, place, lon, lat.
    coasts : coast, point, lon, lat.
    """
    import altair as alt

    x = alt.X(
        "lon:Q",
        scale=alt.Scale(domain=[shown.west, shown.east], nice=False, zero=False),
        axis=alt.Axis(title=None, labelExpr=_EAST),
    )
    y = alt.Y(
        "lat:Q",
        scale=alt.Scale(domain=[shown.south, shown.north], nice=False, zero=False),
        axis=alt.Axis(title=None, labelExpr=_NORTH),
    )

    def line(data: str, detail: str, **mark: Any) -> Any:
        drawn = base(data).mark_line(clip=True, **mark)
        return drawn.encode(x=x, y=y, detail=alt.Detail(f"{detail}:N"), order=alt.Order("point:Q"))

    layers = [line("coasts", "coast", style="soft", strokeWidth=0.8, opacity=0.6)]
    if segments:
        layers.append(line("segments", "segment", strokeWidth=9, opacity=0.25, strokeCap="round"))
    layers.append(
        line("lines", colours.field, strokeWidth=2).encode(
            color=colours.colour(),
            strokeDash=colours.dash(),
            opacity=colours.opacity(0.9),
            tooltip=tips(lines, colours.field),
        )
    )
    if segments:
        labels = (
            base("segments").transform_filter("datum.label != ''").encode(x=x, y=y, text=alt.Text("label:N"))
        )
        layers.append(labels.mark_text(dy=-12, clip=True))
    if routers:
        squares = base("routers").mark_point(shape="square", filled=True, size=45, style="soft", clip=True)
        names = (
            base("routers")
            .mark_text(dy=14, fontSize=10, clip=True)
            .encode(x=x, y=y, text=alt.Text("system:N"))
        )
        layers += [squares.encode(x=x, y=y, tooltip=tips(routers, "system", "place")), names]
    points = base("sites").mark_point(filled=True, size=110, opacity=1, clip=True)
    names = {"dy": -13, "fontWeight": "bold", "clip": True}
    layers += [
        points.encode(x=x, y=y, tooltip=tips(sites, "site")),
        base("sites").mark_text(style="halo", **names).encode(x=x, y=y, text=alt.Text("site:N")),
        base("sites").mark_text(**names).encode(x=x, y=y, text=alt.Text("site:N")),
    ]
    data = {"coasts": coasts, "lines": lines, "sites": sites}
    data |= {name: rows for name, rows in (("segments", segments), ("routers", routers)) if rows}
    return layered(*layers, data=data, height=_HEIGHT)
