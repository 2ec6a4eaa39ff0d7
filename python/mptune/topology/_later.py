"""The same network some time later: schedules and background traffic go on instead of beginning anew.

A trial has a clock of its own that begins at 0. A campaign that comes back after an hour wants the network of
that hour. Traces stay as they are: they repeat, and where in them a trial begins is of no importance.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from mptune.topology._effects import Effects, Schedule, Step
from mptune.topology._flows import Background
from mptune.topology._sites import CoreSegment, Interface, Path, Site

S = TypeVar("S", bound=CoreSegment)

_VALUES = ("rate_bps", "delay_ns", "loss_ppb")


def later_schedule(schedule: Schedule, by_ns: int) -> Schedule | None:
    """The schedule as it goes on after a time; None if nothing was changed and nothing will be.

    What holds at that time becomes a step at 0. Before the first step of a value the link's own holds, and
    only in the first period: with a period, later ones begin with the last value of the one before.
    """
    if schedule.anywhere:
        return schedule
    period = schedule.period_ns
    passed, phase = divmod(by_ns, period) if period is not None else (0, by_ns)
    before = [step for step in schedule.steps if step.at_ns <= phase]
    after = [step for step in schedule.steps if step.at_ns > phase]
    holding = _holding([*(after if passed else []), *before])
    steps = [msgspec.structs.replace(step, at_ns=step.at_ns - phase) for step in after]
    if period is not None:
        again = [step for step in before if step.at_ns < phase]
        steps += [msgspec.structs.replace(step, at_ns=step.at_ns - phase + period) for step in again]
    if holding:
        steps.insert(0, Step(at_ns=0, **holding))
    return Schedule(steps=tuple(steps), period_ns=period) if steps else None


def _holding(steps: list[Step]) -> dict[str, int]:
    """The last value of each kind."""
    found: dict[str, int] = {}
    for step in steps:
        found |= {name: value for name in _VALUES if (value := getattr(step, name)) is not None}
    return found


def later_site(site: Site, by_ns: int) -> Site:
    """A site whose interfaces' schedules go on."""
    return msgspec.structs.replace(
        site, interfaces=tuple(_interface(interface, by_ns) for interface in site.interfaces)
    )


def later_paths(paths: tuple[Path, ...], sender: Site, receiver: Site, by_ns: int) -> tuple[Path, ...]:
    """Paths between these sites whose core segments' schedules go on."""
    return tuple(
        msgspec.structs.replace(
            path,
            local=sender.interfaces[path.local_index],
            remote=receiver.interfaces[path.remote_index],
            core=_core(path.core, by_ns),
            shared=tuple(_core(segment, by_ns) for segment in path.shared),
        )
        for path in paths
    )


def later_background(flows: tuple[Background, ...], by_ns: int) -> tuple[Background, ...]:
    """Background traffic that has not ended yet, with the times that are left."""
    return tuple(
        msgspec.structs.replace(
            flow,
            start_ns=max(0, flow.start_ns - by_ns),
            stop_ns=None if flow.stop_ns is None else flow.stop_ns - by_ns,
        )
        for flow in flows
        if flow.stop_ns is None or flow.stop_ns > by_ns
    )


def _interface(interface: Interface, by_ns: int) -> Interface:
    later = _effects(by_ns)
    return msgspec.structs.replace(
        interface, up_effects=later(interface.up_effects), down_effects=later(interface.down_effects)
    )


def _core(segment: S, by_ns: int) -> S:
    later = _effects(by_ns)
    return msgspec.structs.replace(
        segment, forward_effects=later(segment.forward_effects), back_effects=later(segment.back_effects)
    )


def _effects(by_ns: int) -> Callable[[Effects], Effects]:
    def later(effects: Effects) -> Effects:
        if effects.schedule is None:
            return effects
        return msgspec.structs.replace(effects, schedule=later_schedule(effects.schedule, by_ns))

    return later
