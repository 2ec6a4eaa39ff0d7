"""Section of the routes: what paths share, and when routes changed."""

from collections.abc import Iterator

from mptune.probe.ends import ENDS
from mptune.report.charts import systems as charts
from mptune.report.charts.style import Key, key
from mptune.report.choices import Choices
from mptune.report.sections._base import Panel, Rows, Section, Table
from mptune.result.run_data import RunData
from mptune.routes.followed import Followed
from mptune.routes.snapshots import rows as rows_of
from mptune.routes.snapshots import to

_FILE = "routes.jsonl"


def routes(run: RunData, choices: Choices) -> Iterator[Section]:
    """Routes of a campaign that traced them."""
    followed = run.routes
    if followed is None:
        return
    changes, shared, now = followed.changes, followed.shared, followed.routes
    lead = f"{followed.sentence} " + (
        "They changed as below: a router that did not answer for a while is no change."
        if changes
        else "They never changed."
    )
    if followed.networks:
        lead += " Autonomous systems are those of networks.csv, with ? for addresses that are not in it."
    tables = (
        ("Changes of routes", changes),
        ("Routers that paths share", shared),
        ("The last routes", now),
    )
    panels, colours = _systems(followed)
    yield Section(
        name="routes",
        title="Routes",
        lead=lead,
        panels=panels,
        key=colours,
        open=[Table(title=title, rows=rows, source=_FILE) for title, rows in tables if rows],
    )


def _systems(followed: Followed) -> tuple[list[Panel], Key | None]:
    """Connectivity of autonomous systems on the last routes, by direction; none where no system is known."""
    if not followed.networks or followed.last is None:
        return [], None
    crossed: dict[str, Rows] = {}
    for end, path, route in rows_of(followed.last):
        crossed.setdefault(to(end), []).extend(
            {"path": path, "step": step, "system": system}
            for step, system in enumerate(followed.networks.systems(route), 1)
        )
    every = [row for rows in crossed.values() for row in rows]
    colours = key("path", "path", every)
    wanted = [to(end) for end in ENDS if crossed.get(to(end))]
    panels = [Panel(title=name, chart=charts.systems(crossed[name], colours)) for name in wanted]
    return panels, colours if panels else None
