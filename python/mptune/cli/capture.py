"""`mptune capture`: what a packet capture tells of MPTCP.

What is read and concluded is `mptune.capture`'s; this shows it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mptune.cli._common import DetailsOption, JsonOption, add, console, emit_json
from mptune.errors import InputError


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        capture,
        "mptune capture trace.pcap                       # of tcpdump -i any -s 128 -w trace.pcap tcp",
        "mptune capture client.pcap server.pcap          # the same packets at both ends: where they vanish",
        "mptune capture trace.pcap --out trace.svg       # rates and RTTs of the largest connection",
    )


def capture(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A capture: pcap or pcapng.")],
    other: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="One of the same packets at the other end.")
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Draw the largest connection: .svg, .png, .pdf or .html."),
    ] = None,
    details: DetailsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show the MPTCP connections of a packet capture.

    Of each connection its token, its subflows with addresses and round trips, what each of them carried, sent
    again or reinjected, how far the data was acknowledged, and what went wrong: options that vanished, joins
    refused or never answered, addresses that nobody used. The limits of a capture at that place are listed.

    The capture is taken elsewhere, with headers whole: 128 bytes of a packet are enough. Two captures, one at
    each end, tell what was lost and removed between them. `mptune run ... --capture FILE` writes one.
    """
    from mptune.capture.connections import examine
    from mptune.cli import _capture_screen
    from mptune.files import check_writable
    from mptune.report.capture import figure
    from mptune.report.figures import check_suffix, write_spec

    if out is not None:
        check_suffix(Path(out), "--out")
        check_writable(Path(out), "--out")
    found = examine(*(Path(name) for name in (file, other) if name is not None))
    if out is not None:
        number = _capture_screen.largest(found.analysis)
        if number is None:
            raise InputError(file, "", "expected a connection of MPTCP to draw, found none")
        write_spec(Path(out), figure(found, number))
    if as_json:
        emit_json(found.analysis)
    else:
        _capture_screen.show(console(), found.analysis, details=details)
