"""The topology as a drawing: two sites, their interfaces with rates, and the paths between them.

It writes SVG itself, because no chart library draws networks. Each path has its own row in the middle, so
labels never cross. All text from files is escaped. Ink and paper are those of the surrounding page
(`currentColor`, `var(--paper)`).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from mptune._text import digits, escaped
from mptune.report.charts.style import PALETTE
from mptune.topology import UNKNOWN, Interface, Known, Path, Site, Topology
from mptune.units import format_rate, format_time


class Geometry(msgspec.Struct, frozen=True):
    """Sizes in user units: the drawing, an interface's box, a path's label and row, the font.

    `wide` has everything in one line of a path's label.
    """

    width: int
    box: int
    label: int
    row: int
    font: int
    wide: bool


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """Load of the paths with one configuration.

    Attributes
    ----------
    title : the configuration, and what it gives in all.
    mbps : by the label of a path, Mbit/s; those that are missing carry nothing.
    """

    title: str
    mbps: Mapping[str, float]


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """Load of the paths at one time of several: a flow for each drawing, whose title is its name alone.

    Attributes
    ----------
    when : in words.
    """

    when: str
    flows: tuple[Flow, ...]


class Change(NamedTuple):
    """A title or a path of a drawing at one time: its words, and of a path the width of its line."""

    words: str
    width: float = 0.0
    dashed: bool = False


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of a drawing of `moving` at one position of the slider.

    Attributes
    ----------
    when, told : the time, and the drawing in words.
    shown : the titles and paths of the drawing in their order.
    """

    when: str
    told: str
    shown: tuple[Change, ...]


#: One for pages and files, one for phones.
WIDE = Geometry(width=900, box=200, label=210, row=34, font=14, wide=True)
NARROW = Geometry(width=360, box=110, label=84, row=46, font=11, wide=False)

#: Heights of an interface's box, and room for the names of the sites, a title, and a line below.
_BOX, _TOP, _TITLE, _BELOW = 66, 48, 26, 18
#: Height of an interface's box at which lines may end.
_DOCK = 54.0
#: Height of a path's label by its lines, without half of the space to its row.
_LABEL = {1: 24, 2: 36}
#: Widths of lines: without data, with data, and the one that carries most.
_THIN, _THICK, _MOST = 1.3, 3.5, 16.0
#: Letters of a sum behind a title.
_SUM = 8
#: Room for the mark of a segment that paths share.
_MARK = 16

#: Width of a letter as a share of the font size: wide enough for most texts.
_LETTER = 0.58


class _Look(NamedTuple):
    """Appearance of a path.

    Attributes
    ----------
    lines : of its label.
    words : what it carries, at the end of the last line.
    width : of its line.
    """

    lines: Sequence[str]
    words: str
    width: float
    dashed: bool
    bold: bool


def draw(topology: Topology, carrying: Collection[str], shape: Geometry, flows: Sequence[Flow] = ()) -> str:
    """SVG text of a topology.

    Parameters
    ----------
    carrying : paths that are drawn thick where it is not known how much they carry.
    flows : what they carry, in a drawing each, below one another; lines are as thick as that, on one scale.
    """
    return _drawn(topology, carrying, shape, [[flow] for flow in flows])


def moving(topology: Topology, shape: Geometry, moments: Sequence[Moment]) -> str:
    """SVG text of a topology at the first of some moments, with room for the lines of all of them.

    What changes has the attribute `data-before`: the text that stays in front of words that change.
    """
    drawings = zip(*(moment.flows for moment in moments), strict=True)
    return _drawn(topology, (), shape, list(drawings))


def positions(topology: Topology, moments: Sequence[Moment]) -> tuple[Position, ...]:
    """Positions of the slider in a drawing of `moving`, one for each of the moments."""
    most = _most([flow for moment in moments for flow in moment.flows])
    return tuple(
        Position(
            when=moment.when,
            told=". ".join(_in_words(flow) for flow in moment.flows),
            shown=tuple(
                change
                for flow in moment.flows
                for change in (
                    Change(_mbps(sum(flow.mbps.values()))),
                    *(_changed(flow.mbps.get(path.label, 0.0), most) for path in topology.paths),
                )
            ),
        )
        for moment in moments
    )


def _changed(mbps: float, most: float) -> Change:
    return Change(_words(mbps), round(_width(mbps, most), 2), mbps <= 0)


def _drawn(
    topology: Topology, carrying: Collection[str], shape: Geometry, drawings: Sequence[Sequence[Flow]]
) -> str:
    """Drawings below one another, each of the first of its flows; lines have room for the others."""
    body, height = [], float(_TOP)
    most = _most([flow for flows in drawings for flow in flows])
    for flows in drawings or ((),):
        parts, height = _panel(topology, carrying, shape, flows, most, height)
        body += parts
    shared = _shared(topology)
    for number, (name, _) in enumerate(shared):
        rate = _known(topology.shared[name].rate_bps, format_rate, "rate")
        line = _fitted(f"{_letter(number)}: {name}, {rate}, is shared", shape.width, shape.font)
        body.append(_text(0, height + _BELOW * (number + 1) - 4, line, "start", shape.font))
    height += _BELOW * len(shared) + (4 if shared else 0)
    return "".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {shape.width} {height:g}" role="img" '
            f'font-family="system-ui, sans-serif" font-size="{shape.font}">',
            f"<title>{escaped(_told(topology, [flows[0] for flows in drawings]))}</title>",
            *_site(topology.sender, 0, "start", shape),
            *_site(topology.receiver, shape.width, "end", shape),
            *body,
            "</svg>",
        ]
    )


def _told(topology: Topology, flows: Sequence[Flow]) -> str:
    """The drawing in words, for who cannot see it."""
    names = f"{topology.sender.name} and {topology.receiver.name}"
    return ". ".join([names, *map(_in_words, flows)])


def _in_words(flow: Flow) -> str:
    """Load of the paths, in words."""
    rates = ", ".join(f"{path} {_mbps(mbps)}" for path, mbps in flow.mbps.items() if mbps > 0)
    return f"{flow.title}: {rates}"


def _most(flows: Sequence[Flow]) -> float:
    return max((mbps for flow in flows for mbps in flow.mbps.values()), default=0.0)


def _panel(
    topology: Topology,
    carrying: Collection[str],
    shape: Geometry,
    flows: Sequence[Flow],
    most: float,
    top: float,
) -> tuple[list[str], float]:
    """The network once with the first of the flows, below a height, and the height of its end."""
    flow = flows[0] if flows else None
    left, right = topology.sender.interfaces, topology.receiver.interfaces
    parts = []
    if flow is not None:
        parts.append(_heading(flow, shape, top, changes=len(flows) > 1))
        top += _TITLE
    high = max(len(topology.paths) * shape.row, max(len(left), len(right)) * (_BOX + 14))
    middles = _middles(len(topology.paths), top, high)
    lefts, rights = _middles(len(left), top, high), _middles(len(right), top, high)
    shared = _shared(topology)
    paths = topology.paths
    looks = [_look(path, topology.known(path), carrying, flow, most, shape) for path in paths]
    widths = [
        max([look.width, *(_width(other.mbps.get(path.label, 0.0), most) for other in flows[1:])])
        for path, look in zip(paths, looks, strict=True)
    ]
    begins = _docks(lefts, [path.local_index for path in paths], widths)
    ends = _docks(rights, [path.remote_index for path in paths], widths)
    for number, way in enumerate(zip(begins, middles, ends, strict=True)):
        colour = PALETTE[number % len(PALETTE)]
        drawn = _path(way, colour, looks[number], shape, _MARK * len(shared))
        before = looks[number].lines[-1].removesuffix(looks[number].words)
        parts += _changing(drawn, before) if len(flows) > 1 else drawn
    rows = dict(zip((path.label for path in topology.paths), middles, strict=True))
    for number, (_, labels) in enumerate(shared):
        x = (shape.width + shape.label) / 2 + _MARK * (number + 0.5)
        parts += _mark(x, [rows[label] for label in labels], _letter(number), shape)
    for interface, y in zip(left, lefts, strict=True):
        parts += _interface(0, y, interface, shape)
    for interface, y in zip(right, rights, strict=True):
        parts += _interface(shape.width - shape.box, y, interface, shape)
    return parts, top + high


def _heading(flow: Flow, shape: Geometry, top: float, *, changes: bool) -> str:
    """The title of a drawing; the sum, where it changes, behind it."""
    at = shape.width / 2, top + shape.font
    if not changes:
        line = _fitted(flow.title, shape.width, shape.font)
        return _text(*at, line, "middle", shape.font, bold=True)
    before = f"{_fitted(flow.title, shape.width - _SUM * shape.font, shape.font)}: "
    line = _text(*at, before + _mbps(sum(flow.mbps.values())), "middle", shape.font, bold=True)
    return "".join(_changing([line], before))


def _changing(drawn: Sequence[str], before: str) -> list[str]:
    """Parts that a slider replaces: lines, and the last text behind what stays."""
    return [f'<g data-before="{escaped(before, quote=True)}">', *drawn, "</g>"]


def _shared(topology: Topology) -> list[tuple[str, list[str]]]:
    """Segments that two paths or more cross, with the labels of those."""
    crossed = {
        name: [path.label for path in topology.paths if segment in path.shared]
        for name, segment in topology.shared.items()
    }
    return [(name, labels) for name, labels in crossed.items() if len(labels) > 1]


def _letter(number: int) -> str:
    return chr(ord("a") + number % 26)


def _middles(count: int, top: float, high: float) -> list[float]:
    """Centres of things spread evenly over a height."""
    return [top + high * (2 * i + 1) / (2 * count) for i in range(count)]


def _docks(middles: Sequence[float], which: Sequence[int], widths: Sequence[float]) -> list[float]:
    """Ends of lines at the boxes in these places: beside each other, and not on each other."""
    room = [
        sum(width for at, width in zip(which, widths, strict=True) if at == box)
        for box, _ in enumerate(middles)
    ]
    squeeze = [min(1.0, _DOCK / whole) if whole else 1.0 for whole in room]
    begin = [middle - whole * share / 2 for middle, whole, share in zip(middles, room, squeeze, strict=True)]
    docks = []
    for box, width in zip(which, widths, strict=True):
        docks.append(begin[box] + width * squeeze[box] / 2)
        begin[box] += width * squeeze[box]
    return docks


def _site(site: Site, x: float, anchor: str, shape: Geometry) -> list[str]:
    name = _fitted(site.name, shape.width / 2 - 8, shape.font)
    return [
        _text(x, 14, site.abbr, anchor, shape.font + 1, bold=True),
        _text(x, 14 + 1.3 * shape.font, name, anchor, shape.font),
    ]


def _look(
    path: Path, known: Known, carrying: Collection[str], flow: Flow | None, most: float, shape: Geometry
) -> _Look:
    rtt = _known(known.base_rtt_ns, format_time, "RTT")
    if flow is None:
        carries = path.label in carrying
        rate = f"  {_known(known.rate_bps, format_rate, 'rate')}" if shape.wide else ""
        width = _THICK if carries else _THIN
        return _Look([f"{path.label}  {rtt}{rate}"], "", width, bool(carrying) and not carries, carries)
    mbps = flow.mbps.get(path.label, 0.0)
    words = _words(mbps)
    lines = [f"{path.label}  {rtt}  {words}"] if shape.wide else [f"{path.label}  {rtt}", words]
    return _Look(lines, words, _width(mbps, most), mbps <= 0, mbps > 0)


def _words(mbps: float) -> str:
    return _mbps(mbps) if mbps > 0 else "unused"


def _width(mbps: float, most: float) -> float:
    """Width of the line of a path, where the largest rate of all is known."""
    return max(_THIN, _MOST * mbps / most) if most > 0 else _THIN


def _mbps(mbps: float) -> str:
    return f"{digits(mbps, 3)} Mbit/s"


def _path(
    way: tuple[float, float, float], colour: str, look: _Look, shape: Geometry, marks: float
) -> list[str]:
    """Curves from both interfaces to the label of a path; `marks` is the room for those behind the label."""
    start, y, end = way
    near, far = (shape.width - shape.label) / 2, (shape.width + shape.label) / 2
    dash = ' stroke-dasharray="5 4"' if look.dashed else ""
    drawn = f'fill="none" stroke="{colour}" stroke-width="{look.width:.3g}"{dash}'
    edge = f'fill="var(--paper)" stroke="{colour}" stroke-width="{min(look.width, _THICK):.3g}"{dash}'
    high, size = _LABEL[len(look.lines)], shape.font - 1
    first = y + 4 - (size + 2) * (len(look.lines) - 1) / 2
    return [
        _curve(shape.box, start, near, y, drawn),
        *([f'<path d="M{far:g} {y:g}H{far + marks:g}" {drawn}/>'] if marks else []),
        _curve(far + marks, y, shape.width - shape.box, end, drawn),
        f'<rect x="{near:g}" y="{y - high / 2:g}" width="{shape.label}" height="{high}" rx="12" {edge}/>',
        *(
            _text(shape.width / 2, first + (size + 2) * number, line, "middle", size, bold=look.bold)
            for number, line in enumerate(look.lines)
        ),
    ]


def _mark(x: float, rows: Sequence[float], letter: str, shape: Geometry) -> list[str]:
    """A bar across the paths that share a segment, with a knot at each, and its letter above."""
    return [
        f'<path d="M{x:g} {min(rows):g}V{max(rows):g}" stroke="currentColor" stroke-width="3"/>',
        *(
            f'<rect x="{x - 5:g}" y="{y - 5:g}" width="10" height="10" rx="5" fill="currentColor"/>'
            for y in rows
        ),
        _text(x, min(rows) - 9, letter, "middle", shape.font - 1, bold=True),
    ]


def _curve(x1: float, y1: float, x2: float, y2: float, look: str) -> str:
    middle = (x1 + x2) / 2
    return f'<path d="M{x1:g} {y1:g}C{middle:g} {y1:g} {middle:g} {y2:g} {x2:g} {y2:g}" {look}/>'


def _interface(x: float, y: float, interface: Interface, shape: Geometry) -> list[str]:
    """A box with the ISP and the rates of its two links."""
    name = f"{interface.isp} ({interface.abbr})"
    lines = [
        _fitted(name, shape.box - 10, shape.font),
        *(
            f"{way} {_known(None if rate == UNKNOWN else rate, format_rate)}"
            for way, rate in (("up", interface.up_bps), ("down", interface.down_bps))
        ),
    ]
    top = y - _BOX / 2
    return [
        f'<rect x="{x + 1:g}" y="{top:g}" width="{shape.box - 2}" height="{_BOX}" rx="6" fill="var(--paper)" '
        'stroke="currentColor"/>',
        *(
            _text(x + shape.box / 2, top + 20 + 18 * i, line, "middle", shape.font - (i > 0), bold=i == 0)
            for i, line in enumerate(lines)
        ),
    ]


def _known(value: int | None, text: Callable[[int, int], str], name: str = "") -> str:
    """A number as text; its name and a question mark if it is not known."""
    return f"{name} ?".strip() if value is None else text(value, 3)


def _fitted(text: str, width: float, font: int) -> str:
    """The text, cut to fit."""
    letters = int(width / (_LETTER * font))
    return text if len(text) <= letters else text[: letters - 1] + "…"


def _text(x: float, y: float, text: str, anchor: str, size: int, *, bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}" fill="currentColor"{weight} '
        f'xml:space="preserve">{escaped(text)}</text>'
    )
