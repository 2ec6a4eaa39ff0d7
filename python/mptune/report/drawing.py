"""The topology as a drawing: two sites, their interfaces with rates, and the paths between them.

It writes SVG itself, because no chart library draws networks. Each path has its own row in the middle, so
labels never cross. All text from files is escaped. Ink and paper are those of the surrounding page
(`currentColor`, `var(--paper)`).
"""

from collections.abc import Callable, Collection

import msgspec

from mptune._text import escaped
from mptune.report.charts.style import PALETTE
from mptune.topology import UNKNOWN, Interface, Known, Path, Site, Topology
from mptune.units import format_rate, format_time


class Geometry(msgspec.Struct, frozen=True):
    """Sizes in user units: the drawing, an interface's box, a path's label, the font.

    `rate` adds the rate to the labels of the paths.
    """

    width: int
    box: int
    label: int
    font: int
    rate: bool


#: One for pages and files, one for phones.
WIDE = Geometry(width=900, box=200, label=210, font=14, rate=True)
NARROW = Geometry(width=360, box=110, label=84, font=11, rate=False)

#: Heights of an interface's box and of a path's row, and room for the names of the sites.
_BOX, _ROW, _TOP = 66, 34, 48

#: Width of a letter as a share of the font size: wide enough for most texts.
_LETTER = 0.58


def draw(topology: Topology, carrying: Collection[str], shape: Geometry) -> str:
    """SVG text of a topology; paths in `carrying` are drawn thick."""
    left, right = topology.sender.interfaces, topology.receiver.interfaces
    height = _TOP + max(len(topology.paths) * _ROW, max(len(left), len(right)) * (_BOX + 14))
    name = escaped(f"{topology.sender.name} and {topology.receiver.name}")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {shape.width} {height}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="{shape.font}">',
        f"<title>{name}</title>",
        *_site(topology.sender, 0, "start", shape),
        *_site(topology.receiver, shape.width, "end", shape),
    ]
    middles = _middles(len(topology.paths), height)
    lefts, rights = _middles(len(left), height), _middles(len(right), height)
    for number, (path, y) in enumerate(zip(topology.paths, middles, strict=True)):
        ends = lefts[path.local_index], y, rights[path.remote_index]
        colour, carries = PALETTE[number % len(PALETTE)], path.label in carrying
        parts += _path(path, topology.known(path), ends, colour, carries, bool(carrying), shape)
    for interface, y in zip(left, lefts, strict=True):
        parts += _interface(0, y, interface, shape)
    for interface, y in zip(right, rights, strict=True):
        parts += _interface(shape.width - shape.box, y, interface, shape)
    return "".join([*parts, "</svg>"])


def _middles(count: int, height: int) -> list[float]:
    """Centres of things spread evenly below the sites' names."""
    return [_TOP + (height - _TOP) * (2 * i + 1) / (2 * count) for i in range(count)]


def _site(site: Site, x: float, anchor: str, shape: Geometry) -> list[str]:
    name = _fitted(site.name, shape.width / 2 - 8, shape.font)
    return [
        _text(x, 14, site.abbr, anchor, shape.font + 1, bold=True),
        _text(x, 14 + 1.3 * shape.font, name, anchor, shape.font),
    ]


def _path(
    path: Path,
    known: Known,
    ends: tuple[float, float, float],
    colour: str,
    carries: bool,
    known_roles: bool,
    shape: Geometry,
) -> list[str]:
    """Curves from both interfaces to the label of a path."""
    start, y, end = ends
    near, far = (shape.width - shape.label) / 2, (shape.width + shape.label) / 2
    width = 3.5 if carries else 1.3
    dash = "" if carries or not known_roles else ' stroke-dasharray="5 4"'
    look = f'fill="none" stroke="{colour}" stroke-width="{width}"{dash}'
    label = f"{path.label}  {_known(known.base_rtt_ns, format_time, 'RTT')}"
    if shape.rate:
        label += f"  {_known(known.rate_bps, format_rate, 'rate')}"
    return [
        _curve(shape.box, start, near, y, look),
        _curve(far, y, shape.width - shape.box, end, look),
        f'<rect x="{near:g}" y="{y - 12:g}" width="{shape.label}" height="24" rx="12" {look}/>',
        _text(shape.width / 2, y + 4, label, "middle", shape.font - 1, bold=carries),
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
