"""The `mptune` command. Each subcommand has its own file next to this one; `_help.GROUPS` lists them.

A command file has `register(app)`, which adds its function to the app. It imports its heavy dependencies
(numpy, pandas, the core) inside that function, so that `mptune --help` stays fast. The program imports the
file of the command that it runs, and no other.
"""

from __future__ import annotations

import gc
import importlib
import io
import os
import sys
from typing import TYPE_CHECKING

from mptune import _threads
from mptune.cli._common import COMPLETION_VARIABLE, program
from mptune.cli._help import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import typer

__all__ = ["app", "main"]

#: In the order in which `mptune --help` lists them.
_COMMANDS = COMMANDS

if TYPE_CHECKING:
    app: typer.Typer


def __getattr__(name: str) -> object:
    """`app`, the program with all its commands, made when it is first asked for."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()["app"] = made = _with(_COMMANDS)
    return made


def _with(commands: Iterable[str]) -> typer.Typer:
    made = program()
    for command in commands:
        importlib.import_module(f"{__name__}.{command}").register(made)
    return made


def _needed(words: Sequence[str]) -> Sequence[str]:
    """Commands that a command line needs: importing all of them takes longer than most of them run.

    What lists or completes them, or is none of them, needs all.
    """
    # The options of the program itself have no values.
    first = next((word for word in words if not word.startswith("-")), None)
    if COMPLETION_VARIABLE in os.environ:
        return _COMMANDS
    if first in _COMMANDS:
        return (first,)
    return () if first is None and "--version" in words else _COMMANDS


def main() -> None:
    """Entry point of the console script."""
    _threads.limit()
    # What is imported stays: to look through it after every 700 new objects takes a tenth of a short command.
    gc.set_threshold(50_000)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # As stderr has it: what a terminal's encoding lacks is written as an escape, and ends nothing.
        sys.stdout.reconfigure(errors="backslashreplace")
    _with(_needed(sys.argv[1:]))()
