"""Single values of a topology file: read by their kinds, with the provenance recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import msgspec

from mptune._text import quoted
from mptune.errors import InputError
from mptune.tables import convert, inside
from mptune.topology._kinds import Kind
from mptune.topology._schema import SourcedTable, ValueTable
from mptune.topology._sites import Provenance

T = TypeVar("T")

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
    """Reads the values of one file and remembers where each came from, and which are not known.

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

    def origin(self, key: str, table: SourcedTable, outer: Origin) -> Origin:
        """Origin of the plain values of the table at `key`: its own, else that of the enclosing tables.

        Raises
        ------
        InputError : it has more than one, or an empty one.
        """
        given = [Origin(kind, text) for kind in ORIGINS if (text := getattr(table, kind)) is not None]
        if len(given) > 1:
            expected = f"expected either {' or '.join(name.kind for name in given)}"
            raise InputError(
                self.where, key, f"{expected}, found {'both' if len(given) == 2 else 'all of them'}"
            )
        for kind, text in given:
            if not text:
                expected = f"expected {ORIGINS[kind]}, found empty text"
                raise InputError(self.where, inside(key, kind), expected)
        return given[0] if given else outer

    def read(self, key: str, raw: object, kind: Kind[T], origin: Origin) -> T:
        """Value at `key`; `origin` applies unless it is a value table with its own.

        Raises
        ------
        InputError : neither text nor a value table, or the text is not such a value.
        """
        if isinstance(raw, dict):
            table = convert(raw, ValueTable, self.where, key)
            raw, origin = table.value, self.origin(key, table, origin)
        if type(raw) is not kind.plain:
            expected = f"expected {kind.wanted} or a table with value and assumed"
            raise InputError(self.where, key, f"{expected}, found {quoted(raw)}")
        try:
            value = kind.parse(raw)
        except ValueError as error:
            raise InputError(self.where, key, str(error)) from None
        self.provenance[key] = origin.of(kind.show(value))
        return value

    def assume(self, key: str, value: T, show: Callable[[T], str], reason: str) -> T:
        """Record a default."""
        self.provenance[key] = Provenance(value=show(value), assumed=reason, default=True)
        return value
