"""Values of a topology file: read from their tables by their kinds, with the provenance recorded.

A table knows its place and the origin of its plain values; each value may be a table with an origin of its
own. What the values mean, the readers know.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from mptune._text import quoted
from mptune.errors import InputError
from mptune.tables import convert, inside
from mptune.topology._defaults import Assumption
from mptune.topology._kinds import Kind
from mptune.topology._schema import SourcedTable, ValueTable
from mptune.topology._sites import Provenance

T = TypeVar("T")
Written = TypeVar("Written", bound=SourcedTable)
Inner = TypeVar("Inner", bound=SourcedTable)

#: Keys of a table for the origin of its values -> expected value.
ORIGINS = {
    "assumed": "the reason",
    "source": "where it is published",
    "measured": "when and how it was measured",
}


class Origin(NamedTuple):
    """Origin of the plain values of a table.

    Attributes
    ----------
    kind : a key of `ORIGINS`.
    text : where, why, or when and how.
    """

    kind: str
    text: str

    def of(self, value: str) -> Provenance:
        """Provenance of a value of this origin."""
        source, assumed = (self.text if self.kind == kind else None for kind in ("source", "assumed"))
        by = self.text if self.kind == "measured" else msgspec.UNSET
        return Provenance(value=value, source=source, assumed=assumed, by=by)


class Ledger:
    """Remembers where each value of one file came from, and which are not known.

    Parameters
    ----------
    between_hosts : both sites are real hosts: rates and RTTs need not be known.
    """

    def __init__(self, where: str, *, between_hosts: bool = False) -> None:
        self.where, self.between_hosts = where, between_hosts
        self.provenance: dict[str, Provenance] = {}
        self.missing: list[str] = []

    def lack(self, key: str, expected: str) -> None:
        """Note that a value is not known.

        Raises
        ------
        InputError : it is needed, as the sites are not both real hosts.
        """
        if not self.between_hosts:
            raise InputError(self.where, key, expected)
        self.missing.append(key)

    def assume(self, key: str, value: T, show: Callable[[T], str], reason: str) -> T:
        """Record a default."""
        self.provenance[key] = Provenance(value=show(value), assumed=reason, default=True)
        return value


class Table(Generic[Written]):
    """A table of the file at its place: the only way to its values.

    Parameters
    ----------
    key : its name in messages and provenance.
    written : its keys as they are written.
    outer : origin of the plain values of the enclosing table.
    default_key : key under which defaults are recorded, if not `key` (two links may share a table but have
        their own defaults).

    Raises
    ------
    InputError : it has more than one origin, or an empty one.
    """

    def __init__(
        self, ledger: Ledger, key: str, written: Written, outer: Origin, default_key: str | None = None
    ) -> None:
        self.ledger, self.key, self.written = ledger, key, written
        self._default_key = default_key or key
        self.origin = _origin(ledger.where, key, written, outer)

    def has(self, name: str) -> bool:
        """True if the table gives this value."""
        return self.raw(name) is not None

    def raw(self, name: str) -> Any:
        """A value as written."""
        return getattr(self.written, name)

    def key_of(self, name: str) -> str:
        """Dotted key of a value."""
        return inside(self.key, name)

    def value(self, name: str, kind: Kind[T]) -> T:
        """Value that must be given (the schema requires it).

        Raises
        ------
        InputError : neither text nor a value table, or the text is not such a value.
        """
        key, raw, origin, where = self.key_of(name), self.raw(name), self.origin, self.ledger.where
        if isinstance(raw, dict):
            table = convert(raw, ValueTable, where, key)
            raw, origin = table.value, _origin(where, key, table, origin)
        if type(raw) is not kind.plain:
            expected = f"expected {kind.wanted} or a table with value and assumed"
            raise InputError(where, key, f"{expected}, found {quoted(raw)}")
        try:
            value = kind.parse(raw)
        except ValueError as error:
            raise InputError(where, key, str(error)) from None
        self.ledger.provenance[key] = origin.of(kind.show(value))
        return value

    def optional(self, name: str, kind: Kind[T]) -> T | None:
        """Value, or None if it is not given."""
        return self.value(name, kind) if self.has(name) else None

    def given(self, name: str, kind: Kind[T], default: Assumption[T]) -> T:
        """Value, or the default, which is recorded as such."""
        if self.has(name):
            return self.value(name, kind)
        key = inside(self._default_key, name)
        return self.ledger.assume(key, default.value, kind.show, default.reason)

    def inner(self, name: str, table: type[Inner], default_key: str | None = None) -> Table[Inner]:
        """The table at one of the keys.

        Raises
        ------
        InputError : not such a table.
        """
        key = self.key_of(name)
        written = convert(self.raw(name), table, self.ledger.where, key)
        return Table(self.ledger, key, written, self.origin, default_key)

    def part(self, name: str, written: Inner) -> Table[Inner]:
        """A table inside, called so in keys."""
        return Table(self.ledger, self.key_of(name), written, self.origin)

    def rows(self, name: str) -> list[Table[Any]]:
        """The tables of the list at one of the keys, by their numbers."""
        return [self.part(f"{name}[{number}]", row) for number, row in enumerate(self.raw(name))]

    def refuse(self, name: str, expected: str) -> InputError:
        """Error at one of the keys."""
        return InputError(self.ledger.where, self.key_of(name), expected)


class Place(NamedTuple):
    """A value that a link finds in one of several tables, and where its own defaults are recorded."""

    table: Table[Any]
    name: str
    default_key: str

    @property
    def key(self) -> str:
        """Dotted key of the value."""
        return self.table.key_of(self.name)

    @property
    def raw(self) -> Any:
        """The value as written."""
        return self.table.raw(self.name)

    def value(self, kind: Kind[T]) -> T:
        """The value, as `Table.value`."""
        return self.table.value(self.name, kind)

    def inner(self, table: type[Inner]) -> Table[Inner]:
        """The table there, as `Table.inner`."""
        return self.table.inner(self.name, table, self.default_key)

    def refuse(self, expected: str, name: str = "") -> InputError:
        """Error at the value, or at a key inside it."""
        key = inside(self.key, name) if name else self.key
        return InputError(self.table.ledger.where, key, expected)


def _origin(where: str, key: str, table: SourcedTable, outer: Origin) -> Origin:
    """Origin of the plain values of a table: its own, else that of the enclosing tables."""
    given = [Origin(kind, text) for kind in ORIGINS if (text := getattr(table, kind)) is not None]
    if len(given) > 1:
        expected = f"expected either {' or '.join(name.kind for name in given)}"
        raise InputError(where, key, f"{expected}, found {'both' if len(given) == 2 else 'all of them'}")
    for kind, text in given:
        if not text:
            raise InputError(where, inside(key, kind), f"expected {ORIGINS[kind]}, found empty text")
    return given[0] if given else outer
