"""Options from the tables of a TOML file: each key must be that of a declaration."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from mptune.errors import InputError
from mptune.options._declared import Options, build, declared, in_file
from mptune.options._kinds import in_words
from mptune.tables import inside, unknown_key

O = TypeVar("O", bound=Options)  # noqa: E741 - as in `_declared`


class Tables:
    """The content of a file.

    Parameters
    ----------
    raw : its tables as read.
    path : the file, for errors.
    head : struct of the options that every such file has.
    kinds : further structs, by the value of `key` that chooses among them.

    Raises
    ------
    InputError : something other than a table where one is expected.
    """

    def __init__(
        self,
        raw: Mapping[str, Any],
        path: str,
        head: type[Options],
        kinds: Mapping[str, type[Options]],
        key: str,
    ) -> None:
        self.path = path
        self._head, self._kinds, self._key = head, kinds, key
        self._leaves = dict(
            self._find(raw, "", _tables({key for kind in (head, *kinds.values()) for key in _keys(kind)}))
        )

    def _find(self, raw: Mapping[str, Any], table: str, tables: set[str]) -> Iterator[tuple[str, Any]]:
        """Values by their dotted keys."""
        for name, value in raw.items():
            key = inside(table, name)
            if key not in tables:
                yield key, value
            elif isinstance(value, dict):
                yield from self._find(value, key, tables)
            else:
                raise InputError(self.path, key, f"expected a table, found {in_words(value)}")

    def head(self) -> Any:
        """The options that every file has.

        Raises
        ------
        InputError : as `build`.
        """
        return self._build(self._head)

    def options(self, name: str) -> Any:
        """The options of one of the kinds.

        Raises
        ------
        InputError : as `build`; an unknown key, or one of another kind.
        """
        self._refuse_others(name)
        return self._build(self._kinds[name])

    def _build(self, kind: type[O]) -> O:
        values = {}
        for declaration in declared(kind):
            if declaration.key and declaration.key in self._leaves:
                try:
                    values[declaration.fields] = declaration.option.kind.read(self._leaves[declaration.key])
                except ValueError as error:
                    raise InputError(self.path, declaration.key, str(error)) from None
        return build(kind, values, in_file(self.path))

    def _refuse_others(self, name: str) -> None:
        known = [*_keys(self._head), *_keys(self._kinds[name])]
        for key in self._leaves:
            if key in known:
                continue
            for other, kind in self._kinds.items():
                if key in _keys(kind):
                    table = key.partition(".")[0]
                    place = key if table in _tables(known) else table
                    raise InputError(self.path, place, f'expected only with {self._key} = "{other}"')
            raise unknown_key(self.path, key, _beside(key, known))


def _keys(kind: type[Options]) -> list[str]:
    return [declaration.key for declaration in declared(kind) if declaration.key]


def _tables(keys: Any) -> set[str]:
    """Every table that contains keys."""
    return {key[:index] for key in keys for index, letter in enumerate(key) if letter == "."}


def _beside(key: str, known: list[str]) -> list[str]:
    """Names that are allowed in the table of `key`."""
    prefix = key.rpartition(".")[0]
    start = len(prefix) + 1 if prefix else 0
    inside = [name[start:].partition(".")[0] for name in known if not prefix or name.startswith(f"{prefix}.")]
    return list(dict.fromkeys(inside))
