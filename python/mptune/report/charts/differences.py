"""Chart of differences between pairs, with their intervals."""

from mptune.report.charts.style import Rows, Spec, base, either, horizontal, layered, tips

#: Height of a pair and of the smallest chart, pixels.
_ROW, _SMALLEST = 20, 60


def differences(rows: Rows) -> Spec:
    """Mean differences, largest first; filled marks differ by more than chance.

    Parameters
    ----------
    rows : pair, mean_mbps, low_mbps, high_mbps, p, differ ("yes" or not).
    """
    import altair as alt

    x = horizontal("difference (Mbit/s)", nice=True, padding=8)
    axis = alt.Axis(grid=True, ticks=False, titleX=0, titleAnchor="end", labelLimit=0)
    place = base("rows").encode(
        y=alt.Y("pair:N", title="pair", sort=[row["pair"] for row in rows], axis=axis)
    )
    layers = [
        base("zero").mark_rule(strokeDash=[4, 3], style="soft").encode(x=x("zero")),
        place.mark_rule().encode(x=x("low_mbps"), x2=alt.X2("high_mbps:Q")),
        place.mark_point(filled=True, size=45, strokeWidth=1.5, color="#0072B2", stroke="#0072B2").encode(
            x=x("mean_mbps"),
            fillOpacity=either(alt.FillOpacityValue, "datum.differ == 'yes'", 1, 0),
            tooltip=tips(rows, "pair", "mean_mbps", "low_mbps", "high_mbps", "p", "differ"),
        ),
    ]
    height = max(_SMALLEST, _ROW * len(rows))
    return layered(*layers, data={"rows": rows, "zero": [{"zero": 0}]}, height=height)
