"""`mptune hello`: a toy that shows what adding a command takes."""

from __future__ import annotations

import typer

from mptune.cli._common import JsonOption, add, emit_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, hello, "mptune hello          # on one line", "mptune hello --json")


def hello(as_json: JsonOption = False) -> None:
    """Say hello."""
    if as_json:
        emit_json({"said": "hello"})
    else:
        typer.echo("hello")
