"""`mptune cc`: congestion controls on this kernel, and the BPF programs that supply what it lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mptune.cli._common import JsonOption, console, emit_json, examples
from mptune.errors import InputError, MptuneError

if TYPE_CHECKING:
    from mptune.linux.bpf import Availability

NamesArgument = Annotated[list[str], typer.Argument(metavar="NAME...", help="Congestion controls.")]


def register(app: typer.Typer) -> None:
    """Add the command and its subcommands."""
    group = typer.Typer(
        no_args_is_help=True, rich_markup_mode=None, help="Congestion controls on this machine's kernel."
    )
    group.command("list", epilog=examples("mptune cc list", "mptune cc list --json"))(list_all)
    group.command(
        epilog=examples(
            "mptune cc load olia       # until unloaded, or the next boot",
            "mptune cc load olia lia balia",
        )
    )(load)
    group.command(epilog=examples("mptune cc unload olia"))(unload)
    group.command(epilog=examples("mptune cc status", "mptune cc status --json"))(status)
    app.add_typer(group, name="cc")


def list_all(as_json: JsonOption = False) -> None:
    """List what each congestion control is on this kernel: part of it, a BPF program, or absent and why."""
    from mptune import testbeds
    from mptune.cli._tables import table
    from mptune.linux import bpf

    found = [bpf.availability(cc) for cc in testbeds.names("congestion_controls")]
    if as_json:
        emit_json(found)
        return
    out = console()
    shown = table("congestion control", "in the kernel", "from", "state")
    for one in found:
        state = "registered" if one.registered else "can be loaded" if one.kernel_name else one.reason
        shown.add_row(one.cc, one.kernel_name or "-", one.source or "-", state)
    out.print(shown)


def load(names: NamesArgument, as_json: JsonOption = False) -> None:
    """Register BPF programs until they are unloaded, for every program on this machine. Takes root.

    A trial needs no loading: it brings what it uses and takes it back. What the kernel has by itself is
    used as it is.
    """
    from mptune.linux import bpf

    _check(names)
    done: list[Availability] = []
    try:
        for cc in names:
            before = bpf.is_loaded(cc)
            loaded = bpf.load(cc)
            if not before and loaded.source == "bpf":
                done.append(loaded)
    except MptuneError:
        for one in done:
            bpf.unload(one.cc)
        raise
    found = [bpf.availability(cc) for cc in names]
    if as_json:
        emit_json(found)
        return
    for one in found:
        how = "loaded" if one.source == "bpf" else "the kernel has it, nothing to load"
        typer.echo(f"{one.cc}: {how}; its name for TCP_CONGESTION is {one.kernel_name}")
    restricted = [one.kernel_name for one in found if one.kernel_name not in bpf.allowed()]
    if restricted:
        every = " ".join([*bpf.allowed(), *(name for name in restricted if name)])
        typer.echo("Programs without CAP_NET_ADMIN may choose it after:")
        typer.echo(f'  sysctl -w net.ipv4.tcp_allowed_congestion_control="{every}"')


def unload(names: NamesArgument, as_json: JsonOption = False) -> None:
    """Take back what `load` did. Programs that use it at the moment keep it until they end."""
    from mptune.linux import bpf

    _check(names)
    for cc in names:
        if not bpf.is_loaded(cc):
            raise MptuneError(f"{cc}: not loaded by mptune cc load")
    for cc in names:
        bpf.unload(cc)
        if not as_json:
            typer.echo(f"{cc}: unloaded")
    if as_json:
        emit_json({"unloaded": names})


def status(as_json: JsonOption = False) -> None:
    """Show the BPF programs of mptune that are registered now, and who keeps them. Takes root."""
    from mptune.cli._tables import table
    from mptune.linux import bpf

    found = bpf.status()
    if as_json:
        emit_json(found)
        return
    if not found:
        typer.echo("no BPF program of mptune is registered")
        return
    shown = table("congestion control", "in the kernel", "kept by")
    for one in found:
        shown.add_row(one.cc, one.kernel_name, "mptune cc load" if one.pinned else "a running program")
    console().print(shown)


def _check(names: list[str]) -> None:
    """Refuse what is no congestion control before anything is done."""
    from mptune import testbeds

    known = testbeds.names("congestion_controls")
    for cc in names:
        if cc not in known:
            raise InputError("NAME", "", f"one of {', '.join(known)} expected, found {cc!r}")
