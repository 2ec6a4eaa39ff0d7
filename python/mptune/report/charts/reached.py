"""Charts of how a decision was reached: what was still open over time, how certain it was, what was tried."""

from typing import Any

import msgspec

from mptune.report.charts.style import (
    FEW_STEPS,
    LOG_BUFFER,
    PALETTE,
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

#: Height of one of the charts, pixels.
_HEIGHT = 220

#: Number of names with different colours; the others are grey, the colour after these.
NAMED = PALETTE.index("#999999")

#: Areas of a trial's mark without any throughput and with the largest, square pixels.
_SMALL, _LARGE = 8, 70


class Elapsed(msgspec.Struct, frozen=True):
    """The common axis of these charts: time on the testbed.

    Attributes
    ----------
    column : with the time in `unit`.
    ends : where the axis begins and ends: impact factors come before the first trial.
    """

    column: str
    unit: str
    ends: tuple[float, float]

    def axis(self) -> Any:
        """Horizontal axis of the time."""
        title = f"time on the testbed ({self.unit})"
        return horizontal(title, domain=list(self.ends), nice=False)(self.column)


def race(steps: Rows, elapsed: Elapsed) -> Spec:
    """Number of candidates that may still be the best, and above it the number that competed.

    Parameters
    ----------
    steps : column of `elapsed`, contenders, competing.
    """
    x, y = elapsed.axis(), vertical("candidates", domainMin=0, nice=True)
    place = base("steps").encode(x=x, tooltip=tips(steps, elapsed.column, "contenders", "competing"))
    layers = [
        place.mark_line(interpolate="step-after", strokeDash=[4, 3], style="soft").encode(y=y("competing")),
        place.mark_line(interpolate="step-after", strokeWidth=2).encode(y=y("contenders")),
        place.mark_point(filled=True, size=20).encode(y=y("contenders")),
    ]
    return layered(*layers, data={"steps": steps}, height=_HEIGHT)


def certainty(steps: Rows, elapsed: Elapsed) -> Spec:
    """Largest possible loss of the answer so far, with the certainty asked for.

    Parameters
    ----------
    steps : column of `elapsed`, room_percent, certainty_percent.
    """
    x, y = elapsed.axis(), vertical("may miss (%)", domainMin=0, nice=True)
    tooltip = tips(steps, elapsed.column, "room_percent", "certainty_percent")
    place = base("steps").encode(x=x, y=y("room_percent"), tooltip=tooltip)
    layers = [
        place.mark_line(interpolate="step-after", strokeWidth=2),
        place.mark_point(filled=True, size=20),
    ]
    return layered(*layers, data={"steps": steps}, height=_HEIGHT)


def trials(rows: Rows, steps: Rows, colours: Key, elapsed: Elapsed) -> Spec:
    """Every trial by its time and buffer, over the buffers that might still be the answer.

    Parameters
    ----------
    rows : columns of `colours` and of `elapsed`, candidate, buffer_mib, throughput_mbps, share (of the
        largest throughput, from 0 to 1).
    steps : column of `elapsed`, smallest_mib, largest_mib.
    """
    import altair as alt

    sizes = [row["buffer_mib"] for row in rows]
    sizes += [row[name] for row in steps for name in ("smallest_mib", "largest_mib")]
    x = elapsed.axis()
    y = vertical(LOG_BUFFER, values=round_sizes(sizes, FEW_STEPS), type="log", nice=False, padding=8)
    ends = {"y": y("smallest_mib"), "y2": alt.Y2("largest_mib:Q")}
    size = alt.Size("share:Q", scale=alt.Scale(domain=[0, 1], range=[_SMALL, _LARGE]), legend=None)
    tooltip = tips(rows, elapsed.column, "candidate", "buffer_mib", "throughput_mbps")
    grey = PALETTE[NAMED]
    # The line shows where only one buffer is left.
    open_ones = base("steps").mark_area(
        interpolate="step-after", opacity=0.3, color=grey, line={"color": grey, "strokeWidth": 1}
    )
    layers = [
        open_ones.encode(x=x, **ends),
        base("trials")
        .mark_point(filled=True)
        .encode(
            x=x,
            y=y("buffer_mib"),
            size=size,
            color=colours.colour(),
            shape=colours.shape(),
            opacity=colours.opacity(0.8),
            tooltip=tooltip,
        ),
    ]
    return layered(*layers, data={"steps": steps, "trials": rows}, height=_HEIGHT)
