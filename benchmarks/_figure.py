"""The figure of `economy.py`: regret over measuring time.

Not a benchmark.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import vl_convert

from mptune.report.charts.style import DASHES, PALETTE, SHAPES

#: Pixels of a panel.
_WIDTH, _HEIGHT = 520, 300

#: Curves overlap: who wins is drawn last and thickest.
_OWN = "adaptive"


def draw(points: Sequence[Mapping[str, Any]]) -> str:
    """SVG of two panels above each other: median and 90th percentile; a curve for each strategy.

    Parameters
    ----------
    points : with `strategy`, `minutes`, `quantile` and `regret` in per cent.
    """
    names = list(dict.fromkeys(one["strategy"] for one in points))
    strategy = {"field": "strategy:N", "title": None, "sort": names}
    look = [
        *((PALETTE[number % len(PALETTE)], SHAPES[number % len(SHAPES)]) for number in range(len(names))),
    ]
    dashes = [list(DASHES[0 if one.startswith(_OWN) else 1]) for one in names]
    base = alt.Chart(alt.Data(values=list(points))).encode(
        x=alt.X("minutes:Q", title="time on the testbed (min)"),
        y=alt.Y("regret:Q", title="regret (% of throughput)", scale=alt.Scale(type="symlog", constant=1)),
        color=_channel(alt.Color, strategy, names, [colour for colour, _ in look]),
        strokeDash=_channel(alt.StrokeDash, strategy, names, dashes),
        shape=_channel(alt.Shape, strategy, names, [shape for _, shape in look]),
    )
    layers = base.mark_line(clip=True) + base.mark_point(filled=True, size=35)
    chart = layers.properties(width=_WIDTH, height=_HEIGHT).facet(
        row=alt.Row("quantile:N", title=None, sort=["median", "90th percentile"])
    )
    svg: str = vl_convert.vegalite_to_svg(chart.configure(background="#ffffff").to_dict())
    return svg


def _channel(kind: Any, words: Mapping[str, Any], names: Sequence[str], looks: Sequence[Any]) -> Any:
    """A channel by strategy, all in one legend."""
    field = dict(words)
    return kind(field.pop("field"), scale=alt.Scale(domain=list(names), range=list(looks)), **field)
