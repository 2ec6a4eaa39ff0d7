"""The effects of one link, read as they are declared, from the places that the enclosing table names.

An interface finds a value under the link's own key or under the key for both links, a core segment in its own
table or in `[core]`; each passes a function that finds it. The declarations are in `_effects`; traces and
schedules are read earlier, by the modules of those names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import msgspec

from mptune._text import quoted
from mptune.errors import InputError, one_of
from mptune.tables import inside
from mptune.topology._declared import Ahead, Declared, Effect, parameters
from mptune.topology._defaults import access_queue
from mptune.topology._effects import DECLARED
from mptune.topology._groups import Group
from mptune.topology._kinds import QUEUE, choice
from mptune.topology._schema import SourcedTable
from mptune.topology._sites import UNKNOWN
from mptune.topology._values import Ledger, Origin


class Found(NamedTuple):
    """A value as written: where, what, its origin, and where its own defaults are recorded."""

    key: str
    raw: object
    origin: Origin
    default_key: str


#: Finds a value of the link by name; None if it is not given.
Find = Callable[[str], Found | None]

#: The fields of `Effects` that the file gives, with their values.
Fields = dict[str, Any]


@cache
def table_of(effect: type[Effect] | None) -> type[SourcedTable]:
    """The table of an effect in files; that without one of several kinds has no more than its `kind`."""
    tagged = effect is None or effect.__struct_config__.tag is not None
    declared = {} if effect is None else parameters(effect)
    values = [(key, Any) if p.default is None else (key, Any, None) for key, (_, p) in declared.items()]
    name = "DropTailTable" if effect is None else f"{effect.__name__}Table"
    made: type[Any] = msgspec.defstruct(
        name, [*([("kind", Any)] if tagged else []), *values], bases=(SourcedTable,), kw_only=True
    )
    return made


def bounded(rate_bps: int | None, limits: Mapping[str, Effect]) -> int:
    """Rate of a link behind what bounds it, bit/s; one of the two must be given."""
    bounds = [bound for effect in limits.values() if (bound := effect.rate_bound_bps) is not None]
    return min(bounds if rate_bps is None else [rate_bps, *bounds])


class EffectsReader:
    """Reads what the file gives of one link's effects.

    Raises
    ------
    InputError : (every method) anything that is not as expected.
    """

    def __init__(self, ledger: Ledger, find: Find) -> None:
        self._ledger, self._find = ledger, find

    def queue(self, rate_bps: int | None, default_key: str, *, adsl: bool) -> int:
        """Limit of its queue, bytes; the default depends on the discipline and the rate (None: not known)."""
        own = self._queue_of_discipline()
        if (found := self._find("queue")) is not None:
            return self._ledger.read(found.key, found.raw, QUEUE, found.origin)
        if rate_bps is None:
            return UNKNOWN
        default = access_queue(rate_bps, adsl) if own is None else own
        return self._ledger.assume(default_key, default.value, QUEUE.show, default.reason)

    def on_rate(self) -> Fields:
        """Effects that bound its rate."""
        return self._on("rate", Ahead(UNKNOWN, UNKNOWN))

    def on_queue(self, ahead: Ahead | None) -> Fields:
        """Effects that manage its queue; `ahead` is None if the rate is not known."""
        return self._on("queue", ahead)

    def on_wire(self) -> Fields:
        """Effects on the wire."""
        return self._on("wire", Ahead(UNKNOWN, UNKNOWN))

    def _on(self, place: str, ahead: Ahead | None) -> Fields:
        fields = {}
        for effect in DECLARED:
            if effect.on.place == place and (found := self._find(effect.key)) is not None:
                if ahead is None:
                    raise InputError(self._ledger.where, found.key, "expected a rate beside it, but missing")
                fields[effect.field] = self._read(effect, found, ahead)
        return fields

    def _read(self, effect: Declared, found: Found, ahead: Ahead) -> Any:
        key, raw, origin, default_key = found
        if effect.on.kind is not None:
            return self._ledger.read(key, raw, effect.on.kind, origin)
        if not effect.on.plain:
            (kind,) = effect.kinds
            return _built(kind, Group(self._ledger, key, raw, table_of(kind), origin, default_key), ahead)
        name, names = self._name(effect, found), choice({name: name for name in effect.by_name})
        chosen = effect.by_name[name]
        if isinstance(raw, str):
            self._ledger.read(key, raw, names, origin)
            group = Group(self._ledger, key, {"kind": raw}, table_of(chosen), origin, default_key)
        else:
            group = Group(self._ledger, key, raw, table_of(chosen), origin, default_key)
            group.value("kind", names)
        return None if chosen is None else _built(chosen, group, ahead)

    def _name(self, effect: Declared, found: Found) -> str:
        """Name of the kind in use."""
        where, key, raw = self._ledger.where, found.key, found.raw
        if isinstance(raw, dict):
            if "kind" not in raw:
                raise InputError(where, inside(key, "kind"), "expected, but missing")
            key, raw = inside(key, "kind"), raw["kind"]
        if not isinstance(raw, str):
            expected = 'expected text such as "fq_codel" or a table with kind'
            raise InputError(where, key, f"{expected}, found {quoted(raw)}")
        if raw not in effect.by_name:
            raise InputError(where, key, one_of(effect.by_name, raw))
        return raw

    def _queue_of_discipline(self) -> Any:
        """The limit that a discipline has by default, if it has one of its own."""
        chosen = [
            effect.by_name[self._name(effect, found)]
            for effect in DECLARED
            if effect.on.plain and (found := self._find(effect.key)) is not None
        ]
        return next((kind.queue for kind in chosen if kind is not None), None)


class _Values:
    """Values of one effect's table: each is read, or assumed, when it is first asked for."""

    def __init__(self, kind: type[Effect], group: Group, ahead: Ahead) -> None:
        self.ahead = ahead
        self._parameters, self._group = parameters(kind), group
        self._read: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        if key not in self._read:
            _, parameter = self._parameters[key]
            default = None if self._group.has(key) else parameter.assumed(self)
            if default is None:
                self._read[key] = self._group.value(key, parameter.kind)
            else:
                self._read[key] = self._group.given(key, parameter.kind, default)
        return self._read[key]

    def given(self, key: str) -> Any:
        return self[key] if self._group.has(key) else None


def _built(kind: type[Effect], group: Group, ahead: Ahead) -> Effect:
    values = _Values(kind, group, ahead)
    effect = kind(**{field: values[key] for key, (field, _) in parameters(kind).items()})
    for key, expected in effect.conflicts(ahead):
        raise group.refuse(key, expected)
    return effect
