"""`mptune status`: what was applied on machines and what became of it."""

from __future__ import annotations

import typer

from mptune.cli._common import JsonOption, console, emit_json, examples
from mptune.cli.apply import HostOption, RunArgument, confirming


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=examples(
            "mptune status                 # this machine",
            "mptune status runs/my-sites   # the machines of a run",
            "mptune status --host server   # one that ssh reaches",
            "mptune status --json",
        )
    )(status)


def status(run: RunArgument = None, host: HostOption = None, as_json: JsonOption = False) -> None:
    """Show the settings of mptune: before, as applied, and now; what somebody else has changed since.

    Also how long `mptune apply --confirm` may still come, and what was put back because it did not.
    Changes nothing.
    """
    from mptune.apply import apply as applying
    from mptune.apply import source
    from mptune.cli._settings_tables import show_status

    hosts = host or ()
    done = applying.status(source.machines(run, hosts))
    if as_json:
        emit_json(dict(done))
        return
    for machine, found in done:
        show_status(console(), machine, found, confirming(run, hosts))
