"""Charts of further factors: transfers, initial paths, the time of day, compared runs."""

from mptune.report.charts.style import (
    BUFFER,
    THROUGHPUT,
    Key,
    Rows,
    Spec,
    base,
    distinct,
    horizontal,
    layered,
    tips,
    vertical,
)
from mptune.report.charts.sweep import spread_bars


def completion(rows: Rows, colours: Key, *, top: float) -> Spec:
    """Completion time over transfer size with the spread of the runs (PCDC Figs. 7, 9, 11).

    Parameters
    ----------
    rows : column of `colours`, transfer (its size as text), mean_s, min_s, max_s, q10_s, q90_s.
    top : upper end of the time axis, seconds.
    """
    y = vertical("completion time (s)", domain=[0, top], nice=True)
    return spread_bars(rows, colours, y, across="transfer", unit="s", title="transfer (KiB)")


def by_buffer(rows: Rows, colours: Key, *, top: float) -> Spec:
    """Throughput over buffer with 95 % intervals, a line per name (buffer sizes Figs. 5-9).

    Parameters
    ----------
    rows : column of `colours`, buffer_mib, mean_mbps, low_mbps, high_mbps.
    top : upper end of the throughput axis, Mbit/s.
    """
    import altair as alt

    x = horizontal(BUFFER, domainMin=0, nice=False)("buffer_mib")
    y = vertical(THROUGHPUT, domain=[0, top], nice=True)
    lines = base("rows").encode(x=x, color=colours.colour())
    means = tips(rows, colours.field, "buffer_mib", "mean_mbps", "low_mbps", "high_mbps")
    return layered(
        lines.mark_rule().encode(y=y("low_mbps"), y2=alt.Y2("high_mbps:Q"), opacity=colours.opacity(0.6)),
        lines.mark_line().encode(y=y("mean_mbps"), strokeDash=colours.dash(), opacity=colours.opacity()),
        lines.mark_point(filled=True, size=30).encode(
            y=y("mean_mbps"), shape=colours.shape(), opacity=colours.opacity(), tooltip=means
        ),
        data={"rows": rows},
    )


def intervals(rows: Rows, colours: Key, *, down: str, title: str, zero: bool) -> Spec:
    """Means with 95 % intervals, one below another.

    Parameters
    ----------
    rows : column of `colours`, mean_mbps, low_mbps, high_mbps.
    down : column along the vertical axis, in the order of its first appearance.
    zero : the throughput axis begins at 0.
    """
    import altair as alt

    names = distinct(row[down] for row in rows)
    axis = alt.Axis(titleX=0, titleAnchor="end", labelLimit=140)
    y = alt.Y(f"{down}:N", title=title, sort=list(names), axis=axis)
    x = horizontal(THROUGHPUT, zero=zero, padding=0 if zero else 12)
    offset = alt.YOffset(f"{colours.field}:N", sort=list(colours.names))
    place = base("rows").encode(y=y, yOffset=offset, color=colours.colour())
    tooltip = tips(rows, down, colours.field, "mean_mbps", "low_mbps", "high_mbps")
    return layered(
        place.mark_rule(strokeWidth=2).encode(
            x=x("low_mbps"), x2=alt.X2("high_mbps:Q"), opacity=colours.opacity(0.7)
        ),
        place.mark_point(filled=True, size=50).encode(
            x=x("mean_mbps"), shape=colours.shape(), opacity=colours.opacity(), tooltip=tooltip
        ),
        data={"rows": rows},
        height=max(90, 18 * len(rows) + 10 * len(names)),
    )


def time_of_day(rows: Rows, colours: Key) -> Spec:
    """Throughput of a repeated campaign against the time of day.

    Parameters
    ----------
    rows : column of `colours`, time_of_day_h, mean_mbps, min_mbps, max_mbps.
    """
    import altair as alt

    x = horizontal("time of day (h)", domain=[0, 24], nice=False)("time_of_day_h")
    y = vertical(THROUGHPUT, zero=False, padding=12)
    place = base("rows").encode(x=x, color=colours.colour())
    return layered(
        place.mark_rule().encode(y=y("min_mbps"), y2=alt.Y2("max_mbps:Q"), opacity=colours.opacity(0.45)),
        place.mark_point(filled=True, size=30).encode(
            y=y("mean_mbps"),
            shape=colours.shape(),
            opacity=colours.opacity(),
            tooltip=tips(rows, colours.field, "time_of_day_h", "mean_mbps", "min_mbps", "max_mbps"),
        ),
        data={"rows": rows},
    )
