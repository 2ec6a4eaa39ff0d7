"""The bar of `mptune.runner.progress` on a terminal; a separate module, so that only it imports rich."""

from typing import TextIO

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from mptune._terminal import Terminal
from mptune._text import pace

#: Letters of a line beside the bar and the note, and the widest bar.
_FIXED, _BAR = 55, 40
#: A note of fewer letters would tell nothing.
_LEAST_NOTE = 12


def bar(unit: str, stream: TextIO) -> Progress:
    """Give the bar of one phase: one line, whatever the width of the terminal."""
    terminal = Terminal(file=stream)
    width = max(5, min(_BAR, (terminal.width - _FIXED) // 3))
    left = terminal.width - _FIXED - width
    return Progress(
        _text("{task.description}"),
        BarColumn(width),
        MofNCompleteColumn(table_column=_whole()),
        _RateColumn(unit),
        TimeRemainingColumn(table_column=_whole()),
        _text("left"),
        _Note(left),
        console=terminal,
    )


def _whole() -> Column:
    """A column that is not broken into lines."""
    return Column(no_wrap=True)


def _text(text: str) -> TextColumn:
    return TextColumn(text, markup=False, table_column=_whole())


class _Note(ProgressColumn):
    """As much of the note as there is room for."""

    def __init__(self, width: int) -> None:
        super().__init__(table_column=_whole())
        self._width = width

    def render(self, task: Task) -> Text:
        note = Text(str(task.fields["note"]))
        if self._width < _LEAST_NOTE:
            return Text()
        note.truncate(self._width, overflow="ellipsis")
        return note


class _RateColumn(ProgressColumn):
    """Units per second of the bar."""

    def __init__(self, unit: str) -> None:
        super().__init__(table_column=_whole())
        self._unit = unit

    def render(self, task: Task) -> Text:
        return Text(pace(task.speed or 0.0, self._unit))
