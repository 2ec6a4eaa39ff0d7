"""Common part of commands that run a campaign: report kept trials on Ctrl-C, and draw the report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from mptune.cli._common import echo, tell_interrupt
from mptune.errors import LimitReached, MptuneError
from mptune.store import open_store
from mptune.store.directory import STORE


@contextmanager
def keeping(directory: Path, *, report: bool = True) -> Iterator[None]:
    """Draw the report of the campaign that the block ran; on Ctrl-C report what is kept, exit 130.

    So does a limit of the user's that is reached, with the exit code of wrong input.
    """
    from mptune.report.files import draw_run

    try:
        yield
        if report:
            draw_run(directory)
    except KeyboardInterrupt as error:
        tell_interrupt(error, _note(directory))
        raise typer.Exit(130) from None
    except LimitReached as error:
        echo(f"mptune: {error}{_note(directory)}", err=True)
        if error.so_far:
            echo(f"mptune: {error.so_far}", err=True)
        raise typer.Exit(error.exit_code) from None


def _note(directory: Path) -> str:
    """The number of trials in the store, if it can be read."""
    try:
        with open_store(directory / STORE, write=False) as store:
            done = sum(progress.done for progress in store.progress())
    except MptuneError:
        return ""
    return f": {done} finished trials are kept; continue with: mptune campaign resume {directory}"
