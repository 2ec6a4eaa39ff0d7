"""Output to terminals: tables and text in which nothing that others wrote is obeyed.

Brackets are no markup, names between colons no pictures, and what does not print is shown as an escape
(`mptune._text.visible`). A separate module, so that only those who draw with rich import it.
"""

from collections.abc import Iterable
from typing import Any

from rich.cells import cell_len
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
        wide = options.update(max_width=_UNLIMITED)
        widths = [self._measure_column(console, wide, column).maximum for column in self.columns]
        texts = [index for index, column in enumerate(self.columns) if index and column.justify == "left"]
        # No word is broken; where that is not enough, all columns are cut.
        least = {index: self._longest_word(index) for index in texts}
        shrinks = sum(widths[index] - width for index, width in least.items())
        excess = sum(widths) - options.max_width
        if 0 < excess <= shrinks:
            while sum(widths) > options.max_width:
                widest = max(texts, key=lambda index: (widths[index] > least[index], widths[index]))
                widths[widest] -= 1
            for index in texts:
                column = self.columns[index]
                column.no_wrap = False
                column.width = widths[index] - self._get_padding_width(index)
        yield from super().__rich_console__(console, options)

    def _longest_word(self, index: int) -> int:
        """Of a column, with what separates it from the next one."""
        column = self.columns[index]
        cells = [column.header, *column.cells]
        words = [word for cell in cells for word in str(cell).split()]
        return max(map(cell_len, words), default=1) + self._get_padding_width(index)


def terminal(*, stderr: bool = False) -> Terminal:
    """The console of stdout or stderr: as wide as the terminal, unlimited for files and pipes."""
    console = Terminal(stderr=stderr)
    return console if console.is_terminal else Terminal(stderr=stderr, width=_UNLIMITED)
