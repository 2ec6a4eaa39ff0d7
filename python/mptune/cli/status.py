"""`mptune status`: what was applied on machines and what became of it, and the daemon of this one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from mptune.cli._common import JsonOption, add, console, echo, emit_json
from mptune.cli.apply import HostOption, RunArgument, confirming
from mptune.cli.daemon import PolicyOption
from mptune.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        status,
        "mptune status                 # this machine",
        "mptune status runs/my-sites   # the machines of a run",
        "mptune status --host server   # one that ssh reaches",
        "mptune status --metrics       # the daemon of this machine, for Prometheus",
        "mptune status --json",
    )


def status(
    run: RunArgument = None,
    host: HostOption = None,
    metrics: Annotated[
        bool, typer.Option("--metrics", help="Print only the daemon's metrics, for Prometheus.")
    ] = False,
    policy: PolicyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the settings that mptune applied, and who changed them.

    Each is shown as it was before, as applied, and as it is now. Also shows the time left for `mptune apply
    --confirm`, what was put back because that did not come, and the state of this machine's daemon, if there
    is one. Nothing is changed.
    """
    if metrics:
        if run is not None or host or as_json:
            raise InputError("--metrics", "", "expected nothing else but --policy with it")
        echo(_asked(policy, "metrics")["text"], nl=False)
        return
    from mptune.apply import apply as applying
    from mptune.apply import source

    hosts = host or ()
    done = applying.status(source.machines(run, hosts))
    daemon = _daemon(policy) if run is None and not hosts else None
    if as_json:
        document: dict[str, object] = dict(done)
        if daemon is not None:
            document["daemon"] = daemon
        emit_json(document)
        return
    from mptune.cli._settings_tables import show_status

    for machine, state in done:
        show_status(console(), machine, state, confirming(run, hosts))
    if daemon is not None:
        from mptune.cli._daemon_tables import show_daemon

        show_daemon(console(), daemon)


def _asked(policy: Path | None, action: str) -> Mapping[str, Any]:
    from mptune.daemon import client, policies

    return client.asked(policies.socket_of(policy), action)


def _daemon(policy: Path | None) -> Mapping[str, Any] | None:
    """Status of this machine's daemon; None if there is none, or it refuses access."""
    from mptune.daemon.client import NoDaemon

    try:
        return _asked(policy, "status")
    except NoDaemon:
        return None
