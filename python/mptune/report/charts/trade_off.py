"""Chart of the trade-off: the Pareto front of throughput and buffer, with a movable ring."""

from mptune.report.charts.style import (
    LOG_BUFFER,
    THROUGHPUT,
    Key,
    Rows,
    Spec,
    base,
    horizontal,
    layered,
    ring,
    round_sizes,
    tips,
    vertical,
)

#: Room at the ends of the horizontal axis, pixels: for the text to the left of the first mark.
_ROOM = 42


def trade_off(
    rows: Rows, colours: Key, *, steps: Key | None = None, choices: Rows = (), choice: int | None = None
) -> Spec:
    """Throughput over the smallest buffer that gives it.

    Parameters
    ----------
    rows : column of `colours`, sacrifice_percent, buffer_mib, throughput_mbps and the ends of their 95 %
        intervals, if there are any, `percent` (text at some points), by rising sacrifice.
    steps : one front per name of this key; None is a single one.
    choices, choice : as in `mptune.report.charts.sweep.response`.
    """
    import altair as alt

    columns = "buffer_mib", "buffer_low_mib", "buffer_high_mib"
    sizes = [row[name] for row in rows for name in columns if row.get(name) is not None]
    x = horizontal(LOG_BUFFER, values=round_sizes(sizes), type="log", nice=False, padding=_ROOM)
    y = vertical(THROUGHPUT, zero=False, padding=26)
    size, throughput = x("buffer_mib"), y("throughput_mbps")
    path = base("rows").mark_line(interpolate="step-after", strokeWidth=1).encode(x=size, y=throughput)
    points = base("rows").encode(color=colours.colour(), opacity=colours.opacity(0.6))
    # Vega complains of a column without any number.
    crosses = []
    if any(row.get("buffer_low_mib") is not None for row in rows):
        ends = {"x": x("buffer_low_mib"), "x2": alt.X2("buffer_high_mib:Q")}
        crosses.append(points.mark_rule().encode(**ends, y=throughput))
    if any(row.get("throughput_low_mbps") is not None for row in rows):
        ends = {"y": y("throughput_low_mbps"), "y2": alt.Y2("throughput_high_mbps:Q")}
        crosses.append(points.mark_rule().encode(**ends, x=size))
    layers = [
        path.encode(color=alt.ColorValue("#999999") if steps is None else steps.colour()),
        *crosses,
        points.mark_point(size=50, filled=True).encode(
            x=size,
            y=throughput,
            shape=colours.shape(),
            opacity=colours.opacity(),
            tooltip=tips(rows, colours.field, "sacrifice_percent", "buffer_mib", "throughput_mbps"),
        ),
        base("rows")
        .mark_text(dx=-9, dy=-9, align="right", fontSize=10)
        .encode(x=size, y=throughput, text=alt.Text("percent:N")),
    ]
    if choices:
        layers += ring("choices", size, throughput, below=False)
    return layered(*layers, data={"rows": rows, "choices": choices}, choice=choice)
