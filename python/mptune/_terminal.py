"""Output to terminals: tables and text in which nothing that others wrote is obeyed.

Brackets are no markup, names between colons no pictures, and what does not print is shown as an escape
(`mptune._text.visible`). A separate module, so that only those who draw with rich import it.
"""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from mptune._text import visible

#: Width of output that does not go to a terminal: wide enough that nothing is wrapped or cut.
_UNLIMITED = 1000


class Terminal(Console):
    """A console for data; parameters as of rich's."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **how: Any) -> Text:
        """A string as rich's text; before it is measured, so that columns fit what is shown."""
        return super().render_str(visible(text, lines=True), **{**how, "markup": False, "emoji": False})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Segments of anything; those of texts that did not pass `render_str` are made visible here."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(visible(text, lines=True), style)


class DataTable(Table):
    """A table of which a row is one line each, whatever its cells hold; several where there is no room."""

    def add_row(self, *cells: RenderableType | None, **how: Any) -> None:
        """Add a row."""
        super().add_row(*(visible(cell) if isinstance(cell, str) else cell for cell in cells), **how)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Break texts into lines rather than cut them, but names, in the first column, and numbers."""
        if self.__rich_measure__(console, options.update(max_width=_UNLIMITED)).maximum > options.max_width:
            for column in self.columns[1:]:
                if column.justify == "left":
                    column.no_wrap, column.overflow = False, "fold"
        yield from super().__rich_console__(console, options)


def terminal(*, stderr: bool = False) -> Terminal:
    """The console of stdout or stderr: as wide as the terminal, unlimited for files and pipes."""
    console = Terminal(stderr=stderr)
    return console if console.is_terminal else Terminal(stderr=stderr, width=_UNLIMITED)
