"""`mptune routes`: the routes between the hosts of a topology now, and what changed since the last time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mptune.cli._common import JsonOption, TopologyArgument, add, console, emit_json, load_topology
from mptune.errors import MptuneError
from mptune.options.trials import Reverse

if TYPE_CHECKING:
    from mptune.routes.snapshots import Snapshot
    from mptune.topology import Topology


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        routes,
        "mptune routes my-sites.toml",
        "mptune routes my-sites.toml --networks as.csv       # with autonomous systems",
        "mptune routes my-sites.toml --keep routes.jsonl     # and what changed since the last time",
    )


def routes(
    topology: TopologyArgument,
    networks: Annotated[
        str | None,
        typer.Option("--networks", metavar="FILE.csv", help="Autonomous systems by prefix: prefix,asn,name."),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            "--keep", metavar="FILE.jsonl", help="Add the routes to this file; compare them with it."
        ),
    ] = None,
    reverse: Reverse = False,
    as_json: JsonOption = False,
) -> None:
    """Trace the routes of all paths, and the routers they share.

    It does so between two hosts, in both directions. Both hosts are reached by ssh, as for trials; a few
    small datagrams are sent and nothing is changed. With --networks the autonomous systems that each route
    crosses are named, from your file. A campaign traces routes by itself with [routes] in its file, and
    mptune campaign status shows them.
    """
    from mptune.cli._route_tables import as_json_of, show_routes
    from mptune.routes.followed import Followed
    from mptune.routes.keeping import append, read
    from mptune.routes.networks import Networks, read_networks

    loaded = load_topology(topology, reverse=reverse)
    known = Networks() if networks is None else read_networks(Path(networks))
    earlier = [] if keep is None else read(Path(keep))
    snapshot = _traced(loaded)
    if keep is not None:
        append(Path(keep), snapshot)
    followed = Followed(snapshots=(*earlier, snapshot), networks=known)
    if as_json:
        emit_json(as_json_of(followed))
    else:
        show_routes(console(), followed)


def _traced(topology: Topology) -> Snapshot:
    """Routes of now.

    Raises
    ------
    InputError : the topology has no hosts.
    MptuneError : a host cannot be reached, or its agent ends.
    """
    from mptune.testbeds.hosts import HostsTestbed

    bed = HostsTestbed()
    bed.check_network(topology)
    try:
        snapshot = bed.trace(topology)
    finally:
        bed.close()
    if snapshot.failed is not None:
        raise MptuneError(snapshot.failed)
    return snapshot
