"""`mptune rollback`: everything as it was before the first `mptune apply`."""

from __future__ import annotations

from typing import Annotated

import typer

from mptune.cli._common import JsonOption, add, console, emit_json
from mptune.cli.apply import HostOption, RunArgument


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        rollback,
        "mptune rollback                 # this machine",
        "mptune rollback runs/my-sites   # the machines of a run",
        "mptune rollback --force         # also what somebody else has changed since",
    )


def rollback(
    run: RunArgument = None,
    host: HostOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also put back what others have changed since.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Put every setting back as it was; needs root.

    That is what it was before the first `mptune apply`. It works whatever has happened meanwhile: an apply
    that was killed, a second one, a full disk. What somebody else has changed since is shown and left alone
    without --force. The exit code is 1 if something is not as before.
    """
    from mptune.apply import apply as applying
    from mptune.apply import source
    from mptune.cli._settings_tables import show_rolled_back

    done = applying.roll_back(source.machines(run, host or ()), force=force)
    if as_json:
        emit_json(dict(done))
    else:
        for machine, rolled_back in done:
            show_rolled_back(console(), machine, rolled_back)
    if any(rolled_back.kept for _, rolled_back in done):
        raise typer.Exit(1)
