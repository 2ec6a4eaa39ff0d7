"""`mptune exec`: one program under the optimum, nothing else touched."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mptune import units
from mptune._text import quoted
from mptune.cli._common import JsonOption, add, echo, emit_json
from mptune.errors import InputError
from mptune.options import TEXT, Option
from mptune.options.buffers import BUFFER

if TYPE_CHECKING:
    from rich.console import Console

    from mptune.apply.exec import Connection, Plan, Statistics, Subflow, Wanted

#: Connections in the table; the JSON has all.
_SHOWN = 40

_NS_PER_MS = 1_000_000

Cc = Annotated[
    str | None,
    Option(
        TEXT,
        "Congestion control, by its name in mptune or in the kernel.",
        flag="--cc",
        unset="that of --run, or the system's",
    ),
]
Buffer = Annotated[
    int | None,
    Option(
        BUFFER,
        "Send and receive buffer; a bare number is MiB.",
        flag="--buffer",
        unset="that of --run, or autotuning",
    ),
]

#: Names that Linux accepts for a congestion control (TCP_CA_NAME_MAX), or mptune's own.
_CC = re.compile(r"[\w.-]{1,32}", re.ASCII)


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        exec_,
        "mptune exec -- curl -O https://example.org/file           # MPTCP, all else as usual",
        "mptune exec --run runs/demo -- rsync -a data host:        # with the answer of the run",
        "mptune exec --cc olia --buffer 4MiB -- python3 client.py  # after: sudo mptune cc load olia",
        "mptune exec --stats -- wget https://example.org/file      # what each subflow carried",
        "mptune exec --supervise -- ./fetch-all.sh                 # a script of static or Go programs",
        "mptune exec --json -- iperf3 -c server 2>figures.json     # the same as JSON",
        name="exec",
        # What follows the program is the program's.
        settings={"allow_interspersed_args": False},
    )


def exec_(
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="A program with its arguments.")
    ],
    run: Annotated[str | None, typer.Option(metavar="RUN", help="Run directory whose answer to use.")] = None,
    cc: Cc = None,
    buffer: Buffer = None,
    stats: Annotated[
        bool,
        typer.Option("--stats", help="At the end print statistics of every subflow on stderr."),
    ] = False,
    supervise: Annotated[
        bool,
        typer.Option(
            "--supervise",
            help="Have another process make the sockets, of children that are static or in Go too; "
            "otherwise only where nothing can be preloaded into the program itself.",
        ),
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print the settings in use on stderr.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run one program over MPTCP; nothing else is touched.

    Its connections get the congestion control and the buffers that are asked for. TCP sockets of the program
    and its children become MPTCP sockets, or stay TCP where that is refused; all others stay as they are. It
    needs no root. A library is preloaded into the program; of programs that take none (linked statically,
    built for musl, in Go) another process makes the sockets, without --stats. Where neither is possible
    (setuid, another architecture) the program is refused, with what to do instead.

    The exit code is the program's, 128 and the number of the signal that ended it, or 2 if it was not
    started. --json prints the statistics as JSON, also on stderr: stdout is the program's.
    """
    from mptune.apply import exec as programs

    settings = _settings(run, cc, buffer)
    watched = stats or as_json
    planned = programs.plan(command, settings, statistics=watched, supervised=supervise)
    for warning in planned.warnings:
        echo(f"mptune: {warning}", err=True)
    if (verbose or watched) and not as_json:
        echo(f"mptune: {planned.summary}", err=True)
    if not watched:
        programs.start(planned)
    code, statistics = programs.watch(planned)
    _show(planned, code, statistics, as_json=as_json)
    raise typer.Exit(code)


def _settings(run: str | None, cc: str | None, buffer: int | None) -> Wanted:
    """Settings from a run, overridden by the command line."""
    import msgspec

    from mptune.apply.exec import Wanted, from_run

    if cc is not None and not _CC.fullmatch(cc):
        raise InputError("--cc", "", f"expected the name of a congestion control, found {quoted(cc)}")
    settings = Wanted() if run is None else from_run(Path(run))
    if cc is not None:
        settings = msgspec.structs.replace(settings, cc=cc)
    if buffer is not None:
        settings = msgspec.structs.replace(settings, buffer_bytes=buffer)
    return settings


def _show(planned: Plan, code: int, statistics: Statistics, *, as_json: bool) -> None:
    if as_json:
        emit_json(_document(planned, code, statistics), err=True)
        return
    from mptune._terminal import terminal

    _print(terminal(stderr=True), statistics)


def _document(planned: Plan, code: int, statistics: Statistics) -> dict[str, Any]:
    """`--json`: sizes in bytes, times in nanoseconds; what nobody knows is null."""
    return {
        "command": planned.command,
        "exit_code": code,
        "protocol": planned.wanted.protocol,
        "cc": planned.wanted.cc,
        "kernel_cc": planned.kernel_cc,
        "buffer_bytes": planned.wanted.buffer_bytes,
        "notes": planned.wanted.notes,
        "warnings": planned.warnings,
        "connections": statistics.connections,
        "failed": statistics.failed,
        "refused": statistics.refused,
    }


def _print(out: Console, statistics: Statistics) -> None:
    from mptune.cli._tables import table

    numbers = ("| sent", "| received", "| repeated", "| RTT", "| lowest RTT")
    listing = table("connection", "kind", "subflow", *numbers, "CC")
    for connection in statistics.connections[:_SHOWN]:
        flows: list[Subflow | None] = [*connection.subflows] or [None]
        for number, flow in enumerate(flows):
            name, kind, cc = (
                (_name(connection), _kind(connection), connection.cc or "-") if number == 0 else ("", "", "")
            )
            listing.add_row(name, kind, *_cells(flow), cc)
    if statistics.connections:
        out.print(listing)
    for line in _remarks(statistics):
        out.print(line, markup=False)


def _name(connection: Connection) -> str:
    arrow = {"client": "->", "server": "<-"}.get(connection.role or "", "--")
    return f"{connection.command} ({connection.pid}) {arrow} {connection.remote or 'unknown'}"


def _kind(connection: Connection) -> str:
    if connection.kind is None:
        return "not seen to end"
    return {"mptcp": "MPTCP", "fallback": "fell back to TCP", "tcp": "TCP"}[connection.kind]


def _cells(flow: Subflow | None) -> list[str]:
    if flow is None:
        return ["-"] * 6
    sizes = (flow.sent_bytes, flow.received_bytes, flow.retransmitted_bytes)
    times = (flow.rtt_ns, flow.min_rtt_ns)
    return [
        f"{flow.local} - {flow.remote}",
        *("-" if size is None else units.format_size(size, 3) for size in sizes),
        *("-" if time is None else f"{time / _NS_PER_MS:.2f} ms" for time in times),
    ]


def _remarks(statistics: Statistics) -> list[str]:
    """One line on all connections, and what is not in the table."""
    several = sum(
        1
        for connection in statistics.connections
        if connection.kind == "mptcp" and len(connection.subflows) > 1
    )
    counts = {
        f"MPTCP ({several} with several subflows)": sum(
            connection.kind == "mptcp" for connection in statistics.connections
        ),
        "fell back to TCP": sum(connection.kind == "fallback" for connection in statistics.connections),
        "TCP": sum(connection.kind == "tcp" for connection in statistics.connections),
        "not seen to end (the process was killed, or closed it in another way)": sum(
            connection.kind is None for connection in statistics.connections
        ),
        "not answered": statistics.failed,
    }
    listed = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    lines = [f"mptune: connections: {listed or 'none'}"]
    if len(statistics.connections) > _SHOWN:
        lines.append(f"mptune: the first {_SHOWN} are shown, --json has all")
    lines += [
        f"mptune: {refusals.what} refused {refusals.count} times: {refusals.error} ({refusals.reason})"
        for refusals in statistics.refused
    ]
    return lines
