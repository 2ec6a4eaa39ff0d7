"""Queue disciplines of a topology file: names and parameters.

"droptail" is the default and has only the queue's limit. A discipline is text, or a table with `kind` and the
parameters that differ from the recommended ones (`_effect_defaults`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mptune import units
from mptune._text import quoted
from mptune.errors import InputError, one_of
from mptune.tables import inside
from mptune.topology import _effect_defaults as defaults
from mptune.topology._effects import Aqm, Codel, FqCodel, Red, StepMarking
from mptune.topology._groups import Group
from mptune.topology._kinds import COUNT, QUANTUM, SIZE, SOME_CHANCE, SOME_TIME, SWITCH, choice
from mptune.topology._schema import (
    CodelTable,
    DropTailTable,
    FqCodelTable,
    RedTable,
    SourcedTable,
    StepMarkingTable,
)
from mptune.topology._values import Ledger, Origin


class Ahead(NamedTuple):
    """What defaults depend on: the limit of the queue, bytes, and the rate behind it, bit/s."""

    queue_bytes: int
    rate_bps: int


class _Discipline(NamedTuple):
    """The table of a discipline's parameters, and how they are read."""

    table: type[SourcedTable]
    read: Callable[[Group, Ahead], Aqm | None]


def discipline_name(where: str, key: str, raw: object) -> str:
    """Name of the discipline at `key`.

    Raises
    ------
    InputError : neither text nor a table with `kind`, or no such discipline.
    """
    if isinstance(raw, dict):
        if "kind" not in raw:
            raise InputError(where, inside(key, "kind"), "expected, but missing")
        key, raw = inside(key, "kind"), raw["kind"]
    if not isinstance(raw, str):
        expected = 'expected text such as "fq_codel" or a table with kind'
        raise InputError(where, key, f"{expected}, found {quoted(raw)}")
    if raw not in DISCIPLINES:
        raise InputError(where, key, one_of(DISCIPLINES, raw))
    return raw


def is_codel(name: str | None) -> bool:
    """Whether a discipline keeps its queue short by itself, so the limit hardly matters."""
    return name in ("codel", "fq_codel")


def read_discipline(
    ledger: Ledger, key: str, raw: object, origin: Origin, default_key: str, ahead: Ahead
) -> Aqm | None:
    """Discipline at `key`; None is drop-tail.

    Parameters
    ----------
    default_key : key under which defaults are recorded.
    ahead : the link's queue limit and rate.

    Raises
    ------
    InputError : no such discipline, or its parameters are not as expected.
    """
    name = discipline_name(ledger.where, key, raw)
    if isinstance(raw, str):
        ledger.read(key, raw, _NAMES, origin)
        raw = {"kind": raw}
        group = Group(ledger, key, raw, DISCIPLINES[name].table, origin, default_key)
    else:
        group = Group(ledger, key, raw, DISCIPLINES[name].table, origin, default_key)
        group.value("kind", _NAMES)
    return DISCIPLINES[name].read(group, ahead)


def _droptail(group: Group, ahead: Ahead) -> None:
    """Only the queue's limit."""


def _red(group: Group, ahead: Ahead) -> Red:
    queue_bytes = ahead.queue_bytes
    low = group.optional("min", SIZE)
    high = group.given("max", SIZE, defaults.red_max(queue_bytes, low))
    if low is None:
        low = group.given("min", SIZE, defaults.red_min(high))
    if low >= high:
        found = f"min {units.format_size(low)} and max {units.format_size(high)}"
        raise group.refuse("max", f"expected more than min, found {found}")
    if high > queue_bytes:
        found = f"{units.format_size(high)} and a queue of {units.format_size(queue_bytes)}"
        raise group.refuse("max", f"expected at most the queue's limit, found {found}")
    return Red(
        min_bytes=low,
        max_bytes=high,
        max_ppb=group.given("probability", SOME_CHANCE, defaults.RED_PROBABILITY),
        weight_ppb=group.given("weight", SOME_CHANCE, defaults.RED_WEIGHT),
        gentle=group.given("gentle", SWITCH, defaults.RED_GENTLE),
        ecn=group.given("ecn", SWITCH, defaults.RED_ECN),
    )


def _step(group: Group, ahead: Ahead) -> StepMarking:
    queue_bytes = ahead.queue_bytes
    mark = group.given("mark", SIZE, defaults.step_mark(queue_bytes))
    if mark >= queue_bytes:
        found = f"{units.format_size(mark)} and a queue of {units.format_size(queue_bytes)}"
        raise group.refuse("mark", f"expected less than the queue's limit, found {found}")
    return StepMarking(mark_bytes=mark)


def _target_and_interval(group: Group, ahead: Ahead) -> tuple[int, int]:
    target = group.given("target", SOME_TIME, defaults.codel_target(ahead.rate_bps))
    interval = group.given("interval", SOME_TIME, defaults.codel_interval(target))
    if target >= interval:
        found = f"target {units.format_time(target)} and interval {units.format_time(interval)}"
        raise group.refuse("interval", f"expected more than target, found {found}")
    return target, interval


def _codel(group: Group, ahead: Ahead) -> Codel:
    target, interval = _target_and_interval(group, ahead)
    ecn = group.given("ecn", SWITCH, defaults.CODEL_ECN)
    return Codel(target_ns=target, interval_ns=interval, ecn=ecn)


def _fq_codel(group: Group, ahead: Ahead) -> FqCodel:
    target, interval = _target_and_interval(group, ahead)
    return FqCodel(
        target_ns=target,
        interval_ns=interval,
        ecn=group.given("ecn", SWITCH, defaults.FQ_CODEL_ECN),
        queues=group.given("queues", COUNT, defaults.FQ_CODEL_QUEUES),
        quantum_bytes=group.given("quantum", QUANTUM, defaults.FQ_CODEL_QUANTUM),
    )


#: Every queue discipline, by its name in a topology file.
DISCIPLINES: dict[str, _Discipline] = {
    "droptail": _Discipline(DropTailTable, _droptail),
    "red": _Discipline(RedTable, _red),
    "codel": _Discipline(CodelTable, _codel),
    "fq_codel": _Discipline(FqCodelTable, _fq_codel),
    "step": _Discipline(StepMarkingTable, _step),
}
_NAMES = choice({name: name for name in DISCIPLINES})
