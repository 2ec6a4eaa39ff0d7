"""Charts of a sweep: throughput over buffer, and bars per congestion control and path manager."""

from collections.abc import Callable, Sequence
from typing import Any

from mptune.report.charts.style import (
    BUFFER,
    FEW_STEPS,
    LOG_BUFFER,
    THROUGHPUT,
    Key,
    Rows,
    Spec,
    base,
    distinct,
    horizontal,
    layered,
    ring,
    round_sizes,
    tips,
    vertical,
)

#: Marks are drawn small in a panel with more than this many.
_MANY = 150

#: Bars have no numbers in a panel with more than this many: they would overlap on a phone.
_NUMBERED = 12

#: Opacity of an interval; paler in a panel with more curves than this, where they lie over each other.
_BAND, _PALE_BAND, _FEW_CURVES = 0.15, 0.06, 3

#: Height of a box from quartile to quartile, pixels.
_BOX = 10


def response(
    points: Rows,
    curves: Rows,
    colours: Key,
    *,
    top: float,
    choices: Rows = (),
    choice: int | None = None,
    sizes: Sequence[float] = (),
) -> Spec:
    """Throughput over buffer: data, fitted curves and their intervals (MPCOA Fig. 5).

    Parameters
    ----------
    points : column of `colours`, buffer_mib, mean_mbps, min_mbps, max_mbps; may be empty.
    curves : column of `colours`, buffer_mib, predicted_mbps, predicted_low_mbps, predicted_high_mbps.
    top : upper end of the throughput axis, the same for all panels, Mbit/s.
    choices, choice : where the ring can be (choice, buffer_mib, throughput_mbps, label, side), and where it
    starts.
    sizes : smallest and largest buffer of a logarithmic axis, MiB; empty for a linear one.
    """
    import altair as alt

    if sizes:
        domain = [min(sizes), max(sizes)]
        x = horizontal(
            LOG_BUFFER, values=round_sizes(sizes, FEW_STEPS), type="log", nice=False, domain=domain
        )("buffer_mib")
    else:
        x = horizontal(BUFFER, domainMin=0, nice=False)("buffer_mib")
    y = vertical(THROUGHPUT, domain=[0, top], nice=True)
    colour = colours.colour()
    layers = []
    if any(row["predicted_low_mbps"] is not None for row in curves):
        ends = {"y": y("predicted_low_mbps"), "y2": alt.Y2("predicted_high_mbps:Q")}
        band = base("curves").mark_area(clip=True)
        full = _BAND if len(distinct(row[colours.field] for row in curves)) <= _FEW_CURVES else _PALE_BAND
        layers.append(band.encode(x=x, **ends, color=colour, opacity=colours.opacity(full)))
    if curves:
        line = (
            base("curves")
            .mark_line(strokeWidth=2, clip=True)
            .encode(x=x, y=y("predicted_mbps"), color=colour)
        )
        layers.append(line.encode(strokeDash=colours.dash(), opacity=colours.opacity()))
    if points:
        spread = (
            base("points")
            .mark_rule(clip=True)
            .encode(x=x, y=y("min_mbps"), y2=alt.Y2("max_mbps:Q"), color=colour)
        )
        layers.append(spread.encode(opacity=colours.opacity(0.45)))
        means = base("points").mark_point(size=12 if len(points) > _MANY else 30, filled=True)
        layers.append(
            means.encode(
                x=x,
                y=y("mean_mbps"),
                color=colour,
                shape=colours.shape(),
                opacity=colours.opacity(),
                tooltip=tips(points, colours.field, "buffer_mib", "mean_mbps", "min_mbps", "max_mbps"),
            )
        )
    if choices:
        layers += ring("choices", x, y("throughput_mbps"))
    data = {"points": points, "curves": curves, "choices": choices}
    return layered(*layers, data=data, choice=choice)


def bars(rows: Rows, colours: Key, *, top: float) -> Spec:
    """Mean throughput per congestion control and path manager with min-max and 10-90 % (MPCOA Figs. 6-8).

    Parameters
    ----------
    rows : column of `colours`, cc, mean_mbps, min_mbps, max_mbps, q10_mbps, q90_mbps, label.
    top : upper end of the throughput axis, Mbit/s.
    """
    y = vertical(THROUGHPUT, domain=[0, top], nice=True)
    numbers = len(rows) <= _NUMBERED
    return spread_bars(
        rows, colours, y, across="cc", unit="mbps", title="congestion control", numbers=numbers
    )


def single_runs(runs: Rows, boxes: Rows, colours: Key) -> Spec:
    """Every run as a mark over a box from quartile to quartile, one configuration below another.

    Parameters
    ----------
    runs : column of `colours`, cc, run, throughput_mbps.
    boxes : column of `colours`, cc, q25_mbps, median_mbps, q75_mbps.
    """
    import altair as alt

    names = distinct(row["cc"] for row in boxes)
    axis = alt.Axis(grid=True, ticks=False, titleX=0, titleAnchor="end", bandPosition=0)
    y = alt.Y("cc:N", title="congestion control", sort=list(names), axis=axis)
    offset = alt.YOffset(f"{colours.field}:N", sort=list(colours.names))
    x = horizontal(THROUGHPUT, zero=False, nice=False, padding=10)

    def place(data: str) -> Any:
        return base(data).encode(y=y, yOffset=offset, color=colours.colour())

    tooltip = tips(runs, colours.field, "cc", "run", "throughput_mbps")
    layers = [
        place("boxes")
        .mark_rule(strokeWidth=_BOX)
        .encode(x=x("q25_mbps"), x2=alt.X2("q75_mbps:Q"), opacity=colours.opacity(0.3)),
        place("boxes")
        .mark_tick(thickness=2, size=_BOX)
        .encode(x=x("median_mbps"), opacity=colours.opacity()),
        place("runs")
        .mark_point(filled=True, size=18)
        .encode(x=x("throughput_mbps"), opacity=colours.opacity(0.75), tooltip=tooltip),
    ]
    data = {"runs": runs, "boxes": boxes}
    return layered(*layers, data=data, height=(_BOX + 3) * len(boxes) + 10 * len(names))


def spread_bars(
    rows: Rows,
    colours: Key,
    y: Callable[[str], Any],
    *,
    across: str,
    unit: str,
    title: str,
    numbers: bool = False,
) -> Spec:
    """Bars side by side: the mean, a thin line from minimum to maximum, a thick one from 10 to 90 %.

    Parameters
    ----------
    across : column along the horizontal axis, in the order of its first appearance.
    unit : end of the names of the statistics' columns.
    numbers : write the column `label` above each bar.
    """
    import altair as alt

    order = list(distinct(row[across] for row in rows))
    axis = alt.Axis(labelAngle=-30, labelOverlap=False)
    x = alt.X(f"{across}:N", title=title, sort=order, axis=axis)
    offset = alt.XOffset(f"{colours.field}:N", sort=list(colours.names))
    place = base("rows").encode(x=x, xOffset=offset, opacity=colours.opacity())
    mean, low, high, q10, q90 = (f"{name}_{unit}" for name in ("mean", "min", "max", "q10", "q90"))
    tooltip = tips(rows, colours.field, across, mean, low, high, q10, q90)
    layers = [
        place.mark_bar().encode(y=y(mean), color=colours.colour(), tooltip=tooltip),
        place.mark_rule(strokeWidth=1).encode(y=y(low), y2=alt.Y2(f"{high}:Q")),
        place.mark_rule(strokeWidth=4).encode(y=y(q10), y2=alt.Y2(f"{q90}:Q")),
    ]
    if numbers:
        layers.append(place.mark_text(dy=-7, fontSize=9).encode(y=y(high), text=alt.Text("label:N")))
    return layered(*layers, data={"rows": rows})
