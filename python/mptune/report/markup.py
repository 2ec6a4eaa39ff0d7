"""Pieces of HTML: tables, data for scripts, legends. Everything that comes from files or results is escaped.

It knows no section; `mptune.report.page` puts the pieces together.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mptune._text import digits, escaped, visible
from mptune.report.charts.style import Key
from mptune.report.columns import heading
from mptune.report.sections import Table

#: Rows of a table on the page; a full campaign of the papers has 720 configurations.
MAX_ROWS = 800

#: Significant digits of a number in a table.
_DIGITS = 5

#: Length from which a text may be broken into lines.
_LONG = 16

#: Pattern of a path's label, and HTML that does not break such a label at its hyphen.
_LABEL = re.compile(r"(?<![\w-])(\w{1,6}-\w{1,6})(?![\w-])")
_UNBROKEN = r'<span class="path">\1</span>'

#: Outlines of Vega's marks in a box of 14 by 14.
_OUTLINES = {
    "circle": "M7 3a4 4 0 1 0 .01 0Z",
    "square": "M3 3h8v8h-8Z",
    "triangle-up": "M7 2L12 11H2Z",
    "diamond": "M7 1L11 7 7 13 3 7Z",
    "cross": "M5.5 2h3v3.5h3v3h-3v3.5h-3v-3.5h-3v-3h3Z",
    "triangle-down": "M7 12L2 3H12Z",
    "triangle-right": "M12 7L3 12V2Z",
    "triangle-left": "M2 7L11 2V12Z",
}


def tables(shown_tables: Sequence[Table]) -> str:
    """Tables under their titles."""
    return "".join(f"<h3>{escaped(name.title)}</h3>{table(name)}" for name in shown_tables)


def table(table_: Table) -> str:
    """Rows under headings with units; rows beyond `MAX_ROWS` are in the named file."""
    if not table_.rows:
        return "<p>None.</p>"
    columns = list(table_.rows[0])
    headings = [table_.headings.get(name) or heading(name) for name in columns]
    head = "".join(f'<th scope="col">{escaped(text)}</th>' for text in headings)
    rows = "".join(
        f"<tr>{''.join(_cell(row[name]) for name in columns)}</tr>" for row in table_.rows[:MAX_ROWS]
    )
    left = len(table_.rows) - MAX_ROWS
    more = f"<p>{left} more rows: {escaped(table_.source)}.</p>" if left > 0 else ""
    return (
        scrolled(f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>", table_.title) + more
    )


def prose(text: str, unbroken: Sequence[str]) -> str:
    """A sentence in which the labels of paths are not broken at their hyphens."""
    words = escaped(text)
    if not unbroken:
        return words
    names = "|".join(re.escape(escaped(name)) for name in sorted(unbroken, key=len, reverse=True))
    return re.sub(rf"(?<![\w-])({names})(?![\w-])", _UNBROKEN, words)


def scrolled(content: str, label: str) -> str:
    """HTML in a region that scrolls, also by keyboard."""
    name = escaped(label, quote=True)
    return f'<div class="table" tabindex="0" role="region" aria-label="{name}">{content}</div>'


def facts(rows: Mapping[str, object]) -> str:
    """A table of names and values."""
    lines = "".join(
        f'<tr><th scope="row">{escaped(name)}</th><td>{escaped(str(value))}</td></tr>'
        for name, value in rows.items()
    )
    return f'<table class="facts"><tbody>{lines}</tbody></table>'


def _cell(value: object) -> str:
    if value is None:
        return "<td></td>"
    if isinstance(value, bool):
        return f"<td>{'yes' if value else 'no'}</td>"
    if isinstance(value, float):
        return f'<td class="number">{_number(value)}</td>'
    if isinstance(value, int):
        return f'<td class="number">{value}</td>'
    text = str(value)
    if len(text) <= _LONG:
        return f"<td>{escaped(text)}</td>"
    return f'<td class="long">{_LABEL.sub(_UNBROKEN, escaped(text))}</td>'


def _number(value: float) -> str:
    """A number without needless zeros and without an exponent, unless it is tiny."""
    text = f"{value:.{_DIGITS}g}"
    return digits(value, _DIGITS) if "e+" in text else text


def legend(key: Key, section: str) -> str:
    """A key as buttons that highlight what they name in the figures of a section."""
    items = "".join(
        f'<li><button type="button" aria-pressed="false" data-name="{escaped(name, quote=True)}">'
        f"{_swatch(key, number)}{escaped(name)}</button></li>"
        for number, name in enumerate(key.names)
    )
    return (
        f'<div class="legend" data-section="{section}"><span>{escaped(key.title)}:</span>'
        f'<ul aria-label="{escaped(key.title, quote=True)}: highlight">{items}</ul></div>'
    )


def _swatch(key: Key, number: int) -> str:
    """Line and mark of a name."""
    colour, shape, dash = key.look(number)
    dashes = "" if dash[1] == 0 else f' stroke-dasharray="{dash[0]} {dash[1]}"'
    return (
        '<svg viewBox="-5 0 24 14" width="24" height="14" aria-hidden="true">'
        f'<path d="M-5 7H19" stroke="{colour}" stroke-width="2"{dashes}/>'
        f'<path d="{_OUTLINES[shape]}" fill="{colour}"/></svg>'
    )


def data(name: str, content: object) -> str:
    """A block of data for scripts; "<" is escaped so that no text in it can end the block."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>'


def script(text: str) -> str:
    """Our own script or a library's; the end tag cannot occur in it."""
    return f"<script>{text.replace('</script', '<' + chr(92) + '/script')}</script>"


def shortened(thing: Any, count: int = _DIGITS) -> Any:
    """The same data with fewer digits, as no screen can show more, and with texts that only print."""
    if isinstance(thing, str):
        return visible(thing, lines=True)
    if isinstance(thing, float):
        return float(f"{thing:.{count}g}")
    if isinstance(thing, Mapping):
        return {key: shortened(value, count) for key, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [shortened(value, count) for value in thing]
    return thing
