"""Charts of a report, each a single Vega-Lite view that fits the width it is given.

Data in, chart out; which charts a run has stands in `mptune.report.sections`. Colours and marks are those
of `mptune.report.figures`; ink and background are left to the page, which has a light and a dark form.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mptune.report.figures import PALETTE, distinct

if TYPE_CHECKING:
    import altair as alt

Rows = Sequence[dict[str, Any]]

#: Height of a chart, pixels; the width is the page's.
HEIGHT = 300

#: Below a chart and in two columns, legends leave a narrow screen its width.
_LEGEND: dict[str, Any] = {"orient": "bottom", "columns": 3, "symbolOpacity": 1.0}

_THROUGHPUT = "throughput (Mbit/s)"
_BUFFER = "buffer (MiB)"


def _colour(field: str, title: str, rows: Rows) -> Any:
    """Colours of names in the order of their first appearance."""
    import altair as alt

    names = distinct(row[field] for row in rows)
    scale = alt.Scale(domain=names, range=[PALETTE[i % len(PALETTE)] for i in range(len(names))])
    return alt.Color(f"{field}:N", title=title, sort=names, scale=scale, legend=alt.Legend(**_LEGEND))


def _base(rows: Rows) -> "alt.Chart":
    import altair as alt

    return alt.Chart(alt.Data(values=list(rows)))


def _sized(chart: Any, height: int = HEIGHT) -> Any:
    return chart.properties(width="container", height=height)


def response(points: Rows, curves: Rows, optimum: dict[str, Any] | None, top: float) -> Any:
    """Throughput over buffer of one path manager: data, fitted curves and their intervals (MPCOA Fig. 5).

    Parameters
    ----------
    points : rows with cc, buffer_mib, mean_mbps, min_mbps, max_mbps.
    curves : rows with cc, buffer_mib, predicted_mbps, low_mbps, high_mbps.
    optimum : buffer_mib and throughput_mbps to be marked.
    top : upper end of the throughput axis, the same for all path managers, Mbit/s.
    """
    import altair as alt

    x = alt.X("buffer_mib:Q", title=_BUFFER, scale=alt.Scale(domainMin=0, nice=False))
    scale = alt.Scale(domain=[0, top], nice=True)
    colour = _colour("cc", "congestion control", points)
    layers = []
    if any(row["low_mbps"] is not None for row in curves):
        band = _base(curves).mark_area(opacity=0.15)
        layers.append(band.encode(x=x, y=alt.Y("low_mbps:Q", scale=scale), y2="high_mbps:Q", color=colour))
    if curves:
        line = _base(curves).mark_line(strokeWidth=2, clip=True)
        layers.append(line.encode(x=x, y=alt.Y("predicted_mbps:Q", scale=scale), color=colour))
    spread = _base(points).mark_rule(opacity=0.35)
    layers.append(spread.encode(x=x, y=alt.Y("min_mbps:Q", scale=scale), y2="max_mbps:Q", color=colour))
    means = _base(points).mark_point(size=26, filled=True, opacity=1.0)
    layers.append(
        means.encode(
            x=x,
            y=alt.Y("mean_mbps:Q", title=_THROUGHPUT, scale=scale),
            color=colour,
            shape=alt.Shape("cc:N", legend=alt.Legend(**_LEGEND), title="congestion control"),
            tooltip=["cc:N", "buffer_mib:Q", "mean_mbps:Q", "min_mbps:Q", "max_mbps:Q"],
        )
    )
    if optimum is not None:
        ring = _base([optimum]).mark_point(size=260, strokeWidth=2.5, filled=False, color="#7f7f7f")
        layers.append(ring.encode(x=x, y=alt.Y("throughput_mbps:Q", scale=scale)))
    return _sized(alt.layer(*layers))


def bars(rows: Rows) -> Any:
    """Mean throughput per congestion control and path manager with min-max and 10-90 % (MPCOA Figs. 6-8).

    Parameters
    ----------
    rows : pm, cc, mean_mbps, min_mbps, max_mbps, q10_mbps, q90_mbps.
    """
    import altair as alt

    x = alt.X(
        "cc:N",
        title="congestion control",
        sort=distinct(r["cc"] for r in rows),
        axis=alt.Axis(labelAngle=-30),
    )
    offset = alt.XOffset("pm:N", sort=distinct(r["pm"] for r in rows))
    base = _base(rows)
    filled = base.mark_bar().encode(
        x=x,
        xOffset=offset,
        y=alt.Y("mean_mbps:Q", title=_THROUGHPUT),
        color=_colour("pm", "path manager", rows),
        tooltip=["pm:N", "cc:N", "mean_mbps:Q", "min_mbps:Q", "max_mbps:Q", "q10_mbps:Q", "q90_mbps:Q"],
    )
    thin = base.mark_rule(strokeWidth=1).encode(x=x, xOffset=offset, y="min_mbps:Q", y2="max_mbps:Q")
    thick = base.mark_rule(strokeWidth=4).encode(x=x, xOffset=offset, y="q10_mbps:Q", y2="q90_mbps:Q")
    return _sized(alt.layer(filled, thin, thick))


def omegas(rows: Rows) -> Any:
    """Impact factor of every subflow per congestion control with its spread (MPCOA Tables 2-4).

    Parameters
    ----------
    rows : cc, path, mean, min, max, q10, q90 (no unit).
    """
    import altair as alt

    paths = distinct(row["path"] for row in rows)
    ccs = distinct(row["cc"] for row in rows)
    y = alt.Y("path:N", title="subflow", sort=paths)
    offset = alt.YOffset("cc:N", sort=ccs)
    colour = _colour("cc", "congestion control", rows)
    base = _base(rows)
    zero = _base([{"zero": 0}]).mark_rule(strokeDash=[4, 3]).encode(x="zero:Q")
    thin = base.mark_rule(strokeWidth=1).encode(x="min:Q", x2="max:Q", y=y, yOffset=offset, color=colour)
    thick = base.mark_rule(strokeWidth=4, opacity=0.6).encode(
        x="q10:Q", x2="q90:Q", y=y, yOffset=offset, color=colour
    )
    means = base.mark_point(filled=True, size=40, opacity=1.0).encode(
        x=alt.X("mean:Q", title="impact factor (share of the throughput)"),
        y=y,
        yOffset=offset,
        color=colour,
        tooltip=["path:N", "cc:N", "mean:Q", "min:Q", "max:Q", "q10:Q", "q90:Q"],
    )
    return _sized(alt.layer(zero, thin, thick, means), max(140, 14 * len(paths) * max(1, len(ccs))))


def over_time(rows: Rows) -> Any:
    """Total throughput over time, mean of the runs with minimum and maximum (path management Fig. 3).

    Parameters
    ----------
    rows : name, t_s, mean_mbps, min_mbps, max_mbps.
    """
    import altair as alt

    colour = _colour("name", "configuration", rows)
    x = alt.X("t_s:Q", title="time (s)", scale=alt.Scale(nice=False))
    base = _base(rows)
    band = base.mark_area(opacity=0.2).encode(x=x, y="min_mbps:Q", y2="max_mbps:Q", color=colour)
    line = base.mark_line(strokeWidth=1.5).encode(
        x=x,
        y=alt.Y("mean_mbps:Q", title=_THROUGHPUT),
        color=colour,
        strokeDash=alt.StrokeDash("name:N", legend=None),
    )
    return _sized(alt.layer(band, line))


def stacked(rows: Rows) -> Any:
    """Throughput over time, stacked by subflow (path management Fig. 4, PCDC Fig. 5).

    Parameters
    ----------
    rows : path, t_s, throughput_mbps.
    """
    import altair as alt

    return _sized(
        _base(rows)
        .mark_area(line=False)
        .encode(
            x=alt.X("t_s:Q", title="time (s)", scale=alt.Scale(nice=False)),
            y=alt.Y("throughput_mbps:Q", title=_THROUGHPUT, stack="zero"),
            color=_colour("path", "subflow", rows),
            tooltip=["path:N", "t_s:Q", "throughput_mbps:Q"],
        )
    )


def completion(rows: Rows) -> Any:
    """Completion time over transfer size with the spread of the runs (PCDC Figs. 7, 9, 11).

    Parameters
    ----------
    rows : name, transfer_kib, mean_s, min_s, max_s.
    """
    import altair as alt

    x = alt.X("transfer_kib:Q", title="transfer (KiB, logarithmic)", scale=alt.Scale(type="log"))
    colour = _colour("name", "configuration", rows)
    base = _base(rows)
    spread = base.mark_rule(opacity=0.5).encode(x=x, y="min_s:Q", y2="max_s:Q", color=colour)
    line = base.mark_line(point=True).encode(
        x=x, y=alt.Y("mean_s:Q", title="completion time (s)"), color=colour, tooltip=["name:N", "mean_s:Q"]
    )
    return _sized(alt.layer(spread, line))


def initial_paths(rows: Rows) -> Any:
    """Throughput per initial path with 95 % intervals (buffer sizes Figs. 5-9).

    Parameters
    ----------
    rows : name, initial_path, mean_mbps, low_mbps, high_mbps.
    """
    import altair as alt

    x = alt.X("initial_path:N", title="initial path", axis=alt.Axis(labelAngle=-30))
    offset = alt.XOffset("name:N")
    colour = _colour("name", "configuration", rows)
    base = _base(rows)
    rule = base.mark_rule(strokeWidth=2).encode(
        x=x, xOffset=offset, y="low_mbps:Q", y2="high_mbps:Q", color=colour
    )
    means = base.mark_point(filled=True, size=45, opacity=1.0).encode(
        x=x,
        xOffset=offset,
        y=alt.Y("mean_mbps:Q", title=_THROUGHPUT, scale=alt.Scale(zero=False)),
        color=colour,
        tooltip=["name:N", "initial_path:N", "mean_mbps:Q", "low_mbps:Q", "high_mbps:Q"],
    )
    return _sized(alt.layer(rule, means))


def pareto(rows: Rows, chosen: dict[str, Any]) -> Any:
    """Throughput over the smallest buffer that gives it; the page moves the ring by its signals.

    Parameters
    ----------
    rows : sacrifice, pm, cc, buffer_mib, throughput_mbps and their intervals.
    chosen : the row of the answer.
    """
    import altair as alt

    values = [{**row, "name": f"{row['pm']}, {row['cc']}"} for row in rows]
    x = alt.X("buffer_mib:Q", title="buffer (MiB, logarithmic)", scale=alt.Scale(type="log", nice=False))
    y = alt.Y("throughput_mbps:Q", title=_THROUGHPUT, scale=alt.Scale(zero=False))
    colour = _colour("name", "path manager, congestion control", values)
    base = _base(values)
    layers = [
        base.mark_line(interpolate="step-after", strokeWidth=1, opacity=0.5).encode(x=x, y=y),
        base.mark_rule(opacity=0.35).encode(x="buffer_mib_low:Q", x2="buffer_mib_high:Q", y=y, color=colour),
        base.mark_rule(opacity=0.35).encode(
            x=x, y="throughput_mbps_low:Q", y2="throughput_mbps_high:Q", color=colour
        ),
        base.mark_point(size=55, filled=True, opacity=1.0).encode(
            x=x,
            y=y,
            color=colour,
            tooltip=["name:N", "sacrifice:Q", "buffer_mib:Q", "throughput_mbps:Q"],
        ),
    ]
    sacrifice = alt.param(name="sacrifice", value=chosen["sacrifice"])
    ring = (
        base.transform_filter("abs(datum.sacrifice - sacrifice) < 1e-9")
        .mark_point(size=320, strokeWidth=2.5, filled=False, color="#7f7f7f")
        .encode(x=x, y=y)
    )
    return _sized(alt.layer(*layers, ring).add_params(sacrifice))


def compared(rows: Rows) -> Any:
    """What each of several runs confirmed, with 95 % intervals.

    Parameters
    ----------
    rows : run, kind ("recommended" or "default"), mean_mbps, low_mbps, high_mbps.
    """
    import altair as alt

    y = alt.Y("run:N", title="run", sort=distinct(row["run"] for row in rows))
    offset = alt.YOffset("kind:N")
    colour = _colour("kind", "configuration", rows)
    base = _base(rows)
    rule = base.mark_rule(strokeWidth=3).encode(
        x="low_mbps:Q", x2="high_mbps:Q", y=y, yOffset=offset, color=colour
    )
    mean = base.mark_point(filled=True, size=60, opacity=1.0).encode(
        x=alt.X("mean_mbps:Q", title=_THROUGHPUT, scale=alt.Scale(zero=False)),
        y=y,
        yOffset=offset,
        color=colour,
        tooltip=["run:N", "kind:N", "mean_mbps:Q", "low_mbps:Q", "high_mbps:Q"],
    )
    return _sized(alt.layer(rule, mean), max(120, 50 * len({row["run"] for row in rows})))


def time_of_day(rows: Rows) -> Any:
    """Throughput of a campaign spread over days, against the time of day.

    Parameters
    ----------
    rows : name, time_of_day_h, throughput_mbps.
    """
    import altair as alt

    return _sized(
        _base(rows)
        .mark_point(size=20, filled=True, opacity=0.6)
        .encode(
            x=alt.X("time_of_day_h:Q", title="time of day (h)", scale=alt.Scale(domain=[0, 24])),
            y=alt.Y("throughput_mbps:Q", title=_THROUGHPUT, scale=alt.Scale(zero=False)),
            color=_colour("name", "configuration", rows),
        )
    )
