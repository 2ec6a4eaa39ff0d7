"""Charts of published numbers beside those measured again: in rows, and as curves over the buffer."""

from typing import Any

from mptune.report.charts.style import (
    FEW_STEPS,
    LOG_BUFFER,
    THROUGHPUT,
    Key,
    Rows,
    Spec,
    base,
    horizontal,
    layered,
    round_sizes,
    tips,
    vertical,
)

#: The two kinds of numbers, in the order of the key.
PRINTED, MEASURED = "printed", "measured"
SOURCES = Key(field="source", title="numbers", names=(PRINTED, MEASURED), marks=True, first=0)

#: Heights of a row and of the smallest chart, pixels.
_ROW, _SMALLEST = 20, 60


def in_rows(rows: Rows, title: str, sources: Key = SOURCES) -> Spec:
    """Numbers of several sources, printed and measured, one quantity below another.

    Parameters
    ----------
    rows : name, source, value, low, high (the runs' range, or the value itself).
    title : of the axis, with the unit.
    sources : the kinds of numbers.
    """
    import altair as alt

    x = horizontal(title, nice=True, padding=8)
    order = list(dict.fromkeys(row["name"] for row in rows))
    axis = alt.Axis(grid=True, ticks=False, title=None, labelLimit=0)
    place = base("rows").encode(y=alt.Y("name:N", sort=order, axis=axis))
    colour, shape = sources.colour(), sources.shape()
    layers = [
        place.mark_rule().encode(
            x=x("low"), x2=alt.X2("high:Q"), color=colour, opacity=sources.opacity(0.45)
        ),
        place.mark_point(filled=True, size=45).encode(
            x=x("value"),
            color=colour,
            shape=shape,
            opacity=sources.opacity(),
            tooltip=tips(rows, "name", "source", "value", "low", "high"),
        ),
    ]
    height = max(_SMALLEST, _ROW * len(order))
    return layered(*layers, data={"rows": rows}, height=height)


def over_buffer(rows: Rows) -> Spec:
    """Throughput over the buffer, printed as a line and measured as marks.

    Parameters
    ----------
    rows : buffer_mib, source, value_mbps, low_mbps, high_mbps.
    """
    import altair as alt

    sizes = [row["buffer_mib"] for row in rows]
    ticks = round_sizes(sizes, FEW_STEPS)
    x = horizontal(LOG_BUFFER, values=ticks, type="log", nice=False, padding=8)("buffer_mib")
    y = vertical(THROUGHPUT, domainMin=0, nice=True)
    colour, opacity = SOURCES.colour(), SOURCES.opacity()
    shown: Any = base("rows").encode(x=x, color=colour, opacity=opacity)
    layers = [
        shown.mark_line(strokeWidth=1.5).encode(y=y("value_mbps"), strokeDash=SOURCES.dash()),
        shown.mark_rule().encode(y=y("low_mbps"), y2=alt.Y2("high_mbps:Q")),
        shown.mark_point(filled=True, size=25).encode(
            y=y("value_mbps"),
            shape=SOURCES.shape(),
            tooltip=tips(rows, "buffer_mib", "source", "value_mbps", "low_mbps", "high_mbps"),
        ),
    ]
    return layered(*layers, data={"rows": rows})
