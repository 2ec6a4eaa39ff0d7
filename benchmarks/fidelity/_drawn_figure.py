"""The figure of the drawn set: simulated over measured throughput, and the bias of every regime.

Not a benchmark.
"""

from collections.abc import Sequence
from typing import Any

import altair as alt
import vl_convert

from benchmarks.fidelity._drawn_report import Judged, Report, mean
from mptune.report.charts.style import PALETTE, SHAPES, look

WIDTH, HEIGHT = 360, 360
#: Pixels of a regime's row.
ROW = 14
#: Biases beyond this are drawn at the edge.
EDGE = 0.5
#: Largest acceptable bias.
TARGET = 0.05


def draw(judged: Sequence[Judged], report: Report) -> str:
    """SVG of both panels side by side."""
    spec = {
        **alt.hconcat(_means(judged), _biases(report)).to_dict(),
        "padding": {"left": 5, "top": 5, "bottom": 5, "right": 20},
        "config": {**look(page=False), "aria": False},
    }
    svg: str = vl_convert.vegalite_to_svg(spec)
    return svg


def _means(judged: Sequence[Judged]) -> Any:
    """A point for each configuration; on the line both sides agree."""
    rows: list[dict[str, Any]] = [
        {"kernel": kernel, "simulated": simulated, "loss": "/".join(judgement.factors["loss"])}
        for judgement in judged
        if (kernel := mean(judgement.kernel)) and (simulated := mean(judgement.simulated))
    ]
    ends: list[float] = [row[side] for row in rows for side in ("kernel", "simulated")] or [1.0]
    scale = alt.Scale(type="log", nice=False, domain=[min(ends) / 1.1, max(ends) * 1.1])
    losses: list[str] = list(dict.fromkeys(row["loss"] for row in rows))
    number = range(len(losses))
    points = (
        alt.Chart(alt.Data(values=rows))
        .mark_point(filled=True, size=28, opacity=0.7)
        .encode(
            x=alt.X("kernel:Q", title="kernel (Mbit/s)", scale=scale),
            y=alt.Y("simulated:Q", title="simulated (Mbit/s)", scale=scale),
            color=alt.Color("loss:N", scale=alt.Scale(domain=losses, range=[PALETTE[i] for i in number])),
            shape=alt.Shape("loss:N", scale=alt.Scale(domain=losses, range=[SHAPES[i] for i in number])),
        )
    )
    same = [{"x": value, "y": value} for value in (min(ends), max(ends))]
    line = (
        alt.Chart(alt.Data(values=same)).mark_line(strokeDash=[4, 3], strokeWidth=1).encode(x="x:Q", y="y:Q")
    )
    return (line + points).properties(width=WIDTH, height=HEIGHT)


def _biases(report: Report) -> Any:
    """A row for each regime: the bias with its interval, and the band that it should not leave."""
    rows: list[dict[str, Any]] = []
    for regime in report.regimes:
        value, half = regime.figures.bias, regime.figures.bias_half
        if value is not None:
            low, high = (value - half, value + half) if half is not None else (value, value)
            ends = {"bias": value, "low": low, "high": high}
            name = f"{regime.factor}: {regime.regime} ({regime.figures.n})"
            rows.append({"regime": name} | {key: min(EDGE, max(-EDGE, end)) for key, end in ends.items()})
    names = [row["regime"] for row in rows]
    y = alt.Y("regime:N", title=None, sort=names, axis=alt.Axis(labelOverlap=False, labelLimit=300))
    base = alt.Chart(alt.Data(values=rows)).encode(y=y)
    axis = alt.Axis(format="+.0%", values=[-0.5, -0.25, -0.05, 0.05, 0.25, 0.5])
    scale = alt.Scale(domain=[-EDGE, EDGE])
    bars = base.mark_rule().encode(x=alt.X("low:Q", title="bias", scale=scale, axis=axis), x2="high:Q")
    points = base.mark_point(filled=True, size=36).encode(x=alt.X("bias:Q", scale=scale))
    edges = alt.Chart(alt.Data(values=[{"x": -TARGET}, {"x": TARGET}]))
    band = edges.mark_rule(strokeDash=[4, 3], strokeWidth=1).encode(x=alt.X("x:Q", scale=scale))
    return (band + bars + points).properties(width=WIDTH, height=max(HEIGHT, ROW * len(rows)))
