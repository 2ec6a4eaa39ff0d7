"""Charts of delays of messages and of times of responses: the share that takes longer, and each of them."""

import math

from mptune.report.charts.style import (
    FEW_STEPS,
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


def later(rows: Rows, colours: Key, *, of: str, many: str) -> Spec:
    """Share of messages or responses that take at least some time, both logarithmic.

    Parameters
    ----------
    rows : column of `colours`, time_ms (above 0), share_percent (above 0); by falling share of each name.
    of, many : title of a time ("delay"), and what takes it ("messages").
    """
    times, shares = [row["time_ms"] for row in rows], [row["share_percent"] for row in rows]
    ticks = round_sizes(times, FEW_STEPS)
    x = horizontal(_title(of), values=ticks, type="log", nice=False, padding=8)("time_ms")
    least = math.floor(math.log10(min(shares)))
    decades = [10.0**power for power in range(least, 3)]
    title = f"{many} that take longer (%), logarithmic"
    y = vertical(title, values=decades, type="log", domain=[10.0**least, 100], clamp=True)
    lines = base("rows").encode(x=x, y=y("share_percent"), color=colours.colour())
    layers = [
        lines.mark_line(strokeWidth=2, interpolate="step-before").encode(
            strokeDash=colours.dash(), opacity=colours.opacity()
        ),
        # Wider than the line, for those who point at it.
        lines.mark_point(filled=True, size=60, opacity=0).encode(
            tooltip=tips(rows, colours.field, "time_ms", "share_percent")
        ),
    ]
    return layered(*layers, data={"rows": rows})


def each(rows: Rows, colours: Key, *, of: str, across: str, title: str) -> Spec:
    """Time of each message or response of one run.

    Parameters
    ----------
    rows : column of `colours`, `across`, time_ms (above 0).
    of : title of a time.
    across, title : column along the horizontal axis, and its title.
    """
    ticks = round_sizes((row["time_ms"] for row in rows), FEW_STEPS)
    x = horizontal(title, nice=False)(across)
    y = vertical(_title(of), values=ticks, type="log", nice=False, padding=8)
    place = base("rows").encode(x=x, y=y("time_ms"), color=colours.colour(), shape=colours.shape())
    points = place.mark_point(filled=True, size=14).encode(
        opacity=colours.opacity(0.7), tooltip=tips(rows, colours.field, across, "time_ms")
    )
    return layered(points, data={"rows": rows})


def _title(of: str) -> str:
    return f"{of} (ms), logarithmic"
