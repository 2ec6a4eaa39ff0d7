"""What every command that runs a campaign says when it is interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from mptune.campaign.directory import STORE
from mptune.campaign.store import open_store
from mptune.errors import MptuneError


@contextmanager
def keeping(directory: Path) -> Iterator[None]:
    """On Ctrl-C tell what is kept and how to go on; exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"mptune: interrupted{_kept(directory)}", err=True)
        raise typer.Exit(130) from None


def _kept(directory: Path) -> str:
    """What is in the store, if it can be told."""
    try:
        with open_store(directory / STORE, write=False) as store:
            done = sum(one.done for one in store.progress())
    except MptuneError:
        return ""
    return f": {done} finished trials are kept; mptune campaign resume {directory} goes on"
