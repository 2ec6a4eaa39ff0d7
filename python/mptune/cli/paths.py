"""`mptune paths`: the paths of a topology, and which of its numbers are published, measured or assumed.

It measures nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from mptune import units
from mptune.cli._common import JsonOption, TopologyArgument, add, console, emit_json, load_topology
from mptune.options.trials import Family, Reverse
from mptune.trial import DEFAULT_FAMILY

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from mptune.topology import SharedSegment, Site, Topology

#: Significant digits in the table; `--json` and the lists below the table have all digits.
_DIGITS = 4
#: Columns of a course over time.
_COURSE = 48


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        paths,
        "mptune paths UNIS-HiN           # a shipped scenario",
        "mptune paths my-sites.toml      # a file of your own",
        "mptune paths UNIS-HiN --family both",
        "mptune paths UNIS-HiN --json",
        "mptune paths UNIS-HiN --reverse # data in the other direction",
    )


def paths(
    topology: TopologyArgument,
    family: Family = DEFAULT_FAMILY,
    reverse: Reverse = False,
    as_json: JsonOption = False,
) -> None:
    """Show the paths of a topology and where its numbers come from.

    Lists the N x M paths with their rates, RTTs, losses, queues and bandwidth-delay products; further effects
    of links, background traffic and real hosts, if there are any; then every value of the file with its
    origin: published (where), measured (when and how) or assumed (why).
    """
    from mptune.topology import NO_SOURCE

    loaded = load_topology(topology, reverse=reverse, family=family)
    if as_json:
        emit_json(_result(loaded))
        return
    out = console()
    _print_paths(out, loaded)
    _print_more(out, loaded)
    origins = loaded.provenance.items()
    sources = [(p.source, p.value, key) for key, p in origins if p.source]
    _print_origins(out, "Stated in the file", [entry for entry in sources if entry[0] == NO_SOURCE])
    _print_origins(out, "Published", [entry for entry in sources if entry[0] != NO_SOURCE])
    _print_origins(out, "Measured", [(p.measured, p.value, key) for key, p in origins if p.measured])
    for title, default in (("Assumed in the file", False), ("Assumed by default", True)):
        chosen = [(p.assumed, p.value, key) for key, p in origins if p.assumed and p.default is default]
        _print_origins(out, title, chosen)


def _result(topology: Topology) -> dict[str, Any]:
    """`--json`: rates in bit/s, sizes in bytes, loss as a fraction; effects are links with what they do.

    What is not known is null, and its key is in `missing`.
    """
    from mptune.topology import background_in_words

    origins = topology.provenance.items()
    return {
        "name": topology.name,
        "description": topology.description,
        "sender": topology.sender.abbr,
        "receiver": topology.receiver.abbr,
        "initial_path": topology.initial_path,
        "lsrr_honoured": topology.lsrr_honoured,
        "paths": [
            {**row, "mptcp": path.core.mptcp}
            for row, path in zip(topology.path_rows(), topology.paths, strict=True)
        ],
        "shared": [
            {"name": segment.name, "paths": _crossing(topology, segment), "rate_bps": segment.rate_bps}
            for segment in topology.shared.values()
        ],
        "effects": {link.name: link.words for link in topology.links if link.words},
        "background": [background_in_words(flow) for flow in topology.background],
        "hosts": [_host(site) for site in (topology.sender, topology.receiver) if site.ssh is not None],
        "missing": list(topology.missing),
        "published": [{"key": key, "value": p.value, "source": p.source} for key, p in origins if p.source],
        "measured": [{"key": key, "value": p.value, "how": p.measured} for key, p in origins if p.measured],
        "assumed": [
            {"key": key, "value": p.value, "reason": p.assumed, "default": p.default}
            for key, p in origins
            if p.assumed
        ],
    }


def _crossing(topology: Topology, segment: SharedSegment) -> list[str]:
    """Labels of the paths that cross a shared segment."""
    return [path.label for path in topology.paths if segment in path.shared]


def _in_words(topology: Topology, segment: SharedSegment) -> str:
    """A shared segment with its paths and its rate."""
    rate = "no known limit" if segment.rate_bps is None else units.format_rate(segment.rate_bps, _DIGITS)
    return f"{segment.name}: {', '.join(_crossing(topology, segment))}; {rate}"


def _host(site: Site) -> dict[str, Any]:
    """SSH name of a site, and its interfaces there."""
    names = ("abbr", "device", "ipv4", "ipv6", "metered", "max_data_bytes")
    interfaces = [{name: getattr(interface, name) for name in names} for interface in site.interfaces]
    return {"site": site.abbr, "ssh": site.ssh, "interfaces": interfaces}


def _print_paths(out: Console, topology: Topology) -> None:
    from mptune._terminal import DataTable

    sender, receiver = topology.sender, topology.receiver
    out.print(f"{topology.name}: {topology.description}", style="bold")
    out.print(f"{sender.name} ({sender.abbr}) -> {receiver.name} ({receiver.abbr})\n")
    table = DataTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("path", "local", "remote"):
        table.add_column(name, no_wrap=True)
    for name in ("rate", "base RTT", "loss", "queue", "BDP"):
        table.add_column(name, no_wrap=True, justify="right")
    for path in topology.paths:
        known = topology.known(path)
        table.add_row(
            path.label,
            path.local.isp,
            path.remote.isp,
            _formatted(known.rate_bps, units.format_rate),
            _formatted(known.base_rtt_ns, units.format_time),
            units.format_fraction(path.loss_ppb, _DIGITS),
            _formatted(known.queue_bytes, units.format_size),
            _formatted(known.bdp_bytes, units.format_size),
        )
    out.print(table)
    for sentence in topology.ruled_out:
        out.print(sentence, markup=False)
    out.print("\nRate and queue are those of the slowest link in data direction; loss is that of all links.")
    effects = [link.effects for link in topology.links]
    if any(effect.trace_ms is not None or effect.schedule is not None for effect in effects):
        out.print("Rates and losses that change over time are shown as long-term means.")
    if topology.missing:
        keys = ", ".join(map(_short, topology.missing))
        out.print(f"Not known: {keys}; `mptune probe` measures that.", markup=False)


def _formatted(value: int | None, text: Callable[[int, int], str]) -> str:
    """A number as text, if it is known."""
    return "not known" if value is None else text(value, _DIGITS)


def _print_more(out: Console, topology: Topology) -> None:
    """Shared segments, further effects of links, background traffic, and real hosts."""
    from mptune.topology import background_in_words

    alike: dict[str, list[str]] = {}
    for link in topology.links:
        if link.words:
            alike.setdefault("; ".join(link.words), []).append(link.name)
    more = [f"{', '.join(names)}: {text}" for text, names in alike.items()]
    others = [background_in_words(flow) for flow in topology.background]
    hosts = [_reached(site) for site in (topology.sender, topology.receiver) if site.ssh is not None]
    shared = [_in_words(topology, segment) for segment in topology.shared.values()]
    for title, lines in (
        ("Segments that paths share", shared),
        ("Further effects of links", more),
        ("Background traffic", others),
        ("Hosts", hosts),
    ):
        if lines:
            out.print(f"\n{title}", style="bold")
        for line in lines:
            out.print(f"  {line}", markup=False)
    _print_courses(out, topology)


def _print_courses(out: Console, topology: Topology) -> None:
    """Rates and delays that change often, as lines of blocks."""
    courses: dict[str, list[str]] = {}
    for link in topology.links:
        for what, line in link.courses(_COURSE):
            courses.setdefault(line, []).append(f"{link.name}, {what}")
    if courses:
        out.print("\nOver time", style="bold")
    for line, names in courses.items():
        out.print(f"  {line}  {'; '.join(names)}", markup=False)


def _reached(site: Site) -> str:
    """SSH name of a real host, and its interfaces there."""
    parts = [f"{site.abbr}: ssh {site.ssh}"]
    for interface in site.interfaces:
        places = [text for text in (interface.device, interface.ipv4, interface.ipv6) if text is not None]
        limit = interface.max_data_bytes
        paid = ["metered"] if interface.metered else []
        most = [] if limit is None else [f"at most {units.format_size(limit)}"]
        if what := [*places, *paid, *most]:
            parts.append(f"{interface.abbr} is {', '.join(what)}")
    return "; ".join(parts)


def _print_origins(out: Console, title: str, values: list[tuple[str, str, str]]) -> None:
    """Print values by origin: below each origin its values, each with its keys."""
    from rich.padding import Padding

    groups: dict[str, dict[str, list[str]]] = {}
    for origin, value, key in values:
        groups.setdefault(origin, {}).setdefault(value, []).append(_short(key))
    if groups:
        out.print(f"\n{title}", style="bold")
    for origin, keys_of in groups.items():
        listed = "; ".join(f"{', '.join(keys)} = {value}" for value, keys in keys_of.items())
        out.print(Padding(origin, (0, 0, 0, 2), expand=False), markup=False)
        out.print(Padding(listed, (0, 0, 0, 6), expand=False), style="dim", markup=False)


def _short(key: str) -> str:
    """Key without the names of the outer tables: "UNIS.U.up", "U-C.rtt"."""
    for table in ("sites.", "interfaces.", "core.segments.", "core.shared."):
        key = key.replace(table, "", 1)
    return key
