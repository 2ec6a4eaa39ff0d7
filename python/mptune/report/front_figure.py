"""Figure of the trade-off: the Pareto front of throughput and buffer, with the answer on it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mptune._text import digits
from mptune.report.figures import HEIGHT, INK, WIDTH, colours, distinct, heading, styled
from mptune.selection import Optimum
from mptune.tradeoff import FrontPoint

if TYPE_CHECKING:
    import altair as alt

#: Sacrifices whose points are labelled.
_LABELLED = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5)


def front_figure(front: Sequence[FrontPoint], optimum: Optimum) -> "alt.LayerChart":
    """Throughput over the smallest buffer that gives it, coloured by combination.

    Parameters
    ----------
    front : by falling throughput; crosses are its 95 % intervals, where it has them.
    optimum : the chosen one, marked by a ring.
    """
    import altair as alt

    names = distinct(f"{point.optimum.pm}, {point.optimum.cc}" for point in front)
    x = alt.X("buffer:Q", title="buffer (MiB, logarithmic)", scale=alt.Scale(type="log", nice=False))
    y = alt.Y("throughput:Q", title="throughput (Mbit/s)", scale=alt.Scale(zero=False, nice=True))
    colour = alt.Color(
        "name:N",
        title="path manager, CC",
        sort=names,
        scale=colours(names),
        legend=alt.Legend(symbolOpacity=1.0),
    )
    base = alt.Chart(alt.Data(values=[_values(point) for point in front]))
    layers = [
        base.mark_line(interpolate="step-after", color=INK, strokeWidth=1, opacity=0.5).encode(x=x, y=y),
        base.mark_rule(opacity=0.35).encode(x="buffer_low:Q", x2="buffer_high:Q", y=y, color=colour),
        base.mark_rule(opacity=0.35).encode(x=x, y="throughput_low:Q", y2="throughput_high:Q", color=colour),
        base.mark_point(size=45, filled=True, opacity=1.0).encode(x=x, y=y, color=colour),
        base.mark_text(dx=-8, dy=10, align="right", fontSize=10, color=INK).encode(x=x, y=y, text="label:N"),
        _ring(optimum).encode(x=x, y=y),
    ]
    about = heading(
        "Throughput against buffer: the best choice for every sacrifice",
        f"ring: the answer, {optimum.buffer_mib:.2f} MiB for {digits(optimum.throughput_mbps)} Mbit/s; "
        "percent: throughput given up; crosses: 95 % intervals",
    )
    drawn = alt.layer(*layers, title=about).properties(width=WIDTH, height=HEIGHT)
    chart: alt.LayerChart = styled(drawn)
    return chart


def _ring(optimum: Optimum) -> "alt.Chart":
    """Mark of the answer."""
    import altair as alt

    value = {"buffer": optimum.buffer_mib, "throughput": optimum.throughput_mbps}
    chart: alt.Chart = alt.Chart(alt.Data(values=[value])).mark_point(
        size=260, strokeWidth=2.5, color="black", filled=False
    )
    return chart


def _values(point: FrontPoint) -> dict[str, object]:
    """One point as the figure's data; without intervals their ends are the point itself."""
    one = point.optimum
    buffer = point.buffer_interval or (one.buffer_mib, one.buffer_mib)
    throughput = point.throughput_interval or (one.throughput_mbps, one.throughput_mbps)
    return {
        "name": f"{one.pm}, {one.cc}",
        "buffer": one.buffer_mib,
        "buffer_low": buffer[0],
        "buffer_high": buffer[1],
        "throughput": one.throughput_mbps,
        "throughput_low": throughput[0],
        "throughput_high": throughput[1],
        "label": f"{100 * point.sacrifice:g} %" if point.sacrifice in _LABELLED else "",
    }
