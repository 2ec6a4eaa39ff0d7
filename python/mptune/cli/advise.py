"""`mptune advise`: what would be set on which machine, what that brings, and what could go wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mptune.cli._common import JsonOption, add, console, emit_json
from mptune.errors import InputError
from mptune.options import Option, choice, count

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console
    from rich.table import Table

    from mptune.apply.advice import Advice, Differing, HostAdvice

_SIDES = ("sender", "receiver")


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        advise,
        "mptune advise runs/home-server                     # both machines, read over ssh if they can be",
        "mptune advise runs/home-server --host S            # one of them: its key, name or ssh",
        "mptune advise runs/home-server --files settings    # sysctl.d, systemd, NetworkManager and others",
        "mptune advise runs/download --opened-by receiver   # the receiver opens the connections",
        "mptune advise runs/home-server --daemon            # with mptune's daemon on the sender",
        "mptune advise runs/demo --no-look --json           # asks no machine",
    )


def advise(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory with an answer.")],
    host: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this site: its key, its name, or its ssh.")
    ] = None,
    files: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Also write the settings as files that survive a reboot."),
    ] = None,
    opened_by: Annotated[
        str | None,
        Option(
            choice(lambda: _SIDES),
            "Side that opens the connections.",
            flag="--opened-by",
            unset="the file's sender",
        ),
    ] = None,
    connections: Annotated[
        int, Option(count(1), "Connections for which the memory is shown.", flag="--connections")
    ] = 100,
    daemon: Annotated[
        bool,
        typer.Option(
            "--daemon", help="Show what `mptune apply --daemon` sets: a policy instead of endpoints."
        ),
    ] = False,
    look: Annotated[
        bool, typer.Option("--look/--no-look", help="Read the present settings of the machines.")
    ] = True,
    force: Annotated[bool, typer.Option("--force", help="Replace earlier files in DIR.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the settings that an answer implies, with the reasons.

    They are shown for each machine, with their side effects. Nothing is changed. Each setting is shown
    beside its present value if the machine is this one, or if ssh reaches it. Where the kernel cannot have
    the answer's subflows without a daemon, the predicted loss is shown. Interfaces of which neither address
    nor device is known get placeholders, and the exit code is 2 if the file names some of them.
    """
    from mptune.apply import advice, plan
    from mptune.apply.files import write
    from mptune.apply.machine import look as look_at
    from mptune.apply.machine import unlooked

    if files is not None and daemon:
        expected = "expected without --daemon: the files of a policy stay by themselves (apply --daemon)"
        raise InputError("--files", "", expected)
    if files is not None and not look:
        expected = "expected without --no-look: files hold what is set on the machines"
        raise InputError("--files", "", expected)
    side = None if opened_by is None else "sender" if opened_by == "sender" else "receiver"
    advised = advice.advise(
        run,
        host=host,
        opened_by=side,  # type: ignore[arg-type]
        connections=connections,
        daemon=daemon,
        look=look_at if look else unlooked,
    )
    written = [] if files is None else write(advice.to_files(advised), files, force=force)
    if as_json:
        document = advice.document(advised)
        emit_json(document if files is None else {**document, "files": [str(path) for path in written]})
    else:
        _show(console(), advised)
    if written and not as_json:
        console().print(f"\nWritten to {files}; its README lists the destination of each file.", markup=False)
    if _is_of_nowhere(advised):
        if not as_json:
            console().print(f"\n{_NOWHERE}", markup=False)
        return
    for host_advice in advised.hosts:
        plan.check(host_advice.plan)
    whole = host is None and opened_by is None and all(one.read for one in advised.hosts)
    if whole and files is None and not as_json:
        more = " --daemon" if daemon else ""
        console().print(f"\nNext: mptune apply {run}{more} --verify --confirm-within 10min", markup=False)


#: What follows for a network of which no machine is known.
_NOWHERE = (
    "Next: mptune probe HOST HOST --out FILE, for these settings with the addresses of your own machines."
)


def _is_of_nowhere(advised: Advice) -> bool:
    """True if no machine of the network is named, as in a published scenario: there is nothing to mend."""
    if any(host.read or host.plan.ssh for host in advised.hosts):
        return False
    unknown = {one.placeholder for host in advised.hosts for one in host.plan.unknown}
    named = [
        setting[key]
        for host in advised.hosts
        for setting in host.plan.settings
        for key in ("address", "device")
        if setting.get(key)
    ]
    return bool(unknown) and unknown.issuperset(named)


def _show(out: Console, advised: Advice) -> None:
    out.print(advised.answer, style="bold", markup=False)
    for host in advised.hosts:
        _show_host(out, host)
    _paragraphs(out, "Subflows", advised.subflows.text if advised.subflows is not None else ())
    _paragraphs(out, "Expected effect", advised.expected.text)
    _paragraphs(out, "Differences from the answer", map(_difference, advised.differs))
    _paragraphs(out, "Risks", advised.risks)


def _show_host(out: Console, host: HostAdvice) -> None:
    opens = ", opens the connections" if host.opens else ""
    out.print(f"\n{host.name} ({host.site}): {host.part} of the data{opens}", style="bold", markup=False)
    where = f"Read: {host.read}." if host.read else f"Not read: {host.unread}."
    out.print(where, style="dim", markup=False)
    out.print(_table(host))
    if host.lines:
        out.print("Reasons, and other programs concerned", markup=False)
    for number, line in enumerate(host.lines, 1):
        _item(out, f"{number:>3}", f"{line.why} {line.cost}")
    if host.commands:
        out.print("The same of MPTCP by hand, until the next start", markup=False)
    for command in host.commands:
        out.print(f"    {command}", markup=False, soft_wrap=True)
    _items(out, "Not among the settings", host.notes)
    _items(out, "Risks there", host.risks)


def _table(host: HostAdvice) -> Table:
    """Settings with their present and wanted values, wrapped where the terminal is narrow."""
    from mptune._terminal import DataTable

    listing = DataTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    listing.add_column("", justify="right", no_wrap=True)
    for name in ("setting", "now", "would be"):
        listing.add_column(name, overflow="fold")
    for number, line in enumerate(host.lines, 1):
        now = "unknown" if line.present is None else line.present
        style = None if line.changes else "dim"
        cells = (str(number), line.title, now, line.wanted if line.changes else "the same")
        listing.add_row(*cells, style=style)
    return listing


def _difference(differing: Differing) -> str:
    difference = differing.difference
    return f"{difference.asked} -> {difference.got}. {difference.because} {differing.text}".rstrip()


def _paragraphs(out: Console, title: str, texts: Iterable[str]) -> None:
    sentences = list(texts)
    if sentences:
        out.print(f"\n{title}", style="bold", markup=False)
    for text in sentences:
        _item(out, "-", text)


def _items(out: Console, title: str, texts: Iterable[str]) -> None:
    sentences = list(texts)
    if sentences:
        out.print(title, markup=False)
    for text in sentences:
        _item(out, "  -", text)


def _item(out: Console, mark: str, text: str) -> None:
    """A sentence behind its mark, indented where it goes on."""
    from mptune._terminal import DataTable

    row = DataTable.grid(padding=(0, 1, 0, 0))
    row.add_column(no_wrap=True)
    row.add_column(overflow="fold")
    row.add_row(mark, text)
    out.print(row)
