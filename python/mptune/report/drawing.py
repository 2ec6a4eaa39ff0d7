"""The topology as a drawing: two sites, their interfaces with rates, and the paths between them.

SVG of its own, because no chart library draws networks; all text from files is escaped.
"""

from collections.abc import Collection
from html import escape

from mptune.report.figures import PALETTE
from mptune.topology import Interface, Topology
from mptune.units import format_rate, format_time

#: Geometry in user units; the drawing scales with the page.
_WIDTH, _ROW, _BOX_WIDTH, _BOX_HEIGHT, _TOP = 720, 78, 190, 52, 46


def draw(topology: Topology, carrying: Collection[str]) -> str:
    """SVG text of a topology; paths in `carrying` are drawn thick."""
    rows = max(len(topology.sender.interfaces), len(topology.receiver.interfaces))
    height = _TOP + rows * _ROW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        'font-family="system-ui, sans-serif" font-size="13">',
        f"<title>{escape(topology.sender.name)} and {escape(topology.receiver.name)}</title>",
        _text(_BOX_WIDTH / 2, 18, f"{topology.sender.name} ({topology.sender.abbr})", "middle", bold=True),
        _text(
            _WIDTH - _BOX_WIDTH / 2,
            18,
            f"{topology.receiver.name} ({topology.receiver.abbr})",
            "middle",
            bold=True,
        ),
    ]
    left = _places(len(topology.sender.interfaces), rows)
    right = _places(len(topology.receiver.interfaces), rows)
    for number, path in enumerate(topology.paths):
        start, end = left[path.local_index], right[path.remote_index]
        colour = PALETTE[number % len(PALETTE)]
        width = 3.5 if path.label in carrying else 1.2
        dash = "" if path.label in carrying or not carrying else ' stroke-dasharray="5 4"'
        parts.append(
            f'<line x1="{_BOX_WIDTH}" y1="{start:.0f}" x2="{_WIDTH - _BOX_WIDTH}" y2="{end:.0f}" '
            f'stroke="{colour}" stroke-width="{width}"{dash}/>'
        )
        # Labels of crossing lines stand at different places along them.
        at = 0.2 + 0.6 * (number % 4) / 3
        x = _BOX_WIDTH + at * (_WIDTH - 2 * _BOX_WIDTH)
        label = f"{path.label} {format_time(path.base_rtt_ns, 3)}"
        parts.append(_text(x, start + at * (end - start) - 5, label, "middle", size=11, halo=True))
    for interface, y in zip(topology.sender.interfaces, left, strict=True):
        parts += _box(0, y, interface)
    for interface, y in zip(topology.receiver.interfaces, right, strict=True):
        parts += _box(_WIDTH - _BOX_WIDTH, y, interface)
    return "".join([*parts, "</svg>"])


def _places(count: int, rows: int) -> list[float]:
    """Middle of each of `count` boxes, spread over the height of `rows`."""
    return [_TOP + rows * _ROW * (2 * i + 1) / (2 * count) - _ROW / 2 + _BOX_HEIGHT / 2 for i in range(count)]


def _box(x: float, y: float, interface: Interface) -> list[str]:
    rates = f"{format_rate(interface.up_bps, 3)} up, {format_rate(interface.down_bps, 3)} down"
    return [
        f'<rect x="{x + 1}" y="{y - _BOX_HEIGHT / 2:.0f}" width="{_BOX_WIDTH - 2}" height="{_BOX_HEIGHT}" rx="6" '
        'fill="none" stroke="currentColor"/>',
        _text(x + _BOX_WIDTH / 2, y - 6, f"{interface.isp} ({interface.abbr})", "middle", size=13),
        _text(x + _BOX_WIDTH / 2, y + 14, rates, "middle", size=10),
    ]


def _text(
    x: float, y: float, text: str, anchor: str, *, size: int = 14, bold: bool = False, halo: bool = False
) -> str:
    weight = ' font-weight="600"' if bold else ""
    around = ' class="halo" paint-order="stroke" stroke-width="4"' if halo else ""
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-size="{size}" fill="currentColor"{weight}{around}>'
        f"{escape(text)}</text>"
    )
