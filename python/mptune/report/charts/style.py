"""Parts that all charts share: colours and marks of names, axes, ink, and fading of unselected marks.

Colours are those of Okabe and Ito (2008), which people with any colour vision can distinguish; marks differ
as well, for print without colour. It knows no data.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from mptune._text import digits
from mptune.report.columns import heading

if TYPE_CHECKING:
    import altair as alt

Rows = Sequence[Mapping[str, Any]]

#: A chart in Vega-Lite.
Spec = dict[str, Any]

#: Okabe and Ito's colours, with grey instead of black, which is the ink; pale yellow comes last.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999", "#F0E442")

#: Marks by Vega's names, and the dashes for names beyond the palette.
SHAPES = (
    *("circle", "square", "triangle-up", "diamond", "cross"),
    *("triangle-down", "triangle-right", "triangle-left"),
)
DASHES = ((1, 0), (6, 3), (2, 2))

#: The font of files: the one that vl-convert has in itself, so that they are the same on every machine.
FONT = "Liberation Sans, sans-serif"

#: Height of a chart, pixels.
HEIGHT = 280

THROUGHPUT = "throughput (Mbit/s)"
BUFFER = "buffer (MiB)"
LOG_BUFFER = f"{BUFFER}, logarithmic"

#: Ink, soft ink, lines and paper: of files, and of the page, whose style sheet has a light and a dark form.
_PRINTED = {"ink": "#1c2024", "soft": "#5b6470", "line": "#e3e7eb", "paper": "#ffffff"}
_ON_PAGE = {name: f"var(--{name})" for name in _PRINTED}


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """Names and how they are drawn; one key for all figures that show the names.

    Attributes
    ----------
    field : column with the names.
    marks : names differ by their marks too.
    first : colour of the first name, as an index of the palette.
    """

    field: str
    title: str
    names: tuple[str, ...]
    marks: bool = False
    first: int = 0

    def look(self, number: int) -> tuple[str, str, tuple[int, int]]:
        """Colour, mark and dash of a name."""
        colour = PALETTE[(number + self.first) % len(PALETTE)]
        shape = SHAPES[number % len(SHAPES)] if self.marks else "square"
        return colour, shape, DASHES[number // len(PALETTE) % len(DASHES)]

    def colour(self) -> Any:
        """Colour channel."""
        import altair as alt

        scale = alt.Scale(domain=self.names, range=[self.look(i)[0] for i in range(len(self.names))])
        return alt.Color(f"{self.field}:N", title=self.title, sort=list(self.names), scale=scale)

    def stroke(self) -> Any:
        """Outline channel, in the same colours."""
        import altair as alt

        scale = alt.Scale(domain=self.names, range=[self.look(i)[0] for i in range(len(self.names))])
        return alt.Stroke(f"{self.field}:N", title=self.title, sort=list(self.names), scale=scale)

    def shape(self) -> Any:
        """Mark channel."""
        import altair as alt

        scale = alt.Scale(domain=self.names, range=[self.look(i)[1] for i in range(len(self.names))])
        return alt.Shape(f"{self.field}:N", title=self.title, sort=list(self.names), scale=scale)

    def dash(self) -> Any:
        """Dash channel."""
        import altair as alt

        dashes = [list(self.look(i)[2]) for i in range(len(self.names))]
        scale = alt.Scale(domain=self.names, range=dashes)
        return alt.StrokeDash(f"{self.field}:N", title=self.title, sort=list(self.names), scale=scale)

    def opacity(self, full: float = 1.0) -> Any:
        """Opacity channel: names that are not emphasised fade, unless none is."""
        import altair as alt

        seen = f"length(emphasis) == 0 || indexof(emphasis, datum['{self.field}']) >= 0"
        return either(alt.OpacityValue, seen, full, 0.12 * full)


def either(channel: Callable[..., Any], test: str, then: object, otherwise: object) -> Any:
    """A channel, such as `alt.OpacityValue`, with one of two values, as a test of the row tells.

    Made as an object, like every channel: altair takes ten milliseconds to find out what a string or a
    `alt.condition` is.
    """
    return channel(otherwise, condition={"test": test, "value": then})


def key(field: str, title: str, rows: Rows, *, marks: bool = False, first: int = 0) -> Key:
    """Key of the names of a column, in the order of their first appearance."""
    return Key(field=field, title=title, names=distinct(row[field] for row in rows), marks=marks, first=first)


def distinct(names: Any) -> tuple[str, ...]:
    """Names without repetition, in the order of their first appearance."""
    return tuple(dict.fromkeys(names))


def base(data: str) -> "alt.Chart":
    """A chart, without a mark yet, of the rows that `layered` gets under a name."""
    import altair as alt

    return alt.Chart(alt.NamedData(name=data))


@contextmanager
def unchecked() -> Iterator[None]:
    """Draw without holding every part of a chart against the Vega-Lite schema: half the time of a report.

    The charts are ours, and the tests hold them against it.
    """
    from altair.utils import schemapi

    with schemapi.debug_mode(False):
        yield


def layered(*layers: Any, data: Mapping[str, Rows], height: int = HEIGHT, choice: int | None = None) -> Spec:
    """Layers as one chart as wide as its container.

    Altair validates the chart against the Vega-Lite schema, except in `unchecked`. The rows are inserted
    afterwards, because checking each number of a campaign would take longer than everything else.

    Parameters
    ----------
    data : rows by the names that the layers use.
    choice : initial value of the parameter that moves the ring; None without a ring.
    """
    import altair as alt
    from altair.utils import schemapi

    chart = alt.layer(*layers).properties(width="container", height=height)
    parameters = [alt.param(name="emphasis", value=[])]
    if choice is not None:
        parameters.append(alt.param(name="choice", value=choice))
    spec: Spec = chart.add_params(*parameters).to_dict(validate=schemapi.DEBUG_MODE)
    del spec["config"]  # Altair's defaults; see `look`
    return {**spec, "datasets": {name: list(rows) for name, rows in data.items()}}


#: Mouse and keys of a zoomed figure. A wheel alone still scrolls the page, and a finger does too.
_WHEEL, _DRAG, _RESET = (
    "wheel![event.ctrlKey || event.metaKey]",
    "[mousedown, window:mouseup] > window:mousemove!",
    "dblclick",
)


def zoomable(spec: Spec, axes: Sequence[str]) -> Spec:
    """The chart of `layered` with axes that its readers can zoom and move; without axes the chart as it is.

    Marks are cut off at the edges only while it is zoomed, so that labels there stay whole otherwise.
    """
    if not axes:
        return spec
    fields = [_first_field(spec["layer"], axis) for axis in axes]
    zoomed = " || ".join(f"isArray(zoom_{field})" for field in fields)
    select = {
        "type": "interval",
        "encodings": list(axes),
        "zoom": _WHEEL,
        "translate": _DRAG,
        "clear": _RESET,
    }
    first, *others = (
        {**layer, "mark": {"clip": {"expr": zoomed}, **layer["mark"]}} for layer in spec["layer"]
    )
    first = {**first, "params": [{"name": "zoom", "select": select, "bind": "scales"}]}
    return {**spec, "layer": [first, *others]}


def _first_field(layers: Sequence[Mapping[str, Any]], axis: str) -> str:
    """Field of the first layer on an axis; the selection is named after it."""
    field: str = layers[0]["encoding"][axis]["field"]
    return field


def ring(data: str, x: Any, y: Any, *, below: bool = True) -> list[Any]:
    """Ring around the chosen row, with the text of its column `label` below or above it.

    The other rows are there but invisible, so the axes do not move with the ring.
    """
    import altair as alt

    seen = either(alt.OpacityValue, "datum.choice == choice", 1, 0)
    chosen = base(data).encode(x=x, y=y, opacity=seen)
    place: dict[str, Any] = {
        "dy": 16 if below else -27,  # of the first of two lines
        "baseline": "top" if below else "bottom",
        "align": alt.ExprRef("datum.side"),
        "fontWeight": "bold",
        "lineBreak": "\n",
    }
    text = chosen.encode(text=alt.Text("label:N"))
    return [
        chosen.mark_point(size=260, filled=False, style="ring"),
        text.mark_text(style="halo", **place),
        text.mark_text(**place),
    ]


def horizontal(title: str, *, values: Sequence[float] = (), **scale: Any) -> Callable[[str], Any]:
    """A horizontal axis for numbers, of whichever column a layer draws.

    Parameters
    ----------
    values : what is written along it; none leaves that to Vega.
    """
    import altair as alt

    axis = alt.Axis(values=list(values)) if values else alt.Undefined
    return lambda column: alt.X(f"{column}:Q", title=title, scale=alt.Scale(**scale), axis=axis)


#: Steps of a logarithmic axis per decade, and of a short one.
_STEPS = (1, 2, 3, 5, 7)
FEW_STEPS = (1, 2, 5)


def round_sizes(sizes: Iterable[float], steps: Sequence[int] = _STEPS) -> list[float]:
    """Ticks of a logarithmic axis; on a narrow one Vega itself would print 3, 5, 7, 9 and 20."""
    ordered = list(sizes)
    low, high = min(ordered), max(ordered)
    decades = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
    candidates = [step * 10.0**decade for decade in decades for step in steps]
    within = [candidate for candidate in candidates if low <= candidate <= high]
    return within if len(within) > 1 else []


def vertical(title: str, *, values: Sequence[float] = (), **scale: Any) -> Callable[[str], Any]:
    """A vertical axis for numbers, of whichever column a layer draws; `values` as in `horizontal`."""
    import altair as alt

    axis = alt.Axis(values=list(values)) if values else alt.Undefined
    return lambda column: alt.Y(f"{column}:Q", title=title, scale=alt.Scale(**scale), axis=axis)


def tips(rows: Rows, *columns: str) -> list[Any]:
    """Tooltip of columns under the headings of the tables; numbers at four digits."""
    import altair as alt

    return [
        alt.Tooltip(f"{name}:N", title=heading(name))
        if isinstance(rows[0][name], str)
        else alt.Tooltip(f"{name}:Q", title=heading(name), format=".4~g")
        for name in columns
    ]


def short(value: float) -> str:
    """Three digits, for numbers inside a chart."""
    return digits(value, 3)


def look(*, page: bool) -> dict[str, Any]:
    """Vega-Lite's `config` for the page or for files."""
    tone = _ON_PAGE if page else _PRINTED
    text = {"labelColor": tone["ink"], "titleColor": tone["ink"]}
    return {
        "background": None if page else tone["paper"],
        "font": "system-ui, sans-serif" if page else FONT,
        "view": {"stroke": None},
        "axis": {
            **text,
            "gridColor": tone["line"],
            "domainColor": tone["soft"],
            "tickColor": tone["soft"],
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "labelOverlap": "parity",
            "labelSeparation": 8,
            "labelFlush": False,
        },
        # Above the axis and not along it: easier to read, and a phone keeps its width.
        "axisY": {
            "titleAngle": 0,
            "titleAlign": "left",
            "titleX": -36,
            "titleY": -12,
            "titleBaseline": "bottom",
        },
        # The page writes its own legends: they wrap and work by keyboard.
        "legend": {"disable": True}
        if page
        else {
            **text,
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleLimit": 0,
            "labelLimit": 0,
            "symbolOpacity": 1,
            "symbolStrokeWidth": 2,
        },
        "title": {"color": tone["ink"], "subtitleColor": tone["soft"], "fontSize": 14, "anchor": "start"},
        "rule": {"color": tone["ink"]},
        "line": {"color": tone["ink"]},
        "point": {"color": tone["ink"]},
        "text": {"color": tone["ink"], "fontSize": 11},
        "style": {
            "ring": {"stroke": tone["ink"], "strokeWidth": 2.5},
            "halo": {"stroke": tone["paper"], "strokeWidth": 5, "strokeJoin": "round"},
            "soft": {"stroke": tone["soft"]},
        },
    }
