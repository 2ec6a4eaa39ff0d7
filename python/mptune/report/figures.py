"""Figures of a campaign, as PNG and SVG: throughput over buffer (MPCOA Fig. 5) and bars (Fig. 6).

Drawn offline from the points and curves that are handed in. Colours are those of Okabe and Ito, which
people with any colour vision can tell apart; path managers and congestion controls keep their colour
from figure to figure.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mptune._text import digits
from mptune.response import Combination, Curve
from mptune.selection import Optimum
from mptune.sweep import SweepPoint

if TYPE_CHECKING:
    import altair as alt

#: Okabe and Ito (2008) without black, which the marks of statistics use; the pale yellow comes last.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
INK = "#333333"

#: Drawn points of a fitted curve.
_CURVE_POINTS = 120

#: Size of one panel, pixels before scaling; PNGs have twice as many in each direction.
WIDTH, HEIGHT = 460, 340
_PNG_SCALE = 2


def response_figure(
    points: Sequence[SweepPoint], curves: Mapping[Combination, Curve], optimum: Optimum | None = None
) -> "alt.HConcatChart":
    """Throughput over buffer: a panel per path manager, means with min-max and the fitted curve.

    Parameters
    ----------
    points : configurations of a sweep.
    curves : fitted curve of each combination.
    optimum : marked by a ring and its numbers.
    """
    import altair as alt

    ccs = distinct(point.combination.cc for point in points)
    top = max(point.throughput.max for point in points)
    panels = [
        _response_panel(pm, [p for p in points if p.combination.pm == pm], curves, optimum, ccs, top)
        for pm in distinct(point.combination.pm for point in points)
    ]
    chart: alt.HConcatChart = styled(alt.hconcat(*panels).resolve_scale(color="shared", shape="shared"))
    return chart


def bars_figure(points: Sequence[SweepPoint]) -> "alt.LayerChart":
    """Mean throughput at the largest buffer per congestion control and path manager.

    Thin bars reach from minimum to maximum, thick ones from the 10 % to the 90 % quantile.
    """
    import altair as alt

    largest = max(point.buffer_mib for point in points)
    at_largest = [point for point in points if point.buffer_mib == largest]
    pms = distinct(point.combination.pm for point in at_largest)
    x = alt.X(
        "cc:N",
        title="congestion control",
        sort=distinct(point.combination.cc for point in at_largest),
        axis=alt.Axis(labelAngle=0),
    )
    offset = alt.XOffset("pm:N", sort=pms)
    base = alt.Chart(alt.Data(values=[_values(point) for point in at_largest]))
    bars = base.mark_bar().encode(
        x=x,
        xOffset=offset,
        y=alt.Y("mean:Q", title="throughput (Mbit/s)"),
        color=alt.Color("pm:N", title="path manager", sort=pms, scale=colours(pms)),
    )
    thin = base.mark_rule(color=INK, strokeWidth=1).encode(x=x, xOffset=offset, y="min:Q", y2="max:Q")
    thick = base.mark_rule(color=INK, strokeWidth=4).encode(x=x, xOffset=offset, y="q10:Q", y2="q90:Q")
    numbers = base.mark_text(dy=-8, fontSize=10, color=INK).encode(
        x=x, xOffset=offset, y="max:Q", text="label:N"
    )
    runs = max(point.throughput.n for point in at_largest)
    about = heading(
        f"Throughput with {largest:g} MiB of buffer",
        f"mean of {runs} runs; thin bar: minimum to maximum, thick bar: 10 % to 90 % quantile",
    )
    layers = alt.layer(bars, thin, thick, numbers, title=about)
    width = max(WIDTH, 45 * len(at_largest))
    chart: alt.LayerChart = styled(layers.properties(width=width, height=HEIGHT))
    return chart


def save(chart: Any, stem: Path) -> list[Path]:
    """Write a figure as `<stem>.png` and `<stem>.svg`; no browser and no network are needed."""
    paths = [stem.with_name(f"{stem.name}.{ending}") for ending in ("png", "svg")]
    chart.save(str(paths[0]), scale_factor=_PNG_SCALE)
    chart.save(str(paths[1]))
    return paths


def _response_panel(
    pm: str,
    points: Sequence[SweepPoint],
    curves: Mapping[Combination, Curve],
    optimum: Optimum | None,
    ccs: Sequence[str],
    top: float,
) -> Any:
    """Panel of one path manager."""
    import altair as alt

    x = alt.X("buffer:Q", title="buffer (MiB)", scale=alt.Scale(domainMin=0, nice=False))
    y_scale = alt.Scale(domain=[0, 1.05 * top], nice=True)
    legend = alt.Legend(title="congestion control", symbolOpacity=1.0)
    colour = alt.Color("cc:N", scale=colours(ccs), legend=legend)
    shape = alt.Shape("cc:N", scale=alt.Scale(domain=list(ccs)), legend=legend)
    base = alt.Chart(alt.Data(values=[_values(point) for point in points]))
    spread = base.mark_rule(opacity=0.35).encode(
        x=x, y=alt.Y("min:Q", scale=y_scale), y2="max:Q", color=colour
    )
    means = base.mark_point(size=28, filled=True, opacity=1.0).encode(
        x=x, y=alt.Y("mean:Q", title="throughput (Mbit/s)", scale=y_scale), color=colour, shape=shape
    )
    fitted = (
        alt.Chart(alt.Data(values=_curve_values(pm, points, curves)))
        .mark_line(strokeWidth=2, clip=True)
        .encode(x=x, y=alt.Y("mean:Q", scale=y_scale), color=colour)
    )
    layers = [spread, means, fitted]
    if optimum is not None and optimum.pm == pm:
        far_right = optimum.buffer_mib > 0.6 * max(point.buffer_mib for point in points)
        layers += _optimum_layers(optimum, x, y_scale, align="right" if far_right else "left")
    about = heading(pm, "marks: mean of the runs, minimum to maximum; lines: fitted curves")
    return alt.layer(*layers, title=about).properties(width=WIDTH, height=HEIGHT)


def _optimum_layers(optimum: Optimum, x: Any, y_scale: Any, align: Literal["left", "right"]) -> list[Any]:
    """Ring around the optimum, and its numbers below it, on white to be read across curves."""
    import altair as alt

    label = f"{optimum.cc}: {optimum.buffer_mib:.2f} MiB, {digits(optimum.throughput_mbps)} Mbit/s"
    value = {"buffer": optimum.buffer_mib, "mean": optimum.throughput_mbps, "label": label}
    base = alt.Chart(alt.Data(values=[value])).encode(x=x, y=alt.Y("mean:Q", scale=y_scale))
    ring = base.mark_point(size=260, strokeWidth=2.5, color="black", filled=False)
    place: dict[str, Any] = {
        "dy": 26,
        "dx": 8 if align == "left" else -8,
        "align": align,
        "fontWeight": "bold",
    }
    halo = base.mark_text(stroke="white", strokeWidth=6, **place).encode(text="label:N")
    text = base.mark_text(color="black", **place).encode(text="label:N")
    return [ring, halo, text]


def _values(point: SweepPoint) -> dict[str, object]:
    """One point as the figures' data."""
    throughput = point.throughput
    return {
        "pm": point.combination.pm,
        "cc": point.combination.cc,
        "buffer": point.buffer_mib,
        "mean": throughput.mean,
        "min": throughput.min,
        "max": throughput.max,
        "q10": throughput.q10,
        "q90": throughput.q90,
        "label": digits(throughput.mean, 3),
    }


def _curve_values(
    pm: str, points: Sequence[SweepPoint], curves: Mapping[Combination, Curve]
) -> list[dict[str, object]]:
    """Fitted curves of a path manager as data, over the swept range."""
    low, high = min(p.buffer_mib for p in points), max(p.buffer_mib for p in points)
    steps = [low + i * (high - low) / (_CURVE_POINTS - 1) for i in range(_CURVE_POINTS)]
    return [
        {"cc": combination.cc, "buffer": bs, "mean": curve.predict(bs)}
        for combination, curve in curves.items()
        if combination.pm == pm
        for bs in steps
    ]


def colours(names: Sequence[str]) -> Any:
    """Colour scale: a colour per name, in order."""
    import altair as alt

    return alt.Scale(domain=list(names), range=[PALETTE[i % len(PALETTE)] for i in range(len(names))])


def heading(text: str, subtitle: str) -> Any:
    """Title with a smaller line that explains the marks."""
    import altair as alt

    return alt.TitleParams(text, subtitle=subtitle, subtitleColor="#666666", anchor="start")


def styled(chart: Any) -> Any:
    """Common look."""
    return (
        chart.configure_view(strokeOpacity=0)
        .configure_axis(labelFontSize=12, titleFontSize=13, gridColor="#e6e6e6", titleFontWeight="normal")
        .configure_legend(labelFontSize=12, titleFontSize=12, symbolSize=90)
        .configure_title(fontSize=14, subtitleFontSize=11)
    )


def distinct(names: Any) -> list[str]:
    """Names without repetition, in order of appearance."""
    return list(dict.fromkeys(names))
