"""The table: a heading and the rows, of which only those in sight are drawn.

It knows the selected row by what it is, not by its place, which changes with every report.
"""

from typing import ClassVar

from rich.cells import set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from mptune.monitor.columns import Tone, layout, safe_cell
from mptune.monitor.view import Key, Row

#: Only attributes, and colours that are readable on light and on dark: the terminal's own background stays.
_STYLES: dict[Tone, Style] = {
    "plain": Style(),
    "quiet": Style(dim=True),
    "good": Style(color="green"),
    "bad": Style(color="red", bold=True),
    "strange": Style(color="magenta"),
}
_HEADING = Style(bold=True, underline=True)
_BOLD, _SELECTED = Style(bold=True), Style(reverse=True)


class Table(ScrollView, can_focus=True):
    """Rows under a heading, one of them selected."""

    DEFAULT_CSS = """
    Table { height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; scrollbar-gutter: stable; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "edge(-1)", show=False),
        Binding("end", "edge(1)", show=False),
    ]

    class Selected(Message):
        """Another row is selected."""

    class Opened(Message):
        """A row was clicked that is selected already."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Row] = []
        self._place = 0
        self._key: Key | None = None

    @property
    def row(self) -> Row | None:
        """The selected row."""
        return self.rows[self._place] if self.rows else None

    @property
    def _width(self) -> int:
        """Columns beside the scroll bar."""
        return self.scrollable_content_region.width

    def show(self, rows: list[Row]) -> None:
        """Draw other rows; the selection stays with what it was, or else in its place."""
        self.rows = rows
        places = (place for place, row in enumerate(rows) if row.key == self._key)
        self._place = next(places, max(0, min(self._place, len(rows) - 1)))
        self._key = None if self.row is None else self.row.key
        self.virtual_size = Size(self._width, len(rows) + 1)
        self.refresh()

    def select(self, place: int) -> None:
        """Select the row in a place."""
        if not self.rows:
            return
        self._place = max(0, min(place, len(self.rows) - 1))
        self._key = self.rows[self._place].key
        top, seen = self.scroll_offset.y, max(1, self.size.height - 1)
        if not top <= self._place < top + seen:
            y = self._place if self._place < top else self._place - seen + 1
            self.scroll_to(y=y, animate=False, immediate=True)
        self.refresh()
        self.post_message(self.Selected())

    def action_move(self, by: int) -> None:
        """Select a row further up or down."""
        self.select(self._place + by)

    def action_page(self, by: int) -> None:
        """The same by a screenful."""
        self.select(self._place + by * max(1, self.size.height - 2))

    def action_edge(self, end: int) -> None:
        """Select the first or the last."""
        self.select(0 if end < 0 else len(self.rows) - 1)

    def on_click(self, event: events.Click) -> None:
        """Select what is clicked; open it if it is selected already."""
        place = event.y - 1 + self.scroll_offset.y
        if event.y > 0 and place < len(self.rows):
            if place == self._place:
                self.post_message(self.Opened())
            self.select(place)

    def on_resize(self) -> None:
        """Use the width there is now."""
        self.virtual_size = Size(self._width, len(self.rows) + 1)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """A line of what is in sight."""
        width = self._width
        if y == 0:
            titles = (
                (column.title.rjust(size) if column.number else column.title, size)
                for column, size in layout(width)
            )
            text = " ".join(set_cell_size(title, size) for title, size in titles)
            return self._strip([Segment(text, _HEADING)])
        place = y - 1 + self.scroll_offset.y
        if place >= len(self.rows):
            return Strip.blank(width, self.rich_style)
        return self._strip(list(_segments(self.rows[place], width, place == self._place)))

    def _strip(self, segments: list[Segment]) -> Strip:
        strip = Strip(segments).adjust_cell_length(self._width)
        return strip.apply_style(self.rich_style)


def _segments(row: Row, width: int, selected: bool) -> list[Segment]:
    segments = []
    for place, (column, size) in enumerate(layout(width)):
        text, tone = safe_cell(column, row)
        # Colours on an inverted line would be hard to read.
        style = _SELECTED if selected else _STYLES[tone]
        if place == 0 and row.subflow is None:
            style += _BOLD
        cell = text.rjust(size) if column.number else text
        blank = " " if place else ""
        segments.append(Segment(blank + set_cell_size(cell, size), style))
    return segments
