"""Chart of two objectives: the configurations that no other beats in both."""

from mptune.report.charts.style import Key, Rows, Spec, base, horizontal, layered, tips, vertical


def front(rows: Rows, colours: Key, *, across: str, up: str) -> Spec:
    """One objective over the other, with the 95 % intervals of both as crosses.

    Parameters
    ----------
    rows : column of `colours`, buffer_mib, value, second, and the ends of their intervals (value_low, ...).
    across, up : titles of `second` along the horizontal axis, and of `value`, with their units.
    """
    import altair as alt

    x, y = horizontal(across, zero=False, padding=12), vertical(up, zero=False, padding=12)
    points = base("rows").encode(color=colours.colour(), opacity=colours.opacity(0.6))
    crosses = []
    # Vega complains of a column without any number.
    if any(row["second_low"] is not None for row in rows):
        crosses.append(points.mark_rule().encode(x=x("second_low"), x2=alt.X2("second_high:Q"), y=y("value")))
    if any(row["value_low"] is not None for row in rows):
        crosses.append(points.mark_rule().encode(y=y("value_low"), y2=alt.Y2("value_high:Q"), x=x("second")))
    marks = points.mark_point(size=60, filled=True).encode(
        x=x("second"),
        y=y("value"),
        shape=colours.shape(),
        opacity=colours.opacity(),
        tooltip=tips(rows, colours.field, "buffer_mib", "value", "second"),
    )
    return layered(*crosses, marks, data={"rows": rows})
