"""TOML files as tables of checked keys and types: what topology files and campaign files share.

It knows no keys or values; an error is one line that names the file and the key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from mptune import files
from mptune._text import quoted
from mptune.errors import InputError, one_of

Table = TypeVar("Table", bound=msgspec.Struct)

_WORDS = {
    "str": "text",
    "bool": "true or false",
    "object": "a table",
    "array": "a list of tables",
    "int": "a whole number",
    "float": "a number",
}


def read_toml(file: Path, where: str) -> dict[str, Any]:
    """Tables of a TOML file, of built-in types.

    Raises
    ------
    InputError : it cannot be read, or is not TOML; `where` is its name in the message.
    """
    try:
        return parse_toml(files.read_bytes(file), where)
    except OSError as error:
        raise InputError(where, "", f"expected a readable file: {error.strerror}") from None


def read_json(file: Path, where: str) -> Any:
    """Content of a JSON file.

    Raises
    ------
    InputError : it cannot be read, or is not JSON; `where` is its name in the message.
    """
    try:
        return files.read_json(file)
    except (OSError, ValueError) as error:
        raise InputError(where, "", f"expected a readable JSON file: {files.reason(error)}") from None


def parse_toml(content: bytes, where: str) -> dict[str, Any]:
    """Tables of the content of a TOML file.

    Raises
    ------
    InputError : it is not TOML; `where` is its name in the message.
    """
    try:
        raw: dict[str, Any] = msgspec.toml.decode(content)
    except UnicodeDecodeError:
        raise InputError(where, "", "expected TOML, which is UTF-8 text") from None
    except msgspec.DecodeError as error:
        raise InputError(where, "", f"expected TOML: {error}") from None
    except RecursionError:
        raise InputError(where, "", "expected TOML without so many brackets inside each other") from None
    return raw


def convert(raw: object, table: type[Table], where: str, key: str) -> Table:
    """Check the keys and types of a table, and of the tables inside it whose types its fields declare.

    Parameters
    ----------
    table : its fields may be `S`, `list[S]` or `dict[str, S]` of another such type, or of several with a
        literal `kind` each; inside `Any` nothing is checked.
    where, key : file and dotted key of the table, for messages.

    Raises
    ------
    InputError : not a table, an unknown or missing key, or a key of the wrong type.
    """
    if not isinstance(raw, dict):
        raise InputError(where, key, f"expected a table, found {_word(type(raw).__name__)}")
    known = table.__struct_encode_fields__
    inherited = getattr(table.__base__, "__struct_fields__", ())
    for name in raw:
        if name not in known:
            # Keys common to several kinds of tables come last.
            listed = sorted(known, key=lambda field: field in inherited)
            raise unknown_key(where, inside(key, name), listed)
    try:
        outer = msgspec.convert(raw, _outer(table))
    except msgspec.ValidationError as error:
        raise _explained(error, where, key) from None
    values = {name: getattr(outer, name) for name in raw}
    for name, (container, kinds) in _inner(table).items():
        given, place = values.get(name), inside(key, name)
        if isinstance(given, list):
            values[name] = [_one_of_kinds(row, kinds, where, f"{place}[{n}]") for n, row in enumerate(given)]
        elif given is not None and container is dict:
            values[name] = {
                each: _one_of_kinds(row, kinds, where, inside(place, each)) for each, row in given.items()
            }
        elif given is not None:
            values[name] = _one_of_kinds(given, kinds, where, place)
    return table(**values)


def _one_of_kinds(raw: object, kinds: _Kinds, where: str, key: str) -> msgspec.Struct:
    """A table of one of several types, which its `kind` names."""
    if len(kinds) == 1:
        return convert(raw, next(iter(kinds.values())), where, key)
    if not isinstance(raw, dict):
        raise InputError(where, key, f"expected a table, found {quoted(raw)}")
    if "kind" not in raw:
        raise InputError(where, inside(key, "kind"), "expected, but missing")
    if raw["kind"] not in tuple(kinds):
        raise InputError(where, inside(key, "kind"), one_of(kinds, raw["kind"]))
    return convert(raw, kinds[raw["kind"]], where, key)


#: Types of tables by their `kind`; one alone need not have one.
_Kinds = dict[object, type[msgspec.Struct]]
#: What holds tables at a field (list, dict or None), and their types.
_Inner = tuple[object, _Kinds]


@cache
def _inner(table: type[msgspec.Struct]) -> dict[str, _Inner]:
    """The fields that hold tables of types of their own."""
    found: dict[str, _Inner] = {}
    for name, hint in get_type_hints(table).items():
        for part in _alternatives(hint):
            container = get_origin(part)
            kinds = _alternatives(get_args(part)[-1]) if container in (list, dict) else (part,)
            if all(isinstance(kind, type) and issubclass(kind, msgspec.Struct) for kind in kinds):
                named: _Kinds = {_kind(kind) if len(kinds) > 1 else None: kind for kind in kinds}
                found[name] = container, named
    return found


def _kind(table: type[msgspec.Struct]) -> object:
    return get_args(get_type_hints(table)["kind"])[0]


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if isinstance(hint, UnionType) else (hint,)


@cache
def _outer(table: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """The same table, with anything inside the tables and lists of which `convert` checks each by itself."""
    inner = _inner(table)
    fields: list[Any] = []
    for field in msgspec.structs.fields(table):
        kind: Any = field.type
        if field.name in inner:
            kind = list[Any] if inner[field.name][0] is list else dict[str, Any]
            kind = kind | None if field.default is None else kind
        fields.append((field.name, kind) if field.required else (field.name, kind, None))
    return msgspec.defstruct(table.__name__, fields, kw_only=True)


def unknown_key(where: str, key: str, known: Iterable[str]) -> InputError:
    """Error at a key that means nothing; `known` are those that may stand in its table."""
    return InputError(where, key, f"unknown key, expected one of {', '.join(known)}")


def inside(key: str, name: str) -> str:
    """Dotted key of `name` in the table at `key` ("" is the file itself)."""
    return f"{key}.{name}" if key else name


def _explained(error: msgspec.ValidationError, where: str, key: str) -> InputError:
    """Translate msgspec's message into the terms of this file format."""
    message, _, place = str(error).partition(" - at `$.")
    if missing := re.fullmatch(r"Object missing required field `(.+)`", message):
        return InputError(where, inside(key, missing[1]), "expected, but missing")
    expected, actual = re.findall(r"`(.+?)`", message)
    required = _word(expected.removesuffix(" | null"))
    return InputError(where, inside(key, place.rstrip("`")), f"expected {required}, found {_word(actual)}")


def _word(type_name: str) -> str:
    aliases = {"dict": "object", "list": "array"}
    return _WORDS.get(aliases.get(type_name, type_name), type_name)
