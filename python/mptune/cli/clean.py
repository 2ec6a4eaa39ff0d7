"""`mptune clean`: end processes that a killed mptune may have left behind."""

from __future__ import annotations

import typer

from mptune.cli._common import JsonOption, add, echo, emit_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        clean,
        "mptune clean          # after a crash, to be sure",
        "mptune clean --json",
        "mptune clean --json | jq .ended",
    )


def clean(as_json: JsonOption = False) -> None:
    """End what an mptune that runs no longer has left behind.

    There should be none: a trial's namespaces, devices and processes end with it, even if it is killed.
    Running campaigns are left alone. Nothing but processes can be left behind.
    """
    import msgspec

    from mptune.linux.sandbox.leftovers import end_strays

    ended = end_strays()
    if as_json:
        emit_json({"ended": [msgspec.to_builtins(stray) for stray in ended]})
        return
    for stray in ended:
        echo(f"ended process {stray.pid}: {stray.command}")
    if not ended:
        echo("nothing was left behind")
