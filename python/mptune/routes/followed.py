"""Routes of a run with the networks that they cross, as rows of tables: for commands and reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from mptune import files
from mptune.probe.ends import Route
from mptune.probe.routes import words
from mptune.routes.keeping import NETWORKS, ROUTES, read
from mptune.routes.networks import Networks, read_networks
from mptune.routes.snapshots import Snapshot, changes, described, latest, rows, shared, to

Rows = list[dict[str, Any]]


class Followed(msgspec.Struct, frozen=True, kw_only=True):
    """Routes over time.

    Attributes
    ----------
    snapshots : at least one, in the order of time.
    networks : what is known of the routers' addresses; may be empty.
    """

    snapshots: tuple[Snapshot, ...]
    networks: Networks

    @property
    def sentence(self) -> str:
        """Number of traces, their times, and their success."""
        return described(self.snapshots)

    @property
    def last(self) -> Snapshot | None:
        """The last snapshot with routes."""
        return latest(self.snapshots)

    @property
    def routes(self) -> Rows:
        """The last routes: direction, path, route; the systems that they cross, if any are known."""
        return [
            {"direction": to(end), "path": path, "route": words(route), **self._systems(route)}
            for snapshot in self._last
            for end, path, route in rows(snapshot)
        ]

    @property
    def shared(self) -> Rows:
        """Routers on several of the last routes: direction, router, its system if any are known, paths."""
        return [
            {
                "direction": to(hop.end),
                "router": hop.address,
                **({"system": self._system(hop.address)} if self.networks else {}),
                "paths": ", ".join(hop.paths),
            }
            for snapshot in self._last
            for hop in shared(snapshot)
        ]

    @property
    def changes(self) -> Rows:
        """Every change: when it was first seen, direction, path, the route before and after."""
        return [
            {
                "when": change.at,
                "direction": to(change.end),
                "path": change.path,
                "before": words(change.before),
                "after": words(change.after),
                **self._moved(change.before, change.after),
            }
            for change in changes(self.snapshots)
        ]

    @property
    def _last(self) -> list[Snapshot]:
        return [] if self.last is None else [self.last]

    def _systems(self, route: Route) -> dict[str, str]:
        return {"systems": " > ".join(self.networks.systems(route)) or "-"} if self.networks else {}

    def _system(self, address: str) -> str:
        network = self.networks.of(address)
        return "?" if network is None else network.words

    def _moved(self, before: Route, after: Route) -> dict[str, str]:
        """Systems before and after, where any are known."""
        if not self.networks:
            return {}
        old, new = (" > ".join(self.networks.systems(route)) or "-" for route in (before, after))
        return {"systems": "the same" if old == new else f"{old} -> {new}"}


def read_followed(directory: Path) -> Followed | None:
    """Routes in a run directory; None if they were not traced.

    Raises
    ------
    InputError : a file is damaged.
    """
    return followed(directory / ROUTES, directory / NETWORKS)


def followed(routes: Path, networks: Path | None) -> Followed | None:
    """Routes in a file, with the networks of another one.

    Raises
    ------
    InputError : one of them is damaged.
    """
    snapshots = read(routes)
    if not snapshots:
        return None
    known = Networks() if networks is None or not files.is_file(networks) else read_networks(networks)
    return Followed(snapshots=tuple(snapshots), networks=known)
