"""`mptune ui`: runs, campaigns at work and live connections in a browser of this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from mptune.cli._common import JsonOption, add, echo, emit_json
from mptune.options import Option, count


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        ui,
        "mptune ui runs                  # all runs of a directory, compared; prints an address",
        "mptune ui runs/demo --open      # one run, in the browser of this desktop",
        "mptune ui paper.zip             # the run in a bundle",
        "mptune ui runs --port 8384      # always the same port, for a tunnel",
    )


def ui(
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="A run directory, a bundle, or a directory with some in it.")
    ],
    port: Annotated[
        int | None, Option(count(1, 65535), "Port on 127.0.0.1; a free one unless given.", flag="--port")
    ] = None,
    browser: Annotated[
        bool, typer.Option("--open", help="Open it in a browser, where there is a desktop.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show runs, their progress and live connections in a browser.

    Reports are those of mptune report, and one page compares all runs. Campaigns that are not finished show
    how far they are, and where the daemon runs, live connections are shown. Nothing is written. Only
    this machine can ask, and only with the address that is printed: it has a token. Ctrl-C ends it.
    """
    from mptune.ui.runs import Runs
    from mptune.ui.server import Server

    server = Server(Runs(Path(directory)), port or 0)
    if as_json:
        emit_json({"url": server.access.url})
    else:
        echo(server.access.url)
    if browser:
        _open(server.access.once())
    server.serve()


def _open(url: str) -> None:
    """Open an address where there is a desktop: a browser in this terminal would wait for keys."""
    import webbrowser

    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(url)
