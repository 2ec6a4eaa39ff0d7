"""`mptune cc`: congestion controls on this kernel, and BPF programs for those it lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mptune.cli._common import JsonOption, add, console, echo, emit_json, subcommands
from mptune.errors import InputError, MptuneError, one_of
from mptune.options.paths import AddressOptions

if TYPE_CHECKING:
    from mptune.linux.bpf import Availability

NamesArgument = Annotated[list[str], typer.Argument(metavar="NAME...", help="Congestion controls.")]


def register(app: typer.Typer) -> None:
    """Add the command and its subcommands."""
    group = subcommands("Congestion controls on this machine's kernel.")
    add(
        group,
        list_all,
        "mptune cc list            # what this kernel has, and what BPF programs add",
        "mptune cc list --json",
        name="list",
    )
    add(
        group,
        load,
        "mptune cc load olia       # until unloaded, or the next boot",
        "mptune cc load olia lia balia",
        "mptune cc load cubic+hold # cubic, with slow paths held back",
        "mptune cc load cubic+cap --caps 10.0.1.2=2Mbit/s     # a cap on what leaves from this address",
        "mptune cc load cubic+prefer --order 10.0.1.2,10.0.2.2",
        "mptune cc load cubic+cap --caps 10.0.1.2-10.9.0.0/16=2Mbit/s  # to these destinations",
    )
    add(
        group,
        unload,
        "mptune cc unload olia",
        "mptune cc unload olia lia balia",
        "mptune cc unload olia --json",
    )
    add(
        group,
        status,
        "mptune cc status          # as root",
        "mptune cc status --json",
    )
    app.add_typer(group, name="cc")


def list_all(as_json: JsonOption = False) -> None:
    """List the congestion controls that this kernel has or can have.

    Each is built in, a BPF program, or missing with the reason.
    """
    from mptune import testbeds
    from mptune.cli._tables import table
    from mptune.linux import bpf

    availabilities = [bpf.availability(cc) for cc in testbeds.congestion_controls()]
    if as_json:
        emit_json(availabilities)
        return
    out = console()
    listing = table("congestion control", "in the kernel", "from", "state")
    for availability in availabilities:
        state = (
            "registered"
            if availability.registered
            else "can be loaded"
            if availability.kernel_name
            else availability.reason
        )
        listing.add_row(availability.cc, availability.kernel_name or "-", availability.source or "-", state)
    out.print(listing)


def load(names: NamesArgument, paths: AddressOptions, as_json: JsonOption = False) -> None:
    """Register BPF programs for all users; needs root.

    They stay until they are unloaded. Trials do not need this: they load the programs they use and unload
    them afterwards. A congestion control that the kernel already has needs no program. What path policies
    are told of paths is in force at once, for living connections too, in place of what they were told before.
    """
    from mptune.linux import bpf

    _check(names)
    for option, expected in paths.misfits(names):
        raise InputError(f"--{option}", "", expected)
    done: list[Availability] = []
    try:
        for cc in names:
            before = bpf.is_loaded(cc)
            loaded = bpf.load(cc, paths.told(cc))
            if not before and loaded.source == "bpf":
                done.append(loaded)
    except MptuneError:
        for availability in done:
            bpf.unload(availability.cc)
        raise
    availabilities = [bpf.availability(cc) for cc in names]
    if as_json:
        emit_json(availabilities)
        return
    for availability in availabilities:
        how = "loaded" if availability.source == "bpf" else "already in the kernel, nothing to load"
        echo(f"{availability.cc}: {how}; its name for TCP_CONGESTION is {availability.kernel_name}")
    restricted = [
        each_availability.kernel_name
        for each_availability in availabilities
        if each_availability.kernel_name not in bpf.allowed()
    ]
    if restricted:
        every = " ".join([*bpf.allowed(), *(name for name in restricted if name)])
        echo("To allow it for programs without CAP_NET_ADMIN:")
        echo(f'  sysctl -w net.ipv4.tcp_allowed_congestion_control="{every}"')


def unload(names: NamesArgument, as_json: JsonOption = False) -> None:
    """Undo `load`.

    Connections and campaigns that are using a program keep it until they end.
    """
    from mptune.linux import bpf

    _check(names)
    for cc in names:
        if not bpf.is_loaded(cc):
            raise MptuneError(f"{cc}: not loaded by mptune cc load")
    for cc in names:
        bpf.unload(cc)
        if not as_json:
            echo(f"{cc}: unloaded")
    if as_json:
        emit_json({"unloaded": names})


def status(as_json: JsonOption = False) -> None:
    """Show the registered BPF programs, and what keeps them.

    It needs root.
    """
    from mptune.cli._tables import table
    from mptune.linux import bpf

    registered = bpf.status()
    if as_json:
        emit_json(registered)
        return
    if not registered:
        echo("no BPF program of mptune is registered")
        return
    listing = table("congestion control", "in the kernel", "kept by")
    for each_status in registered:
        listing.add_row(
            each_status.cc,
            each_status.kernel_name,
            "mptune cc load" if each_status.pinned else "a running program",
        )
    console().print(listing)


def _check(names: list[str]) -> None:
    """Refuse unknown congestion controls before anything is done."""
    from mptune import testbeds

    known = testbeds.congestion_controls()
    for number, cc in enumerate(names):
        if cc not in known:
            raise InputError("NAME", "", one_of(known, cc))
        if cc in names[:number]:
            raise InputError("NAME", "", f"expected each name once, found {cc} twice")
