"""`mptune watch`: the MPTCP connections of this machine, or of others, live."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from mptune._text import quoted
from mptune.cli._common import add, console, emit_json, load_topology
from mptune.errors import InputError, TrialError
from mptune.options import Option, time

if TYPE_CHECKING:
    from rich.console import Console

    from mptune.linux.talker import Message, Talker
    from mptune.monitor.figures import Machine

#: The agent refuses to look more often.
_SHORTEST_NS = 50_000_000


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        watch,
        "mptune watch                        # a screen; ? shows its keys",
        "mptune watch --once                 # one table, also where there is no terminal",
        "mptune watch --json --interval 5s   # a line of JSON every 5 seconds",
        "mptune watch root@server.example    # another machine's connections, by ssh",
        "mptune watch --hosts my-sites.toml  # those of both machines of a topology file",
    )


def watch(
    host: Annotated[
        str | None, typer.Argument(metavar="[HOST]", help="Another machine, as ssh knows it.")
    ] = None,
    hosts: Annotated[
        str | None, typer.Option("--hosts", metavar="FILE", help="Both machines of a topology file.")
    ] = None,
    interval: Annotated[
        int, Option(time(positive=True), "Time between two reports.", flag="--interval")
    ] = 1_000_000_000,
    once: Annotated[bool, typer.Option("--once", help="Print one table, or with --json one line.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print each report as a line of JSON.")] = False,
) -> None:
    """Show live MPTCP connections and their subflows.

    Rates, RTTs, losses, roles, and what limits each of them. Everything comes from the kernel's own
    counters; nothing is captured or changed, whoever opened the connections. It works without root as far as
    the kernel allows, and reports what is missing. With root a subflow can be made standby or active, after
    a question. Where the output is no terminal it prints one table, as --once does.
    """
    from mptune.monitor import sources

    if interval < _SHORTEST_NS:
        raise InputError("--interval", "", "expected 50ms or more")
    with sources.started(_targets(host, hosts), interval) as talkers:
        late_s = sources.LATE_S + interval / 1e9
        if as_json:
            _print_lines(talkers, once=once, late_s=late_s)
        elif once or not (sys.stdin.isatty() and sys.stdout.isatty()):
            _show(console(), _machines(talkers, reports=2, late_s=late_s))
        else:
            _run_screen(talkers, _machines(talkers, reports=1, late_s=late_s))


def _targets(host: str | None, hosts: str | None) -> dict[str, str]:
    """Name -> how ssh reaches it; nothing for this machine."""
    if host is not None and hosts is not None:
        raise InputError("--hosts", "", "expected a host or a file of hosts, found both")
    if host is not None:
        if host.startswith("-") or not host.strip():
            raise InputError("HOST", "", f"expected a machine as ssh knows it, found {quoted(host)}")
        return {host: host}
    if hosts is None:
        return {}
    topology = load_topology(hosts, reverse=False)
    sites = (topology.sender, topology.receiver)
    alike = topology.sender.name == topology.receiver.name
    targets = {(site.abbr if alike else site.name): site.ssh for site in sites if site.ssh is not None}
    if not targets:
        raise InputError(hosts, "sites", "expected ssh at one site at least, found none")
    return targets


def _print_lines(talkers: Mapping[str, Talker], *, once: bool, late_s: float) -> None:
    """Print reports as they come until Ctrl-C, or the first of each machine."""

    def put(name: str, message: Message) -> None:
        document = {"host": name, **message} if name else message
        emit_json(document, indent=-1)

    try:
        for name, talker in talkers.items():
            put(name, talker.expect("connections", late_s))
        while not once:
            ready, _, _ = select.select(list(talkers.values()), [], [])
            for name, talker in talkers.items():
                if talker in ready:
                    for message in talker.take():
                        put(name, message)
                    if talker.ended:
                        raise TrialError(talker.death(), talker.kind)
    except BrokenPipeError:
        # Whoever read it has had enough. Nothing must be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _machines(talkers: Mapping[str, Talker], *, reports: int, late_s: float) -> dict[str, Machine]:
    """Machines, from the first reports of their agents."""
    from mptune.monitor.figures import Machine
    from mptune.monitor.shape import census

    machines = {name: Machine(name) for name in talkers}
    for _ in range(reports):
        for name, talker in talkers.items():
            machines[name].update(census(talker.expect("connections", late_s)))
    return machines


def _run_screen(talkers: Mapping[str, Talker], machines: Mapping[str, Machine]) -> None:
    from mptune.monitor import daemon
    from mptune.monitor.screen import WatchApp

    events = daemon.connect() if "" in talkers else None
    try:
        WatchApp(talkers, machines, events).run()
    finally:
        if events is not None:
            events.close()


def _show(out: Console, machines: Mapping[str, Machine]) -> None:
    """Every connection with its subflows, in one table, and why subflows are held."""
    from mptune.cli._tables import table
    from mptune.monitor.columns import COLUMNS, held, safe_cell
    from mptune.monitor.view import View

    view = View()
    view.open_all()
    rows = view.rows(machines.values())
    cells = [[safe_cell(column, row).text for column in COLUMNS] for row in rows]
    widths = [
        2 + max(len(column.title), *(len(row[number]) for row in cells), 0)
        for number, column in enumerate(COLUMNS)
    ]
    # The first ones are those that matter most.
    shown = max(
        number
        for number in range(1, len(COLUMNS) + 1)
        if number == 1 or sum(widths[:number]) - 2 <= out.width
    )
    listing = table(*(f"| {name.title}" if name.number else name.title for name in COLUMNS[:shown]))
    for row_cells in cells:
        listing.add_row(*row_cells[:shown])
    if rows:
        out.print(listing, markup=False)
    else:
        out.print("No MPTCP connections.")
    for row in rows:
        if row.subflow is not None and (reason := held(row.subflow.now, row.connection.now)):
            out.print(f"{safe_cell(COLUMNS[0], row).text.strip()} is {reason}", markup=False)
    for machine in machines.values():
        for limit in machine.census.limits if machine.census is not None else ():
            out.print(f"Not known: {limit}", style="dim")
