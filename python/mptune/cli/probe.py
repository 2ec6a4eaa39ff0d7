"""`mptune probe`: what the paths between two machines are like, as a topology file."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mptune import files, units
from mptune._text import number_of
from mptune.cli._common import JsonOption, QuietOption, add, console, emit_json
from mptune.errors import InputError, MptuneError
from mptune.options import Option, Options, choice, count, size, texts, time
from mptune.topology import BOTH
from mptune.trial import FAMILY_CHOICES

if TYPE_CHECKING:
    from rich.console import Console

    from mptune.machines import Machine, SshMachine
    from mptune.probe.ends import End
    from mptune.probe.preparation import Wish
    from mptune.probe.result import PathFound, Probed, Way

#: Less is not enough for anything.
_LEAST_DATA = 1_000_000
_DEVICES = texts("DEVICE,...")
_FAMILIES = choice(lambda: FAMILY_CHOICES)


class ProbeOptions(Options, frozen=True, kw_only=True):
    """Limits, and what takes part."""

    max_data: Annotated[
        int,
        Option(size(least=_LEAST_DATA), "Maximum data to transfer, both ways together.", flag="--max-data"),
    ] = 19 * units.MIB
    max_time: Annotated[
        int, Option(time(positive=True), "Maximum time; it grows if connections time out.", flag="--max-time")
    ] = 60_000_000_000
    sender_interfaces: Annotated[
        tuple[str, ...],
        Option(
            _DEVICES,
            "Interfaces of the sender to probe.",
            flag="--sender-interfaces",
            unset="all routed",
        ),
    ] = ()
    receiver_interfaces: Annotated[
        tuple[str, ...],
        Option(_DEVICES, "The receiver's.", flag="--receiver-interfaces", unset="all routed"),
    ] = ()
    family: Annotated[
        str | None,
        Option(
            _FAMILIES,
            "Address family to use; both: each pair of interfaces over IPv4 and over IPv6.",
            flag="--family",
            unset="those present",
        ),
    ] = None
    port: Annotated[
        int,
        Option(count(0, 65_535), "Port at the receiver, UDP and TCP; 0 is any free one.", flag="--port"),
    ] = 0


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        probe,
        "mptune probe laptop.example root@server.example --out my-sites.toml",
        "mptune probe laptop server --out my-sites.toml --sender-interfaces eth0,wlan0",
        "mptune probe laptop server --out my-sites.toml --max-data 5MB --max-time 30s",
        "mptune probe laptop server --out my-sites.toml --family both  # over IPv4 and over IPv6",
        "mptune probe laptop server --out my-sites.toml --port 5001    # the one the firewall lets in",
    )


def probe(
    sender: Annotated[str, typer.Argument(metavar="SENDER", help="Sending host, as ssh knows it.")],
    receiver: Annotated[str, typer.Argument(metavar="RECEIVER", help="Receiving host.")],
    options: ProbeOptions,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The topology file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure the paths between two machines into a topology file.

    Both are reached by ssh; nothing is installed there and nothing stays. It measures rates both ways, round
    trips, losses, queues, packet sizes, address translation, and the fate of MPTCP on every path; joins of
    subflows are tested if both logins are root. Others may notice bursts of a fraction of a second. Routes
    that let packets leave by the wrong interface are shown with the commands that correct them.
    """
    from mptune.probe import course
    from mptune.runner.progress import Reporter

    _check_file(out, force=force)
    with ExitStack() as stack:
        machines = machines_of(stack, {"sender": sender, "receiver": receiver})
        progress = stack.enter_context(Reporter(quiet=quiet).phase("probe", "stages"))
        probed = course.probe(machines, wish_of(options, sender, receiver), advance=progress)
    _write(out, probed)
    if as_json:
        emit_json(probed)
        return
    _show(console(), probed)
    console().print(f"\nWritten to {out}; mptune paths {out} shows it.", markup=False)


def _check_file(out: Path, *, force: bool) -> None:
    if out.exists() and not force:
        raise InputError("--out", "", f"expected a new file (--force replaces it), found {out}")
    files.check_writable(out, "--out")


def machines_of(stack: ExitStack, targets: dict[End, str]) -> dict[End, Machine]:
    """Sessions with both machines, until the end of the block."""
    from mptune.machines import sessions, ssh

    open_: list[SshMachine] = []
    stack.enter_context(sessions.ended(open_))
    by_end: dict[End, Machine] = {}
    for end, target in targets.items():
        by_end[end] = machine = ssh.connect(target, target)
        open_.append(machine)
    return by_end


def wish_of(options: ProbeOptions, sender: str, receiver: str) -> Wish:
    """Request of the options to a probe."""
    from mptune.probe.preparation import Wish

    return Wish(
        data_bytes=options.max_data,
        time_s=options.max_time / 1e9,
        interfaces={"sender": options.sender_interfaces, "receiver": options.receiver_interfaces},
        family=None if options.family in (None, BOTH) else int(options.family[-1]),
        both_families=options.family == BOTH,
        ssh={"sender": sender, "receiver": receiver},
        port=options.port,
    )


def _write(out: Path, probed: Probed) -> None:
    """Write the file, all of it or nothing, once it is known to load."""
    from mptune.probe import file
    from mptune.tables import parse_toml
    from mptune.topology import from_tables

    content = file.text(probed, out.stem).encode()
    from_tables(parse_toml(content, str(out)), str(out), out.name, out.parent)
    try:
        files.write(out, content)
    except OSError as error:
        raise MptuneError(f"{out}: {error.strerror}") from None


def _show(out: Console, probed: Probed) -> None:
    from mptune.probe.routes import TO

    paths = number_of(len(probed.paths), "path")
    out.print(f"{paths} in {probed.seconds:.0f} s and {probed.bytes / 1e6:.1f} MB\n", style="bold")
    _show_sites(out, probed)
    _show_paths(out, probed.paths)
    for name in probed.leaving:
        out.print(f"\n{name}", style="bold", markup=False)
        for line in name.remedy:
            out.print(f"  {line}", markup=False)
    for hop in probed.shared_hops:
        out.print(f"\nRouter {hop.address} is on {', '.join(hop.paths)}, to the {TO[hop.end]}", markup=False)
    for crossing in probed.crossings:
        out.print(f"\n{', '.join(crossing.paths)} share a segment behind their access links", markup=False)
    for note in probed.notes:
        out.print(f"\n{note}", markup=False)


def _show_sites(out: Console, probed: Probed) -> None:
    from mptune.cli._tables import table

    is_dual = any(path.family is not None for path in probed.paths)
    listing = table("interface", "address", "up", "down")
    for site in (probed.sender, probed.receiver):
        for interface in site.interfaces:
            rates = [
                "-" if rate is None else _rate(rate.value, rate.at_least)
                for rate in (interface.up, interface.down)
            ]
            nic = interface.nic
            both = ", ".join(ip for ip in (nic.ipv4, nic.ipv6) if ip is not None)
            listing.add_row(f"{site.name} {nic.device}", both if is_dual else nic.ip, *rates)
    out.print(listing)


def _show_paths(out: Console, paths: list[PathFound]) -> None:
    from mptune.cli._tables import table

    # Two tables fit a terminal where one does not.
    speeds = table("path", "RTT min/median/95 %", "loaded RTT", "there", "back")
    others = table("path", "loss there", "loss back", "MTU", "NAT", "MPTCP")
    for path in paths:
        rtt = path.rtt
        times = (
            "-"
            if rtt is None
            else "/".join(f"{ns / 1e6:.4g}" for ns in (rtt.min_ns, rtt.median_ns, rtt.p95_ns)) + " ms"
        )
        loaded = "-" if path.loaded_rtt_ns is None else units.format_time(path.loaded_rtt_ns, 3)
        speeds.add_row(path.label, times, loaded, _way(path.up), _way(path.down))
        others.add_row(
            path.label,
            _loss(path.up),
            _loss(path.down),
            str(path.up.mtu or "-"),
            f"yes: {path.source}" if path.translated else "no",
            "-" if path.mptcp is None else path.mptcp.kind,
        )
    for listing in (speeds, others):
        out.print()
        out.print(listing)
    remarks = {path.mptcp.kind: path.mptcp.because for path in paths if path.mptcp is not None}
    for kind, because in remarks.items():
        out.print(f"MPTCP {kind}: {because}", style="dim", markup=False)


def _way(way: Way) -> str:
    if way.rate is None:
        return "-"
    return f"{_rate(way.rate.value, way.rate.at_least)} (spread {100 * way.rate.spread:.0f} %)"


def _rate(bps: float, at_least: bool) -> str:
    return f"{'at least ' if at_least else ''}{units.format_rate(round(bps), 3)}"


def _loss(way: Way) -> str:
    if way.loss is None:
        return "-"
    if not way.loss.lost:
        return f"below {units.format_fraction(round(way.loss.interval[1] * 1e9), 1)}"
    return units.format_fraction(round(way.loss.share * 1e9), 2)
