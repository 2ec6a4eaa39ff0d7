"""The effects of one link, read as they are declared, from the places that the enclosing table names.

An interface finds a value under the link's own key or under the key for both links, a core segment in its own
table or in `[core]`; each passes a function that finds it. The declarations are in `_effects`; traces and
schedules are read earlier, by the modules of those names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import msgspec

from mptune._text import quoted
from mptune.errors import one_of
from mptune.topology._declared import Ahead, Declared, Effect, parameters
from mptune.topology._defaults import access_queue
from mptune.topology._effects import DECLARED
from mptune.topology._kinds import QUEUE, choice
from mptune.topology._schema import SourcedTable
from mptune.topology._sites import UNKNOWN
from mptune.topology._values import Ledger, Place, Table

#: Finds a value of the link by name; None if it is not given.
Find = Callable[[str], Place | None]

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
            return found.value(QUEUE)
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
                    raise found.refuse("expected a rate beside it, but missing")
                fields[effect.field] = self._read(effect, found, ahead)
        return fields

    def _read(self, effect: Declared, found: Place, ahead: Ahead) -> Any:
        if effect.on.kind is not None:
            return found.value(effect.on.kind)
        if not effect.on.plain:
            (kind,) = effect.kinds
            return _built(kind, found.inner(table_of(kind)), ahead)
        names, chosen = choice({name: name for name in effect.by_name}), effect.by_name[_name(effect, found)]
        if isinstance(found.raw, str):
            found.value(names)
            written = table_of(chosen)(kind=found.raw)  # type: ignore[call-arg]  # the field that is made there
            table = Table(self._ledger, found.key, written, found.table.origin, found.default_key)
        else:
            table = found.inner(table_of(chosen))
            table.value("kind", names)
        return None if chosen is None else _built(chosen, table, ahead)

    def _queue_of_discipline(self) -> Any:
        """The limit that a discipline has by default, if it has one of its own."""
        chosen = [
            effect.by_name[_name(effect, found)]
            for effect in DECLARED
            if effect.on.plain and (found := self._find(effect.key)) is not None
        ]
        return next((kind.queue for kind in chosen if kind is not None), None)


def _name(effect: Declared, found: Place) -> str:
    """Name of the kind in use."""
    name, inner = found.raw, ""
    if isinstance(name, dict):
        inner = "kind"
        if inner not in name:
            raise found.refuse("expected, but missing", inner)
        name = name[inner]
    if not isinstance(name, str):
        expected = 'expected text such as "fq_codel" or a table with kind'
        raise found.refuse(f"{expected}, found {quoted(name)}", inner)
    if name not in effect.by_name:
        raise found.refuse(one_of(effect.by_name, name), inner)
    return name


class _Values:
    """Values of one effect's table: each is read, or assumed, when it is first asked for."""

    def __init__(self, kind: type[Effect], table: Table[Any], ahead: Ahead) -> None:
        self.ahead = ahead
        self._parameters, self._table = parameters(kind), table
        self._read: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        if key not in self._read:
            _, parameter = self._parameters[key]
            default = None if self._table.has(key) else parameter.assumed(self)
            if default is None:
                self._read[key] = self._table.value(key, parameter.kind)
            else:
                self._read[key] = self._table.given(key, parameter.kind, default)
        return self._read[key]

    def given(self, key: str) -> Any:
        return self[key] if self._table.has(key) else None


def _built(kind: type[Effect], table: Table[Any], ahead: Ahead) -> Effect:
    values = _Values(kind, table, ahead)
    effect = kind(**{field: values[key] for key, (field, _) in parameters(kind).items()})
    for key, expected in effect.conflicts(ahead):
        raise table.refuse(key, expected)
    return effect
