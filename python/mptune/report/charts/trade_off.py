"""Chart of the trade-off: the Pareto front of throughput and buffer, with a movable ring."""

import math

from mptune.report.charts.style import (
    BUFFER,
    THROUGHPUT,
    Key,
    Rows,
    Spec,
    base,
    horizontal,
    layered,
    ring,
    tips,
    vertical,
)

#: Steps of a logarithmic axis per decade.
_STEPS = (1, 2, 3, 5, 7)


def trade_off(
    rows: Rows, colours: Key, *, steps: Key | None = None, choices: Rows = (), choice: int | None = None
) -> Spec:
    """Throughput over the smallest buffer that gives it.

    Parameters
    ----------
    rows : column of `colours`, sacrifice_percent, buffer_mib, throughput_mbps and the ends of their 95 %
        intervals, `percent` (text at some points), by rising sacrifice.
    steps : one front per name of this key; None is a single one.
    choices, choice : as in `mptune.report.charts.sweep.response`.
    """
    import altair as alt

    x = horizontal(f"{BUFFER}, logarithmic", values=_round_sizes(rows), type="log", nice=False, padding=18)
    y = vertical(THROUGHPUT, zero=False, padding=26)
    size, throughput = x("buffer_mib"), y("throughput_mbps")
    path = base("rows").mark_line(interpolate="step-after", strokeWidth=1).encode(x=size, y=throughput)
    points = base("rows").encode(color=colours.colour(), opacity=colours.opacity(0.6))
    layers = [
        path.encode(color=alt.value("#999999") if steps is None else steps.colour()),
        points.mark_rule().encode(x=x("buffer_low_mib"), x2="buffer_high_mib:Q", y=throughput),
        points.mark_rule().encode(x=size, y=y("throughput_low_mbps"), y2="throughput_high_mbps:Q"),
        points.mark_point(size=50, filled=True).encode(
            x=size,
            y=throughput,
            shape=colours.shape(),
            opacity=colours.opacity(),
            tooltip=tips(rows, colours.field, "sacrifice_percent", "buffer_mib", "throughput_mbps"),
        ),
        base("rows")
        .mark_text(dx=-9, dy=-9, align="right", fontSize=10)
        .encode(x=size, y=throughput, text="percent:N"),
    ]
    if choices:
        layers += ring("choices", size, throughput, below=False)
    return layered(*layers, data={"rows": rows, "choices": choices}, choice=choice)


def _round_sizes(rows: Rows) -> list[float]:
    """Sizes to write along a logarithmic axis; on a narrow one Vega itself would write 3, 5, 7, 9 and 20."""
    columns = "buffer_mib", "buffer_low_mib", "buffer_high_mib"
    sizes = [row[name] for row in rows for name in columns if row[name] is not None]
    low, high = min(sizes), max(sizes)
    decades = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
    candidates = [step * 10.0**decade for decade in decades for step in _STEPS]
    within = [one for one in candidates if low <= one <= high]
    return within if len(within) > 1 else []
