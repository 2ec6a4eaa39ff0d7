"""`mptune clean`: end what a program that was killed may have left behind."""

from __future__ import annotations

import typer

from mptune.cli._common import JsonOption, emit_json, examples


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=examples("mptune clean          # after a crash, to be sure", "mptune clean --json"))(
        clean
    )


def clean(as_json: JsonOption = False) -> None:
    """End processes that an mptune which no longer runs has left behind.

    There should be none: namespaces, devices and processes of a trial end with it, even when it is killed.
    What campaigns that still run are using is left alone. Nothing outside of processes needs cleaning.
    """
    import msgspec

    from mptune.linux.marker import end_strays

    found = end_strays()
    if as_json:
        emit_json({"ended": [msgspec.to_builtins(stray) for stray in found]})
        return
    for stray in found:
        typer.echo(f"ended process {stray.pid}: {stray.command}")
    if not found:
        typer.echo("nothing was left behind")
