"""Charts of subflows: impact factors, round-trip times, retransmissions, and throughput over time."""

from typing import Any

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
    vertical,
)

#: Height of one impact factor and of the smallest chart of them, pixels.
_ROW, _SMALLEST = 11, 130

_TIME = "time (s)"


def omegas(rows: Rows, colours: Key, *, reach: float | None = None) -> Spec:
    """Impact factors of all subflows per congestion control, with their spread (PCDC Tables II to IV).

    Parameters
    ----------
    rows : column of `colours`, path, carries_data, mean, min, max, q10, q90 (no unit).
    reach : show only what is this close to 0; None shows all.
    """
    import altair as alt

    limits = {} if reach is None else {"domain": [-reach, reach]}
    x = horizontal("impact factor, share of the throughput", nice=False, padding=8, **limits)
    place = _subflow_by_subflow(rows, colours, "path")
    tooltip = tips(rows, "path", colours.field, "mean", "min", "max", "q10", "q90")
    filled = either(alt.FillOpacityValue, "datum.carries_data", 1, 0)
    layers = [
        base("zero").mark_rule(strokeDash=[4, 3], style="soft").encode(x=x("zero")),
        place.mark_rule(clip=True).encode(x=x("min"), x2=alt.X2("max:Q"), opacity=colours.opacity()),
        place.mark_rule(strokeWidth=4, clip=True).encode(
            x=x("q10"), x2=alt.X2("q90:Q"), opacity=colours.opacity(0.5)
        ),
        place.mark_point(filled=True, size=34, strokeWidth=1.5, clip=True).encode(
            x=x("mean"),
            stroke=colours.stroke(),
            shape=colours.shape(),
            fillOpacity=filled,
            opacity=colours.opacity(),
            tooltip=tooltip,
        ),
    ]
    data = {"rows": rows, "zero": [{"zero": 0}]}
    return layered(*layers, data=data, height=_high(rows, colours, "path"))


def round_trips(rows: Rows, colours: Key) -> Spec:
    """RTT of all subflows per configuration: the smallest one, and the one at the end of the runs.

    Parameters
    ----------
    rows : column of `colours`, subflow, smallest_rtt_ms, rtt_ms, min_rtt_ms, max_rtt_ms.
    """
    import altair as alt

    x = horizontal("RTT (ms)", domainMin=0, nice=False, padding=8)
    place = _subflow_by_subflow(rows, colours, "subflow")
    tooltip = tips(rows, "subflow", colours.field, "smallest_rtt_ms", "rtt_ms", "min_rtt_ms", "max_rtt_ms")
    layers = [
        place.mark_rule(strokeWidth=4).encode(
            x=x("smallest_rtt_ms"), x2=alt.X2("rtt_ms:Q"), opacity=colours.opacity(0.35)
        ),
        place.mark_rule().encode(x=x("min_rtt_ms"), x2=alt.X2("max_rtt_ms:Q"), opacity=colours.opacity()),
        place.mark_tick(thickness=2, size=_ROW).encode(x=x("smallest_rtt_ms"), opacity=colours.opacity()),
        place.mark_point(filled=True, size=40).encode(
            x=x("rtt_ms"), shape=colours.shape(), opacity=colours.opacity(), tooltip=tooltip
        ),
    ]
    return layered(*layers, data={"rows": rows}, height=_high(rows, colours, "subflow"))


def retransmissions(rows: Rows, colours: Key) -> Spec:
    """Retransmitted segments per MB that a subflow delivered, with minimum and maximum of the runs.

    Parameters
    ----------
    rows : column of `colours`, subflow, again_per_mb, min_again_per_mb, max_again_per_mb.
    """
    import altair as alt

    x = horizontal("retransmitted segments per MB delivered", domainMin=0, nice=False, padding=8)
    place = _subflow_by_subflow(rows, colours, "subflow")
    tooltip = tips(rows, "subflow", colours.field, "again_per_mb", "min_again_per_mb", "max_again_per_mb")
    layers = [
        place.mark_rule().encode(
            x=x("min_again_per_mb"), x2=alt.X2("max_again_per_mb:Q"), opacity=colours.opacity(0.6)
        ),
        place.mark_point(filled=True, size=40).encode(
            x=x("again_per_mb"), shape=colours.shape(), opacity=colours.opacity(), tooltip=tooltip
        ),
    ]
    return layered(*layers, data={"rows": rows}, height=_high(rows, colours, "subflow"))


def _subflow_by_subflow(rows: Rows, colours: Key, column: str) -> Any:
    """Subflows one below another, and a place for each name within each."""
    import altair as alt

    axis = alt.Axis(grid=True, ticks=False, titleX=0, titleAnchor="end", bandPosition=0)
    y = alt.Y(f"{column}:N", title="subflow", sort=list(distinct(row[column] for row in rows)), axis=axis)
    offset = alt.YOffset(f"{colours.field}:N", sort=list(colours.names))
    return base("rows").encode(y=y, yOffset=offset, color=colours.colour())


def _high(rows: Rows, colours: Key, column: str) -> int:
    """Height of a chart with a place for each subflow and name, pixels."""
    places = len(distinct(row[column] for row in rows))
    return max(_SMALLEST, places * (_ROW * len(colours.names) + 8))


def over_time(rows: Rows, colours: Key, *, top: float | None = None, height: int = 280) -> Spec:
    """Total throughput over time, mean, minimum and maximum (path management Fig. 3, PCDC Fig. 5).

    Parameters
    ----------
    rows : column of `colours`, t_s, mean_mbps, min_mbps, max_mbps.
    top : upper end of the throughput axis, Mbit/s, where what is above ends; None leaves it to the data.
    """
    import altair as alt

    x = horizontal(_TIME, nice=False)("t_s")
    limits: dict[str, Any] = {} if top is None else {"domain": [0, top], "nice": True}
    y = vertical(THROUGHPUT, **limits)
    lines = base("rows").encode(x=x, color=colours.colour())
    layers = [
        lines.mark_area(interpolate="step-after", clip=True).encode(
            y=y("min_mbps"), y2=alt.Y2("max_mbps:Q"), opacity=colours.opacity(0.18)
        ),
        lines.mark_line(strokeWidth=1.6, interpolate="step-after", clip=True).encode(
            y=y("mean_mbps"), strokeDash=colours.dash(), opacity=colours.opacity()
        ),
    ]
    return layered(*layers, data={"rows": rows}, height=height)


def rtts_over_time(rows: Rows, colours: Key, *, top: float) -> Spec:
    """Smoothed RTT of each subflow over time: mean, smallest and largest of each step.

    Parameters
    ----------
    rows : column of `colours`, t_s, rtt_ms, min_rtt_ms, max_rtt_ms.
    top : upper end of the vertical axis, the same for all panels, ms.
    """
    import altair as alt

    y = vertical("RTT (ms)", domain=[0, top], nice=True)
    lines = base("rows").encode(x=horizontal(_TIME, nice=False)("t_s"), color=colours.colour())
    layers = [
        lines.mark_area(interpolate="step-after").encode(
            y=y("min_rtt_ms"), y2=alt.Y2("max_rtt_ms:Q"), opacity=colours.opacity(0.18)
        ),
        lines.mark_line(strokeWidth=1.6, interpolate="step-after").encode(
            y=y("rtt_ms"), strokeDash=colours.dash(), opacity=colours.opacity()
        ),
    ]
    return layered(*layers, data={"rows": rows})


def stacked(
    rows: Rows,
    colours: Key,
    *,
    top: float,
    column: str = "throughput_mbps",
    title: str = THROUGHPUT,
) -> Spec:
    """A number over time, stacked by subflow (path management Fig. 4).

    Parameters
    ----------
    rows : column of `colours`, t_s, place (in the stack), `column`.
    top : upper end of the vertical axis.
    title : of the vertical axis.
    """
    import altair as alt

    y = alt.Y(f"{column}:Q", title=title, stack="zero", scale=alt.Scale(domain=[0, top], nice=True))
    areas = base("rows").mark_area(interpolate="step-after")
    return layered(
        areas.encode(
            x=horizontal(_TIME, nice=False)("t_s"),
            y=y,
            color=colours.colour(),
            opacity=colours.opacity(),
            order=alt.Order("place:Q"),
            tooltip=tips(rows, colours.field, "t_s", column),
        ),
        data={"rows": rows},
    )
