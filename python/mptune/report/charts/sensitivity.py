"""Chart of what an answer hangs on: one value below another, with the throughput at the ends of its range."""

from mptune.report.charts.style import (
    THROUGHPUT,
    Key,
    Rows,
    Spec,
    base,
    distinct,
    either,
    horizontal,
    layered,
    tips,
)

#: Height of a value with its two lines of text, pixels.
_ROW = 36


def sensitivity(rows: Rows, stated_mbps: float, colours: Key) -> Spec:
    """Throughput of the answer with each value at the ends of its range.

    Parameters
    ----------
    rows : column of `colours`, "value of" and "between" (two lines at the axis), "is", throughput_mbps,
        stated_mbps, largest (the end of the range), changes, best, best_mbps.
    stated_mbps : throughput with the values as stated.
    """
    import altair as alt

    lines = [{**row, "line": f"{row['value of']}\n{row['between']}"} for row in rows]
    names = list(distinct(row["line"] for row in lines))
    x = horizontal(THROUGHPUT, zero=False, nice=False, padding=14)
    axis = alt.Axis(
        grid=True,
        ticks=False,
        title=None,
        labelOffset=-6,
        labelLimit=170,
        labelExpr="split(datum.label, '\\n')",
    )
    place = base("rows").encode(y=alt.Y("line:N", sort=names, axis=axis))
    tooltip = tips(lines, "value of", "stated", "is", "throughput_mbps", "best", "best_mbps")
    layers = [
        base("stated").mark_rule(strokeDash=[4, 3], style="soft").encode(x=x("stated_mbps")),
        place.mark_rule(strokeWidth=2).encode(
            x=x("stated_mbps"), x2=alt.X2("throughput_mbps:Q"), opacity=colours.opacity(0.4)
        ),
        place.mark_point(filled=True, size=90, strokeWidth=1.5).encode(
            x=x("throughput_mbps"),
            color=colours.colour(),
            stroke=colours.stroke(),
            shape=either(alt.ShapeValue, "datum.largest", "triangle-up", "triangle-down"),
            fillOpacity=either(alt.FillOpacityValue, "datum.changes", 1, 0),
            opacity=colours.opacity(),
            tooltip=tooltip,
        ),
    ]
    data = {"rows": lines, "stated": [{"stated_mbps": stated_mbps}]}
    return layered(*layers, data=data, height=_ROW * len(names))
