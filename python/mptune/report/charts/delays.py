"""Charts of the delays of messages: the share that is later, and each one over time."""

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

_DELAY = "delay (ms), logarithmic"


def later(rows: Rows, colours: Key) -> Spec:
    """Share of messages with at least a delay, both logarithmic.

    Parameters
    ----------
    rows : column of `colours`, delay_ms (above 0), share_percent (above 0); by falling share of each name.
    """
    delays, shares = [row["delay_ms"] for row in rows], [row["share_percent"] for row in rows]
    x = horizontal(_DELAY, values=round_sizes(delays, FEW_STEPS), type="log", nice=False, padding=8)(
        "delay_ms"
    )
    least = math.floor(math.log10(min(shares)))
    decades = [10.0**power for power in range(least, 3)]
    title = "messages that are later (%), logarithmic"
    y = vertical(title, values=decades, type="log", domain=[10.0**least, 100], clamp=True)
    lines = base("rows").encode(x=x, y=y("share_percent"), color=colours.colour())
    layers = [
        lines.mark_line(strokeWidth=2, interpolate="step-before").encode(
            strokeDash=colours.dash(), opacity=colours.opacity()
        ),
        # Wider than the line, for those who point at it.
        lines.mark_point(filled=True, size=60, opacity=0).encode(
            tooltip=tips(rows, colours.field, "delay_ms", "share_percent")
        ),
    ]
    return layered(*layers, data={"rows": rows})


def over_time(rows: Rows, colours: Key) -> Spec:
    """Delay of each message of one run over the time when it was due.

    Parameters
    ----------
    rows : column of `colours`, due_s, delay_ms (above 0).
    """
    x = horizontal("message due (s)", nice=False)("due_s")
    sizes = round_sizes((row["delay_ms"] for row in rows), FEW_STEPS)
    y = vertical(_DELAY, values=sizes, type="log", nice=False, padding=8)
    return layered(
        base("rows")
        .mark_point(filled=True, size=14)
        .encode(
            x=x,
            y=y("delay_ms"),
            color=colours.colour(),
            shape=colours.shape(),
            opacity=colours.opacity(0.7),
            tooltip=tips(rows, colours.field, "due_s", "delay_ms"),
        ),
        data={"rows": rows},
    )
