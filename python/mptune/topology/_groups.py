"""Tables whose values belong together: the parameters of one effect, a step, a background flow.

Such a table has one origin for all its values (`source` or `assumed` beside them); each value may still
be a table with an origin of its own. The caller knows what the values mean.
"""

from __future__ import annotations

from typing import TypeVar

from mptune.errors import InputError
from mptune.tables import convert, inside
from mptune.topology._defaults import Assumption
from mptune.topology._kinds import Kind
from mptune.topology._schema import SourcedTable
from mptune.topology._values import Ledger, Origin

T = TypeVar("T")


class Group:
    """Reader of one such table.

    Parameters
    ----------
    raw : the table as written.
    origin : that of the enclosing tables.
    default_key : key under which defaults are recorded, if not `key` (two links may share a table but have
    their own defaults).

    Raises
    ------
    InputError : not such a table.
    """

    def __init__(
        self,
        ledger: Ledger,
        key: str,
        raw: object,
        table: type[SourcedTable],
        origin: Origin,
        default_key: str | None = None,
    ) -> None:
        self.ledger, self.key = ledger, key
        self._default_key = default_key or key
        self._table = convert(raw, table, ledger.where, key)
        self._origin = ledger.origin(key, self._table, origin)

    def has(self, name: str) -> bool:
        """True if the table gives this value."""
        return getattr(self._table, name) is not None

    def value(self, name: str, kind: Kind[T]) -> T:
        """Value that must be given (the schema requires it)."""
        return self.ledger.read(inside(self.key, name), getattr(self._table, name), kind, self._origin)

    def optional(self, name: str, kind: Kind[T]) -> T | None:
        """Value, or None if it is not given."""
        return self.value(name, kind) if self.has(name) else None

    def given(self, name: str, kind: Kind[T], default: Assumption[T]) -> T:
        """Value, or the default, which is recorded as such."""
        if self.has(name):
            return self.value(name, kind)
        key = inside(self._default_key, name)
        return self.ledger.assume(key, default.value, kind.show, default.reason)

    def refuse(self, name: str, expected: str) -> InputError:
        """Error at one of the keys."""
        return InputError(self.ledger.where, inside(self.key, name), expected)
