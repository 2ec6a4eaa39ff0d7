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
from rich.text import Text

from mptune._terminal import Terminal
from mptune._text import pace


def bar(unit: str, stream: TextIO) -> Progress:
    """Give the bar of one phase."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        _RateColumn(unit),
        TimeRemainingColumn(),
        TextColumn("left"),
        TextColumn("{task.fields[note]}", markup=False),
        console=Terminal(file=stream),
    )


class _RateColumn(ProgressColumn):
    """Units per second of the bar."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        return Text(pace(task.speed or 0.0, self._unit))
