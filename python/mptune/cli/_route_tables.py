"""Routes over time as tables on the terminal and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mptune.cli._tables import section, table

if TYPE_CHECKING:
    from rich.console import Console

    from mptune.routes.followed import Followed


def show_routes(out: Console, followed: Followed) -> None:
    """The last routes, the routers that paths share, and every change."""
    out.print(f"\n{followed.sentence}", markup=False)
    for title, rows in (
        ("Routes", followed.routes),
        ("Routers that paths share", followed.shared),
        ("Changes of routes", followed.changes),
    ):
        if rows:
            listing = table(*rows[0])
            for row in rows:
                listing.add_row(*row.values())
            section(out, title, listing)
    if followed.last is not None and not followed.changes and len(followed.snapshots) > 1:
        out.print("\nNo route changed.")


def as_json_of(followed: Followed) -> dict[str, Any]:
    """Number of traces, last routes, shared routers and changes, a row each."""
    return {
        "traced": len(followed.snapshots),
        "failed": sum(snapshot.failed is not None for snapshot in followed.snapshots),
        "first": followed.snapshots[0].at,
        "last": followed.snapshots[-1].at,
        "routes": followed.routes,
        "shared": followed.shared,
        "changes": followed.changes,
    }
