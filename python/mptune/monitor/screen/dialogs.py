"""Questions and help in front of the table."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

_BOX = """
    align: center middle;
    background: transparent;
"""


class Confirm(ModalScreen[bool]):
    """A question that is answered with yes or no."""

    DEFAULT_CSS = (
        "Confirm {" + _BOX + "} Confirm Vertical { width: 64; height: auto; border: round ansi_magenta; }"
        " Confirm Static { width: 100%; padding: 0 1; }"
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)"),
        Binding("n,escape,q,enter,ctrl+c", "answer(False)"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self.question = question

    def compose(self) -> ComposeResult:
        """The question."""
        with Vertical():
            yield Static(self.question, markup=False)
            yield Static("\ny  yes      n  no", markup=False)

    def action_answer(self, yes: bool) -> None:
        """Close it."""
        self.dismiss(yes)


class Help(ModalScreen[None]):
    """Help on keys and columns."""

    DEFAULT_CSS = (
        "Help {"
        + _BOX
        + "} Help VerticalScroll { width: 78; height: auto; max-height: 100%; border: round ansi_cyan; }"
        " Help Static { width: 100%; padding: 0 1; }"
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter,ctrl+c", "close", "Close", key_display="any of these")
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def compose(self) -> ComposeResult:
        """The text."""
        with VerticalScroll():
            yield Static(self.text, markup=False)

    def action_close(self) -> None:
        """Close it."""
        self.dismiss(None)
