"""The figure of `economy.py`: regret, and how many answers suffice, over measuring time.

Not a benchmark.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import vl_convert

from mptune.report.charts.style import DASHES, PALETTE, SHAPES, look

#: Pixels of the panels.
WIDTH, HEIGHT, LOW = 560, 260, 130

#: Curves overlap: those of the strategy under test are whole lines, all others are dashed.
OWN = "adaptive"

#: Regret has a scale that is linear below 1 %, where differences no longer matter, and logarithmic above.
REGRET = alt.Scale(type="symlog", constant=1)
TICKS = alt.Axis(values=[0, 1, 2, 5, 10, 20, 50, 100])

#: Pixels beside the legend, whose font may be wider where the figure is looked at.
MARGIN = 60

#: Panels: column of the points, title of the axis, scale, height.
PANELS = (
    ("median", "regret, median (%)", REGRET, LOW),
    ("q90", "regret, 90th percentile (%)", REGRET, HEIGHT),
    ("both", "answers that suffice (%)", alt.Scale(domain=[0, 100]), HEIGHT),
)


def draw(points: Sequence[Mapping[str, Any]]) -> str:
    """SVG of the panels above each other, with a curve for each strategy.

    Parameters
    ----------
    points : with `strategy`, `minutes`, and the panels' columns in per cent.
    """
    names = list(dict.fromkeys(point["strategy"] for point in points))
    number = range(len(names))
    dashes = [0 if one.startswith(OWN) else 1 + place // len(PALETTE) for place, one in enumerate(names)]
    looks: dict[str, list[Any]] = {
        "color": [PALETTE[place % len(PALETTE)] for place in number],
        "shape": [SHAPES[place % len(SHAPES)] for place in number],
        "strokeDash": [list(DASHES[dash]) for dash in dashes],
    }
    kinds = {"color": alt.Color, "shape": alt.Shape, "strokeDash": alt.StrokeDash}
    channels: dict[str, Any] = {
        name: kind("strategy:N", title=None, sort=names, scale=alt.Scale(domain=names, range=looks[name]))
        for name, kind in kinds.items()
    }
    panels = []
    for column, title, scale, height in PANELS:
        base = alt.Chart(alt.Data(values=list(points))).encode(
            x=alt.X("minutes:Q", title="time on the testbed (min)", scale=alt.Scale(zero=True)),
            y=alt.Y(f"{column}:Q", title=title, scale=scale, axis=TICKS if scale is REGRET else alt.Axis()),
            **channels,
        )
        layers = base.mark_line() + base.mark_point(filled=True, size=30)
        panels.append(layers.properties(width=WIDTH, height=height))
    spec = {
        **alt.vconcat(*panels).to_dict(),
        "padding": {"left": 5, "top": 5, "bottom": 5, "right": MARGIN},
        "config": {**look(page=False), "aria": False},
    }
    svg: str = vl_convert.vegalite_to_svg(spec)
    return svg
