"""A topology as the core's links and routes: the only place that knows how interface pairs are wired.

Each interface has one up and one down link, shared by all its paths; each path has a core link of its own
each way, or shares both with the path of its pair over the other address family, and shared segments have one
each way for several paths. Data crosses sender up, shared segments forward, core forward, receiver down; ACKs
receiver up, core back, shared segments back, sender down. A null rate means no limit, unless a trace replaces
it; such links have no queue unless a token bucket needs one.
"""

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

import msgspec

from mptune.topology._effects import Effects, Model, Schedule, Step
from mptune.topology._flows import Background, TcpBackground, UdpBackground
from mptune.topology._kinds import MIN_RATE_BPS
from mptune.topology._later import later_schedule
from mptune.topology._over_time import blocks
from mptune.topology._sites import CoreSegment, Path, SharedSegment, Site
from mptune.topology.models import Moment

#: A moment of a recording is drawn below this, ns, and taken modulo its length.
_LATEST_NS = 10**16


class Link(NamedTuple):
    """A link in one direction; with a trace, `rate_bps` is its mean."""

    name: str
    rate_bps: int | None
    delay_ns: int
    jitter_ns: int
    queue_bytes: int | None
    loss_ppb: int
    effects: Effects

    @property
    def words(self) -> list[str]:
        """Each of its effects for people; empty if it has none."""
        return self.effects.words(self.rate_bps)

    def courses(self, width: int) -> list[tuple[str, str]]:
        """Names of values that change often, each with a line of blocks from 0 to its largest."""
        model = self.effects.model
        schedule = self.effects.schedule if model is None else drawn(self, model, 0)
        if schedule is None:
            return []
        which = "" if model is None else ", drawn"
        values = {"rate": schedule.held(lambda step: step.rate_bps)}
        values["delay"] = schedule.held(lambda step: step.delay_ns)
        return [(f"{name}{which}", blocks(held, width)) for name, held in values.items() if held]


def links(sender: Site, receiver: Site, paths: Sequence[Path]) -> list[Link]:
    """Every link: two of each interface, sender's first; two of each segment, shared ones last."""
    access = [link for site in (sender, receiver) for link in _access(site)]
    segments = _segments(paths) | shared(paths)
    return access + [link for name, segment in segments.items() for link in _core(name, segment)]


def shared(paths: Sequence[Path]) -> dict[str, SharedSegment]:
    """Shared segments of paths by their names, in the order of their first appearance."""
    return {segment.name: segment for path in paths for segment in path.shared}


def describe(
    sender: Site, receiver: Site, paths: Sequence[Path], background: Sequence[Background], seed: int
) -> dict[str, Any]:
    """Return links, routes and background of the core's `NetworkSpec` as JSON types.

    Parameters
    ----------
    seed : that the courses of models are drawn from.
    """
    labels = [path.label for path in paths]
    network: dict[str, Any] = {
        "links": [_described(link, background, seed) for link in links(sender, receiver, paths)],
        "paths": _routes(sender, receiver, paths),
    }
    if flows := [flow for flow in background if isinstance(flow, TcpBackground)]:
        network["background"] = [_without_place(flow) | {"path": labels.index(flow.path)} for flow in flows]
    return network


def _segments(paths: Sequence[Path]) -> dict[str, CoreSegment]:
    """The paths' own segments, by their names."""
    return {path.crosses: path.core for path in paths}


def _access(site: Site) -> list[Link]:
    """Up and down link of each interface, in that order."""
    found = []
    for interface in site.interfaces:
        name = f"{site.abbr} {interface.abbr}"
        delay, jitter, loss = interface.delay_ns, interface.jitter_ns, interface.loss_ppb
        up, down = interface.queue_up_bytes, interface.queue_down_bytes
        found += [
            Link(f"{name} up", interface.up_bps, delay, jitter, up, loss, interface.up_effects),
            Link(f"{name} down", interface.down_bps, delay, jitter, down, loss, interface.down_effects),
        ]
    return found


def _core(name: str, core: CoreSegment) -> list[Link]:
    """Link of the data direction (with the segment's loss) and of the ACK direction (without)."""
    rate, queue, jitter = core.rate_bps, core.queue_bytes, core.jitter_ns
    there, back = f"{name} forward", f"{name} back"
    return [
        Link(there, rate, core.forward_ns, jitter, queue, core.loss_ppb, core.forward_effects),
        Link(back, rate, core.reverse_ns, jitter, queue, 0, core.back_effects),
    ]


def _routes(sender: Site, receiver: Site, paths: Sequence[Path]) -> list[dict[str, Any]]:
    receiver_base = 2 * len(sender.interfaces)
    core_base = receiver_base + 2 * len(receiver.interfaces)
    numbers = {segment: number for number, segment in enumerate(_segments(paths) | shared(paths))}
    routes = []
    for path in paths:
        local, remote = 2 * path.local_index, receiver_base + 2 * path.remote_index
        core = core_base + 2 * numbers[path.crosses]
        crossed = [core_base + 2 * numbers[segment.name] for segment in path.shared]
        route: dict[str, Any] = {
            "label": path.label,
            "local": path.local_index,
            "remote": path.remote_index,
            "forward": [local, *crossed, core, remote + 1],
            "reverse": [remote, core + 1, *(one + 1 for one in reversed(crossed)), local + 1],
        }
        if path.family is not None:
            route["family"] = path.family
        if path.metered:
            route["metered"] = True
        routes.append(route)
    return routes


def _described(link: Link, background: Sequence[Background], seed: int) -> dict[str, Any]:
    """Description of a link, without effects it does not have."""
    effects = link.effects
    if effects.model is not None:
        effects = msgspec.structs.replace(effects, model=None, schedule=drawn(link, effects.model, seed))
    elif effects.schedule is not None and effects.schedule.anywhere:
        effects = msgspec.structs.replace(effects, schedule=_from_anywhere(effects.schedule, seed))
    described: dict[str, Any] = link._asdict() | _plain(effects)
    del described["effects"]
    if link.effects.trace_ms is not None:
        described["rate_bps"] = None
    sources = [flow for flow in background if isinstance(flow, UdpBackground) and flow.link == link.name]
    if sources:
        described["udp"] = [_without_place(source) for source in sources]
    return described


def _from_anywhere(schedule: Schedule, seed: int) -> Schedule | None:
    """A recording from a moment on that the seed draws: the same one for all that are equally long."""
    moment_ns = Random(f"trace/{seed}").randrange(_LATEST_NS)
    return later_schedule(msgspec.structs.replace(schedule, anywhere=False), moment_ns)


def drawn(link: Link, model: Model, seed: int) -> Schedule:
    """The course of a link by its model; both directions have what happens to them at once from one draw."""
    place, _, way = link.name.rpartition(" ")
    events, rates = Random(f"model/{seed}/{place}"), Random(f"model/{seed}/{place}/{way}")
    return Schedule(
        steps=tuple(_step(link, moment) for moment in model.course(events, rates)), period_ns=model.lasts_ns
    )


def _step(link: Link, moment: Moment) -> Step:
    rate = None if link.rate_bps is None else round(link.rate_bps * moment.rate)
    return Step(
        at_ns=moment.at_ns,
        rate_bps=rate if rate is None or rate >= MIN_RATE_BPS else 0,
        delay_ns=link.delay_ns + moment.delay_ns,
    )


def _without_place(flow: Background) -> dict[str, Any]:
    """Description of a flow without its kind and place."""
    return {key: value for key, value in _plain(flow).items() if key not in ("kind", "link", "path")}


def _plain(record: Effects | Background) -> dict[str, Any]:
    """JSON types of a record."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(record))
    return plain
